"""The graph of a sentence's dependencies: a tree with collapsed phrases and shared edges of conjuncts.

A node is a number: 0 stands for nothing, 1 … n are the words, larger ones are copies of words (in "slides down a slide
and into the water" each preposition gets a verb of its own). Edges have labels; a node may have several governors.

Where a rule takes the first of several nodes, their order matters. `children` and `nodes` give Stanford CoreNLP's: its
graph is a hash table whose keys are the words' positions (plus 29 for each earlier sentence).
"""

from __future__ import annotations

from operator import itemgetter

from capmeter.text.parses import Parse

Edge = tuple[int, str]  # the node at the other end, and the label

_NODE = itemgetter(0)
_SLOTS = 16
_SENTENCE = 29  # what a sentence's number adds to the hash of its words


class DependencyGraph:
    """Words (`words`, `tags`, `lemmas`, by node), `roots`, and labelled edges between them, to be rewritten."""

    def __init__(self, parse: Parse, sentence: int = 0) -> None:
        """The tree of a parse, which is sentence number `sentence` (from 0) of its caption."""
        count = len(parse) + 1
        self.words = ["", *parse.words]
        self.tags = ["", *parse.tags]
        self.lemmas = ["", *parse.lemmas]
        self.position = list(range(count))
        self.governors: list[list[Edge]] = [[] for _ in range(count)]
        self.dependents: list[list[Edge]] = [[] for _ in range(count)]
        self.roots: list[int] = []
        self._shift = _SENTENCE * sentence
        # if no two words can share a slot, nodes are ordered by number
        self._plain = not sentence and count <= _SLOTS
        for word, (head, label) in enumerate(zip(parse.heads, parse.labels, strict=True), 1):
            if head:
                self.governors[word].append((head, label))
                self.dependents[head].append((word, label))
            else:
                self.roots.append(word)

    def __len__(self) -> int:
        """The number of nodes, node 0 included."""
        return len(self.words)

    def copy_of(self, word: int) -> int:
        """A new node that stands for the same word and has no edges."""
        for texts in (self.words, self.tags, self.lemmas):
            texts.append(texts[word])
        self.position.append(self.position[word])
        self._plain = False
        self.governors.append([])
        self.dependents.append([])
        return len(self.words) - 1

    def add(self, governor: int, dependent: int, label: str) -> None:
        """Adds an edge, if there is no equal one."""
        if (dependent, label) not in self.dependents[governor]:
            self.dependents[governor].append((dependent, label))
            self.governors[dependent].append((governor, label))

    def remove(self, governor: int, dependent: int, label: str) -> None:
        """Removes an edge; a missing one is not an error."""
        if (dependent, label) in self.dependents[governor]:
            self.dependents[governor].remove((dependent, label))
            self.governors[dependent].remove((governor, label))

    def relabel(self, governor: int, dependent: int, old: str, new: str) -> None:
        """Gives an edge another label, in the same position."""
        outgoing, incoming = self.dependents[governor], self.governors[dependent]
        outgoing[outgoing.index((dependent, old))] = (dependent, new)
        incoming[incoming.index((governor, old))] = (governor, new)

    def detach(self, word: int) -> None:
        """Removes all edges into a word."""
        for governor, label in list(self.governors[word]):
            self.remove(governor, word, label)

    def move_children(self, old: int, new: int) -> None:
        """Moves all edges out of one word to another."""
        for dependent, label in list(self.dependents[old]):
            self.remove(old, dependent, label)
            self.add(new, dependent, label)

    def leaf(self, word: int) -> bool:
        """Whether nothing depends on the word."""
        return not self.dependents[word]

    def children(self, word: int) -> list[Edge]:
        """The edges out of a word, in CoreNLP's order."""
        return self._ordered(self.dependents[word])

    def parent(self, word: int) -> Edge | None:
        """The first edge into a word, with its governor; None for a root."""
        incoming = self.governors[word]
        return self._ordered(incoming)[0] if incoming else None

    def child(self, word: int, label: str) -> int:
        """The first dependent with this label, 0 without one."""
        return next((dependent for dependent, found in self.children(word) if found == label), 0)

    def has_child(self, word: int, label: str) -> bool:
        """Whether a dependent has this label."""
        for _, found in self.dependents[word]:  # noqa: SIM110 (called for every word, twice as fast)
            if found == label:
                return True
        return False

    def label(self, governor: int, dependent: int) -> str | None:
        """The label of the first edge between two words."""
        return next((label for word, label in self.dependents[governor] if word == dependent), None)

    def nodes(self) -> list[int]:
        """All nodes, governors before dependents (by position if the edges form a cycle)."""
        return self.ordered([self.children(word) for word in range(len(self))])

    def ordered(self, edges: list[list[Edge]]) -> list[int]:
        """`nodes`, from the edges out of every node."""
        vertices = list(range(1, len(self)))
        if not self._plain:
            vertices.sort(key=self._slots(len(self) - 1).__getitem__)
        order = _topological(vertices, edges)
        return vertices if order is None else order

    def _ordered(self, edges: list[Edge]) -> list[Edge]:
        if len(edges) < 2:
            return edges
        if self._plain:
            return sorted(edges, key=_NODE)
        slots = self._slots(len(edges))
        return sorted(edges, key=lambda edge: slots[edge[0]])

    def _slots(self, count: int) -> list[int]:
        """The slot of every node in a hash table of `count` keys: one of 16, doubled at three quarters."""
        size = _SLOTS
        while count > 0.75 * size:
            size *= 2
        return [(each + self._shift) % size for each in self.position]


def _topological(vertices: list[int], edges: list[list[Edge]]) -> list[int] | None:
    """The reverse of the order in which a depth-first walk leaves the nodes; None if there is a cycle."""
    left: list[int] = []
    state = bytearray(len(edges))  # 1: on the path, 2: left
    for start in vertices:
        stack = [] if state[start] else [start]
        while stack:
            word = stack[-1]
            if state[word]:
                stack.pop()
                if state[word] == 1:
                    state[word] = 2
                    left.append(word)
                continue
            state[word] = 1
            for dependent, _ in reversed(edges[word]):
                if not state[dependent]:
                    stack.append(dependent)
                elif state[dependent] == 1:
                    return None
    left.reverse()
    return left
