"""Captions as everything else sees them: rows keyed by id, every distinct sentence stored once.

A `CaptionSet` is an ordered, immutable table. Its candidates and references are indices into a `SentencePool`, so
that what is said five times is analysed once. An *analysis* (tokens, n-grams, embeddings …) is a value that turns a
pool or a set into a table; pools and sets remember each analysis's result under its identity.

>>> captions = CaptionSet.from_captions([Caption("7", "7", "a dog runs", ("a dog runs", "the dog is running"))])
>>> len(captions), len(captions.pool)
(1, 2)
>>> captions["7"].references
('a dog runs', 'the dog is running')
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.ragged import Ragged

Table = TypeVar("Table")
TableOut = TypeVar("TableOut", covariant=True)
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Caption:
    """One candidate caption of one image, with what people wrote (and thought) about it."""

    id: str
    image_id: str
    candidate: str
    references: tuple[str, ...] = ()
    image: str | None = None
    system: str | None = None
    human: tuple[float, ...] | None = None


class PoolAnalysis(Protocol[TableOut]):
    """What is computed of each sentence alone: a hashable value; row i of its table belongs to sentence i.

    `compact` tables are small and have `take(indices)`: they are computed once for a whole pool and sliced for its
    parts. Others are computed part by part and dropped with the part.
    """

    @property
    def compact(self) -> bool:
        """Whether the table is small and can be sliced."""
        ...

    def run(self, pool: SentencePool) -> TableOut:
        """The table of this pool's sentences."""
        ...


class SetAnalysis(Protocol[TableOut]):
    """What is computed of candidates together with their references: a hashable value."""

    def run(self, captions: CaptionSet) -> TableOut:
        """The table of this set's captions."""
        ...


class SentencePool:
    """The distinct sentences of a set, each once, and what has been found out about them."""

    def __init__(self, sentences: Sequence[str], *, parent: tuple[SentencePool, Indices] | None = None) -> None:
        self.sentences = sentences
        self._parent = parent
        self._memory: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: the sentences alone."""
        return {"sentences": self.sentences, "_parent": None, "_memory": {}}

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> str:
        return self.sentences[index]

    def analyse(self, analysis: PoolAnalysis[Table]) -> Table:
        """The analysis's table for this pool's sentences, computed at the first call."""
        return _remembered(self._memory, analysis, lambda: self._run(analysis))

    def _run(self, analysis: PoolAnalysis[Table]) -> Table:
        if self._parent is not None and analysis.compact:
            parent, indices = self._parent
            whole: Any = parent.analyse(analysis)
            part: Table = whole.take(indices)
            return part
        return analysis.run(self)

    def part(self, indices: Indices) -> SentencePool:
        """The pool of the sentences at these (distinct) indices, which shares this pool's compact tables."""
        return SentencePool([self.sentences[i] for i in indices.tolist()], parent=(self, indices))


