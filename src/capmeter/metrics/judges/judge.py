"""The base of all judges: questions about captions, answers from a server or a local model, scores and failures.

What a judge asks about one caption is a conversation: a generator that yields questions, receives their answers, may
ask more, and returns what they say (`Verdict`), or why they say nothing. The conversations of all captions advance
together, so that the questions of one round are asked at once.

A caption whose answers are refused, unreadable or missing has no score. It is listed in the notes by its reason and
does not count in the corpus score; where every caption needs a number (items, correlations, resamples), it gets that of
the others: neutral, never 0. The part `scored_share` is the share of captions with a score.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet, ImageRef
from capmeter.core.assets import cache_folder
from capmeter.core.disk_cache import DiskCache
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import EMPTY, AdditiveMetric, Floats, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.images.reading import ContentHashes, ContentHashTable
from capmeter.metrics.judges import connection
from capmeter.metrics.judges.answers import Answer, Failure, Question
from capmeter.metrics.judges.engine import Engine, JudgeModel
from capmeter.metrics.judges.injection import ADDRESSES_JUDGE, addresses_judge
from capmeter.metrics.judges.prompts import Template
from capmeter.metrics.judges.server import ServerJudge
from capmeter.stats.ratios import ratio

LOCAL = "local"
PLAIN = "no probabilities: the number as written"
NO_ANSWER = "no answer"
NO_QUESTIONS = "no questions about this image"
NO_STORED = "nothing about this image in the file: taken from its references"
NO_FACTS = "no facts in the caption: scored 0"
UNANSWERED = "some questions without a readable answer"
_MAX_REASONS = 5  # error messages shown at most: a server may word each one differently
_COUNTS = ("scored", "empty", "input_tokens", "output_tokens")
_AGREEMENT = ("equal_pairs", "pairs")


@dataclass(frozen=True)
class JudgedCaption:
    """A caption as a judge gets it."""

    id: str
    image_id: str
    candidate: str
    references: tuple[str, ...]
    image: ImageRef | None = None
    image_hash: str = ""
    graphs: Any = None  # the scene graphs of candidate and references, for judges that ask for their elements


@dataclass(frozen=True)
class Verdict:
    """What the answers say of a caption.

    Attributes:
        values: one number for each of the judge's `value_columns`.
        notes: what to note of this caption.
    """

    values: tuple[float, ...]
    notes: tuple[str, ...] = ()


Conversation = Generator[list[Question], list[Answer | Failure], Verdict | str]
"""Yields questions, receives their answers, and returns the verdict, or why there is none."""


@dataclass
class Transcript:
    """The questions about one caption with their answers, and the verdict or the reason why there is none."""

    exchanges: list[tuple[Question, Answer | Failure]] = field(default_factory=list)
    verdict: Verdict | str = ""

    @property
    def failures(self) -> list[Failure]:
        """The questions without an answer."""
        return [answer for _, answer in self.exchanges if isinstance(answer, Failure)]


@dataclass(frozen=True, kw_only=True)
class Judge(AdditiveMetric):
    """A metric whose score is what a language model answers. A subclass defines the conversation about a caption."""

    EXTRA: ClassVar[str | None] = "judges"
    PART_SIZE: ClassVar[int] = 1024
    IMAGE_FIRST: ClassVar[bool] = False  # whether the question starts with the image
    ALTERNATIVES: ClassVar[bool] = False  # whether to ask for log-probabilities
    ROUNDS: ClassVar[float] = 1.0  # all questions about a caption, as a multiple of the first ones, for estimates
    FAMILY: ClassVar[str] = "Language models as judges"
    MISLEADS: ClassVar[str] = (
        "Is as good as the model that judges, and changes with the model and its version: two models are two "
        "metrics, so name the model (docs/judges.md: judging the judge). It costs money or a GPU. A judge that "
        "asks questions rewards what they ask for: a longer caption answers more of them; compare captions of one "
        "length, or state the length beside the score."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\sum_{l \in \text{of}} n_l}{\sum_{l \in \text{among}} n_l} \quad \text{or a mean}",
    )
    EXAMPLE: ClassVar[str] = "model=NAME"
    GUIDE: ClassVar[str] = "docs/judges.md"

    model: Annotated[str, "the model's name at the server; with endpoint=local a folder or a hub id"]
    endpoint: Annotated[str, "the server's address, or local; empty: from the environment"] = ""
    repeats: Annotated[int, "how often each question is asked; the score is the mean"] = 1
    temperature: Annotated[float, "of the model's sampling"] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.strip():
            raise InputError(f"{self.name}: the model's name is empty")
        if not 1 <= self.repeats <= 100:
            raise InputError(f"{self.name}: repeats={self.repeats}: expected a number of times from 1 to 100")
        if not 0 <= self.temperature <= 2:
            raise InputError(f"{self.name}: temperature={self.temperature:g}: expected a number from 0 to 2")
        if self.endpoint not in ("", LOCAL):
            connection.find_server(self.endpoint)

    @property
    @abstractmethod
    def prompts(self) -> tuple[Template, ...]:
        """The templates of the questions."""

    @abstractmethod
    def converse(self, caption: JudgedCaption) -> Conversation:
        """The conversation about a caption that is not empty."""

    @property
    def value_columns(self) -> tuple[str, ...]:
        """What the verdict's values are."""
        return ("score",)

    def empty_verdict(self, caption: JudgedCaption) -> Verdict | str:
        """The verdict on an empty candidate, about which nothing is asked; or why there is none, as for any other."""
        return Verdict((0.0,) * len(self.value_columns))

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The score and its parts, from the sums of the columns: the means over the captions with a verdict."""
        return {column_name: ratio(sums[column_name], sums["scored"]) for column_name in self.value_columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The values, whether there are any, and without asking; tokens used; how often repeated answers are equal."""
        return (*self.value_columns, *_COUNTS, *(_AGREEMENT if self.repeats > 1 else ()))

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The values of each caption that has a verdict, else zeros."""
        captions = self.captions_of(part, context)
        transcripts = self.transcripts(captions, context.settings)
        value_rows = [self._row(caption, each) for caption, each in zip(captions, transcripts, strict=True)]
        notes = self._notes(captions, transcripts)
        caption_answers = {
            each.id: self.list_answers(each, repeated) for each, repeated in zip(captions, transcripts, strict=True)
        }
        return Measurement(
            np.array(value_rows, np.float64).reshape(len(captions), len(self.columns)), notes, caption_answers
        )

    def check_sums(self, sums: Floats, count: int, notes: Mapping[str, int]) -> None:
        """Refuses captions none of which has a score, empty candidates apart."""
        scored_count, empty_count = (sums[self.columns.index(column_name)] for column_name in ("scored", "empty"))
        if count > empty_count == scored_count:
            reasons = [
                f"{reason} ({note_count:,})"
                for reason, note_count in notes.items()
                if reason not in (NO_ANSWER, ADDRESSES_JUDGE, EMPTY)
            ]
            why = "; ".join(reasons) or "the notes of the captions say why"
            raise InputError(f"{self}: none of {count - int(empty_count):,} captions has a score: {why}")

    def captions_of(self, part: CaptionSet, context: RunContext) -> list[JudgedCaption]:
        """The captions of a part as the conversations get them."""
        return list_captions(part, "image" in self.needs)

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The formulas; captions without a verdict get those of the others. The shares and tokens are per caption."""
        columns = {column_name: sums[..., k] for k, column_name in enumerate(self.columns)}
        scored_counts = columns["scored"]
        overall_scores = self.formulas(
            {column_name: np.asarray(values.sum()) for column_name, values in columns.items()}
        )
        judge_scores = {
            column_name: np.where(scored_counts > 0, values, overall_scores[column_name])
            for column_name, values in self.formulas(columns).items()
        }
        if self.repeats > 1:
            judge_scores["consistency"] = np.where(
                scored_counts > 0, ratio(columns["equal_pairs"], columns["pairs"]), 1.0
            )
        judge_scores["scored_share"] = scored_counts / counts
        return judge_scores | {
            column_name: columns[column_name] / counts for column_name in ("input_tokens", "output_tokens")
        }

    def transcripts(self, captions: Sequence[JudgedCaption], settings: Settings) -> list[list[Transcript]]:
        """The conversations about each caption, `repeats` of them; of an empty one only its verdict."""
        engine = self._engine(settings)
        transcripts: list[list[Transcript]] = []
        running: list[tuple[Transcript, int, Conversation, list[Question]]] = []
        for caption in captions:
            if not caption.candidate.strip():
                transcripts.append([Transcript(verdict=self.empty_verdict(caption))])
                continue
            transcripts.append([Transcript() for _ in range(self.repeats)])
            for repeat_index, transcript in enumerate(transcripts[-1]):
                conversation = self.converse(caption)
                self._advance(running, transcript, repeat_index, conversation, None)
        rounds = self.ROUNDS
        while running:
            questions = [question for *_, asked_questions in running for question in asked_questions]
            answers = iter(engine.ask(questions, rounds))
            waiting, running, rounds = running, [], 0.0
            for transcript, repeat_index, conversation, asked_questions in waiting:
                replies = list(islice(answers, len(asked_questions)))
                transcript.exchanges += zip(asked_questions, replies, strict=True)
                self._advance(running, transcript, repeat_index, conversation, replies)
        return transcripts

    def _advance(
        self, running: list[Any], transcript: Transcript, repeat_index: int, conversation: Conversation, replies: Any
    ) -> None:
        """Continues a conversation: it asks more, or ends with a verdict."""
        try:
            asked_questions = conversation.send(replies)
        except StopIteration as end:
            transcript.verdict = end.value
            return
        questions = [replace(each, repeat=repeat_index, temperature=self.temperature) for each in asked_questions]
        running.append((transcript, repeat_index, conversation, questions))

    def _row(self, caption: JudgedCaption, transcripts: Sequence[Transcript]) -> list[float]:
        """The caption's row: the mean of the verdicts."""
        verdict_values = [each.verdict.values for each in transcripts if isinstance(each.verdict, Verdict)]
        mean_values = np.mean(verdict_values, axis=0).tolist() if verdict_values else [0.0] * len(self.value_columns)
        answers = [answer for each in transcripts for _, answer in each.exchanges if isinstance(answer, Answer)]
        verdict_flags = bool(verdict_values), bool(verdict_values) and not caption.candidate.strip()
        row = [
            *mean_values,
            *map(float, verdict_flags),
            *(float(sum(each.used[k] for each in answers)) for k in (0, 1)),
        ]
        if self.repeats > 1:
            pair_count = len(verdict_values) * (len(verdict_values) - 1) / 2
            equal_count = sum(a == b for k, a in enumerate(verdict_values) for b in verdict_values[:k])
            row += [float(equal_count), pair_count]
        return row

    def _notes(
        self, captions: Sequence[JudgedCaption], transcripts: Sequence[Sequence[Transcript]]
    ) -> dict[str, list[str]]:
        """Reasons with the ids of their captions."""
        notes: dict[str, dict[str, None]] = {}

        def note(reason: str, id: str) -> None:
            notes.setdefault(reason, {})[id] = None

        for caption, repeated in zip(captions, transcripts, strict=True):
            if addresses_judge(caption.candidate):
                note(ADDRESSES_JUDGE, caption.id)
            for transcript in repeated:
                for failure in transcript.failures:
                    note(NO_ANSWER, caption.id)
                    reason = f"{NO_ANSWER}: {failure.reason}"
                    if reason in notes or sum(each.startswith(f"{NO_ANSWER}: ") for each in notes) < _MAX_REASONS:
                        note(reason, caption.id)
                verdict = transcript.verdict
                if isinstance(verdict, Verdict):
                    for reason in verdict.notes:
                        note(reason, caption.id)
                elif verdict != NO_ANSWER:
                    note(verdict, caption.id)
        return {reason: list(ids) for reason, ids in notes.items()}

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The server or the weights, and the prompts' hashes."""
        judge = find_judge(self.model, self.endpoint, context.settings)
        prompts = "+".join(f"{each.name}@{each.sha256[:8]}" for each in self.prompts)
        return {"judge": judge.identity, "prompt": prompts}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """What was asked about each caption, and what the judge answered."""
        captions = self.captions_of(part, context)
        evidence = []
        for caption, repeated in zip(captions, self.transcripts(captions, context.settings), strict=True):
            references = tuple(tuple(text.split()) for text in caption.references)
            evidence.append(
                Evidence(tuple(caption.candidate.split()), references, facts={**self.list_answers(caption, repeated)})
            )
        return evidence

    def list_answers(self, caption: JudgedCaption, transcripts: Sequence[Transcript]) -> dict[str, str]:
        """What the judge answered about a caption, by what was asked."""
        return list_answers(transcripts)

    def question(self, template: Template, caption: JudgedCaption, label: str = "", **values: str) -> Question:
        """A question from a template, with the caption's candidate, references and image where it has slots for them.

        Args:
            template: the prompt.
            caption: whose texts fill `{candidate}` and `{references}`.
            label: what is asked, for explanations.
            values: the texts of other slots.
        """
        slot_values = {"candidate": caption.candidate, "references": "\n".join(caption.references)} | values
        return Question(
            text=template.fill(**slot_values),
            role=template.role,
            system=template.system,
            label=label,
            image=caption.image,
            image_hash=caption.image_hash,
            image_first=self.IMAGE_FIRST,
            max_tokens=template.max_tokens,
            expected_tokens=template.tokens,
            alternatives=self.ALTERNATIVES,
            schema=template.schema,
        )

    def _engine(self, settings: Settings) -> Engine:
        answer_folder = settings.cache or cache_folder("judge")
        judge = find_judge(self.model, self.endpoint, settings)
        return Engine(str(self), judge, DiskCache(Path(answer_folder), settings.cache_bytes), settings.judging)


