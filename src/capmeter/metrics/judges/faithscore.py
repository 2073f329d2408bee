"""FaithScore (Jing et al. 2024): the share of a caption's atomic facts that the image supports.

    score = facts that are right / facts                  of a caption, then the mean

Range 0 to 1. A language model marks which clauses describe the image and which interpret it, then lists the atomic
facts of the descriptive ones; a vision-language model answers for each fact whether the image shows it
(`verify=image`), or a language model whether the references say so (`verify=references`). The part `sentences` is the
share of descriptive clauses whose facts are all right. As in the released code a caption without facts scores 0. The
question about a fact is the released code's; the other prompts are our own words, without its examples.

>>> str(FaithScore(model="m", verify="references"))
'faithscore(model=m,verify=references)'

Jing, Li, Chen, Du: FaithScore: Fine-grained Evaluations of Hallucinations in Large Vision-Language Models. Findings of
EMNLP 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from capmeter.metrics.judges.answers import Answer, Failure
from capmeter.metrics.judges.judge import (
    NO_ANSWER,
    NO_FACTS,
    UNANSWERED,
    Conversation,
    Judge,
    JudgedCaption,
    Verdict,
)
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import missing_reason, read_json, read_label, read_texts


@dataclass(frozen=True, kw_only=True)
class FaithScore(Judge):
    """Atomic facts that image or references support."""

    NAME: ClassVar[str] = "faithscore"
    SUMMARY: ClassVar[str] = "atomic facts that image or references support"
    ROUNDS: ClassVar[float] = 12.0
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{right facts}}{\text{facts}}",)

    verify: Annotated[Literal["image", "references"], "what facts are compared with"] = "image"

    @property
    def needs(self) -> frozenset[str]:
        """What facts are compared with."""
        return frozenset({self.verify})

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of the clauses, their facts, and a fact's verification."""
        return template("faithscore-clauses"), template("faithscore-facts"), template(f"faithscore-{self.verify}")

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The caption's shares."""
        return "score", "sentences"

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Marks clauses, lists facts, and verifies each."""
        text_caption = replace(caption, image=None, image_hash="")
        clause_prompt, fact_prompt, verification = self.prompts
        (answer,) = yield [self.question(clause_prompt, text_caption, "clauses")]
        clauses = NO_ANSWER if isinstance(answer, Failure) else read_clauses(answer)
        if isinstance(clauses, str):
            return clauses
        if not clauses:
            return Verdict((0.0, 0.0), (NO_FACTS,))
        fact_lists = []
        for answer in (
            yield [self.question(fact_prompt, text_caption, f"facts: {each}", items=each) for each in clauses]
        ):
            clause_facts = NO_ANSWER if isinstance(answer, Failure) else read_texts(answer, "facts")
            if isinstance(clause_facts, str):
                return clause_facts
            fact_lists.append(clause_facts)
        distinct_facts = list(dict.fromkeys(fact for clause_facts in fact_lists for fact in clause_facts))
        if not distinct_facts:
            return Verdict((0.0, 0.0), (NO_FACTS,))
        answers = yield [self.question(verification, caption, fact, items=fact) for fact in distinct_facts]
        fact_labels = {
            fact: read_label(answer, ("yes", "no")) if isinstance(answer, Answer) else None
            for fact, answer in zip(distinct_facts, answers, strict=True)
        }
        readable_labels = [label for label in fact_labels.values() if label is not None]
        if not readable_labels:
            return next((missing_reason(answer) for answer in answers if isinstance(answer, Answer)), NO_ANSWER)
        right_share = readable_labels.count("yes") / len(readable_labels)
        return Verdict(
            (right_share, right_clauses(fact_lists, fact_labels)),
            (UNANSWERED,) if len(readable_labels) < len(distinct_facts) else (),
        )


def right_clauses(lists: Sequence[Sequence[str]], labels: Mapping[str, str | None]) -> float:
    """The share of the clauses with facts, none of which is wrong."""
    checked = [[labels[fact] for fact in facts if labels[fact] is not None] for facts in lists]
    checked = [clause_labels for clause_labels in checked if clause_labels]
    return sum("no" not in clause_labels for clause_labels in checked) / len(checked) if checked else 0.0


def read_clauses(answer: Answer) -> list[str] | str:
    """The descriptive clauses in an answer, or why there are none."""
    listed_clauses = read_json(answer, "clauses")
    if not isinstance(listed_clauses, list) or not all(_is_clause(entry) for entry in listed_clauses):
        return missing_reason(answer)
    return [
        entry["text"].strip() for entry in listed_clauses if entry["descriptive"] in (1, True) and entry["text"].strip()
    ]


def _is_clause(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("text"), str) and entry.get("descriptive") in (0, 1)
