"""Captions as everything else sees them: rows keyed by id, every distinct sentence stored once.

A `CaptionSet` is an ordered, immutable table. Its candidates and references are indices into a `SentencePool`, so
that a sentence that occurs five times is analysed once. An *analysis* (tokens, n-grams, embeddings …) is a value that
turns a pool or a set into a table; pools and sets remember each analysis's result under its identity.

>>> captions = CaptionSet.from_captions([Caption("7", "7", "a dog runs", ("a dog runs", "the dog is running"))])
>>> len(captions), len(captions.pool)
(1, 2)
>>> captions["7"].references
('a dog runs', 'the dog is running')

Captions that share one list of references (those of one image, usually) have the same number in `reference_set`, so
that what depends on the references alone can be computed once for each of the `reference_sets`. The distinct pictures
that the captions name are in the set's `pictures` (an `ImagePool`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.ragged import Ragged

Item = TypeVar("Item")
Table = TypeVar("Table")
TableOut = TypeVar("TableOut", covariant=True)
Indices = npt.NDArray[np.int64]
Life = Literal["part", "run", "disk"]
"""How long an analysis's table is kept.

part: it is computed for each part of a set and dropped with it (large tables).
run: it is computed once for a whole pool and sliced for its parts by `take(indices)` (small tables).
disk: it is dropped with the part, but its values are kept in a store (costly analyses; see
    `capmeter.captions.stored`).
"""


@dataclass(frozen=True, slots=True)
class Caption:
    """One candidate caption of one image, with its references and human scores."""

    id: str
    image_id: str
    candidate: str
    references: tuple[str, ...] = ()
    image: str | None = None
    system: str | None = None
    human: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a picture, and the first image that names it, for messages."""

    path: str
    image_id: str


class PoolAnalysis(Protocol[TableOut]):
    """What is computed of each sentence (or picture) alone: a hashable value; row i of its table belongs to item i."""

    @property
    def life(self) -> Life:
        """How long its table is kept."""
        ...

    def run(self, pool: Any) -> TableOut:
        """The table of this pool's sentences or pictures."""
        ...


class SetAnalysis(Protocol[TableOut]):
    """What is computed of candidates together with their references: a hashable value."""

    def run(self, captions: CaptionSet) -> TableOut:
        """The table of this set's captions."""
        ...


