"""Questions to a judge, their answers, verdicts, the cache of answers, and who asks, several at a time, in a budget.

An answer is kept on disk as it arrives, by the hash of its question, before anything is computed from it: a killed run
goes on where it stopped, a second run asks nothing, and runs at the same time share their answers. Of an answer its
text and the probabilities of numbers in it are kept, and nothing else of what a server sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.captions.caption_set import ImageRef
from capmeter.core.errors import AssetError, CapmeterError
from capmeter.core.settings import JudgeLimits

if TYPE_CHECKING:
    from capmeter.metrics.judges.tasks import Message

try:
    import fcntl
except ImportError:  # Windows: runs at the same time may ask the same
    fcntl = None  # type: ignore[assignment]

_LEAST_FREE = 1 << 20  # bytes of disk space that a run starts with
_WAIT = 0.05  # seconds between two looks at what another run asks
_START = 0.004  # seconds between the first questions: about twice what one takes of the processor
_MOST_FAILURES = 8  # in a row, after which a server counts as gone
_CHARACTERS_PER_TOKEN, _IMAGE_TOKENS = 4, 85  # approximate, for estimates


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
class Question:
    """A prompt whose slots are filled, optionally with an image.

    Attributes:
        message: the prompt.
        text: the prompt with its slots filled.
        label: what is asked, in a few words, or the question of a file, with its options in order and the right one.
        image, image_hash: the image's file, and the hash of its content.
        temperature: of sampling.
        repeat: which of several answers to the same prompt.
    """

    message: Message
    text: str
    label: str = ""
    image: ImageRef | None = None
    image_hash: str = ""
    temperature: float = 0.0
    repeat: int = 0

    def __str__(self) -> str:
        image = f"[image {self.image.image_id}]" if self.image is not None else ""
        return "\n".join(filter(None, (self.message.system, image, self.text)))

    def digest(self, judge: str) -> bytes:
        """The hash of everything that the answer depends on: the question, and the judge of this name."""
        parts = [judge, self.text, self.image_hash, self.temperature, self.repeat, *self.message.identity]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()

    def estimate_tokens(self) -> tuple[int, int]:
        """The approximate number of input and output tokens."""
        characters = len(self.text) + len(self.message.system)
        input_tokens = characters // _CHARACTERS_PER_TOKEN + 8 + (_IMAGE_TOKENS if self.image else 0)
        return input_tokens, self.message.tokens


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
        return json.dumps(astuple(self))

    @classmethod
    def from_json(cls, text: str) -> Answer:
        """The answer that `to_json` wrote."""
        answer_text, numbers, refused, truncated, used = json.loads(text)
        return cls(answer_text, tuple(NumberToken(*each) for each in numbers), refused, truncated, tuple(used))


@dataclass(frozen=True, slots=True)
class Failure(Answer):
    """No answer, and why; the next run asks the question again.

    Attributes:
        reason: in words.
        is_of_server: whether the server could not be reached, or had no answer after all tries.
        is_retried: whether the question is asked again in this run.
    """

    text: str = ""
    reason: str = ""
    is_of_server: bool = False
    is_retried: bool = False


Ask = Callable[[Sequence[Question]], Awaitable[list[Answer]]]
"""Asks several questions at once, and returns their answers in order."""


@dataclass(frozen=True)
class Verdict:
    """What the answers say of a caption, and what they were.

    Attributes:
        values: one number for each of the judge's columns; none if the caption has no score.
        notes: what to note of this caption, such as why it has no score.
        texts: what is shown of the answers, by what was asked; empty: all of them.
        answers: all answers, with what was asked.
    """

    values: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    texts: Sequence[tuple[str, str]] = ()
    answers: Sequence[tuple[str, Answer]] = ()


class AnswerCache:
    """Answers on disk, in one SQLite file that any number of processes share.

    Args:
        folder: of the file, which is created.

    Raises:
        AssetError: nothing can be kept there; the message says why.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "answers.sqlite"
        with self._reporting():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (free_bytes := shutil.disk_usage(folder).free) < _LEAST_FREE:
                raise ValueError(f"the disk is full: {free_bytes:,} bytes are free")
            self._claims = open(folder / "answers.lock", "a+b")  # noqa: PTH123, SIM115  open as long as the cache is
            self._database = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            self.path.chmod(0o600)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
            )
        self.put(b"", Answer("the cache can be written"))

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """Raises an `AssetError` where the file cannot be used in the block."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise AssetError(
                f"answers of judges cannot be kept in {self.path} ({getattr(error, 'strerror', None) or error}); "
                "nothing more was asked: make room there, remove what is damaged, or name another folder in "
                "CAPMETER_VECTOR_CACHE"
            ) from None

    def get(self, key: bytes) -> Answer | None:
        """The answer with this key, if it is there."""
        with self._reporting():
            row = self._database.execute("SELECT answer FROM answers WHERE key = ?", [key]).fetchone()
            return None if row is None else Answer.from_json(row[0])

    def put(self, key: bytes, answer: Answer) -> None:
        """Keeps an answer.

        Raises:
            AssetError: the disk is full, or the file is damaged.
        """
        with self._reporting():
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", [key, answer.to_json()])

    @contextlib.contextmanager
    def claim(self, key: bytes) -> Iterator[bool]:
        """Whether this process may ask a question in the block: not while another one does, until that ends."""
        position, is_claimed = int.from_bytes(key[:6], "big"), True
        with contextlib.suppress(OSError):  # of a file system without locks
            try:
                if fcntl is not None:
                    fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, position)
            except BlockingIOError:
                is_claimed = False
        try:
            yield is_claimed
        finally:
            if fcntl is not None and is_claimed:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, position)

    def close(self) -> None:
        """Closes the files."""
        self._database.close()
        self._claims.close()


@dataclass
class Interview:
    """Asks the questions of one run: each distinct one once, `concurrency` at a time, within the budget.

    Args:
        client: whom is asked, a `ServerJudge`.
        cache: of answers.
        limits: concurrency, prices and budget.

    Attributes:
        error: why nothing more is asked: the key is rejected, or the disk is full.
        unanswered: the questions in progress, and those that have no answer.
    """

    client: Any
    cache: AnswerCache
    limits: JudgeLimits
    error: CapmeterError | None = None
    unanswered: dict[bytes, asyncio.Task[Answer]] = field(default_factory=dict)
    _failures_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.limits.concurrency)

    async def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, in order; equal questions are asked once."""
        keys = [question.digest(self.client.identity) for question in questions]
        for key, question in zip(keys, questions, strict=True):
            if key not in self.unanswered:
                self.unanswered[key] = asyncio.create_task(self._ask_once(key, question))
        return list(await asyncio.gather(*(self.unanswered[key] for key in keys)))

    async def _ask_once(self, key: bytes, question: Question) -> Answer:
        """Asks what the cache does not answer, unless another process does: then its answer is waited for."""
        try:
            answer = self.cache.get(key)
            while answer is None:
                async with self._free:
                    if self.error is not None:
                        return Failure(reason="not asked, after an error")
                    with self.cache.claim(key) as is_claimed:
                        answer = self.cache.get(key)  # another process may have asked meanwhile
                        if is_claimed and answer is None:
                            answer = await self._send(question)
                            if isinstance(answer, Failure):
                                return answer
                            self.cache.put(key, answer)
                if answer is None:
                    await asyncio.sleep(_WAIT)
            del self.unanswered[key]
            return answer
        except CapmeterError as error:  # raised again when the questions in progress are answered
            self.error = self.error or error
            return Failure(reason="not answered, after an error")

    async def _send(self, question: Question) -> Answer:
        usage = self.limits.usage
        if self.limits.is_spent():
            return Failure(reason="not asked: --max-requests or --max-cost is reached")
        if self._failures_in_a_row >= max(_MOST_FAILURES, self.limits.concurrency):
            return Failure(reason="not asked: the server stopped answering")
        usage.questions += 1
        if usage.questions < self.limits.concurrency:  # the first ones begin one by one: so do their answers come
            await asyncio.sleep(_START * usage.questions)
        answer: Answer = await self.client.ask(question)
        is_silent = isinstance(answer, Failure) and answer.is_of_server
        self._failures_in_a_row = self._failures_in_a_row + 1 if is_silent else 0
        usage.input_tokens += answer.used[0]
        usage.output_tokens += answer.used[1]
        return answer
