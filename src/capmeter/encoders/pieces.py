"""Word pieces of many sentences in one flat table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core.ragged import Ragged, gather


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Word-piece ids of n sentences, begin and end tokens included.

    ids: int32[total]; row i is ids[offsets[i]:offsets[i + 1]]. offsets: int64[n + 1].
    truncated: bool[n], true where the sentence was too long for the model and its tail was dropped (end token kept).
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], truncated: Iterable[bool] | None = None) -> PieceTable:
        """The table of given id sequences."""
        pieces = Ragged.from_rows(rows, np.int32)
        flags = np.zeros(len(rows), np.bool_) if truncated is None else np.fromiter(truncated, np.bool_, len(rows))
        return cls(pieces.values, pieces.offsets, flags)

    def __len__(self) -> int:
        return len(self.truncated)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Pieces per sentence."""
        return np.diff(self.offsets)

    def take(self, indices: NDArray[Any]) -> PieceTable:
        """The table of some rows, in the order of `indices`."""
        positions, offsets = gather(self.offsets, indices)
        return PieceTable(self.ids[positions], offsets, self.truncated[indices])

    def padded(self, indices: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Some rows beside each other: ids int64[n, t], 0 in the padding, and where they are, bool[n, t]."""
        selected_pieces = self.take(indices)
        piece_mask = np.arange(int(selected_pieces.lengths.max(initial=0))) < selected_pieces.lengths[:, None]
        piece_ids = np.zeros(piece_mask.shape, np.int64)
        piece_ids[piece_mask] = selected_pieces.ids
        return piece_ids, piece_mask
