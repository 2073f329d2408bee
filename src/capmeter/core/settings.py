"""How a run uses this machine: device, precision, batch size, threads, cache. None of it is part of a metric's name.

Settings are a value that is passed on: to `score`, from there in each metric's context, from there to the encoders.
Device, batch size and threads do not change scores (tested to 1e-5); precision does, and is part of signatures.

>>> Settings(device="cpu", tokens=512).tokens
512

`JudgeLimits` are how language models that judge captions are asked: concurrency, tries, proxy, prices and budget. None
of it changes an answer. The key and the address come from the environment (`capmeter.metrics.judges.server`).

>>> JudgeLimits(prices=(2.5, 10)).cost(1_000_000, 100_000)
3.5

`Settings` are also the cache policy of a run: `settings.result_cache()` keeps results of analyses in memory and, if the
settings name a folder, on disk.

>>> cache = ResultCache(MemoryCache())
>>> captions = [b"a dog runs", b"a cat"]
>>> cache.results("lengths/1", captions, lambda rows: [len(captions[k]) for k in rows])
[10, 5]
>>> cache.results("lengths/1", captions, lambda rows: [None for k in rows])
[10, 5]
"""

from __future__ import annotations

import functools
import math
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from capmeter.core import progress
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.options import option

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache


MEMORY_BYTES = 1 << 28
"""Capacity of the cache in memory that the runs of a process share."""
_VALUE_BYTES = 2048  # of a value that is not an array, approximately


class MemoryCache:
    """Values by key, shared by threads; the least recently used are dropped first.

    Args:
        capacity: maximum size of the values in bytes; 0 disables the cache.
    """

    def __init__(self, capacity: int = MEMORY_BYTES) -> None:
        self.capacity = capacity
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> Any:
        """Values stay in their process: another one has a cache of the same capacity."""
        return shared_memory, (self.capacity,)

    def get(self, key: Hashable) -> Any:
        """The value, which counts as used now; None if it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: Any) -> None:
        """Caches a value, then drops the least recently used ones above the capacity."""
        with self._lock:
            if key in self._values:
                self._size -= _size_of(self._values.pop(key))
            self._values[key] = value
            self._size += _size_of(value)
            while self._size > self.capacity:
                self._size -= _size_of(self._values.popitem(last=False)[1])


@functools.cache
def shared_memory(capacity: int) -> MemoryCache:
    """The cache in memory of this process with this capacity."""
    return MemoryCache(capacity)


def encode_texts(texts: Iterable[str]) -> list[bytes]:
    """Texts as the contents that results are cached for; a text may hold half a surrogate pair."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


@dataclass(frozen=True)
class ResultCache:
    """Results of analyses, in memory and on disk.

    A result is named by the analysis's identity (everything that affects results) and by what was analysed: a sentence,
    an image's hash.
    """

    memory: MemoryCache
    disk: DiskCache | None = None

    def results(
        self,
        analysis: str,
        contents: Sequence[bytes],
        compute: Callable[[list[int]], Iterable[Any]],
        *,
        batch_size: int = 1024,
        decode: Callable[[Any], Any] = lambda value: value,
        task: str = "",
    ) -> list[Any]:
        """The result of each content, cached or computed.

        Args:
            analysis: the analysis's identity.
            contents: what is analysed.
            compute: returns the results of the contents at some positions: arrays of numbers, or JSON values; None is
                not cached.
            batch_size: the number of results that are computed and then cached, so that a run that is killed continues.
            decode: what makes the result that is used, and held in memory, of a JSON value.
            task: what the progress of computing is called; "" shows none.
        """
        results: dict[bytes, Any] = {}
        absent: dict[bytes, int] = {}
        for position, content in enumerate(contents):
            if (result := self.memory.get((analysis, content))) is not None:
                results[content] = result
            else:
                absent.setdefault(content, position)
        if absent and self.disk is not None:
            for content, value in self.disk.get(analysis, absent).items():
                results[content] = self._remember((analysis, content), value, decode)
        missing = [position for content, position in absent.items() if content not in results]
        with progress.task(task, len(missing)) if task and missing else nullcontext(lambda steps: None) as advance:
            for batch in (missing[k : k + batch_size] for k in range(0, len(missing), batch_size)):
                computed = {contents[k]: value for k, value in zip(batch, compute(batch), strict=True)}
                cacheable = {content: value for content, value in computed.items() if value is not None}
                if self.disk is not None:
                    self.disk.put(analysis, cacheable)
                for content, value in cacheable.items():
                    computed[content] = self._remember((analysis, content), value, decode)
                results |= computed
                advance(len(batch))
        return [results[content] for content in contents]

    def _remember(self, key: tuple[str, bytes], value: Any, decode: Callable[[Any], Any]) -> Any:
        result = value.copy() if hasattr(value, "nbytes") else decode(value)  # an array may be a row of a large one
        self.memory.put(key, result)
        return result


