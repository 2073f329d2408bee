"""What all judges share: questions from captions, answers from a server or a local model, scores and what has none.

A caption whose answer is refused, unreadable or missing has no score. It is listed in the notes by its reason, does not
count in the corpus score, and stands at the mean of the others where every caption needs a number (items, correlations,
resamples): neutral, never 0.
"""

from __future__ import annotations

import atexit
import functools
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from capmeter.assets import cache_folder
from capmeter.captions.model import CaptionSet, Place
from capmeter.errors import InputError
from capmeter.images.analyses import Contents, ContentTable
from capmeter.metrics.base import AdditiveMetric, Context, Floats, Measurement
from capmeter.metrics.judge import limits
from capmeter.metrics.judge.answers import Answer, Failure, Question
from capmeter.metrics.judge.asking import Asked, Spent, answers
from capmeter.metrics.judge.endpoint import Endpoint
from capmeter.metrics.judge.prompts import Template
from capmeter.settings import Settings
from capmeter.store import Store

LOCAL = "local"
PLAIN = "no probabilities: the number as written"
_FAILED = "no answer"
_REASONS = 5  # that are told: a server may give each failure words of its own


@dataclass(frozen=True, kw_only=True)
class Judge(AdditiveMetric):
    """A metric whose score is a language model's answer. A subclass says how captions become questions, and answers
    scores.
    """

    EXTRA: ClassVar[str | None] = "judge"
    ROWS: ClassVar[int] = 8192
    SEES: ClassVar[bool] = False  # whether the question has a picture
    ALTERNATIVES: ClassVar[bool] = False  # whether log-probabilities are asked for

    model: Annotated[str, "the model's name at the server; with endpoint=local a folder or a hub id"]
    endpoint: Annotated[str, "the server's address, or local; empty: from the environment"] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.strip():
            raise InputError(f"{self.name}: the model's name is empty")
        if self.endpoint not in ("", LOCAL):
            limits.server(self.endpoint)

    @property
    @abstractmethod
    def prompt(self) -> Template:
        """The template of the questions."""

    @abstractmethod
    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The score of an answer, and whether it was made as published; or why there is none."""

    def references_text(self, references: list[str]) -> str:
        """The references as the prompt has them: one per line."""
        return "\n".join(references)

    @property
    def columns(self) -> tuple[str, ...]:
        """The sum of scores, and how many captions have one."""
        return "score", "judged"

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption that has one: [score, 1], else [0, 0]."""
        spoken = [row for row, at in enumerate(part.candidates.tolist()) if part.pool[at].strip()]
        questions = self.questions(part.select(spoken)) if spoken else []
        found = self._answers(questions, context.settings)
        values = np.zeros((len(part), 2))
        values[:, 1] = 1.0  # an empty candidate scores 0
        notes: dict[str, list[str]] = {}
        for row, answer in zip(spoken, found, strict=True):
            if isinstance(answer, Failure):
                values[row] = 0.0
                notes.setdefault(_FAILED, []).append(part.ids[row])
                reason = f"{_FAILED}: {answer.reason}"
                if reason in notes or sum(each.startswith(f"{_FAILED}: ") for each in notes) < _REASONS:
                    notes.setdefault(reason, []).append(part.ids[row])
                continue
            score = self.read(answer)
            if isinstance(score, str):
                values[row] = 0.0
                notes.setdefault(score, []).append(part.ids[row])
            else:
                values[row, 0] = score[0]
                if self.ALTERNATIVES and not score[1]:
                    notes.setdefault(PLAIN, []).append(part.ids[row])
        if len(part) and not values[:, 1].any():
            told = {reason: ids for reason, ids in notes.items() if reason != _FAILED}  # which is told with its causes
            reasons = "; ".join(f"{reason} ({len(ids):,})" for reason, ids in told.items())
            raise InputError(f"{self}: none of {len(part):,} captions has a score: {reasons}")
        return Measurement(values, notes)

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean of the captions that have a score; `judged` is their share."""
        total, judged = sums[..., 0], sums[..., 1]
        mean = total.sum() / max(judged.sum(), 1.0)
        score: Floats = np.where(judged > 0, total / np.where(judged > 0, judged, 1.0), mean)
        return {"score": score, "judged": judged / counts}

    def questions(self, part: CaptionSet) -> list[Question]:
        """The question about each caption."""
        prompt = self.prompt
        hashes: tuple[str, ...] = ()
        if self.SEES or "image" in self.needs:
            contents: ContentTable = part.pictures.analyse(Contents())
            hashes = contents.hashes
        made = []
        for row, at in enumerate(part.candidates.tolist()):
            references = self.references_text([part.pool[k] for k in part.references[row].tolist()])
            picture: Place | None = part.pictures[int(part.image[row])] if hashes else None
            made.append(
                Question(
                    text=prompt.filled(part.pool[at], references),
                    role=prompt.role,
                    picture=picture,
                    picture_hash=hashes[int(part.image[row])] if hashes else "",
                    picture_first=self.SEES,
                    expected=prompt.tokens,
                    alternatives=self.ALTERNATIVES,
                )
            )
        return made

    def facts(self, context: Context) -> dict[str, str]:
        """The server or the weights, the prompt's hash, and the temperature."""
        prompt = self.prompt
        where = judge_of(self.model, self.endpoint, context.settings).identity
        return {"judge": where, "prompt": f"{prompt.name}@{prompt.sha256[:8]}", "temperature": "0"}

    def _answers(self, questions: list[Question], settings: Settings) -> list[Answer | Failure]:
        folder = settings.cache or cache_folder("judge")
        judge = judge_of(self.model, self.endpoint, settings)
        bounds = limits.Limits.from_environment()
        return answers(str(self), questions, judge, Store(Path(folder), settings.cache_bytes), bounds, _spent)


_spent = Spent()


def judge_of(model: str, endpoint: str, settings: Settings) -> Asked:
    """The judge of this name; its connections, or its weights, are shared."""
    if endpoint == LOCAL:
        from capmeter.metrics.judge.local import load_judge

        return load_judge(model, settings)
    return _endpoint(limits.server(endpoint), model, limits.key(), limits.Limits.from_environment())


@functools.lru_cache(maxsize=4)
def _endpoint(address: str, model: str, secret: limits.Secret, bounds: limits.Limits) -> Endpoint:
    made = Endpoint(address, model, secret, bounds)
    atexit.register(made.close)
    return made
