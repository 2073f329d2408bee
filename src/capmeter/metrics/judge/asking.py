"""Questions to a judge: looked up on disk, the others asked, several at a time, each answer kept as it comes.

A run that is killed goes on where it ended, and a second run asks nothing. Questions without an answer after all tries
are not kept, and asked again by the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol

from capmeter import progress
from capmeter.errors import InputError
from capmeter.metrics.judge.answers import Answer, Failure, Question
from capmeter.metrics.judge.limits import Limits
from capmeter.store import Store

_LETTERS_PER_TOKEN, _PICTURE_TOKENS = 4, 85  # about, for estimates


class Asked(Protocol):
    """A judge: a server's model, or a local one."""

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""

    def ask(self, question: Question) -> Answer | Failure:
        """The answer to a question."""


@dataclass
class Spent:
    """Questions asked, and tokens read and written, in this process."""

    questions: int = 0
    read: int = 0
    written: int = 0

    def add(self, answer: Answer) -> None:
        """Adds an answer."""
        self.questions += 1
        self.read += answer.used[0]
        self.written += answer.used[1]


def answers(
    name: str, questions: Sequence[Question], judge: Asked, store: Store, limits: Limits, spent: Spent
) -> list[Answer | Failure]:
    """The answer to each question, in order; equal questions are asked once.

    Raises:
        InputError: the questions are estimated to cost more than the budget.
    """
    space = f"judge/1 {judge.identity}"
    distinct = {question.content: question for question in questions}
    found: dict[bytes, Answer | Failure] = {}
    for content, saved in store.get(space, distinct).items():
        known = Answer.from_dict(saved)
        if known is not None:
            found[content] = known
    missing = [question for content, question in distinct.items() if content not in found]
    if missing:
        _announce(name, missing, judge, limits, spent)
        here = Spent()
        with progress.task(f"asking for {name}", total=len(missing)) as advance:
            for question, answer in _asked(missing, judge, limits.concurrency):
                found[question.content] = answer
                if isinstance(answer, Answer):
                    store.put(space, {question.content: answer.to_dict()})
                    here.add(answer)
                    spent.add(answer)
                advance(1)
        progress.tell(f"{name}: {here.questions:,} answers; {_tokens(here.read, here.written, limits, 'spent ')}")
    return [found[question.content] for question in questions]


def estimate(questions: Sequence[Question]) -> tuple[int, int]:
    """About how many tokens will be read and written."""
    read = sum(
        len(each.text) // _LETTERS_PER_TOKEN + 8 + (_PICTURE_TOKENS if each.picture is not None else 0)
        for each in questions
    )
    return read, sum(each.expected for each in questions)


def _announce(name: str, missing: Sequence[Question], judge: Asked, limits: Limits, spent: Spent) -> None:
    """Tells what the questions will cost; stops if that is above the budget."""
    read, written = estimate(missing)
    progress.tell(f"{name}: {len(missing):,} questions to {judge.identity}, {_tokens(read, written, limits, 'about ')}")
    cost = limits.cost(read + spent.read, written + spent.written)
    if limits.budget is not None and cost is not None and cost > limits.budget:
        raise InputError(
            f"{name}: {len(missing):,} questions to {judge.identity} would cost about {cost:.2f} (with what was spent "
            f"before), more than CAPMETER_JUDGE_BUDGET={limits.budget:g}; nothing was asked"
        )


def _tokens(read: int, written: int, limits: Limits, how: str) -> str:
    cost = limits.cost(read, written)
    money = "" if cost is None else f", {how.removeprefix('spent ')}{cost:.2f} by CAPMETER_JUDGE_PRICES"
    return f"{how}{read:,} tokens read and {written:,} written{money}"


def _asked(
    questions: Sequence[Question], judge: Asked, concurrency: int
) -> Iterator[tuple[Question, Answer | Failure]]:
    """Each question with its answer as it comes, with at most `concurrency` waiting for theirs.

    After an error nothing more is asked, and it is raised when the questions that wait have their answers.
    """
    left = iter(questions)
    pool = ThreadPoolExecutor(concurrency)
    waiting: dict[Future[Answer | Failure], Question] = {}
    problem: BaseException | None = None
    try:
        while True:
            while problem is None and len(waiting) < concurrency and (question := next(left, None)) is not None:
                waiting[pool.submit(judge.ask, question)] = question
            if not waiting:
                break
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                asked = waiting.pop(future)
                error = future.exception()
                if error is None:
                    yield asked, future.result()
                else:
                    problem = problem or error
        if problem is not None:
            raise problem
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