def _size_of(value: Any) -> int:
    return int(getattr(value, "nbytes", _VALUE_BYTES))


@dataclass
class _JudgeUsage:
    """The number of questions asked, and of the input and output tokens of their answers."""

    questions: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def _read_prices(text: str) -> tuple[float, float]:
    """The two prices in a text "IN,OUT".

    Raises:
        InputError: it is not two numbers of at least 0.
    """
    try:
        input_price, output_price = (float(price) for price in text.split(","))
        if not (0 <= input_price < math.inf and 0 <= output_price < math.inf):
            raise ValueError
    except ValueError:
        raise InputError(
            f"--judge-prices: {text!r} is not IN,OUT, the prices of a million input and output tokens, such as 2.5,10"
        ) from None
    return input_price, output_price


def split_address(address: str) -> SplitResult | None:
    """The parts of an http address; None if it is something else."""
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and all((parts.hostname or "").encode("idna").split(b"."))
        is_valid = is_valid and parts.port != 0 and address.isascii() and address.isprintable()
    except ValueError:
        return None
    return parts if is_valid and not {" ", "\\"} & set(address) else None


def _check_proxy(address: str) -> str:
    """The address of a proxy.

    Raises:
        InputError: it is not an http address of host and port.
    """
    parts = split_address(address)
    if parts is None or parts.port is None or "@" in address:
        raise InputError("--judge-proxy: expected an address such as http://proxy:3128, without a user and a password")
    return address


