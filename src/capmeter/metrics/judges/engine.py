"""Asks a judge many questions at a time; answers come from the disk cache, or are cached as they arrive.

A killed run continues where it stopped, and a second run asks nothing. Questions without an answer after all tries are
not cached; the next run asks them again. Answers are returned in the order of the questions, whatever the order in
which they arrive.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from capmeter.core import progress
from capmeter.core.disk_cache import DiskCache
from capmeter.core.errors import InputError
from capmeter.core.judge_limits import JudgeLimits, format_cost
from capmeter.core.messages import format_count
from capmeter.metrics.judges.answers import Answer, Failure, Question

Ask = Callable[[Question], Awaitable[Answer | Failure]]
Result = TypeVar("Result")
_CHARACTERS_PER_TOKEN, _IMAGE_TOKENS = 4, 85  # approximate, for estimates
NOT_ASKED = "not asked: --max-requests or --max-cost is reached"


class JudgeModel(Protocol):
    """A judge: a server's model, or a local one."""

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""

    def session(self) -> AbstractAsyncContextManager[Ask]:
        """Opens connections for one event loop; yields the function that asks a question."""


@dataclass(frozen=True)
class Engine:
    """What asks the questions of one metric.

    Args:
        name: of the metric, for messages.
        judge: whom to ask.
        cache: of answers.
        limits: concurrency, rate, prices and budget.
    """

    name: str
    judge: JudgeModel
    cache: DiskCache
    limits: JudgeLimits

    def ask(self, questions: Sequence[Question], rounds: float = 1.0) -> list[Answer | Failure]:
        """The answer to each question, in order; equal questions are asked once.

        Args:
            questions: to ask.
            rounds: how many times as many questions are expected in all, including those that depend on answers; 0: no
                estimate, since these depend on earlier ones.

        Raises:
            InputError: nothing was asked yet, and the questions are estimated to exceed the budget.
        """
        cache_space = f"judge/2 {self.judge.identity}"
        distinct_questions = {question.content: question for question in questions}
        results: dict[bytes, Answer | Failure] = {}
        for content, cached_values in self.cache.get(cache_space, distinct_questions).items():
            cached_answer = Answer.from_dict(cached_values)
            if cached_answer is not None:
                results[content] = cached_answer
        missing_questions = [question for content, question in distinct_questions.items() if content not in results]
        if missing_questions:
            if rounds:
                self._announce(missing_questions, rounds)
            total_usage = self.limits.usage
            usage_before = replace(total_usage)
            with progress.task(f"asking for {self.name}", total=len(missing_questions)) as advance:

                def store(question: Question, answer: Answer | Failure) -> None:
                    results[question.content] = answer
                    if isinstance(answer, Answer):
                        self.cache.put(cache_space, {question.content: answer.to_dict()})
                        total_usage.input_tokens += answer.used[0]
                        total_usage.output_tokens += answer.used[1]
                    advance(1)

                run_coroutine(self._ask_missing(missing_questions, store))
            asked_count = total_usage.questions - usage_before.questions
            input_tokens, output_tokens = (
                total_usage.input_tokens - usage_before.input_tokens,
                total_usage.output_tokens - usage_before.output_tokens,
            )
            spending = self._describe_tokens(input_tokens, output_tokens, "spent ")
            progress.report_progress(f"{self.name}: {format_count(asked_count, 'question')} asked; {spending}")
        return [results[question.content] for question in questions]

    async def _ask_missing(self, missing_questions: Sequence[Question], store: Callable[[Question, Any], None]) -> None:
        """Asks the questions with `concurrency` workers; after an error nothing more is asked, and it is raised."""
        remaining_questions, limits = iter(missing_questions), self.limits
        errors: list[BaseException] = []
        pace = Pace(limits.rate)
        async with self.judge.session() as ask:

            async def work(questions: Iterator[Question]) -> None:
                for question in questions:
                    if self._is_spent():
                        store(question, Failure(NOT_ASKED))
                        continue
                    limits.usage.questions += 1
                    await pace.wait()
                    if errors:
                        return
                    try:
                        store(question, await ask(question))
                    except Exception as error:  # noqa: BLE001  raised again when the questions in progress are answered
                        errors.append(error)

            await asyncio.gather(
                *(work(remaining_questions) for _ in range(min(limits.concurrency, len(missing_questions))))
            )
        if errors:
            raise errors[0]

    def _is_spent(self) -> bool:
        limits, total_usage = self.limits, self.limits.usage
        cost = limits.cost(total_usage.input_tokens, total_usage.output_tokens)
        too_many = limits.max_requests is not None and total_usage.questions >= limits.max_requests
        return too_many or (limits.max_cost is not None and cost is not None and cost >= limits.max_cost)

    def _announce(self, missing_questions: Sequence[Question], rounds: float) -> None:
        """Reports the estimated cost; an `InputError` if nothing was asked yet and it exceeds the budget."""
        limits, total_usage, question_count = self.limits, self.limits.usage, round(rounds * len(missing_questions))
        input_tokens, output_tokens = (round(rounds * tokens) for tokens in estimate(missing_questions))
        about = "about " if rounds != 1 else ""
        question_summary = f"{about}{format_count(question_count, 'question')} to {self.judge.identity}"
        progress.report_progress(
            f"{self.name}: {question_summary}, {self._describe_tokens(input_tokens, output_tokens, 'about ')}"
        )
        if total_usage.questions:  # a later part or metric: what the budget leaves is asked, and the rest listed
            return
        cost = limits.cost(input_tokens, output_tokens)
        if limits.max_cost is not None and cost is not None and cost > limits.max_cost:
            reason = f"would cost about {format_cost(cost)}, more than --max-cost {limits.max_cost:g}"
        elif limits.max_requests is not None and question_count > limits.max_requests:
            reason = f"are more than --max-requests {limits.max_requests:,}"
        else:
            return
        raise InputError(f"{self.name}: {question_summary} {reason}; nothing was asked")

    def _describe_tokens(self, input_tokens: int, output_tokens: int, how: str) -> str:
        cost = self.limits.cost(input_tokens, output_tokens)
        cost_text = "" if cost is None else f", {how.removeprefix('spent ')}{format_cost(cost)} by --judge-prices"
        return f"{how}{input_tokens:,} input and {output_tokens:,} output tokens{cost_text}"


class Pace:
    """Limits the questions per minute; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._interval = 60.0 / rate if rate else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        """Returns when the next question may start."""
        if self._interval:
            now = time.monotonic()
            start_time = max(now, self._next)
            self._next = start_time + self._interval
            await asyncio.sleep(start_time - now)


def estimate(questions: Sequence[Question]) -> tuple[int, int]:
    """The approximate number of input and output tokens."""
    input_tokens = sum(
        (len(question.text) + len(question.system)) // _CHARACTERS_PER_TOKEN
        + 8
        + (_IMAGE_TOKENS if question.image else 0)
        for question in questions
    )
    return input_tokens, sum(question.expected_tokens for question in questions)


def run_coroutine(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end: here, or in a thread if this one has an event loop already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
