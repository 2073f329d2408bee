"""The base of all judges: questions about captions, answers of a language model, scores and failures.

A judge asks about one caption in `async def judge(ask, caption)`, which awaits `ask([question, …])`, may ask more, and
returns what the answers say (`Verdict`); `NoScore` says why they say nothing. Captions are judged at the same time.
What is asked is a task file (`capmeter.metrics.judges.tasks`), which names a protocol (`…protocols`).

A caption whose answers are refused, unreadable or missing has no score. It is listed in the notes by its reason and
does not count in the corpus score; where every caption needs a number (items, correlations, resamples), it gets that of
the others: neutral, never 0. The part `scored_share` is the share of captions with a score.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core import progress
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.messages import format_count, list_names, shorten
from capmeter.core.settings import JudgeLimits, Settings, cache_folder, format_cost
from capmeter.evaluation.base import EMPTY, AdditiveMetric, CorpusState, Floats, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.judges import server
from capmeter.metrics.judges.asking import Answer, AnswerCache, Ask, Failure, Interview, Question
from capmeter.metrics.judges.items import UsedEntries
from capmeter.metrics.judges.reading import NO_ANSWER, NoScore
from capmeter.metrics.judges.verdicts import (
    ADDRESSES_JUDGE,
    NO_QUESTIONS,
    SOLE,
    JudgedCaption,
    Transcript,
    Verdict,
    list_answers,
    list_captions,
    list_notes,
)
from capmeter.stats.ratios import ratio

if TYPE_CHECKING:
    from capmeter.evaluation.results import Scores
    from capmeter.metrics.judges.protocols import JudgeProtocol
    from capmeter.metrics.judges.questions import Inquiry
    from capmeter.metrics.judges.tasks import Task

_SHOWN_QUESTIONS = 3  # by `preview`
_COUNTS = ("scored", "empty", "input_tokens", "output_tokens")
_AGREEMENT = ("equal_pairs", "pairs")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Judge(AdditiveMetric):
    """A metric whose score is what a language model answers. A subclass names a task, or overrides `judge`.

    Class attributes:
        TASK: the name of its task.
    """

    TASK: ClassVar[str] = ""
    EXTRA: ClassVar[str | None] = "judges"
    PART_SIZE: ClassVar[int] = 1024
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

    model: Annotated[str, "the model's name at the server"]
    endpoint: Annotated[str, "the server's address; empty: CAPMETER_JUDGE_URL"] = ""
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
        if self.endpoint:
            server.find_server(self.endpoint)

    @property
    def task_name(self) -> str:
        """The task's name or file."""
        return self.TASK

    @property
    def item_path(self) -> str:
        """The file of questions, facts or events; empty: none."""
        return ""

    @property
    def reading(self) -> dict[str, Any]:
        """Fields of `read` in the task that parameters of the judge replace."""
        return {}

    @property
    def spec(self) -> Task:
        """The task."""
        task: Task = load_module("tasks").read_task(self.task_name, **self.reading)
        return task

    @property
    def needs(self) -> frozenset[str]:
        """What the task declares."""
        return frozenset(self.spec.needs)

    @property
    def protocol(self) -> JudgeProtocol:
        """What is asked.

        Raises:
            InputError: the task lacks the prompt of one of its steps.
        """
        task = self.spec
        protocol: JudgeProtocol = load_module("protocols").PROTOCOLS[task.ask]
        missing = [name for name in protocol.prompts if name not in task.steps]
        missing += ["prompt"] if not protocol.prompts and not task.prompt else []
        if missing:
            raise InputError(
                f"task {task.name!r}: ask: {task.ask} needs {', '.join(missing)}, which is missing; copy the package's "
                f"file (capmeter/data/prompts), and change its prompts"
            )
        return protocol

    @property
    def inquiry(self) -> Inquiry:
        """The task with what it asks about."""
        protocol = self.protocol
        inquiry: Inquiry = load_module("questions").Inquiry(
            self.name, self.spec, self.item_path, protocol.kind, protocol.expected
        )
        return inquiry

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """Asks about a caption that is not empty.

        Args:
            ask: what asks questions, several at once.
            caption: to be judged.

        Raises:
            NoScore: the answers give no score; the text says why.
        """
        return await self.protocol.judge(self.inquiry, ask, caption)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """What the verdict's values are."""
        return self.protocol.columns or self.spec.columns

    def empty_verdict(self, caption: JudgedCaption) -> Verdict:
        """The verdict on an empty candidate, about which nothing is asked; `NoScore` if there is none."""
        protocol = self.protocol
        return protocol.empty(self.inquiry, caption) if protocol.empty else Verdict((0.0,) * len(self.value_columns))

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The score and its parts, from the sums of the columns; by default the means over captions with a verdict."""
        protocol, task = self.protocol, self.spec
        if protocol.formulas is not None:
            return protocol.formulas(sums)
        if not protocol.columns and task.labels:
            return task.score_labels(sums)
        return {column_name: ratio(sums[column_name], sums["scored"]) for column_name in self.value_columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The values, whether there are any, and without asking; tokens used; how often repeated answers are equal."""
        return (*self.value_columns, *_COUNTS, *(_AGREEMENT if self.repeats > 1 else ()))

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The values of each caption that has a verdict, else zeros."""
        captions = self.captions_of(part, context)
        transcripts = self.judge_captions(captions, context.settings)
        rows = [self._row(caption, each) for caption, each in zip(captions, transcripts, strict=True)]
        values = np.array(rows, np.float64).reshape(len(captions), len(self.columns))
        answers = {caption.id: list_answers(each) for caption, each in zip(captions, transcripts, strict=True)}
        return Measurement(values, list_notes(captions, transcripts), answers)

    def _row(self, caption: JudgedCaption, transcripts: Sequence[Transcript]) -> list[float]:
        """The caption's row: the mean of the verdicts."""
        verdict_values = [each.verdict.values for each in transcripts if each.verdict is not None]
        mean_values = np.mean(verdict_values, axis=0).tolist() if verdict_values else [0.0] * len(self.value_columns)
        verdict_flags = bool(verdict_values), bool(verdict_values) and not caption.candidate.strip()
        used_tokens = (float(sum(each.used[k] for each in transcripts)) for k in (0, 1))
        row = [*mean_values, *map(float, verdict_flags), *used_tokens]
        if self.repeats > 1:
            pair_count = len(verdict_values) * (len(verdict_values) - 1) / 2
            equal_count = sum(a == b for k, a in enumerate(verdict_values) for b in verdict_values[:k])
            row += [float(equal_count), pair_count]
        return row

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
            if self.item_path and NO_QUESTIONS in notes:
                image_names = list_names([shorten(image) for image in self.inquiry.file.by_image], 3)
                why += f"; images of {self.item_path}: {image_names}"
            raise InputError(f"{self}: none of {count - int(empty_count):,} captions has a score: {why}")

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

    def captions_of(self, part: CaptionSet, context: RunContext) -> list[JudgedCaption]:
        """The captions of a part as the judge gets them: with images and scene graphs if these are needed."""
        captions = list_captions(part, "image" in self.needs)
        if self.spec.ask != "elements":
            return captions
        from capmeter.text.scene_graphs.extraction import find_source, find_synset_lookup, resolve_source
        from capmeter.text.scene_graphs.graph import build_scene_graph

        texts = list(dict.fromkeys(text for each in captions for text in (each.candidate, *each.references)))
        scenes = find_source(resolve_source("factual", "caption")).extract(texts, context.settings)
        tuples = {text: scene.tuples or () for text, scene in zip(texts, scenes, strict=True)}
        synsets = find_synset_lookup(False)

        def graph(sides: Sequence[str]) -> Any:
            return build_scene_graph((each for text in sides for each in tuples[text]), synsets)

        return [replace(each, graphs=(graph([each.candidate]), graph(each.references))) for each in captions]

    def judge_captions(
        self, captions: Sequence[JudgedCaption], settings: Settings, *, whole_questions: bool = False
    ) -> list[list[Transcript]]:
        """What was asked about each caption, `repeats` times; of an empty one only its verdict.

        Raises:
            InputError: the questions are estimated to exceed the budget, and none was asked yet.
            AssetError: answers cannot be kept, or the server accepts neither the key nor the model.
        """
        limits, address = settings.judging, server.find_server(self.endpoint)
        client = load_module("client").ServerJudge(address, self.model, server.read_key(), limits)
        cache = AnswerCache(settings.cache or cache_folder("judge"))
        try:
            counts, summary = self._estimate(captions, limits, client.identity, cache)
            self._announce(*counts, summary, limits)
            interview = Interview(client.identity, client.ask, cache, limits)
            return _run_coroutine(self._judge_all(captions, client, interview, whole_questions))
        finally:
            cache.close()

    async def _judge_all(
        self, captions: Sequence[JudgedCaption], client: Any, interview: Interview, whole_questions: bool
    ) -> list[list[Transcript]]:
        """Judges captions with as many workers as keep all connections busy."""
        transcripts: list[list[Transcript]] = [[] for _ in captions]
        waiting = iter(range(len(captions)))
        limits, before = interview.limits, replace(interview.limits.usage)

        async def work() -> None:
            for k in waiting:
                count = self.repeats if captions[k].candidate.strip() else 1
                repeated = (
                    self._judge_once(captions[k], repeat, interview, whole_questions) for repeat in range(count)
                )
                transcripts[k] = list(await asyncio.gather(*repeated))
                advance(1)

        with progress.task(f"asking for {self}", total=len(captions)) as advance:
            async with client.connected():
                opening = asyncio.create_task(interview.begin())
                await asyncio.gather(*(work() for _ in range(min(2 * limits.concurrency, len(captions)))))
                opening.cancel()
        if interview.error is not None:
            raise interview.error
        if (asked := limits.usage.questions - before.questions) > 0:
            inputs, outputs = (getattr(limits.usage, k) - getattr(before, k) for k in ("input_tokens", "output_tokens"))
            cached = f", {interview.cached:,} from the cache" if interview.cached else ""
            spent = _describe_cost(limits, inputs, outputs)
            progress.report_progress(f"{self}: {format_count(asked, 'question')} asked{cached}; spent {spent}")
        if interview.unanswered:
            questions = format_count(interview.unanswered, "question")
            progress.report_progress(f"{self}: {questions} without an answer; a further run asks only these")
        return transcripts

    async def _judge_once(
        self, caption: JudgedCaption, repeat: int, interview: Interview, whole_questions: bool
    ) -> Transcript:
        transcript = Transcript()

        async def ask(questions: Sequence[Question]) -> list[Answer]:
            asked_questions = [replace(each, repeat=repeat, temperature=self.temperature) for each in questions]
            answers = await interview.ask(asked_questions)
            for question, answer in zip(questions, answers, strict=True):
                text = f"{NO_ANSWER}: {answer.reason}" if isinstance(answer, Failure) else answer.text
                label = _full_question(question) if whole_questions else question.item or question.label
                transcript.answers.append((label, " ".join(text.split())))
                if isinstance(answer, Failure):
                    transcript.failures.append(answer.reason)
                else:
                    transcript.used = transcript.used[0] + answer.used[0], transcript.used[1] + answer.used[1]
            return answers

        try:
            is_empty = not caption.candidate.strip()
            transcript.verdict = self.empty_verdict(caption) if is_empty else await self.judge(ask, caption)
        except NoScore as reason:
            transcript.reason = str(reason)
        return transcript

    def first_questions(self, caption: JudgedCaption) -> list[Question]:
        """The questions that a caption's judgment begins with; nothing is asked."""
        first: list[Question] = []

        async def ask(questions: Sequence[Question]) -> list[Answer]:
            first.extend(questions if not first else ())
            raise NoScore("only what is asked first counts")

        if caption.candidate.strip():
            with contextlib.suppress(NoScore, StopIteration):
                self.judge(ask, caption).send(None)
        return [
            replace(each, repeat=repeat, temperature=self.temperature)
            for repeat in range(self.repeats)
            for each in first
        ]

    def _estimate(
        self,
        captions: Iterable[JudgedCaption],
        limits: JudgeLimits,
        identity: str = "",
        cache: AnswerCache | None = None,
    ) -> tuple[tuple[int, int, int], str]:
        """About how many questions, input and output tokens it takes, without what the cache answers; and in words."""
        counts, rounds = np.zeros(3), self.protocol.rounds
        for caption in captions:
            for question in self.first_questions(caption):
                if cache is None or cache.get(question.digest(identity)) is None:
                    counts += (1, *question.estimate_tokens())
        questions, inputs, outputs = (round(rounds * count) for count in counts)
        about = "about " if rounds != 1 else ""
        to = f" to {identity}" if identity else ""
        words = f"{about}{format_count(questions, 'question')}{to}, about {_describe_cost(limits, inputs, outputs)}"
        return (questions, inputs, outputs), words

    def preview(self, part: CaptionSet, settings: Settings) -> tuple[list[str], str]:
        """The first questions as they would be asked, and the estimate for all captions; nothing is asked."""
        captions = self.captions_of(part, RunContext(settings=settings))
        first = islice((each for caption in captions for each in self.first_questions(caption)), _SHOWN_QUESTIONS)
        pictured = [(each, f"[image {each.image.image_id}]" if each.image is not None else "") for each in first]
        texts = ["\n".join(filter(None, (each.message.system, image, each.text))) for each, image in pictured]
        return texts, self._estimate(captions, settings.judging)[1]

    def _announce(self, questions: int, inputs: int, outputs: int, summary: str, limits: JudgeLimits) -> None:
        """Reports the estimated cost; an `InputError` if nothing was asked yet and it exceeds the budget."""
        if not questions:
            return
        progress.report_progress(f"{self}: {summary}")
        if limits.usage.questions:  # a later part or metric: what the budget leaves is asked, and the rest listed
            return
        cost = limits.cost(inputs, outputs)
        if limits.max_cost is not None and cost is not None and cost > limits.max_cost:
            reason = f"more than --max-cost {limits.max_cost:g}"
        elif limits.max_requests is not None and questions > limits.max_requests:
            reason = f"more than --max-requests {limits.max_requests:,}"
        else:
            return
        raise InputError(f"{self}: {summary}: {reason}; nothing was asked")

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The server, the prompts' hashes, that of the file, and the scene-graph parser if there is one."""
        address, task = server.find_server(self.endpoint), self.spec
        facts = {"judge": f"{self.model} at {server.describe_server(address)}", "prompt": task.signature}
        if task.ask == "elements":
            from capmeter.text.scene_graphs.extraction import describe_source, resolve_source

            facts |= describe_source(resolve_source("factual", "caption"))
        return facts | ({"file": self.inquiry.file.sha256[:8]} if self.item_path else {})

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """What was asked about each caption, and what the judge answered."""
        captions = self.captions_of(part, context)
        transcripts = self.judge_captions(captions, context.settings, whole_questions=True)
        return self.explain_answers(part, [list_answers(each) for each in transcripts])

    def explain_answers(self, part: CaptionSet, answers: Sequence[Mapping[str, str]]) -> list[Evidence]:
        """The evidence in answers by what was asked, such as results keep them; of one question, all of it is shown."""
        evidence = []
        for caption, texts in zip(list_captions(part, images=False), answers, strict=True):
            if SOLE in texts and (first := self.first_questions(caption)):
                texts = {label.replace(SOLE, _full_question(first[0]), 1): text for label, text in texts.items()}
            references = tuple(tuple(text.split()) for text in caption.references)
            evidence.append(Evidence(tuple(caption.candidate.split()), references, facts={**texts}))
        return evidence

    def corpus_state(self) -> CorpusState | None:
        """Which image each entry is asked about: in the whole run, no two share one."""
        return _EntryState(self) if self.item_path else None