@dataclass(frozen=True, kw_only=True)
class JudgeLimits:
    """How judges are asked, and limits of it.

    Args:
        concurrency: number of questions in progress.
        tries: maximum number of requests for one question.
        timeout: seconds for one request, from the connection to the last byte.
        proxy: the address of an HTTP proxy; those of the environment are not used.
        certificates: a file of certificate authorities (PEM) that are trusted besides those of the system.
        prices: of a million input tokens and a million output tokens.
        max_cost: what all questions under these limits may cost, by `prices`.
        max_requests: how many questions may be asked under these limits (further tries of a question do not count).
        usage: what was used under these limits so far.

    Raises:
        InputError: a value is out of range, or `max_cost` is without prices.
    """

    concurrency: int = option(
        8, "Questions to a judge in progress at a time.", "--judge-concurrency", group="judges", minimum=1, maximum=512
    )
    tries: int = option(
        10, "Requests for one question, with growing pauses.", "--judge-tries", group="judges", minimum=1, maximum=50
    )
    timeout: float = option(120.0, "Seconds for one answer of a judge.", "--judge-timeout", group="judges", minimum=0.1)
    proxy: str | None = option(
        None,
        "HTTP proxy for judges; those of the environment are not used.",
        "--judge-proxy",
        check=_check_proxy,
        group="judges",
    )
    certificates: Path | None = option(
        None,
        "Certificate authorities (PEM) to trust besides the system's when judges are asked.",
        "--judge-certificates",
        group="judges",
        path="file",
    )
    prices: tuple[float, float] | None = option(
        None,
        "Prices of a million input and output tokens of a judge, for estimates.",
        "--judge-prices",
        group="judges",
        metavar="IN,OUT",
        value_type=str | None,
        check=_read_prices,
        convert=_read_prices,
    )
    max_cost: float | None = option(
        None, "Ask a judge no more than this costs by --judge-prices.", "--max-cost", minimum=0, group="judges"
    )
    max_requests: int | None = option(
        None, "Ask a judge at most this many questions.", "--max-requests", minimum=0, group="judges"
    )
    usage: _JudgeUsage = field(default_factory=_JudgeUsage, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.prices is not None:
            object.__setattr__(self, "prices", _read_prices(",".join(map(str, self.prices))))
        for name, least in (("concurrency", 1), ("tries", 1), ("timeout", 0.1), ("max_cost", 0), ("max_requests", 0)):
            most = getattr(self, name)
            if most is not None and not (isinstance(most, int | float) and least <= most < math.inf):
                raise InputError(f"judges: {name}={most!r}: expected a number of {least:g} or more")
        if self.proxy is not None:
            _check_proxy(self.proxy)
        if self.max_cost is not None and self.prices is None:
            raise InputError("--max-cost needs --judge-prices IN,OUT, the prices of a million tokens")

    def cost(self, inputs: int, outputs: int) -> float | None:
        """The cost of these numbers of tokens; None without prices."""
        return None if self.prices is None else (inputs * self.prices[0] + outputs * self.prices[1]) / 1e6

    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        cost = self.cost(self.usage.input_tokens, self.usage.output_tokens)
        too_many = self.max_requests is not None and self.usage.questions >= self.max_requests
        return too_many or (self.max_cost is not None and cost is not None and cost >= self.max_cost)

    def divided(self, processes: int) -> JudgeLimits:
        """The limits of one of several processes that share these."""
        return replace(
            self,
            usage=_JudgeUsage(),
            concurrency=max(1, self.concurrency // processes),
            max_cost=None if self.max_cost is None else self.max_cost / processes,
            max_requests=None if self.max_requests is None else self.max_requests // processes,
        )


def format_cost(cost: float) -> str:
    """A cost as text; small ones have more decimals, since no run of a judge is free.

    >>> format_cost(0.00021), format_cost(0.9)
    ('0.000210', '0.90')
    """
    return f"{cost:.2f}" if cost >= 0.1 or cost == 0 else f"{cost:.6f}"


PRECISIONS = ("float32", "half")
ENGINES = ("torch", "openvino")
GIGABYTE = 1 << 30
_REFERENCE_BYTES = GIGABYTE // 2


def home_path(path: str | os.PathLike[str]) -> Path:
    """The path, with the user's home for `~`; an unknown `~nobody` stays as it is, where `Path.expanduser` raises.

    Raises:
        InputError: it is neither a text nor a path.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise InputError(f"expected the path of a file or folder, but got {describe(path)}")
    return Path(os.path.expanduser(os.fsdecode(path)))  # noqa: PTH111


def cache_folder(*inner: str) -> Path:
    """Where regenerable files are kept: `CAPMETER_CACHE`, else the system's cache folder."""
    return _folder("CAPMETER_CACHE", "user_cache_path").joinpath(*inner)


def data_folder(*inner: str) -> Path:
    """Where locally trained checkpoints are kept: `CAPMETER_DATA`, else the system's folder for user data."""
    return _folder("CAPMETER_DATA", "user_data_path").joinpath(*inner)


def _folder(variable: str, platform_folder: str) -> Path:
    if named_folder := os.environ.get(variable):
        return home_path(named_folder)
    import platformdirs

    folder: Path = getattr(platformdirs, platform_folder)("capmeter", appauthor=False)
    return folder


def _environment_references() -> Path | None:
    folder = os.environ.get("CAPMETER_REFERENCE_CACHE")
    if folder is None:
        return cache_folder("references")
    return Path(folder) if folder else None


# checked here, so that a mistyped device is an error even where no metric of the run needs one
_DEVICE = re.compile(r"auto|(cpu|cuda|mps|xpu|hpu|npu|xla)(:\d+)?")


@dataclass(frozen=True)
class Settings:
    """Where and how encoders run.

    Defaults come from the environment (CAPMETER_DEVICE, CAPMETER_PRECISION, CAPMETER_ENGINE,
    CAPMETER_VECTOR_CACHE), else:

    device: `auto` (a CUDA GPU if there is one, else the CPU) or a torch device name: cpu, cuda, cuda:1, mps.
    precision: `float32`, or `half`: float16 on a GPU, bfloat16 on the CPU, in encoders of the BERT family for matrix
    products alone (changes BERTScore by up to .001, TBR by .03).
    engine: what runs text encoders of the BERT family: `torch`, or `openvino` (the extra `fast`), which is faster on
    the CPU, where all networks then run.
    tokens: word pieces per batch; 0 means 2,048 on the CPU and 32,768 on a GPU.
    threads: concurrent batches on the CPU, one thread each; 0 means as many as torch would use (OMP_NUM_THREADS).
    cache: folder of the disk cache of hidden states, parses and scenes; None disables it. cache_bytes: its maximum
    size.
    references: folder of the disk cache of the tables of references (tokens, n-grams, METEOR's look-ups), half a
    gigabyte at most, from which the next run on the same references starts; None disables it. By default
    CAPMETER_REFERENCE_CACHE (empty: None), else `references` in the user's cache folder (CAPMETER_CACHE).
    judging: limits of the questions to language models that judge captions.
    memory: the in-memory cache of results; by default the one that all runs of the process share.

    Raises `InputError` if a value is not one of these.
    """

    device: str = field(default_factory=lambda: os.environ.get("CAPMETER_DEVICE") or "auto")
    precision: str = field(default_factory=lambda: os.environ.get("CAPMETER_PRECISION") or "float32")
    engine: str = field(default_factory=lambda: os.environ.get("CAPMETER_ENGINE") or "torch")
    tokens: int = 0
    threads: int = 0
    cache: Path | None = field(
        default_factory=lambda: Path(folder) if (folder := os.environ.get("CAPMETER_VECTOR_CACHE")) else None
    )
    cache_bytes: int = 4 * GIGABYTE
    references: Path | None = field(default_factory=_environment_references)
    judging: JudgeLimits = field(default_factory=JudgeLimits)
    memory: MemoryCache = field(default_factory=lambda: shared_memory(MEMORY_BYTES), compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("cache", "references"):
            if (folder := getattr(self, name)) is not None:  # accepts text as well
                object.__setattr__(self, name, home_path(folder))
        if not isinstance(self.device, str) or not _DEVICE.fullmatch(self.device):
            raise InputError(f"device: expected auto, cpu, cuda, cuda:1 or mps, but got {self.device!r}")
        for name, choices in (("precision", PRECISIONS), ("engine", ENGINES)):
            if getattr(self, name) not in choices:
                raise InputError(f"{name}: expected one of {', '.join(choices)}, but got {getattr(self, name)!r}")
        if self.engine == "openvino" and self.device not in ("auto", "cpu"):
            raise InputError(f"engine: openvino runs on the CPU, but the device is {self.device!r}")
        for name, least in (("tokens", 0), ("threads", 0), ("cache_bytes", 1)):
            if not isinstance(number := getattr(self, name), int) or number < least:
                raise InputError(f"{name}: expected a whole number of {least} or more, but got {number!r}")

    def disk_cache(self) -> DiskCache | None:
        """The disk cache of results of analyses; None if it is disabled."""
        from capmeter.core.disk_cache import DiskCache  # which not every run needs

        return None if self.cache is None else DiskCache(self.cache, self.cache_bytes)

    def reference_cache(self) -> DiskCache | None:
        """The disk cache of the tables of references; None if it is disabled."""
        from capmeter.core.disk_cache import DiskCache

        if self.references is None:
            return None
        if self.references == self.cache:
            return self.disk_cache()  # one folder has one limit
        return DiskCache(self.references, min(self.cache_bytes, _REFERENCE_BYTES))

    def result_cache(self) -> ResultCache:
        """The cache of results of analyses, in memory and on disk."""
        return ResultCache(self.memory, self.disk_cache())
