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
        first_positions: dict[str, int] = {}
        for position, id in enumerate(self.ids):
            if (first := first_positions.setdefault(id, position)) != position:
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
        sentence_indices: dict[str, int] = {}
        list_indices: dict[tuple[str, ...], int] = {}
        reference_lists: list[list[int]] = []
        candidate_indices: list[int] = []
        list_of_caption: list[int] = []
        for candidate, reference_texts in zip(self.candidates, self.references, strict=True):
            candidate_indices.append(sentence_indices.setdefault(candidate, len(sentence_indices)))
            list_index = list_indices.get(reference_texts)
            if list_index is None:
                list_index = list_indices[reference_texts] = len(reference_lists)
                reference_lists.append(
                    [sentence_indices.setdefault(text, len(sentence_indices)) for text in reference_texts]
                )
            list_of_caption.append(list_index)
        return tuple(sentence_indices), candidate_indices, reference_lists, list_of_caption
