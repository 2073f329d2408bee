"""Values that cost more to compute than to read from disk: parses, scene graphs and the like.

An analysis of this kind computes the values of some sentences; `stored_values` looks them up in a store first, and
computes and stores the others. With a store or without, the values are the same.

>>> import tempfile
>>> from dataclasses import dataclass
>>> from pathlib import Path
>>> @dataclass(frozen=True)
... class WordLengths:
...     identity = "word-lengths/1"
...     def compute(self, sentences):
...         return [tuple(len(word) for word in sentence.split()) for sentence in sentences]
>>> with tempfile.TemporaryDirectory() as folder:
...     stored_values(WordLengths(), ["a dog runs", "a cat"], DiskCache(Path(folder)))
([1, 3, 4], [1, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from capmeter.core import progress
from capmeter.core.disk_cache import DiskCache, as_cached


class SentenceAnalysis(Protocol):
    """What is computed from each sentence alone and stored on disk."""

    @property
    def identity(self) -> str:
        """Everything that affects a value, as text: the analysis's name and version, the hash of its model."""
        ...

    def compute(self, sentences: Sequence[str]) -> Sequence[Any]:
        """The value of each sentence: an array of numbers, or a JSON value without NaN; None is not stored."""
        ...


def stored_values(
    analysis: SentenceAnalysis, sentences: Sequence[str], store: DiskCache | None, batch_size: int = 1024
) -> tuple[Any, ...]:
    """The value of each of these distinct sentences.

    Args:
        analysis: what computes the values that the store does not have.
        sentences: distinct texts.
        store: None: all values are computed.
        batch_size: number of values that are computed and then stored, so that a run that is killed can continue.
    """
    # a sentence may hold half a surrogate pair
    contents = [sentence.encode("utf-8", "surrogatepass") for sentence in sentences]
    identity = analysis.identity
    cached_values = {} if store is None else store.get(identity, contents)
    missing_rows = [row for row, content in enumerate(contents) if content not in cached_values]
    with progress.task(identity.partition("/")[0], total=len(missing_rows)) as advance:
        for batch_start in range(0, len(missing_rows), batch_size):
            batch_rows = missing_rows[batch_start : batch_start + batch_size]
            computed_values = analysis.compute([sentences[row] for row in batch_rows])
            batch = {contents[row]: as_cached(value) for row, value in zip(batch_rows, computed_values, strict=True)}
            if store is not None:
                store.put(identity, {content: value for content, value in batch.items() if value is not None})
            cached_values |= batch
            advance(len(batch_rows))
    return tuple(cached_values[content] for content in contents)
