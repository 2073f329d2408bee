"""The dependency graph of a sentence: a tree with collapsed phrases and shared edges of conjuncts.

A node is a number: 1 … n are the words, larger ones are copies of words (in "slides down a slide and into the water"
each preposition gets a copy of the verb), 0 is unused. Edges have labels; a node may have several governors.

Where a rule takes the first of several nodes, their order matters. `children` and `nodes` follow Stanford CoreNLP,
whose graph is a hash table whose keys are the words' positions (plus 29 for each earlier sentence).

>>> parse = Parse(("Dogs", "run"), ("NNS", "VBP"), ("dog", "run"), (2, 0), ("nsubj", "root"))
>>> DependencyGraph(parse).children(2)
[(1, 'nsubj')]
"""

from __future__ import annotations

from operator import itemgetter

from capmeter.text.parsing.dependency_parse import Parse

Edge = tuple[int, str]  # the node at the other end, and the label

_NODE = itemgetter(0)
_SLOTS = 16
_SENTENCE = 29  # the hash of a word grows by this for each earlier sentence


class DependencyGraph:
    """Words (`words`, `tags`, `lemmas`, by node), `roots`, and labelled edges between them, to be rewritten.

    Args:
        parse: the sentence's tree.
        sentence: the sentence's number in its caption, from 0.
    """

    def __init__(self, parse: Parse, sentence: int = 0) -> None:
        node_count = len(parse) + 1
        self.words = ["", *parse.words]
        self.tags = ["", *parse.tags]
        self.lemmas = ["", *parse.lemmas]
        self.position = list(range(node_count))
        self.governors: list[list[Edge]] = [[] for _ in range(node_count)]
        self.dependents: list[list[Edge]] = [[] for _ in range(node_count)]
        self.roots: list[int] = []
        self._shift = _SENTENCE * sentence
        # if no two words can share a slot, nodes are ordered by number
        self._in_hash_order = not sentence and node_count <= _SLOTS
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
        """Adds a node for the same word, without edges, and returns it."""
        for word_texts in (self.words, self.tags, self.lemmas):
            word_texts.append(word_texts[word])
        self.position.append(self.position[word])
        self._in_hash_order = False
        self.governors.append([])
        self.dependents.append([])
        return len(self.words) - 1

    def add(self, governor: int, dependent: int, label: str) -> None:
        """Adds an edge, if there is no equal one."""
        if (dependent, label) not in self.dependents[governor]:
            self.dependents[governor].append((dependent, label))
            self.governors[dependent].append((governor, label))

    def remove(self, governor: int, dependent: int, label: str) -> None:
        """Removes an edge, if it exists."""
        if (dependent, label) in self.dependents[governor]:
            self.dependents[governor].remove((dependent, label))
            self.governors[dependent].remove((governor, label))

    def relabel(self, governor: int, dependent: int, old: str, new: str) -> None:
        """Gives an edge another label, in the same position."""
        outgoing_edges, incoming_edges = self.dependents[governor], self.governors[dependent]
        outgoing_edges[outgoing_edges.index((dependent, old))] = (dependent, new)
        incoming_edges[incoming_edges.index((governor, old))] = (governor, new)

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
        """Returns the edges out of a word, in CoreNLP's order."""
        return self._ordered(self.dependents[word])

    def parent(self, word: int) -> Edge | None:
        """Returns the first edge into a word, with its governor; None for a root."""
        incoming_edges = self.governors[word]
        return self._ordered(incoming_edges)[0] if incoming_edges else None

    def has_child(self, word: int, label: str) -> bool:
        """Whether a dependent has this label."""
        for _, edge_label in self.dependents[word]:  # noqa: SIM110 (called for every word, twice as fast)
            if edge_label == label:
                return True
        return False

    def label(self, governor: int, dependent: int) -> str | None:
        """Returns the label of the first edge between two words, None without one."""
        return next((label for word, label in self.dependents[governor] if word == dependent), None)

    def nodes(self) -> list[int]:
        """Returns all nodes, governors before dependents (by position if the edges form a cycle)."""
        return self.ordered([self.children(word) for word in range(len(self))])

    def ordered(self, edges: list[list[Edge]]) -> list[int]:
        """Returns `nodes`, computed from the edges out of every node."""
        vertices = list(range(1, len(self)))
        if not self._in_hash_order:
            vertices.sort(key=self._slots(len(self) - 1).__getitem__)
        topological_order = _sort_topologically(vertices, edges)
        return vertices if topological_order is None else topological_order

    def _ordered(self, edges: list[Edge]) -> list[Edge]:
        if len(edges) < 2:
            return edges
        if self._in_hash_order:
            return sorted(edges, key=_NODE)
        node_slots = self._slots(len(edges))
        return sorted(edges, key=lambda edge: node_slots[edge[0]])

    def _slots(self, key_count: int) -> list[int]:
        """Returns the slot of every node in a hash table of `key_count` keys: 16 slots, doubled at three quarters."""
        table_size = _SLOTS
        while key_count > 0.75 * table_size:
            table_size *= 2
        return [(node_position + self._shift) % table_size for node_position in self.position]


def _sort_topologically(vertices: list[int], outgoing_edges: list[list[Edge]]) -> list[int] | None:
    """Returns the reverse post-order of a depth-first search; None if there is a cycle."""
    finished_words: list[int] = []
    visit_states = bytearray(len(outgoing_edges))  # 1: on the path, 2: finished
    for start_word in vertices:
        stack = [] if visit_states[start_word] else [start_word]
        while stack:
            word = stack[-1]
            if visit_states[word]:
                stack.pop()
                if visit_states[word] == 1:
                    visit_states[word] = 2
                    finished_words.append(word)
                continue
            visit_states[word] = 1
            for dependent, _ in reversed(outgoing_edges[word]):
                if not visit_states[dependent]:
                    stack.append(dependent)
                elif visit_states[dependent] == 1:
                    return None
    finished_words.reverse()
    return finished_words
