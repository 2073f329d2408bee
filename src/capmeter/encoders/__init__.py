"""Neural encoders behind one small interface.

`load_encoder(name, settings)` returns an `Encoder`: `pieces`, `batches`, `encode_ids`, `hidden_states`. `Settings` say
where and how it runs. `WordPieces`, `HiddenStates` and `SentenceVectors` are analyses that a sentence pool memoises.
"""

from __future__ import annotations

from capmeter.encoders.analyses import HiddenStates, SentenceVectors, StateTable, WordPieces
from capmeter.encoders.encoder import Batch, Encoder, load_encoder
from capmeter.encoders.models import EncoderFiles, find_encoder, software
from capmeter.encoders.pieces import PieceTable, gather
from capmeter.settings import Settings

__all__ = [
    "Batch",
    "Encoder",
    "EncoderFiles",
    "HiddenStates",
    "PieceTable",
    "SentenceVectors",
    "Settings",
    "StateTable",
    "WordPieces",
    "find_encoder",
    "gather",
    "load_encoder",
    "software",
]
