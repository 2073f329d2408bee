"""Agreement of a parser with gold parses: tags, governors, relations, lemmas, scene tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.scene_graphs.rules import extract_tuples
from capmeter_research.common.parsed_captions import ParsedCaption

_FORMS = {"as written": "as written", "lower": "lower case"}


class ParseFunction(Protocol):
    """A caption parser."""

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption."""


@dataclass(frozen=True)
class ParserScores:
    """Agreement with gold parses, in per cent (0 of nothing)."""

    captions: int  # number of captions
    split: float  # captions with the right tokens and sentences; only their words count in the following scores
    tags: float  # words with the right tag
    lemmas: float  # words with the right lemma, among those with the right tag
    uas: float  # words with the right governor
    las: float  # words with the right governor and relation
    exact: float  # captions with all tags, governors and relations right
    tuple_f1: float  # F1 of scene tuples over all captions
    same_tuples: float  # captions with the same set of tuples


def evaluate_parser(parser: ParseFunction, captions: Sequence[ParsedCaption]) -> ParserScores:
    """The agreement of a parser with the captions' gold parses."""
    counts: Counter[str] = Counter()
    for caption, parse in zip(captions, parser.parse([example.caption for example in captions]), strict=True):
        gold_parse, predicted_parse = caption.parse, parse or CaptionParse()
        gold_tuples, predicted_tuples = set(extract_tuples(gold_parse)), set(extract_tuples(predicted_parse))
        counts["right tuples"] += len(gold_tuples & predicted_tuples)
        counts["tuples"] += len(gold_tuples) + len(predicted_tuples)
        counts["same tuples"] += gold_tuples == predicted_tuples
        if [one.words for one in gold_parse.sentences] != [one.words for one in predicted_parse.sentences]:
            continue
        sentence_pairs = list(zip(gold_parse.sentences, predicted_parse.sentences, strict=True))
        counts["split"] += 1
        counts["exact"] += all(
            (one.tags, one.heads, one.labels) == (two.tags, two.heads, two.labels) for one, two in sentence_pairs
        )
        for sentence_pair in sentence_pairs:
            counts.update(_count_words(*sentence_pair))
    return ParserScores(
        captions=len(captions),
        split=_percent(counts["split"], len(captions)),
        tags=_percent(counts["tags"], counts["words"]),
        lemmas=_percent(counts["lemmas"], counts["tags"]),
        uas=_percent(counts["heads"], counts["words"]),
        las=_percent(counts["arcs"], counts["words"]),
        exact=_percent(counts["exact"], counts["split"]),
        tuple_f1=_percent(2 * counts["right tuples"], counts["tuples"]),
        same_tuples=_percent(counts["same tuples"], len(captions)),
    )


def _count_words(gold: Parse, predicted: Parse) -> dict[str, int]:
    """The number of words, and of those with the right tag, tag and lemma, head, head and label."""
    same_tags = [a == b for a, b in zip(gold.tags, predicted.tags, strict=True)]
    same_heads = [a == b for a, b in zip(gold.heads, predicted.heads, strict=True)]
    lemmas = zip(same_tags, gold.lemmas, predicted.lemmas, strict=True)
    arcs = zip(same_heads, gold.labels, predicted.labels, strict=True)
    return {
        "words": len(gold),
        "tags": sum(same_tags),
        "lemmas": sum(right and a == b for right, a, b in lemmas),
        "heads": sum(same_heads),
        "arcs": sum(right and a == b for right, a, b in arcs),
    }


def group_by_form(captions: Iterable[ParsedCaption]) -> dict[str, list[ParsedCaption]]:
    """The captions as written, those in lower case without punctuation, and the damaged ones."""
    groups: dict[str, list[ParsedCaption]] = {"as written": [], "lower case": [], "damaged": []}
    for caption in captions:
        groups[_FORMS.get(caption.form, "damaged")].append(caption)
    return groups


def _percent(count: int, total: int) -> float:
    return round(100 * count / total, 3) if total else 0.0