class Pool(Generic[Item]):
    """Distinct items, and the results of the analyses of them.

    `divided`: what makes the tables that are kept from run to run (`kept.Divided`), if any are.
    """

    divided: Any = None

    def __init__(self, items: Sequence[Item], *, parent: tuple[Pool[Item], Indices] | None = None) -> None:
        self.items = items
        self._parent = parent
        self._memory: dict[Hashable, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process or the next pass: the items, and the tables worth keeping."""
        kept = {each: table for each, table in self._memory.items() if getattr(each, "portable", False)}
        return {"items": self.items, "_parent": None, "_memory": kept}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    def analyse(self, analysis: PoolAnalysis[Table]) -> Table:
        """The analysis's table for this pool's items, computed at the first call."""
        return _remembered(self._memory, analysis, lambda: self._run(analysis))

    def _run(self, analysis: PoolAnalysis[Table]) -> Table:
        if self.divided and hasattr(analysis, "ARRAYS"):  # a `KeptAnalysis`
            joined: Table = self.divided.table(analysis)
            return joined
        if self._parent is not None and analysis.life == "run" and not self.divided:
            parent, indices = self._parent
            whole: Any = parent.analyse(analysis)
            part: Table = whole.take(indices)
            return part
        return analysis.run(self)


class SentencePool(Pool[str]):
    """The distinct sentences of a set."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""
        return self.items

    def part(self, indices: Indices) -> SentencePool:
        """The pool of the sentences at these (distinct) indices; it shares the tables that are kept for the run."""
        return SentencePool([self.items[i] for i in indices.tolist()], parent=(self, indices))


class ImagePool(Pool[Place]):
    """The distinct pictures of a set, by path. Files are opened only when an analysis needs them (see
    `capmeter.images`).
    """

    def part(self, indices: Indices) -> ImagePool:
        """The pool of the pictures at these (distinct) indices; it shares the tables that are kept for the run."""
        return ImagePool([self.items[i] for i in indices.tolist()], parent=(self, indices))


class CaptionSet:
    """An ordered, immutable table of captions, keyed by id. Make it with `from_captions`, or read it with `load`.

    `ids`, `image_ids`, `images`, `systems` and `humans` have one entry per caption (the last three may be None);
    `candidates` (int, shape [n]) and `references` (`Ragged`, n rows) are indices into `pool`; `reference_set` (int,
    shape [n]) says which of the distinct `reference_sets` (`Ragged`) a caption has; `image` (int, shape [n]) is each
    caption's picture in `pictures`, -1 without one. Relative paths of `images` are resolved against `images_root`.
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
        reference_set: npt.NDArray[Any] | None = None,
        images_root: str = "",
        regions: str = "",
        pictures: tuple[ImagePool, Indices] | None = None,
    ) -> None:
        self.ids, self.image_ids, self.pool = ids, image_ids, pool
        self.candidates, self.references = candidates, references
        nothing = (None,) * len(ids)
        self.images: Sequence[str | None] = images or nothing
        self.systems: Sequence[str | None] = systems or nothing
        self.humans: Sequence[tuple[float, ...] | None] = humans or nothing
        self.notes = notes or {}
        self.images_root, self.regions = images_root, regions
        self._reference_set, self._pictures = reference_set, pictures
        self._reference_sets: Ragged | None = None
        self._rows: dict[str, int] | None = None
        self._memory: dict[Hashable, Any] = {}

    @classmethod
    def from_captions(
        cls,
        captions: Iterable[Caption],
        *,
        notes: dict[str, list[str]] | None = None,
        images_root: str = "",
        regions: str = "",
    ) -> CaptionSet:
        """The set of these captions, in their order. Two captions with one id are an `InputError`."""
        seen: dict[str, int] = {}

        same: dict[tuple[str, ...], int] = {}
        lists: list[list[int]] = []
        ids: dict[str, None] = {}
        image_ids: list[str] = []
        candidates: list[int] = []
        reference_set: list[int] = []
        images: list[str | None] = []
        systems: list[str | None] = []
        humans: list[tuple[float, ...] | None] = []
        for caption in captions:
            if caption.id in ids:
                raise InputError(
                    f"duplicate id {caption.id!r} (captions {list(ids).index(caption.id)} and {len(ids)}, "
                    "counted from 0); scores are keyed by id: give each caption an id of its own"
                )
            ids[caption.id] = None
            image_ids.append(caption.image_id)
            candidates.append(seen.setdefault(caption.candidate, len(seen)))
            known = same.get(caption.references)
            if known is None:
                known = same[caption.references] = len(lists)
                lists.append([seen.setdefault(reference, len(seen)) for reference in caption.references])
            reference_set.append(known)
            images.append(caption.image)
            systems.append(caption.system)
            humans.append(caption.human)
        sets = np.array(reference_set, np.int32)
        return cls(
            ids=tuple(ids),
            image_ids=tuple(image_ids),
            pool=SentencePool(tuple(seen)),
            candidates=np.array(candidates, np.int32),
            references=Ragged.from_rows(lists, np.int32).take(sets),
            reference_set=sets,
            images_root=images_root,
            regions=regions,
            images=tuple(images),
            systems=tuple(systems),
            humans=tuple(humans),
            notes=notes,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process: everything that cannot be recomputed."""
        return {**self.__dict__, "_rows": None, "_reference_sets": None, "_memory": {}}

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

    @property
    def reference_set(self) -> npt.NDArray[np.int32]:
        """int[n]: which captions share one list of references, numbered in the order of their first caption."""
        if self._reference_set is None:
            known: dict[bytes, int] = {}
            rows = (self.references[row].tobytes() for row in range(len(self)))
            self._reference_set = np.fromiter((known.setdefault(row, len(known)) for row in rows), np.int32, len(self))
        return self._reference_set

    @property
    def reference_sets(self) -> Ragged:
        """The distinct lists of references: row k is the list of the captions whose `reference_set` is k."""
        if self._reference_sets is None:
            first = np.unique(self.reference_set, return_index=True)[1]
            alone = len(first) == len(self)
            self._reference_sets = self.references if alone else self.references.take(first)
        return self._reference_sets

    @property
    def image(self) -> Indices:
        """int[n]: each caption's picture in `pictures`, -1 where it names none."""
        return self.with_pictures()[1]

    @property
    def pictures(self) -> ImagePool:
        """The distinct pictures that the captions name; it shares its analyses with the set that this is a part of."""
        return self.with_pictures()[0]

    def with_pictures(self) -> tuple[ImagePool, Indices]:
        """`pictures` and `image`."""
        if self._pictures is None:
            known: dict[str, int] = {}
            places: list[Place] = []
            image = np.full(len(self), -1, np.int64)
            for row, named in enumerate(self.images):
                if named is None:
                    continue
                if named not in known:
                    known[named] = len(places)
                    path = named if "://" in named else str(Path(self.images_root, named))
                    places.append(Place(path, self.image_ids[row]))
                image[row] = known[named]
            self._pictures = ImagePool(tuple(places)), image
        return self._pictures

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
        pictures = None
        if any(self.images[i] is not None for i in order):
            pool, image = self.with_pictures()
            shown, place = np.unique(image[chosen], return_inverse=True)
            without = int(shown[0] < 0)
            pictures = pool.part(shown[without:]), place - without
        return CaptionSet(
            ids=tuple(self.ids[i] for i in order),
            image_ids=tuple(self.image_ids[i] for i in order),
            pool=self.pool.part(used),
            candidates=where[: len(chosen)],
            references=Ragged(where[len(chosen) :], references.offsets),
            images=tuple(self.images[i] for i in order),
            systems=tuple(self.systems[i] for i in order),
            humans=tuple(self.humans[i] for i in order),
            reference_set=None if self._reference_set is None else _renumbered(self._reference_set[chosen]),
            images_root=self.images_root,
            regions=self.regions,
            pictures=pictures,
        )

    def renamed(self, ids: Sequence[str], notes: dict[str, list[str]] | None = None) -> CaptionSet:
        """The same captions under other ids, with other notes; analyses of sentences are shared."""
        return CaptionSet(
            ids=tuple(ids),
            image_ids=self.image_ids,
            pool=self.pool,
            candidates=self.candidates,
            references=self.references,
            images=self.images,
            systems=self.systems,
            humans=self.humans,
            notes=notes,
            reference_set=self._reference_set,
            images_root=self.images_root,
            regions=self.regions,
            pictures=self._pictures,
        )

    def chunks(self, rows: int) -> Iterator[CaptionSet]:
        """The set in parts of at most `rows` captions; a set that fits is its own only part."""
        if len(self) <= rows:
            yield self
            return
        for start in range(0, len(self), rows):
            yield self.select(np.arange(start, min(start + rows, len(self))))


def _renumbered(numbers: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The same partition, numbered from 0 in the order of first use."""
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place]


def _remembered(memory: dict[Hashable, Any], analysis: Any, run: Callable[[], Table]) -> Table:
    if analysis not in memory:
        memory[analysis] = run()
    result: Table = memory[analysis]
    return result