@dataclass(frozen=True)
class _EntryState(CorpusState):
    """The images that the entries of a judge's file are asked about."""

    AFFECTS_SCORES: ClassVar[bool] = False
    judge: Judge

    def collect(self, part: CaptionSet, context: RunContext) -> UsedEntries:
        """The entries of one part; an `InputError` if two images fit one of them."""
        file = self.judge.inquiry.file
        return UsedEntries.collect(file.path, ((file.key(image_id), image_id) for image_id in part.image_ids))


def answered_share(scores: Scores) -> float:
    """The share of captions with a score, of those about whose images there is something to ask."""
    count = len(scores.items) - len(scores.notes.get(NO_QUESTIONS, ()))
    return scores.parts["scored_share"] * len(scores.items) / count if count and "scored_share" in scores.parts else 1.0


def load_module(name: str) -> Any:
    """The module of judges with this name, which needs packages of the extra.

    Raises:
        MissingBackend: one of them is not installed.
    """
    try:
        return importlib.import_module(f"capmeter.metrics.judges.{name}")
    except ImportError as error:
        raise MissingBackend(f"judges need {error.name or 'openai'}: pip install 'capmeter[judges]'") from None


def _describe_cost(limits: JudgeLimits, inputs: int, outputs: int) -> str:
    """Numbers of tokens, and what they cost if prices are known."""
    cost = limits.cost(inputs, outputs)
    cost_text = "" if cost is None else f", {format_cost(cost)} by --judge-prices"
    return f"{inputs:,} input and {outputs:,} output tokens{cost_text}"


def _full_question(question: Question) -> str:
    """What is asked, in one line: the question of a file, else the whole prompt."""
    return question.item or " ".join(f"{question.message.system} {question.text}".split())


def _run_coroutine(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end: here, or in a thread if this one has an event loop already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
