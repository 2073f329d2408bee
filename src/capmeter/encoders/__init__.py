"""Neural encoders behind one small interface.

`load_encoder(name, settings)` returns an `Encoder`: `pieces`, `batches`, `encode_ids`, `hidden_states`; `load_files`
the one in files that `find_encoder` or `adapted_files` found. `Settings` say where and how it runs. `WordPieces`,
`HiddenStates` and `SentenceVectors` are analyses that a sentence pool memoises.
"""

from __future__ import annotations

from capmeter.encoders.analyses import HiddenStates, SentenceVectors, StateTable, WordPieces
from capmeter.encoders.encoder import Batch, Encoder, load_encoder, load_files
from capmeter.encoders.models import EncoderFiles, adapted_files, find_encoder, software
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
    "adapted_files",
    "find_encoder",
    "gather",
    "load_encoder",
    "load_files",
    "software",
]
