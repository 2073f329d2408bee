"""Agreement of a parser with the parses it was trained on: tags, governors, relations, lemmas, scene tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Protocol

from capmeter.learning.parser.examples import Example
from capmeter.text.parses import CaptionParse
from capmeter.text.scene_tuples import scene_tuples


class Parses(Protocol):
    """Turns captions into parses."""

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption."""


@dataclass(frozen=True)
class ParserScores:
    """Agreement with the gold parses, in per cent (0 if there is nothing to count).

    Args:
        captions: number of parsed captions.
        split: captions with the right tokens and sentences; only their words count in the following scores.
        tags: words with the right tag.
        lemmas: words with the right tag that have the right lemma.
        uas: words with the right governor.
        las: words with the right governor and relation.
        exact: captions with every tag, governor and relation right.
        tuple_f1: F1 of scene tuples over all captions.
        same_tuples: captions with the same set of tuples.
    """

    captions: int
    split: float
    tags: float
    lemmas: float
    uas: float
    las: float
    exact: float
    tuple_f1: float
    same_tuples: float

    @classmethod
    def names(cls) -> list[str]:
        """The names of the scores, in their order."""
        return [field.name for field in fields(cls)]

    def to_dict(self) -> dict[str, float]:
        """The scores by name."""
        return asdict(self)


def evaluate(parser: Parses, examples: Sequence[Example]) -> ParserScores:
    """The agreement of a parser with the examples' parses."""
    words = tagged = right_lemmas = right_heads = right_arcs = 0
    split = exact = same = right_tuples = all_tuples = 0
    for example, parse in zip(examples, parser.parse([each.caption for each in examples]), strict=True):
        right, given = example.parse, parse or CaptionParse()
        right_set, given_set = set(scene_tuples(right)), set(scene_tuples(given))
        right_tuples += len(right_set & given_set)
        all_tuples += len(right_set) + len(given_set)
        same += right_set == given_set
        if [one.words for one in right.sentences] != [one.words for one in given.sentences]:
            continue
        split += 1
        exact += all(
            (one.tags, one.heads, one.labels) == (two.tags, two.heads, two.labels)
            for one, two in zip(right.sentences, given.sentences, strict=True)
        )
        for one, two in zip(right.sentences, given.sentences, strict=True):
            words += len(one)
            tags = [a == b for a, b in zip(one.tags, two.tags, strict=True)]
            tagged += sum(tags)
            right_lemmas += sum(map(_both, tags, map(str.__eq__, one.lemmas, two.lemmas)))
            heads = [a == b for a, b in zip(one.heads, two.heads, strict=True)]
            right_heads += sum(heads)
            right_arcs += sum(map(_both, heads, map(str.__eq__, one.labels, two.labels)))
    count = len(examples)
    return ParserScores(
        captions=count,
        split=_percent(split, count),
        tags=_percent(tagged, words),
        lemmas=_percent(right_lemmas, tagged),
        uas=_percent(right_heads, words),
        las=_percent(right_arcs, words),
        exact=_percent(exact, split),
        tuple_f1=_percent(2 * right_tuples, all_tuples),
        same_tuples=_percent(same, count),
    )


def by_form(examples: Iterable[Example]) -> dict[str, list[Example]]:
    """The examples as written, those in lower case without punctuation, and the damaged ones."""
    groups: dict[str, list[Example]] = {"as written": [], "lower case": [], "damaged": []}
    for example in examples:
        name = {"as written": "as written", "lower": "lower case"}.get(example.form, "damaged")
        groups[name].append(example)
    return groups


def _both(one: bool, two: bool) -> bool:
    return one and two


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 3) if whole else 0.0
