"""Neural encoders behind one small interface.

`find_encoder(name)` resolves a name to an `EncoderHandle`, which is passed on; `load_encoder(handle, settings)` returns
its `Encoder`: `pieces`, `encode_ids`, `hidden_states`. `Settings` say where and how it runs. `WordPieces`,
`HiddenStates` and `SentenceVectors` are analyses that a sentence pool memoises.
"""

from __future__ import annotations

from capmeter.core.settings import Settings
from capmeter.encoders.handle import EncoderHandle, find_encoder, find_joint_encoder
from capmeter.encoders.text.encoder import (
    EncodedBatch,
    Encoder,
    HiddenStates,
    SentenceVectors,
    StateTable,
    WordPieces,
    load_encoder,
)
from capmeter.encoders.text.tokenizer import PieceTable

__all__ = [
    "EncodedBatch",
    "Encoder",
    "EncoderHandle",
    "HiddenStates",
    "PieceTable",
    "SentenceVectors",
    "Settings",
    "StateTable",
    "WordPieces",
    "find_encoder",
    "find_joint_encoder",
    "load_encoder",
]
