"""CapArena-Auto (Cheng et al. 2025): a caption compared with those of baseline systems, in both orders.

    score = mean over baselines and orders of +1 (win), 0 (tie), -1 (loss)

Range -1 to 1; the published scores are 100 times that for each of three baselines, and their mean. `questions` is the
benchmark's file: for each image one baseline's caption (`ref_model`, `captions`), and a human caption, which the judge
gets as a reference; captions that have references of their own need no human one. With `image=true` a vision-language
model sees the image, as in the paper. Each pair is asked twice, with its captions swapped (the released code asks once,
in a random order); the part `order_consistency` is the share of pairs with the same winner in both orders. The prompt
is our own.

>>> str(CapArena(model="gpt-4o", questions="caparena_auto_600.json", image=True))
'caparena(model=gpt-4o,questions=caparena_auto_600.json,image=true)'

Cheng et al.: CapArena: Benchmarking and Analyzing Detailed Image Captioning in the LLM Era. Findings of ACL 2025.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.answers import Answer, Failure, Question
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import CAPTION, Item
from capmeter.metrics.judges.judge import NO_ANSWER, UNANSWERED, Conversation, JudgedCaption, Verdict
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import answer_start, missing_reason
from capmeter.stats.ratios import ratio

NO_BASELINE = "no baseline caption of this image"
_JUDGMENT = re.compile(r"\bjudg(?:e)?ment\W{0,5}(?:caption\W{0,3}([12])\b|(tie)\b)", re.IGNORECASE)
_BETTER = re.compile(r"\bcaption ([12]) is better\b|^\W{0,5}(tie)\W{0,5}$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CapArena(ItemJudge):
    """Comparisons with baseline captions, in both orders."""

    NAME: ClassVar[str] = "caparena"
    SUMMARY: ClassVar[str] = "comparisons with the captions of baseline systems"
    KINDS: ClassVar[frozenset[str]] = frozenset({CAPTION})
    NO_ITEMS: ClassVar[str] = NO_BASELINE
    EXPECTED: ClassVar[str] = "captions of baseline systems (ref_model and captions: {system: caption})"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{wins} - \text{losses}}{\text{comparisons}}",)

    image: Annotated[bool, "show the image to a vision-language model"] = False

    @property
    def needs(self) -> frozenset[str]:
        """The image, if it is shown."""
        return frozenset({"image"} if self.image else ())

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of a comparison."""
        return (template("caparena"),)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """Numbers of comparisons by outcome; of pairs, and of those with the same winner in both orders."""
        return "wins", "ties", "losses", "consistent", "swapped"

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The mean outcome, the shares of outcomes, and the consistency."""
        comparison_count = sums["wins"] + sums["ties"] + sums["losses"]
        shares = {
            outcome_name: ratio(sums[outcome_name], comparison_count) for outcome_name in ("wins", "ties", "losses")
        }
        consistency = ratio(sums["consistent"], sums["swapped"])
        return {"score": shares["wins"] - shares["losses"], **shares, "order_consistency": consistency}

    def empty_verdict(self, caption: JudgedCaption) -> Verdict | str:
        """An empty caption loses every comparison."""
        pair_count = float(len(self.item_file.of(caption.image_id)))
        return Verdict((0.0, 0.0, 2 * pair_count, pair_count, pair_count)) if pair_count else NO_BASELINE

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Compares with each baseline, in both orders."""
        items = self.item_file.of(caption.image_id)
        if not items:
            return NO_BASELINE
        questions = [self._comparison(caption, item, first) for item in items for first in (True, False)]
        answers = yield questions
        outcomes: list[int | None] = []
        for k, answer in enumerate(answers):
            winner = None if isinstance(answer, Failure) else read_winner(answer)
            candidate_position = 1 if k % 2 == 0 else 2
            outcomes.append(None if winner is None else 0 if winner == 0 else 1 if winner == candidate_position else -1)
        if all(outcome is None for outcome in outcomes):
            return next((missing_reason(answer) for answer in answers if isinstance(answer, Answer)), NO_ANSWER)
        order_pairs = [(a, b) for a, b in zip(outcomes[::2], outcomes[1::2], strict=True) if None not in (a, b)]
        outcome_counts = [float(outcomes.count(outcome)) for outcome in (1, 0, -1)]
        consistent_pairs = float(sum(a == b for a, b in order_pairs))
        return Verdict(
            (*outcome_counts, consistent_pairs, float(len(order_pairs))), (UNANSWERED,) if None in outcomes else ()
        )

    def _comparison(self, caption: JudgedCaption, item: Item, first: bool) -> Question:
        caption_texts = {"candidate": caption.candidate, "other": item.text}
        if not first:
            caption_texts = {"candidate": item.text, "other": caption.candidate}
        human_caption = item.tags[1] if len(item.tags) > 1 else ""
        references = human_caption or "\n".join(caption.references) or "none"
        baseline_label = f"against {item.tags[0]}" if item.tags and item.tags[0] else "against the baseline"
        caption_order = "first" if first else "second"
        return self.question(
            self.prompts[0], caption, f"{baseline_label}, {caption_order}", references=references, **caption_texts
        )


def read_winner(answer: Answer) -> int | None:
    """1 or 2: this caption is better; 0: a tie; None: it cannot be read.

    >>> read_winner(Answer("More detail.\\nJudgment: Caption 2 is better")), read_winner(Answer("Judgment: Tie"))
    (2, 0)
    """
    start = answer_start(answer.text)
    winner_matches = [*_JUDGMENT.finditer(answer.text, start)] or [*_BETTER.finditer(answer.text, start)]
    winners = {0 if match[2] else int(match[1]) for match in winner_matches}
    return winners.pop() if len(winners) == 1 else None
