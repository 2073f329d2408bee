"""The in-memory caption set: captions keyed by id, every distinct sentence stored once.

A `CaptionSet` is an ordered, immutable table. Its candidates and references are indices into a `SentencePool`, so
that a sentence that occurs five times is analysed once. An *analysis* (tokens, n-grams, embeddings …) is a hashable
value that computes a table from a pool or a set, each of which has the table of each analysis computed once.

>>> captions = CaptionSet.from_captions([Caption("7", "7", "a dog runs", ("a dog runs", "the dog is running"))])
>>> len(captions), len(captions.pool)
(1, 2)
>>> captions["7"].references
('a dog runs', 'the dog is running')

Captions that share one list of references (those of one image, usually) have the same index into `reference_sets`, so
that what depends on the references alone is computed once for each of them. The distinct pictures that the captions
name are in the set's `image_pool`.

`Events` are captions of events in time: sentences with a start and an end, in seconds of one video; or of boxes in a
picture. Read as one text, a video's events are a paragraph: the sentences in the order of time, joined by blanks; those
of boxes in the order of the file.
Metrics that need no times score this paragraph; those that do (`soda-c`, `dense`, `proposals`) use the times.

>>> events = Events(((4.0, 9.5), (0.0, 4.0)), ("it sleeps", "a dog eats."))
>>> events.paragraph
'a dog eats. it sleeps'
>>> events.in_order().sentences
('a dog eats.', 'it sleeps')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.ragged import Ragged

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one video, as one system or annotator describes them.

    times: start and end of each event in seconds, 0 ≤ start ≤ end; or the box of each object, its lower corner before
        its upper: (x1, y1, x2, y2), or in space (x1, y1, z1, x2, y2, z2).
    sentences: the caption of each event.
    predicted_count: how many of these events the system predicts, where its file says so.
    """

    times: tuple[tuple[float, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    predicted_count: int | None = field(default=None, repr=False, compare=False)

    @property
    def paragraph(self) -> str:
        """The sentences as one text, in the order of time."""
        are_intervals = all(len(each) == 2 for each in self.times)
        return " ".join((self.in_order() if are_intervals else self).sentences)

    @property
    def in_file(self) -> str:
        """The sentences as one text, in the order of the file."""
        return " ".join(self.sentences)

    def map(self, change: Callable[[str], str]) -> Events:
        """The same events with changed sentences."""
        return replace(self, sentences=tuple(map(change, self.sentences)))

    def in_order(self) -> Events:
        """The same events by start, then end, then their order in the file."""
        event_order = sorted(range(len(self.times)), key=lambda k: self.times[k])
        return Events(tuple(self.times[k] for k in event_order), tuple(self.sentences[k] for k in event_order))


@dataclass(frozen=True, slots=True)
class VideoEvents:
    """The candidate's events of one video, and those of each annotator."""

    candidate: Events
    references: tuple[Events, ...]


Item = TypeVar("Item")
Table = TypeVar("Table")
TableOut = TypeVar("TableOut", covariant=True)
Ratings = tuple[float, ...]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Caption:
    """One candidate caption of one image or video, with its references and human scores."""

    id: str
    image_id: str
    candidate: str
    references: tuple[str, ...] = ()
    image: str | None = None
    system: str | None = None
    human: Ratings | None = None
    events: VideoEvents | None = None


@dataclass(frozen=True, slots=True)
class ImageRef:
    """The path or address of a picture, and the id of the first image that names it, for messages."""

    path: str
    image_id: str


class Analysis(Protocol[TableOut]):
    """What is computed from a pool (row i of the table belongs to item i) or a set: a hashable value."""

    def compute(self, source: Any, /) -> TableOut:
        """The table of this pool or set."""
        ...


class Pool(Generic[Item]):
    """Distinct items, and the tables of the analyses of them.

    items: the sentences or pictures.
    division: pools that have the items between them, with their indices in this one, if tables are joined from theirs.
    """

    division: Sequence[tuple[Pool[Item], Indices]] = ()

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self._tables: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process or the next pass: the items, and the tables that are worth it."""
        portable = {analysis: table for analysis, table in self._tables.items() if getattr(analysis, "portable", False)}
        return {"items": self.items, "_tables": portable}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    def part(self, indices: Indices) -> Self:
        """The pool of the items at these (distinct) indices."""
        return type(self)([self.items[i] for i in indices.tolist()])

    def analyse(self, analysis: Analysis[Table]) -> Table:
        """The analysis's table for this pool's items, computed at the first call."""
        if analysis not in self._tables:
            self._tables[analysis] = self.compute(analysis)
        table: Table = self._tables[analysis]
        return table

    def compute(self, analysis: Analysis[Table]) -> Table:
        """The analysis's table; one that can be joined is joined from those of the pools that have the items."""
        joinable = getattr(analysis, "TABLE", None)
        if self.division and joinable is not None:
            table: Table = joinable.join(
                [pool.analyse(analysis) for pool, _ in self.division], [places for _, places in self.division]
            )
            return table
        return analysis.compute(self)


class SentencePool(Pool[str]):
    """The distinct sentences of a set."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""
        return self.items


class ImagePool(Pool[ImageRef]):
    """The distinct pictures of a set, by path; files are opened only by analyses (see `capmeter.images`)."""


@dataclass(kw_only=True, eq=False, repr=False)
class CaptionSet:
    """An ordered, immutable table of n captions, keyed by id. Make it with `from_captions`, or read it with `load`.

    Args:
        ids: n distinct texts.
        image_ids: n texts, the image of each caption.
        pool: the distinct sentences.
        candidates: int[n], indices into `pool`.
        references: n rows of indices into `pool`.
        images: the images' paths or addresses, None for captions without one; empty: no caption has one.
        systems: the names of the systems that wrote the captions, or None; likewise.
        humans: human scores of the captions, or None; likewise.
        events: the videos' events in time, None for captions without times; likewise.
        notes: what was adjusted when the captions were read: reason → ids.
        images_root: the folder that relative paths of `images` start from.
        regions: a folder or an LMDB with the images' regions, "" without any.
        adjustments: how all texts were changed when they were read, for signatures: option → value.
    """

    ids: Sequence[str]
    image_ids: Sequence[str]
    pool: SentencePool
    candidates: npt.NDArray[Any]
    references: Ragged
    images: Sequence[str | None] = ()
    systems: Sequence[str | None] = ()
    humans: Sequence[Ratings | None] = ()
    events: Sequence[VideoEvents | None] = ()
    notes: dict[str, list[str]] = field(default_factory=dict)
    images_root: str = ""
    regions: str = ""
    adjustments: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        absent = (None,) * len(self.ids)
        self.images, self.systems = self.images or absent, self.systems or absent
        self.humans, self.events = self.humans or absent, self.events or absent
        self._tables: dict[Any, Any] = {}

    @classmethod
    def from_captions(cls, captions: Iterable[Caption], **others: Any) -> Self:
        """The set of these captions, in their order.

        Args:
            captions: of distinct ids.
            others: further arguments of `CaptionSet` for all of them: notes, images_root, regions.

        Raises:
            InputError: two captions have one id, or texts are of another type.
        """
        captions = tuple(captions) if isinstance(captions, Iterable) else (captions,)
        for each in captions:
            references = each.references if isinstance(each, Caption) else None
            if type(references) is not tuple or not all(isinstance(t, str) for t in (each.candidate, *references)):
                raise InputError(f"{each!a:.70} …: expected Caption(id, image_id, candidate, references=(text, …))")
        names = (each.name for each in fields(Caption))
        columns = {f"{name.removesuffix('s')}s": [getattr(each, name) for each in captions] for name in names}
        return cls.from_columns(**columns, **others)

    @classmethod
    def from_columns(
        cls,
        ids: Sequence[str],
        image_ids: Sequence[str],
        candidates: Sequence[str],
        references: Sequence[tuple[str, ...]],
        **others: Any,
    ) -> Self:
        """The set of captions that are given field by field.

        Args:
            ids: a text per caption.
            image_ids: a text per caption.
            candidates: a text per caption.
            references: the reference texts of each caption.
            others: further arguments of `CaptionSet`, such as `images`; lists of a value per caption may be lists.

        Raises:
            InputError: two captions have one id.
        """
        first_positions: dict[str, int] = {}
        for position, id in enumerate(ids):
            if (first := first_positions.setdefault(id, position)) != position:
                raise InputError(
                    f"duplicate id {id!r} (captions {first} and {position}, counted from 0); scores are keyed by "
                    "id: give each caption an id of its own"
                )
        sentence_indices: defaultdict[str, int] = defaultdict(count().__next__)
        list_indices: dict[tuple[str, ...], list[int]] = {}  # captions of an image share their references
        candidate_indices: list[int] = []
        for candidate, texts in zip(candidates, references, strict=True):
            candidate_indices.append(sentence_indices[candidate])
            if texts not in list_indices:
                list_indices[texts] = [sentence_indices[text] for text in texts]
        arguments: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in others.items()}
        return cls(
            ids=tuple(ids),
            image_ids=tuple(image_ids),
            pool=SentencePool(tuple(sentence_indices)),
            candidates=np.array(candidate_indices, np.int32),
            references=Ragged.from_rows([list_indices[texts] for texts in references], np.int32),
            **arguments,
        )

    def replace(self, **changes: Any) -> CaptionSet:
        """The same captions with other values of these arguments of `CaptionSet`; analyses of sentences are shared."""
        changed = replace(self, **changes)
        if "_pooled_images" in vars(self) and not changes.keys() & {"images", "images_root", "image_ids"}:
            changed._pooled_images = self._pooled_images
        return changed

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process: everything that cannot be recomputed."""
        recomputed = ("_rows", "reference_sets", "reference_set_indices")
        return {name: value for name, value in vars(self).items() if name not in recomputed} | {"_tables": {}}

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Caption]:
        return (self._caption(row_index) for row_index in range(len(self)))

    def __getitem__(self, id: str) -> Caption:
        return self._caption(self.row(id))

    def __repr__(self) -> str:
        counts = {"caption": len(self), "reference": len(self.references.values), "sentence": len(self.pool)}
        return f"CaptionSet({', '.join(format_count(number, noun) for noun, number in counts.items())})"

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {caption_id: row_index for row_index, caption_id in enumerate(self.ids)}

    def row(self, id: str) -> int:
        """The position of the caption with this id."""
        if id not in self._rows:
            raise InputError(f"there is no caption with the id {id!r} among the {len(self)} captions of this set")
        return self._rows[id]

    def _caption(self, row_index: int) -> Caption:
        candidate = self.pool[int(self.candidates[row_index])]
        references = tuple(self.pool[int(sentence_index)] for sentence_index in self.references[row_index])
        others = self.images[row_index], self.systems[row_index], self.humans[row_index], self.events[row_index]
        return Caption(self.ids[row_index], self.image_ids[row_index], candidate, references, *others)

    @cached_property
    def reference_set_indices(self) -> npt.NDArray[np.int32]:
        """int[n]: each caption's row in `reference_sets`, numbered in the order of their first caption."""
        content = self.references.values.tobytes()
        ends = (self.references.offsets * self.references.values.itemsize).tolist()
        set_numbers: defaultdict[bytes, int] = defaultdict(count().__next__)
        return np.fromiter((set_numbers[content[start:end]] for start, end in pairwise(ends)), np.int32, len(self))

    @cached_property
    def reference_sets(self) -> Ragged:
        """The distinct lists of references, as indices into `pool`."""
        first_rows = np.unique(self.reference_set_indices, return_index=True)[1]
        return self.references if len(first_rows) == len(self) else self.references.take(first_rows)

    @property
    def image_pool(self) -> ImagePool:
        """The distinct pictures that the captions name; each once."""
        return self._pooled_images[0]

    @property
    def image_indices(self) -> Indices:
        """int[n]: each caption's picture in `image_pool`, -1 where it names none."""
        return self._pooled_images[1]

    @cached_property
    def _pooled_images(self) -> tuple[ImagePool, Indices]:
        first_rows: dict[str, int] = {}
        for row_index, image_name in enumerate(self.images):
            if image_name is not None:
                first_rows.setdefault(image_name, row_index)
        paths = (name if "://" in name else str(Path(self.images_root, name)) for name in first_rows)
        image_refs = [ImageRef(path, self.image_ids[row]) for path, row in zip(paths, first_rows.values(), strict=True)]
        image_numbers: dict[str | None, int] = {None: -1} | {name: number for number, name in enumerate(first_rows)}
        return ImagePool(tuple(image_refs)), np.array([image_numbers[name] for name in self.images], np.int64)

    def analyse(self, analysis: Analysis[Table]) -> Table:
        """The analysis's table for this set, computed at the first call."""
        if analysis not in self._tables:
            self._tables[analysis] = analysis.compute(self)
        table: Table = self._tables[analysis]
        return table

    def select(self, rows: Iterable[int] | npt.NDArray[Any]) -> CaptionSet:
        """The captions at these positions, in this order; the selection's pool holds only their sentences."""
        selected_rows = np.asarray(rows if isinstance(rows, np.ndarray | range) else list(rows), np.int64)
        references = self.references.take(selected_rows)
        sentence_indices, new_indices = np.unique(
            np.concatenate([self.candidates[selected_rows], references.values]).astype(np.int64), return_inverse=True
        )
        new_indices = new_indices.astype(np.int32)
        row_order = selected_rows.tolist()
        names = ("ids", "image_ids", "images", "systems", "humans", "events")
        columns = {name: tuple(map(getattr(self, name).__getitem__, row_order)) for name in names}
        selection = self.replace(
            pool=self.pool.part(sentence_indices),
            candidates=new_indices[: len(selected_rows)],
            references=Ragged(new_indices[len(selected_rows) :], references.offsets),
            notes={},
            **columns,
        )
        if any(image_name is not None for image_name in selection.images):
            used_images, new_image_indices = np.unique(self.image_indices[selected_rows], return_inverse=True)
            some_without = int(used_images[0] < 0)
            image_pool = self.image_pool.part(used_images[some_without:])
            selection._pooled_images = image_pool, new_image_indices - some_without
        return selection

    def chunks(self, rows: int) -> Iterator[CaptionSet]:
        """The set in parts of at most `rows` captions, the first with the notes; one that fits is its own part."""
        if len(self) <= rows:
            yield self
            return
        for first_row in range(0, len(self), rows):
            notes = {} if first_row else self.notes
            yield self.select(range(first_row, min(first_row + rows, len(self)))).replace(notes=notes)
