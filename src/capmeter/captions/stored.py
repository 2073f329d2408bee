"""Analyses whose values are kept on disk: parses, scene graphs, and whatever else costs more to compute than to read.

An analysis of this kind says only how to compute the values of some sentences. `StoredAnalysis` looks them up in a
store, has the missing ones computed and keeps them; without a store it computes them all. With a store or without, new
or found, the values are the same.

>>> import tempfile
>>> from pathlib import Path
>>> from capmeter.captions.model import SentencePool
>>> @dataclass(frozen=True)
... class WordLengths:
...     identity = "word-lengths/1"
...     def compute(self, sentences):
...         return [tuple(len(word) for word in sentence.split()) for sentence in sentences]
>>> with tempfile.TemporaryDirectory() as folder:
...     lengths = SentencePool(["a dog runs", "a cat"]).analyse(StoredAnalysis(WordLengths(), Store(Path(folder))))
>>> lengths[0], len(lengths)
([1, 3, 4], 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from capmeter import progress
from capmeter.captions.model import Life, SentencePool
from capmeter.store import Store, normalised


class SentenceAnalysis(Protocol):
    """What is computed of each sentence alone and kept on disk: a hashable value."""

    @property
    def identity(self) -> str:
        """Everything that moves a value, as text: the analysis's name and version, the hash of its model."""
        ...

    def compute(self, sentences: Sequence[str]) -> Sequence[Any]:
        """The value of each sentence: an array of numbers, or a JSON value without NaN. None is given, but not kept."""
        ...


@dataclass(frozen=True, eq=False)
class Values(Sequence[Any]):
    """The values of a pool's sentences, row i for sentence i."""

    rows: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        return self.rows[row]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


@dataclass(frozen=True)
class StoredAnalysis:
    """The values of `analysis`, kept in `store` (None: computed for each part again).

    `at_once` values are computed and then kept, so that a run that is killed goes on from there.
    """

    analysis: SentenceAnalysis
    store: Store | None = None
    at_once: int = 1024
    life: ClassVar[Life] = "disk"

    def run(self, pool: SentencePool) -> Values:
        """The values of all sentences of the pool."""
        return Values(self.values(pool.sentences))

    def values(self, sentences: Sequence[str]) -> tuple[Any, ...]:
        """The value of each of these (distinct) sentences."""
        # a sentence may hold half a surrogate pair
        contents = [sentence.encode("utf-8", "surrogatepass") for sentence in sentences]
        identity = self.analysis.identity
        found = {} if self.store is None else self.store.get(identity, contents)
        missing = [row for row, content in enumerate(contents) if content not in found]
        with progress.task(identity.partition("/")[0], total=len(missing)) as advance:
            for start in range(0, len(missing), self.at_once):
                rows = missing[start : start + self.at_once]
                values = self.analysis.compute([sentences[row] for row in rows])
                made = {contents[row]: normalised(value) for row, value in zip(rows, values, strict=True)}
                if self.store is not None:
                    self.store.put(identity, {content: value for content, value in made.items() if value is not None})
                found |= made
                advance(len(rows))
        return tuple(found[content] for content in contents)
