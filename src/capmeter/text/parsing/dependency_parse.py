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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
