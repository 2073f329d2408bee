"""The parse of a caption: its sentences, each with words, tags, lemmas and a dependency tree.

Tokens and tags are the Penn Treebank's (case kept), labels those of Universal Dependencies version 1 as in Stanford's
converter of 2015 ("nmod", "dobj", "acl:relcl" …), basic dependencies: one head per word, one root, no cycle.

>>> parse = Parse(("Dogs", "run"), ("NNS", "VBP"), ("dog", "run"), (2, 0), ("nsubj", "root"))
>>> CaptionParse((parse,)).to_dict()["sentences"][0]["heads"]
[2, 0]
>>> CaptionParse.from_dict({"sentences": [parse.to_dict()]}).sentences[0] == parse
True
>>> Parse(("Dogs", "run"), ("NNS", "VBP"), ("dog", "run"), (2, 1), ("nsubj", "root"))
Traceback (most recent call last):
    ...
capmeter.core.errors.InputError: the parse of 'Dogs run' has 0 roots (words with the head 0), expected one

The dependency graph of a sentence: a tree with collapsed phrases and shared edges of conjuncts.

A node is a number: 1 … n are the words, larger ones are copies of words (in "slides down a slide and into the water"
each preposition gets a copy of the verb), 0 is unused. Edges have labels; a node may have several governors.

Where a rule takes the first of several nodes, their order matters. `children` and `nodes` follow Stanford CoreNLP,
whose graph is a hash table whose keys are the words' positions (plus 29 for each earlier sentence).

>>> parse = Parse(("Dogs", "run"), ("NNS", "VBP"), ("dog", "run"), (2, 0), ("nsubj", "root"))
>>> DependencyGraph(parse).children(2)
[(1, 'nsubj')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from capmeter.core.errors import InputError

_TEXTS = ("words", "tags", "lemmas", "labels")


@dataclass(frozen=True, slots=True)
class Parse:
    """One sentence with its basic dependencies; position k of every field belongs to word k + 1.

    Args:
        words: the tokens as written, brackets escaped ("-LRB-").
        tags: Penn Treebank part-of-speech tags.
        lemmas: base forms.
        heads: the position of each word's governor, counted from 1; 0 for the root.
        labels: the grammatical relation of each word to its governor; "root" for the root.

    Raises:
        InputError: fields of different lengths, a head that is not a word, no root or several, a cycle.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lemmas: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.words), len(self.tags), len(self.lemmas), len(self.heads), len(self.labels)}
        if len(lengths) > 1:
            field_lengths = {field_name: len(getattr(self, field_name)) for field_name in (*_TEXTS, "heads")}
            counts = ", ".join(f"{count} {field_name}" for field_name, count in field_lengths.items())
            raise InputError(f"{self.name} has {counts}; expected one of each for every word")
        _check_tree(self)

    @property
    def name(self) -> str:
        """The parse in messages."""
        return f"the parse of {' '.join(self.words[:12])!r}"

    def __len__(self) -> int:
        return len(self.words)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, as JSON values."""
        return {
            field_name: list(getattr(self, field_name)) for field_name in ("words", "tags", "lemmas", "heads", "labels")
        }

    @classmethod
    def from_dict(cls, row: Any) -> Parse:
        """Reads what `to_dict` returned; raises an `InputError` if a field is missing or of the wrong type."""
        if not isinstance(row, Mapping):
            raise InputError(f"a parse is an object with words, tags, lemmas, heads and labels, not {row!r:.80}")
        words, tags, lemmas, labels = (_read_texts(row, field_name) for field_name in _TEXTS)
        heads = row.get("heads")
        if not isinstance(heads, Sequence) or any(type(head) is not int for head in heads):
            raise InputError(f"a parse's heads are a list of whole numbers, not {heads!r:.80}")
        return cls(words, tags, lemmas, tuple(heads), labels)


@dataclass(frozen=True, slots=True)
class CaptionParse:
    """A caption's sentences in their order; empty for a caption without tokens."""

    sentences: tuple[Parse, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the sentences as JSON values."""
        return {"sentences": [sentence.to_dict() for sentence in self.sentences]}

    @classmethod
    def from_dict(cls, row: Any) -> CaptionParse:
        """Reads what `to_dict` returned. Other keys ("caption", …) are ignored."""
        sentences = row.get("sentences") if isinstance(row, Mapping) else None
        if not isinstance(sentences, Sequence) or isinstance(sentences, str):
            raise InputError(f'a caption\'s parse is an object with a list "sentences", not {row!r:.80}')
        return cls(tuple(Parse.from_dict(sentence) for sentence in sentences))


def truncate_parse(parse: Parse, count: int) -> Parse:
    """Returns the first `count` words of a sentence; words whose head is cut off depend on the first such word."""
    heads = [head if head <= count else 0 for head in parse.heads[:count]]
    labels = ["root" if head == 0 else label for head, label in zip(heads, parse.labels, strict=False)]
    root_number = heads.index(0) + 1
    for word_index, head in enumerate(heads):
        if head == 0 and word_index + 1 != root_number:
            heads[word_index], labels[word_index] = root_number, "dep"
    return Parse(parse.words[:count], parse.tags[:count], parse.lemmas[:count], tuple(heads), tuple(labels))


def _read_texts(row: Mapping[str, Any], field_name: str) -> tuple[str, ...]:
    values = row.get(field_name)
    if not isinstance(values, Sequence) or isinstance(values, str) or any(type(text) is not str for text in values):
        raise InputError(f"a parse's {field_name} are a list of texts, not {values!r:.80}")
    return tuple(values)


def _check_tree(parse: Parse) -> None:
    """Raises an `InputError` unless the heads are a tree over all words with one root."""
    heads, word_count = parse.heads, len(parse.heads)
    if not word_count:
        raise InputError("a parse without words; a caption without words has no sentence")
    if min(heads) < 0 or max(heads) > word_count:
        bad_head = next(head for head in heads if not 0 <= head <= word_count)
        raise InputError(f"{parse.name} has the head {bad_head}; expected 0 (the root) to {word_count}")
    root_count = heads.count(0)
    if root_count != 1:
        raise InputError(f"{parse.name} has {root_count} roots (words with the head 0), expected one")
    in_tree = bytearray(word_count + 1)  # words known to descend from the root
    in_tree[0] = 1
    for start_word in range(1, word_count + 1):
        word = start_word
        visited_words: list[int] = []
        while not in_tree[word] and len(visited_words) <= word_count:
            visited_words.append(word)
            word = heads[word - 1]
        if len(visited_words) > word_count:
            raise InputError(f"{parse.name} has a cycle through {parse.words[start_word - 1]!r}, expected a tree")
        for visited_word in visited_words:
            in_tree[visited_word] = 1


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
        """Adds an edge, if there is no equal one.

        Args:
            governor, dependent: nodes.
            label: of the edge.
        """
        if (dependent, label) not in self.dependents[governor]:
            self.dependents[governor].append((dependent, label))
            self.governors[dependent].append((governor, label))

    def remove(self, governor: int, dependent: int, label: str) -> None:
        """Removes an edge, if it exists.

        Args:
            governor, dependent: nodes.
            label: of the edge.
        """
        if (dependent, label) in self.dependents[governor]:
            self.dependents[governor].remove((dependent, label))
            self.governors[dependent].remove((governor, label))

    def relabel(self, governor: int, dependent: int, old: str, new: str) -> None:
        """Gives an edge another label, in the same position.

        Args:
            governor, dependent: nodes.
            old, new: labels.
        """
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
