"""Judges that ask one question about each caption, whose answer is its score: CLAIR, FLEUR, G-VEval and relatives."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from capmeter.metrics.judges.answers import Answer, Failure
from capmeter.metrics.judges.judge import NO_ANSWER, PLAIN, Conversation, Judge, JudgedCaption, Verdict
from capmeter.metrics.judges.prompts import Template


@dataclass(frozen=True, kw_only=True)
class RatingJudge(Judge):
    """A judge with one question. A subclass defines the prompt, and the score of an answer."""

    @property
    @abstractmethod
    def prompt(self) -> Template:
        """The template of the question."""

    @abstractmethod
    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The score of an answer, and whether it is computed as published; or why there is none."""

    def references_text(self, references: tuple[str, ...]) -> str:
        """The references in the prompt: one per line."""
        return "\n".join(references)

    @property
    def prompts(self) -> tuple[Template, ...]:
        """The prompt."""
        return (self.prompt,)

    def converse(self, caption: JudgedCaption) -> Conversation:
        """One question, and its score."""
        references = self.references_text(caption.references)
        (answer,) = yield [self.question(self.prompt, caption, references=references)]
        if isinstance(answer, Failure):
            return NO_ANSWER
        score = self.read(answer)
        if isinstance(score, str):
            return score
        return Verdict((score[0],), (PLAIN,) if self.ALTERNATIVES and not score[1] else ())
