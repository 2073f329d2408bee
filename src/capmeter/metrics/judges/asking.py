"""Questions to a judge, their answers, the cache of answers, and who asks: several questions at a time, in a budget.

An answer is kept on disk as it arrives, by the hash of its question, before anything is computed from it: a killed run
goes on where it stopped, a second run asks nothing, and runs at the same time share their answers. Of an answer its
text and the probabilities of numbers in it are kept, and nothing else of what a server sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from capmeter.captions.caption_set import ImageRef
from capmeter.core.errors import AssetError, CapmeterError
from capmeter.core.settings import JudgeLimits

try:
    import fcntl
except ImportError:  # Windows: runs at the same time may ask the same
    fcntl = None  # type: ignore[assignment]

NOT_ASKED = "not asked: --max-requests or --max-cost is reached"
STOPPED = "not asked: the server stopped answering"
_LEAST_FREE = 1 << 20  # bytes of disk space that a run starts with
_WAIT = 0.05  # seconds between two looks at what another run asks
_MOST_FAILURES = 8  # in a row, after which a server counts as gone
_CHARACTERS_PER_TOKEN, _IMAGE_TOKENS = 4, 85  # approximate, for estimates


@dataclass(frozen=True)
class Question:
    """A prompt, optionally with an image.

    Attributes:
        text: of the prompt.
        role: of its message.
        system: text of a system message before it, or empty.
        label: what is asked, in a few words.
        item: the question of a file that is asked, with its options in order and the right one; or empty.
        image, image_hash: the image's file, and the hash of its content.
        image_first: whether the image is before the text.
        max_tokens: maximum number of tokens of the answer.
        expected_tokens: their usual number, for estimates.
        alternatives: whether to ask for log-probabilities.
        schema: JSON schema of the answer as text, for servers that support it.
        temperature: of sampling.
        repeat: which of several answers to the same prompt.
    """

    text: str
    role: str = "user"
    system: str = ""
    label: str = ""
    item: str = ""
    image: ImageRef | None = None
    image_hash: str = ""
    image_first: bool = False
    max_tokens: int = 1024
    expected_tokens: int = 60
    alternatives: bool = False
    schema: str = ""
    temperature: float = 0.0
    repeat: int = 0

    def digest(self, identity: str) -> bytes:
        """The hash of everything that the answer depends on: the question, and the judge with this identity."""
        parts = [identity, self.role, self.text, self.image_hash, self.image_first, self.max_tokens, self.alternatives]
        parts += [self.system, self.schema, self.temperature, self.repeat]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()

    def estimate_tokens(self) -> tuple[int, int]:
        """The approximate number of input and output tokens."""
        characters = len(self.text) + len(self.system)
        input_tokens = characters // _CHARACTERS_PER_TOKEN + 8 + (_IMAGE_TOKENS if self.image else 0)
        return input_tokens, self.expected_tokens


@dataclass(frozen=True, slots=True)
class NumberToken:
    """A token of an answer that is a short number: its place in the text, and the probabilities of numbers there."""

    start: int
    end: int
    probabilities: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer.

    Attributes:
        text: of the answer.
        numbers: the tokens that are numbers, if log-probabilities were asked for.
        refused: whether the server reports a refusal.
        truncated: whether the answer ended at its maximum length.
        used: the number of input and output tokens.
    """

    text: str
    numbers: tuple[NumberToken, ...] = ()
    refused: bool = False
    truncated: bool = False
    used: tuple[int, int] = (0, 0)

    def to_json(self) -> str:
        """The answer as JSON text."""
        numbers = [[token.start, token.end, token.probabilities] for token in self.numbers]
        return json.dumps([self.text, numbers, self.refused, self.truncated, self.used])

    @classmethod
    def from_json(cls, text: Any) -> Answer | None:
        """The answer that `to_json` wrote; None for anything else, such as a damaged entry."""
        try:
            answer_text, numbers, refused, truncated, (inputs, outputs) = json.loads(text)
            tokens = tuple(
                NumberToken(int(start), int(end), {str(digits): float(p) for digits, p in probabilities.items()})
                for start, end, probabilities in numbers
            )
            is_finite = all(0 <= p <= math.inf and p < math.inf for each in tokens for p in each.probabilities.values())
            if not isinstance(answer_text, str) or not is_finite:
                return None
            return cls(answer_text, tokens, bool(refused), bool(truncated), (int(inputs), int(outputs)))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a question has no answer; the next run asks it again.

    Attributes:
        reason: in words.
        is_of_server: whether the server could not be reached, or had no answer after all tries.
    """

    reason: str
    is_of_server: bool = False


Ask = Callable[[Sequence[Question]], Awaitable[list[Answer | Failure]]]
"""Asks several questions at once, and returns their answers in order."""


class JudgeClient(Protocol):
    """Whom to ask: one model of one server."""

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""

    async def ask(self, question: Question) -> Answer | Failure:
        """The answer to one question; a `CapmeterError` if no question can be answered."""


class AnswerCache:
    """Answers on disk, in one SQLite file that any number of processes share.

    Args:
        folder: of the file, which is created.

    Raises:
        AssetError: nothing can be kept there; the message says why.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "answers.sqlite"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            free_bytes = shutil.disk_usage(folder).free
            self._claims = open(folder / "answers.lock", "a+b")  # noqa: PTH123, SIM115  open as long as the cache is
        except (OSError, ValueError) as error:
            raise self._unusable(getattr(error, "strerror", None) or str(error)) from None
        if free_bytes < _LEAST_FREE:
            raise self._unusable(f"the disk is full: {free_bytes:,} bytes are free")
        try:
            self._database = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            self.path.chmod(0o600)
            for statement in (
                "PRAGMA journal_mode=WAL",
                "PRAGMA synchronous=NORMAL",
                "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID",
            ):
                self._database.execute(statement)
            self.put(b"", Answer("the cache can be written"))
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, reason: str) -> AssetError:
        return AssetError(
            f"answers of judges cannot be kept in {self.path} ({reason}); nothing more was asked: make room there, "
            "remove what is damaged, or name another folder in CAPMETER_VECTOR_CACHE"
        )

    def get(self, key: bytes) -> Answer | None:
        """The answer with this key, if it is there."""
        try:
            row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(str(error)) from None
        return None if row is None else Answer.from_json(row[0])

    def put(self, key: bytes, answer: Answer) -> None:
        """Keeps an answer.

        Raises:
            AssetError: the disk is full, or the file is damaged.
        """
        try:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer.to_json()))
        except sqlite3.Error as error:
            raise self._unusable(str(error)) from None

    def claim(self, key: bytes) -> bool:
        """Whether this process may ask a question; not while another does. A claim ends with its process."""
        if fcntl is not None:
            try:
                fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int.from_bytes(key[:6], "big"))
            except BlockingIOError:
                return False
            except OSError:  # a file system without locks
                return True
        return True

    def release(self, key: bytes) -> None:
        """Ends a claim."""
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, int.from_bytes(key[:6], "big"))

    def close(self) -> None:
        """Closes the files."""
        self._database.close()
        self._claims.close()


