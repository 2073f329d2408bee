"""Neural encoders behind one small interface.

`load_encoder(name)` gives an `Encoder`: `pieces`, `batches`, `encode_ids`, `hidden_states`. `running(device=…)` says
how encoders run inside a block. `WordPieces`, `HiddenStates` and `SentenceVectors` are what a sentence pool memoises.
"""

from __future__ import annotations

from capmeter.encoders.analyses import HiddenStates, SentenceVectors, StateTable, WordPieces
from capmeter.encoders.encoder import Batch, Encoder, load_encoder
from capmeter.encoders.models import EncoderFiles, find_encoder, software
from capmeter.encoders.pieces import PieceTable, gather
from capmeter.encoders.settings import Settings, current, running

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
    "current",
    "find_encoder",
    "gather",
    "load_encoder",
    "running",
    "software",
]