def list_captions(part: CaptionSet, images: bool) -> list[JudgedCaption]:
    """The captions of a set, with their images' content hashes if these are needed."""
    image_hashes: tuple[str, ...] = ()
    if images:
        hash_table: ContentHashTable = part.image_pool.analyse(ContentHashes())
        image_hashes = hash_table.hashes
    captions = []
    for caption_index, candidate_index in enumerate(part.candidates.tolist()):
        references = tuple(part.pool[k] for k in part.references[caption_index].tolist())
        caption = JudgedCaption(
            part.ids[caption_index], part.image_ids[caption_index], part.pool[candidate_index], references
        )
        if image_hashes:
            image_index = int(part.image_indices[caption_index])
            caption = replace(caption, image=part.image_pool[image_index], image_hash=image_hashes[image_index])
        captions.append(caption)
    return captions


def find_judge(model: str, endpoint: str, settings: Settings) -> JudgeModel:
    """The judge with this name; local weights are shared."""
    if endpoint == LOCAL:
        from capmeter.metrics.judges.local import load_judge

        return load_judge(model, settings)
    address = connection.find_server(endpoint)
    return _server_judge(address, model, connection.read_key(address), settings)


@functools.lru_cache(maxsize=4)
def _server_judge(address: str, model: str, key: connection.ApiKey, settings: Settings) -> ServerJudge:
    return ServerJudge(address, model, key, settings.judging)


def list_answers(transcripts: Sequence[Transcript]) -> dict[str, str]:
    """The judge's answers in these conversations, by what was asked."""
    return number_labels(
        (question.label or "answer", answer.text if isinstance(answer, Answer) else f"{NO_ANSWER}: {answer.reason}")
        for transcript in transcripts
        for question, answer in transcript.exchanges
    )


def number_labels(answers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Answers by what was asked, numbered from the second to the same."""
    label_counts: Counter[str] = Counter()
    numbered: dict[str, str] = {}
    for label, text in answers:
        label_counts[label] += 1
        numbered[f"{label} ({label_counts[label]})" if label_counts[label] > 1 else label] = " ".join(text.split())
    return numbered
