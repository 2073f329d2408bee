"""What metrics on regions share: a part's pairs through a vision-and-language encoder, notes and facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders.batches import in_order
from capmeter.encoders.models import versions
from capmeter.encoders.pairs import PairEncoder, PairStates
from capmeter.encoders.pieces import PieceTable
from capmeter.errors import InputError
from capmeter.images.region_source import region_keys, regions_at
from capmeter.images.regions import BoxRule, Regions
from capmeter.settings import Settings

Output = TypeVar("Output")
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A part's sentences and pictures as an encoder reads them.

    pieces: the word pieces of the sentences used. sentence, picture: of each distinct pair the row of `pieces`, and the
    place in `embedded`, the embedded regions of each distinct picture. of_candidates, of_references: the pair of each
    candidate and (flat, as `part.references.values`) of each reference.
    """

    encoder: PairEncoder
    pieces: PieceTable
    sentence: Indices
    embedded: list[Any]
    picture: Indices
    of_candidates: Indices
    of_references: Indices

    @classmethod
    def of(
        cls, part: CaptionSet, encoder: PairEncoder, rule: BoxRule, *, lower: bool = False, references: bool = False
    ) -> Pairs:
        """The pairs of candidates (and references) with pictures; each picture's regions are read and embedded once."""
        said = part.references.values if references else np.zeros(0, np.int64)
        used, sentence = np.unique(np.concatenate([part.candidates, said]).astype(np.int64), return_inverse=True)
        pieces = encoder.pieces([part.pool[k] for k in used.tolist()], lower)
        embedded: dict[str, Any] = {}
        place: dict[str, int] = {}
        picture = np.empty(len(part), np.int64)
        keys = keys_of(part)
        source = regions_at(part.regions)
        for row, key in enumerate(keys):
            if key not in place:
                place[key] = len(place)
                regions = source.read(key).chosen(rule)
                embedded[key] = encoder.embed(regions.features, regions.positions)
            picture[row] = place[key]
        seen = np.concatenate([picture, picture[part.references.rows] if references else picture[:0]])
        pairs, pair = np.unique(np.stack([sentence, seen]), axis=1, return_inverse=True)
        pair = pair.ravel()
        first, second = pairs.astype(np.int64)
        return cls(encoder, pieces, first, list(embedded.values()), second, pair[: len(part)], pair[len(part) :])

    def run(self, work: Callable[[PairStates], Any], settings: Settings, *, attention: bool = False) -> list[Any]:
        """What `work` makes of each distinct pair."""
        made = self.encoder.run(
            self.pieces, self.sentence, self.embedded, self.picture, work, settings, attention=attention
        )
        return in_order(made, len(self.sentence))

    def truncated(self, part: CaptionSet) -> dict[str, list[str]]:
        """The note on captions that were cut."""
        cut = np.flatnonzero(self.pieces.truncated[self.sentence[self.of_candidates]]).tolist()
        return {"caption truncated to the encoder's length": [part.ids[k] for k in cut]} if cut else {}


def keys_of(part: CaptionSet) -> list[str]:
    """The key of each caption's regions.

    Raises:
        InputError: a caption's picture has no regions.
    """
    keys = region_keys(part)
    known = [key for key in keys if key is not None]
    if len(known) < len(part):
        first = part.ids[list(keys).index(None)]
        raise InputError(f"{len(part) - len(known):,} captions have no regions (the first: {first}); give --regions")
    return known


def regions_of_caption(part: CaptionSet, row: int, rule: BoxRule) -> Regions:
    """The chosen regions of a caption's picture."""
    return regions_at(part.regions).read(keys_of(part)[row]).chosen(rule)


def encoder_facts(encoder: PairEncoder, rule: BoxRule, settings: Settings) -> dict[str, str]:
    """The weights, the choice of boxes and the libraries."""
    boxes = f"conf>{rule.conf_th:g}, {rule.least}-{rule.most}, {'first' if rule.in_order else 'most confident'}"
    facts = {"weights": encoder.label, "boxes": boxes, "libraries": versions("torch", "tokenizers")}
    return (
        facts if settings.precision == "float32" else facts | {"precision": str(encoder.dtype).removeprefix("torch.")}
    )
