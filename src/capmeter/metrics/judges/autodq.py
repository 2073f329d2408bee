"""AutoDQ (Wang et al. 2024): the events of a video, entailed by the caption, and those of the caption by the reference.

    R = reference events that the caption entails / reference events
    P = the caption's events that the reference entails / the caption's events
    score = 2 P R / (P + R), of the means of P and R over captions

Range 0 to 1. A language model extracts the caption's events, and those of the reference if no file has them
(`questions="DREAM-1k.jsonl"`), and says of each event whether the other text entails it. As in the released code a
text without events has a share of 1, and texts are in lower case; the prompts are the released code's. An answer that
does not have every event is listed and the caption has no score.

>>> str(AutoDq(model="gpt-3.5-turbo"))
'autodq(model=gpt-3.5-turbo)'

Wang, Yuan, Zhang: Tarsier: Recipes for Training and Evaluating Large Video Description Models. arXiv:2407.00634, 2024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.answers import Answer, Failure
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import EVENT
from capmeter.metrics.judges.judge import NO_ANSWER, NO_STORED, Conversation, JudgedCaption, Verdict
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import answer_start, missing_reason, read_json, read_texts
from capmeter.stats.ratios import f1

RELATIONS = ("entailment", "neutral", "contradiction")
_PYTHON_LIST = re.compile(r"[\"']events[\"']\s{0,9}:\s{0,9}\[([^\[\]]{0,20000})\]")
_PYTHON_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")


@dataclass(frozen=True, kw_only=True)
class AutoDq(ItemJudge):
    """Events of caption and reference that the other entails."""

    NAME: ClassVar[str] = "autodq"
    SUMMARY: ClassVar[str] = "events of the caption and of the reference that the other entails"
    KINDS: ClassVar[frozenset[str]] = frozenset({EVENT})
    EXPECTED: ClassVar[str] = "events of videos (events: a list of texts)"
    ROUNDS: ClassVar[float] = 2.0
    MISLEADS: ClassVar[str] = (
        "A caption without events has full precision; and a judge is as good as its model (docs/judges.md)."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"R = \frac{\text{reference events entailed by } c}{\text{reference events}}, \quad P = \frac{\text{events "
        r"of } c \text{ entailed by the reference}}{\text{events of } c}",
        r"F_1 = \frac{2 P R}{P + R}",
    )

    @property
    def needs(self) -> frozenset[str]:
        """A reference."""
        return frozenset({"references"})

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of the extraction of events, and of their entailment."""
        return template("autodq-events"), template("autodq-entailment")

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The shares of events."""
        return "precision", "recall"

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The means of both, and their harmonic mean."""
        means = super().formulas(sums)
        return {"score": f1(means["precision"], means["recall"]), **means}

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Extracts events, then asks of each whether the other text entails it."""
        extraction, _ = self.prompts
        candidate, reference = caption.candidate.lower(), "\n".join(caption.references).lower()
        stored_events = self.item_file.of(caption.image_id) if self.questions else ()
        extractions = [self.question(extraction, caption, "extraction from the caption", candidate=_quoted(candidate))]
        if not stored_events:
            question = self.question(extraction, caption, "extraction from the reference", candidate=_quoted(reference))
            extractions.append(question)
        event_lists = [read_events(answer) for answer in (yield extractions)]
        if reason := next((each for each in event_lists if isinstance(each, str)), ""):
            return reason
        events, *other_lists = (each for each in event_lists if not isinstance(each, str))
        reference_events = [item.text for item in stored_events] or other_lists[0]
        directions = [("caption", events, reference), ("reference", reference_events, candidate)]
        asked_directions = [(whose, each, text) for whose, each, text in directions if each]
        answers = yield [
            self.question(self.prompts[1], caption, f"events of the {whose}", candidate=text, items=str(each))
            for whose, each, text in asked_directions
        ]
        shares: dict[str, float] = {}
        for (whose, each, _), answer in zip(asked_directions, answers, strict=True):
            entailed_share = read_entailed_share(answer, len(each))
            if isinstance(entailed_share, str):
                return entailed_share
            shares[whose] = entailed_share
        notes: tuple[str, ...] = () if events else ("no events in the caption: precision 1, as released",)
        notes += (NO_STORED,) if self.questions and not stored_events else ()
        return Verdict((shares.get("caption", 1.0), shares.get("reference", 1.0)), notes)


def read_events(answer: Answer | Failure) -> list[str] | str:
    """The events in an answer, a JSON object or a Python dictionary, or why there are none.

    >>> read_events(Answer("{'events': ['A dog runs', \\"The dog's owner waves\\"]}"))
    ['A dog runs', "The dog's owner waves"]
    """
    if isinstance(answer, Failure):
        return NO_ANSWER
    events = read_texts(answer, "events")
    if isinstance(events, str):
        python_list = _PYTHON_LIST.search(answer.text, answer_start(answer.text))
        if python_list is not None:
            quoted_texts = [first or second for first, second in _PYTHON_TEXT.findall(python_list[1])]
            return [re.sub(r"\\(.)", r"\1", " ".join(text.split())) for text in quoted_texts if text.strip()]
    return events


def read_entailed_share(answer: Answer | Failure, count: int) -> float | str:
    """The share of a number of events that are entailed, or why there is none."""
    if isinstance(answer, Failure):
        return NO_ANSWER
    listed_events = read_json(answer, "events")
    if not isinstance(listed_events, list) or len(listed_events) != count:
        return missing_reason(answer)
    relations = [
        str(event.get("relationship", "")).strip().lower() for event in listed_events if isinstance(event, dict)
    ]
    if len(relations) != len(listed_events) or not set(relations) <= set(RELATIONS):
        return missing_reason(answer)
    return relations.count("entailment") / count


def _quoted(text: str) -> str:
    return text.replace('"', "'")
