"""DCScore (Ye et al. 2025): the primitive facts of a caption, verified and matched with the facts of the image.

    P = true facts / facts
    R = (Σ 1 / n_o over true matched facts + e) / (facts of the image + e)
    score = (F1 of all facts + F1 of the descriptive ones) / 2

e is the number of true facts without a match, n_o that of the facts matched with the same fact o of the image. Range 0
to 1. A language model splits the caption into facts and says which of them describe (rather than interpret) the image;
which are true of the references, or with `image=true` of the image too; and which fact of the image each is. The facts
of the image come from a file (`questions="human_annotated_oracle_facts.jsonl"`), else from the references. The prompts
are our own words.

>>> str(DcScore(model="gpt-4o", questions="facts.jsonl"))
'dcscore(model=gpt-4o,questions=facts.jsonl)'

Ye et al.: Painting with Words: Elevating Detailed Image Captioning with Benchmark and Alignment Learning. ICLR 2025.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from capmeter.metrics.judges.answers import Answer, Failure
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import FACT
from capmeter.metrics.judges.judge import NO_ANSWER, NO_FACTS, NO_STORED, Conversation, JudgedCaption, Verdict
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import missing_reason, read_json

_PARTS = ("score", "precision", "recall", "f1", "f1_descriptive")


@dataclass(frozen=True, slots=True)
class PrimitiveFact:
    """A fact of a caption: whether it describes the image, is true, and which fact of the image it is, if any."""

    text: str
    is_descriptive: bool
    is_true: bool = False
    match: int | None = None


@dataclass(frozen=True, kw_only=True)
class DcScore(ItemJudge):
    """Primitive facts, verified and matched."""

    NAME: ClassVar[str] = "dcscore"
    SUMMARY: ClassVar[str] = "primitive facts of a long caption, verified and matched"
    KINDS: ClassVar[frozenset[str]] = frozenset({FACT})
    EXPECTED: ClassVar[str] = "facts of images (oracle_facts or facts: a list of texts)"
    ROUNDS: ClassVar[float] = 3.0
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \frac{\text{true facts}}{\text{facts}}, \quad R = \frac{\sum 1 / n_o + e}{|O| + e}",
        r"\text{score} = \frac{F_{\text{all}} + F_{\text{descriptive}}}{2}",
    )

    image: Annotated[bool, "verify facts with the image too, by a vision-language model"] = False

    @property
    def needs(self) -> frozenset[str]:
        """References, for verification, and if `image` the image."""
        return frozenset({"references", "image"} if self.image else {"references"})

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of the extraction, the verification and the matching."""
        return template("dcscore-facts"), template("dcscore-verify"), template("dcscore-match")

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The caption's score and its parts."""
        return _PARTS

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Extracts the facts, then verifies and matches them."""
        extraction, verification, matching = self.prompts
        text_caption = replace(caption, image=None, image_hash="")
        stored_facts = self.item_file.of(caption.image_id) if self.questions else ()
        questions = [self.question(extraction, text_caption, "facts of the caption")]
        if not stored_facts:
            reference = "\n".join(caption.references)
            questions.append(self.question(extraction, text_caption, "facts of the references", candidate=reference))
        fact_lists = [read_facts(answer) for answer in (yield questions)]
        if reason := next((each for each in fact_lists if isinstance(each, str)), ""):
            return reason
        facts, *other_lists = (each for each in fact_lists if not isinstance(each, str))
        oracle_facts = [item.text for item in stored_facts] or [fact.text for fact in other_lists[0]]
        notes = (NO_STORED,) if self.questions and not stored_facts else ()
        if not facts:
            return Verdict((0.0,) * len(_PARTS), (NO_FACTS, *notes))
        listed_facts = numbered([fact.text for fact in facts])
        oracle_text = numbered(oracle_facts)
        verification_answer, matching_answer = yield [
            self.question(verification, caption, "verification", items=listed_facts),
            self.question(matching, text_caption, "matching", items=listed_facts, oracle=oracle_text),
        ]
        truths = read_numbers(verification_answer, "verdicts", "true", len(facts), range(2))
        matches = read_numbers(matching_answer, "matches", "oracle", len(facts), range(len(oracle_facts)), or_none=True)
        if isinstance(truths, str) or isinstance(matches, str):
            return truths if isinstance(truths, str) else str(matches)
        judged_facts = [
            replace(fact, is_true=truth == 1, match=match)
            for fact, truth, match in zip(facts, truths, matches, strict=True)
        ]
        return Verdict(score_facts(judged_facts, len(oracle_facts)), notes)


def score_facts(facts: Sequence[PrimitiveFact], oracle: int) -> tuple[float, ...]:
    """Score, precision, recall, F1 and F1 of the descriptive facts.

    Args:
        facts: of the caption.
        oracle: number of facts of the image.
    """
    precision, recall, all_f1 = _rates(facts, oracle)
    *_, descriptive_f1 = _rates([fact for fact in facts if fact.is_descriptive], oracle)
    return (all_f1 + descriptive_f1) / 2, precision, recall, all_f1, descriptive_f1


def _rates(facts: Sequence[PrimitiveFact], oracle: int) -> tuple[float, float, float]:
    true_facts = [fact for fact in facts if fact.is_true]
    match_counts = Counter(fact.match for fact in facts)  # true or not, as in the released code
    extra_count = sum(fact.match is None for fact in true_facts)
    correct_count = extra_count + sum(1 / match_counts[fact.match] for fact in true_facts if fact.match is not None)
    precision = len(true_facts) / len(facts) if facts else 0.0
    recall = correct_count / (oracle + extra_count) if oracle + extra_count else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def numbered(texts: Sequence[str]) -> str:
    """The texts as JSON objects with ids from 0, one per line."""
    return "\n".join(json.dumps({"id": k, "fact": text}, ensure_ascii=False) for k, text in enumerate(texts))


def read_facts(answer: Answer | Failure) -> list[PrimitiveFact] | str:
    """The facts in an answer, or why there are none."""
    if isinstance(answer, Failure):
        return NO_ANSWER
    listed_facts = read_json(answer, "facts")
    if not isinstance(listed_facts, list):
        return missing_reason(answer)
    facts: dict[str, PrimitiveFact] = {}
    for entry in listed_facts:
        fact_text, is_descriptive = (
            (entry.get("fact"), _parse_whole_number(entry.get("descriptive", 1))) if isinstance(entry, dict) else (0, 0)
        )
        if not isinstance(fact_text, str) or not fact_text.strip() or is_descriptive not in (0, 1):
            return missing_reason(answer)
        facts.setdefault(fact_text.strip(), PrimitiveFact(fact_text.strip(), is_descriptive == 1))
    return list(facts.values())


def read_numbers(
    answer: Answer | Failure, key: str, field: str, count: int, allowed: range, *, or_none: bool = False
) -> list[int | None] | str:
    """For each id from 0 the number in a field of a JSON list; or why there are none.

    Every id must be in the list, and every number among those allowed, or with `or_none` null or "none".
    """
    if isinstance(answer, Failure):
        return NO_ANSWER
    listed_entries = read_json(answer, key)
    values_by_id: dict[int, int | None] = {}
    for entry in listed_entries if isinstance(listed_entries, list) else ():
        entry_id = _parse_whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if entry_id is None or not 0 <= entry_id < count:
            continue
        entry_value = entry.get(field, "")
        is_none = or_none and (
            entry_value is None or (isinstance(entry_value, str) and entry_value.strip().lower() in ("none", "null"))
        )
        values_by_id[entry_id] = None if is_none else _parse_whole_number(entry_value)
        if not is_none and values_by_id[entry_id] not in allowed:
            return missing_reason(answer)
    return [values_by_id[k] for k in range(count)] if len(values_by_id) == count else missing_reason(answer)


def _parse_whole_number(value: Any) -> int | None:
    """The whole number that a JSON value says: 1, 1.0, true, "1" or "yes"; None if it says none."""
    value_text = str(value).strip().lower()
    value_text = {"yes": "1", "true": "1", "no": "0", "false": "0"}.get(value_text, value_text)
    if not isinstance(value, bool | int | float | str) or not re.fullmatch(r"\d{1,6}(\.0+)?", value_text, re.ASCII):
        return None
    return int(float(value_text))