class CaptionSet:
    """An ordered, immutable table of captions, keyed by id. Make it with `from_captions`, or read it with `load`.

    `ids`, `image_ids`, `images`, `systems` and `humans` have one entry per caption (the last three may be None);
    `candidates` (int, shape [n]) and `references` (`Ragged`, n rows) are indices into `pool`.
    """

    def __init__(
        self,
        *,
        ids: Sequence[str],
        image_ids: Sequence[str],
        pool: SentencePool,
        candidates: npt.NDArray[Any],
        references: Ragged,
        images: Sequence[str | None] | None = None,
        systems: Sequence[str | None] | None = None,
        humans: Sequence[tuple[float, ...] | None] | None = None,
        notes: dict[str, list[str]] | None = None,
    ) -> None:
        self.ids, self.image_ids, self.pool = ids, image_ids, pool
        self.candidates, self.references = candidates, references
        nothing = (None,) * len(ids)
        self.images: Sequence[str | None] = images or nothing
        self.systems: Sequence[str | None] = systems or nothing
        self.humans: Sequence[tuple[float, ...] | None] = humans or nothing
        self.notes = notes or {}
        self._rows: dict[str, int] | None = None
        self._memory: dict[Hashable, Any] = {}

    @classmethod
    def from_captions(cls, captions: Iterable[Caption], *, notes: dict[str, list[str]] | None = None) -> CaptionSet:
        """The set of these captions, in their order. Two captions with one id are an `InputError`."""
        seen: dict[str, int] = {}

        def index(sentence: str) -> int:
            return seen.setdefault(sentence, len(seen))

        same: dict[tuple[str, ...], list[int]] = {}
        ids: dict[str, None] = {}
        image_ids: list[str] = []
        candidates: list[int] = []
        references: list[list[int]] = []
        images: list[str | None] = []
        systems: list[str | None] = []
        humans: list[tuple[float, ...] | None] = []
        for caption in captions:
            if caption.id in ids:
                raise InputError(
                    f"the id {caption.id!r} stands twice (captions {list(ids).index(caption.id)} and {len(ids)}, "
                    "counted from 0); scores are keyed by id: give each caption an id of its own"
                )
            ids[caption.id] = None
            image_ids.append(caption.image_id)
            candidates.append(index(caption.candidate))
            known = same.get(caption.references)
            if known is None:
                known = same[caption.references] = [index(reference) for reference in caption.references]
            references.append(known)
            images.append(caption.image)
            systems.append(caption.system)
            humans.append(caption.human)
        return cls(
            ids=tuple(ids),
            image_ids=tuple(image_ids),
            pool=SentencePool(tuple(seen)),
            candidates=np.array(candidates, np.int32),
            references=Ragged.from_rows(references, np.int32),
            images=tuple(images),
            systems=tuple(systems),
            humans=tuple(humans),
            notes=notes,
        )

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: everything but what can be found out again."""
        return {**self.__dict__, "_rows": None, "_memory": {}}

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Caption]:
        return (self._caption(row) for row in range(len(self)))

    def __getitem__(self, id: str) -> Caption:
        return self._caption(self.row(id))

    def __repr__(self) -> str:
        return f"CaptionSet({len(self)} captions, {len(self.references.values)} references, {len(self.pool)} sentences)"

    def row(self, id: str) -> int:
        """The position of the caption with this id."""
        if self._rows is None:
            self._rows = {known: row for row, known in enumerate(self.ids)}
        if id not in self._rows:
            raise InputError(f"there is no caption with the id {id!r} among the {len(self)} captions of this set")
        return self._rows[id]

    def _caption(self, row: int) -> Caption:
        return Caption(
            id=self.ids[row],
            image_id=self.image_ids[row],
            candidate=self.pool[int(self.candidates[row])],
            references=tuple(self.pool[int(i)] for i in self.references[row]),
            image=self.images[row],
            system=self.systems[row],
            human=self.humans[row],
        )

    def analyse(self, analysis: SetAnalysis[Table]) -> Table:
        """The analysis's table for this set, computed at the first call."""
        return _remembered(self._memory, analysis, lambda: analysis.run(self))

    def select(self, rows: Iterable[int] | npt.NDArray[Any]) -> CaptionSet:
        """The captions at these positions, in this order; the selection's pool holds only their sentences."""
        chosen = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), np.int64)
        references = self.references.take(chosen)
        used, where = np.unique(
            np.concatenate([self.candidates[chosen], references.values]).astype(np.int64), return_inverse=True
        )
        where = where.astype(np.int32)
        order = chosen.tolist()
        return CaptionSet(
            ids=tuple(self.ids[i] for i in order),
            image_ids=tuple(self.image_ids[i] for i in order),
            pool=self.pool.part(used),
            candidates=where[: len(chosen)],
            references=Ragged(where[len(chosen) :], references.offsets),
            images=tuple(self.images[i] for i in order),
            systems=tuple(self.systems[i] for i in order),
            humans=tuple(self.humans[i] for i in order),
        )

    def chunks(self, rows: int) -> Iterator[CaptionSet]:
        """The set in parts of at most `rows` captions; a set that fits is its own only part."""
        if len(self) <= rows:
            yield self
            return
        for start in range(0, len(self), rows):
            yield self.select(np.arange(start, min(start + rows, len(self))))


def _remembered(memory: dict[Hashable, Any], analysis: Any, run: Callable[[], Table]) -> Table:
    if analysis not in memory:
        memory[analysis] = run()
    result: Table = memory[analysis]
    return result
