"""Captions column by column, as they are read: without an object for each caption.

>>> columns = CaptionColumns(["7", "9"], ["7", "9"], ["a dog", "the dog"], [("a dog", "the dog"), ()])
>>> columns.number_sentences()
(('a dog', 'the dog'), [0, 1], [[0, 1], []], [0, 1])
>>> len(columns.join([columns, columns]))
4
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from capmeter.captions.events import VideoEvents
from capmeter.core.errors import InputError


@dataclass(slots=True)
class CaptionColumns:
    """The fields of n captions, each as n values; an optional one that is left out becomes n times None."""

    ids: Sequence[str]
    image_ids: Sequence[str]
    candidates: Sequence[str]
    references: Sequence[tuple[str, ...]]
    images: Sequence[str | None] = ()
    systems: Sequence[str | None] = ()
    humans: Sequence[tuple[float, ...] | None] = ()
    events: Sequence[VideoEvents | None] = ()

    def __post_init__(self) -> None:
        absent = (None,) * len(self.ids)
        self.images, self.systems = self.images or absent, self.systems or absent
        self.humans, self.events = self.humans or absent, self.events or absent

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def join(parts: Iterable[CaptionColumns]) -> CaptionColumns:
        """The captions of all parts, one after the other."""
        parts = list(parts)
        return CaptionColumns(
            *([value for part in parts for value in getattr(part, field.name)] for field in fields(CaptionColumns))
        )

    def refuse_repeated_ids(self) -> None:
        """Raises an `InputError` if two captions have one id."""
        if len(set(self.ids)) == len(self.ids):
            return
        positions: dict[str, int] = {}
        for position, id in enumerate(self.ids):
            if (first := positions.setdefault(id, position)) != position:
                raise InputError(
                    f"duplicate id {id!r} (captions {first} and {position}, counted from 0); scores are keyed by id: "
                    "give each caption an id of its own"
                )

    def number_sentences(self) -> tuple[tuple[str, ...], list[int], list[list[int]], list[int]]:
        """The distinct sentences in the order of their first use, and what uses them.

        Returns:
            The sentences; each caption's candidate, and the distinct lists of references, as indices into them; each
            caption's list, as an index into the lists.
        """
        sentences: dict[str, int] = {}
        list_indices: dict[tuple[str, ...], int] = {}
        reference_lists: list[list[int]] = []
        candidates: list[int] = []
        list_of_caption: list[int] = []
        for candidate, texts in zip(self.candidates, self.references, strict=True):
            candidates.append(sentences.setdefault(candidate, len(sentences)))
            index = list_indices.get(texts)
            if index is None:
                index = list_indices[texts] = len(reference_lists)
                reference_lists.append([sentences.setdefault(text, len(sentences)) for text in texts])
            list_of_caption.append(index)
        return tuple(sentences), candidates, reference_lists, list_of_caption