@dataclass
class Interview:
    """Asks the questions of one run: each distinct one once, `concurrency` at a time, within the budget.

    Args:
        client: whom to ask.
        cache: of answers.
        limits: concurrency, prices and budget.

    Attributes:
        error: why nothing more is asked: the key is rejected, or the disk is full.
        asked, cached, failed: numbers of questions: sent, answered from the cache, and without an answer.
        used: input and output tokens of the questions sent.
    """

    client: JudgeClient
    cache: AnswerCache
    limits: JudgeLimits
    error: CapmeterError | None = None
    asked: int = 0
    cached: int = 0
    failed: int = 0
    used: tuple[int, int] = (0, 0)
    _in_progress: dict[bytes, asyncio.Task[Answer | Failure]] = field(default_factory=dict)
    _failures: dict[bytes, Failure] = field(default_factory=dict)
    _failures_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.limits.concurrency)

    async def ask(self, questions: Sequence[Question]) -> list[Answer | Failure]:
        """The answers, in order; equal questions in progress are asked once."""
        return list(await asyncio.gather(*map(self._answer, questions)))

    async def _answer(self, question: Question) -> Answer | Failure:
        key = question.digest(self.client.identity)
        if key in self._failures:
            return self._failures[key]
        task = self._in_progress.get(key)
        if task is None:
            if (answer := self._look_up(key)) is not None:
                self.cached += 1
                return answer
            task = self._in_progress[key] = asyncio.create_task(self._ask_once(key, question))
        answer_or_failure = await task
        self._in_progress.pop(key, None)
        if isinstance(answer_or_failure, Failure) and key not in self._failures:
            self._failures[key] = answer_or_failure
            self.failed += 1
        return answer_or_failure

    async def _ask_once(self, key: bytes, question: Question) -> Answer | Failure:
        """Asks, unless another process does: then its answer is waited for."""
        while True:
            async with self._free:
                if self.error is not None:
                    return Failure("not asked, after an error")
                with self._claim(key) as is_claimed:
                    if (answer := self._look_up(key)) is not None:
                        self.cached += 1
                        return answer
                    if is_claimed:
                        return await self._send(key, question)
            await asyncio.sleep(_WAIT)

    def _look_up(self, key: bytes) -> Answer | None:
        try:
            return self.cache.get(key)
        except CapmeterError as error:
            self.error = self.error or error
            return None

    @contextlib.contextmanager
    def _claim(self, key: bytes) -> Iterator[bool]:
        is_claimed = self.cache.claim(key)
        try:
            yield is_claimed
        finally:
            if is_claimed:
                self.cache.release(key)

    async def _send(self, key: bytes, question: Question) -> Answer | Failure:
        usage, most = self.limits.usage, max(_MOST_FAILURES, self.limits.concurrency)
        if self.limits.is_spent():
            return Failure(NOT_ASKED)
        if self._failures_in_a_row >= most:
            return Failure(STOPPED)
        usage.questions += 1
        self.asked += 1
        try:
            answer = await self.client.ask(question)
            self._failures_in_a_row = self._failures_in_a_row + 1 if _is_silent(answer) else 0
            if isinstance(answer, Answer):
                self.cache.put(key, answer)
                usage.input_tokens += answer.used[0]
                usage.output_tokens += answer.used[1]
                self.used = self.used[0] + answer.used[0], self.used[1] + answer.used[1]
            return answer
        except CapmeterError as error:  # raised again when the questions in progress are answered
            self.error = self.error or error
            return Failure("not answered, after an error")


def _is_silent(answer: Answer | Failure) -> bool:
    return isinstance(answer, Failure) and answer.is_of_server
