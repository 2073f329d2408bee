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
from capmeter.core.judge_limits import JudgeLimits
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
        space = f"judge/2 {self.judge.identity}"
        distinct = {question.content: question for question in questions}
        results: dict[bytes, Answer | Failure] = {}
        for content, values in self.cache.get(space, distinct).items():
            cached = Answer.from_dict(values)
            if cached is not None:
                results[content] = cached
        missing = [question for content, question in distinct.items() if content not in results]
        if missing:
            if rounds:
                self._announce(missing, rounds)
            spent = self.limits.usage
            before = replace(spent)
            with progress.task(f"asking for {self.name}", total=len(missing)) as advance:

                def store(question: Question, answer: Answer | Failure) -> None:
                    results[question.content] = answer
                    if isinstance(answer, Answer):
                        self.cache.put(space, {question.content: answer.to_dict()})
                        spent.input_tokens += answer.used[0]
                        spent.output_tokens += answer.used[1]
                    advance(1)

                run_coroutine(self._ask_missing(missing, store))
            count = spent.questions - before.questions
            inputs, outputs = spent.input_tokens - before.input_tokens, spent.output_tokens - before.output_tokens
            spending = self._describe_tokens(inputs, outputs, "spent ")
            progress.report_progress(f"{self.name}: {format_count(count, 'question')} asked; {spending}")
        return [results[question.content] for question in questions]

    async def _ask_missing(self, missing: Sequence[Question], store: Callable[[Question, Any], None]) -> None:
        """Asks the questions with `concurrency` workers; after an error nothing more is asked, and it is raised."""
        remaining, limits = iter(missing), self.limits
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

            await asyncio.gather(*(work(remaining) for _ in range(min(limits.concurrency, len(missing)))))
        if errors:
            raise errors[0]

    def _is_spent(self) -> bool:
        limits, spent = self.limits, self.limits.usage
        cost = limits.cost(spent.input_tokens, spent.output_tokens)
        too_many = limits.max_requests is not None and spent.questions >= limits.max_requests
        return too_many or (limits.max_cost is not None and cost is not None and cost >= limits.max_cost)

    def _announce(self, missing: Sequence[Question], rounds: float) -> None:
        """Reports the estimated cost; an `InputError` if nothing was asked yet and it exceeds the budget."""
        limits, spent, count = self.limits, self.limits.usage, round(rounds * len(missing))
        inputs, outputs = (round(rounds * tokens) for tokens in estimate(missing))
        about = "about " if rounds != 1 else ""
        what = f"{about}{format_count(count, 'question')} to {self.judge.identity}"
        progress.report_progress(f"{self.name}: {what}, {self._describe_tokens(inputs, outputs, 'about ')}")
        if spent.questions:  # a later part or metric: what the budget leaves is asked, and the rest listed
            return
        cost = limits.cost(inputs, outputs)
        if limits.max_cost is not None and cost is not None and cost > limits.max_cost:
            reason = f"would cost about {cost:.2f}, more than --max-cost {limits.max_cost:g}"
        elif limits.max_requests is not None and count > limits.max_requests:
            reason = f"are more than --max-requests {limits.max_requests:,}"
        else:
            return
        raise InputError(f"{self.name}: {what} {reason}; nothing was asked")

    def _describe_tokens(self, inputs: int, outputs: int, how: str) -> str:
        cost = self.limits.cost(inputs, outputs)
        money = "" if cost is None else f", {how.removeprefix('spent ')}{cost:.2f} by --judge-prices"
        return f"{how}{inputs:,} input and {outputs:,} output tokens{money}"


class Pace:
    """Limits the questions per minute; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._interval = 60.0 / rate if rate else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        """Returns when the next question may start."""
        if self._interval:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._interval
            await asyncio.sleep(start - now)


def estimate(questions: Sequence[Question]) -> tuple[int, int]:
    """The approximate number of input and output tokens."""
    inputs = sum(
        (len(each.text) + len(each.system)) // _CHARACTERS_PER_TOKEN + 8 + (_IMAGE_TOKENS if each.image else 0)
        for each in questions
    )
    return inputs, sum(each.expected_tokens for each in questions)


def run_coroutine(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end: here, or in a thread if this one has an event loop already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
