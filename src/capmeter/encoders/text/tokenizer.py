"""An encoder's tokenizer: sentences to word-piece ids, begin and end tokens included, and back.

Word pieces of many sentences in one flat table.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
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
    def from_rows(cls, rows: Sequence[Sequence[int]], truncated: Iterable[bool] | None = None) -> PieceTable:
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


_UNLIMITED = 10**30
_WORD_CHARACTERS = ("CJK", "HIRAGANA", "KATAKANA")  # one alone can be a word
_FEWEST_SIGNS = 2000  # of these: an English vocabulary has some hundreds, which spell no caption
_PAD, _UNKNOWN = ("[PAD]", "<pad>"), ("[UNK]", "<unk>")  # BERT's and RoBERTa's names, used if no file gives others


class Tokenizer:
    """The tokenizer in an encoder's folder.

    begin_id, end_id: the tokens around a sentence. pad_id, unknown_id: the padding and unknown tokens (-1 if there is
    no such token). longest: the maximum number of word pieces that the encoder was published for.
    """

    def __init__(self, folder: Path, plain: bool) -> None:
        """plain: `tokenizer.json` is sufficient; else the transformers library builds the tokenizer."""
        backend: Any
        if plain:
            from tokenizers import Tokenizer as Backend

            try:
                backend = Backend.from_file(str(folder / "tokenizer.json"))
            except Exception as error:  # the library raises nothing more specific
                raise ValueError(f"tokenizer.json: {error}") from error
            tokenizer_config: dict[str, Any] = {}
            for file_name in ("special_tokens_map.json", "tokenizer_config.json"):
                if (folder / file_name).is_file():
                    tokenizer_config |= json.loads((folder / file_name).read_text(encoding="utf-8"))
            self.pad_id = _id(backend, tokenizer_config.get("pad_token"), *_PAD)
            self.unknown_id = _id(backend, tokenizer_config.get("unk_token"), *_UNKNOWN)
            self.longest = int(tokenizer_config.get("model_max_length") or _UNLIMITED)
        else:
            from transformers import AutoTokenizer

            tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, use_fast=True)
            backend = tokenizer.backend_tokenizer
            if set(backend.get_vocab().values()) <= set(tokenizer.all_special_ids):
                raise ValueError("its tokenizer has no word pieces; the tokenizer's files are missing")
            self.pad_id, self.unknown_id = _id(backend, tokenizer.pad_token), _id(backend, tokenizer.unk_token)
            self.longest = int(tokenizer.model_max_length)
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        # Byte-level tokenizers split a first word differently from an inner one unless a space precedes it.
        self._lead = " " if "ByteLevel" in str(backend.pre_tokenizer) else ""
        self._blank = "▁" if "Metaspace" in str(backend.pre_tokenizer) else "Ġ" if self._lead else ""
        self._size = max(backend.get_vocab().values(), default=-1) + 1
        special_ids = self.ids([""])[0]
        if len(special_ids) < 2:
            raise ValueError(
                "its tokenizer adds no begin and end tokens around a sentence; capmeter's metrics need an encoder of "
                "the BERT kind"
            )
        self.begin_id, self.end_id = special_ids[0], special_ids[-1]

    def __len__(self) -> int:
        return self._size  # includes unused ids

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The word pieces of each sentence with begin and end tokens, not truncated."""
        led_sentences = [self._lead + bare if (bare := sentence.strip()) else "" for sentence in sentences]
        return [encoding.ids for encoding in self._backend.encode_batch_fast(led_sentences)]

    def inner_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The word pieces of each text, without begin and end tokens."""
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def vocabulary(self) -> dict[str, int]:
        """The id of every word piece."""
        return dict(self._backend.get_vocab())

    def pieces(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """The word pieces of some ids as text; empty for an unused id."""
        return [self._backend.id_to_token(int(piece_id)) or "" for piece_id in ids]

    @cached_property
    def uninformative(self) -> NDArray[np.bool_]:
        """Which word pieces are the unknown one, or a single letter or vowel sign that is not Latin, (vocabulary,).

        These are what is left of words in a language that the encoder was not trained on.
        """
        flags = np.zeros(len(self), np.bool_)
        signs = []
        for piece, piece_id in self.vocabulary().items():
            letter = piece.removeprefix("##")
            flags[piece_id] = piece_id == self.unknown_id or _is_single_letter(letter)
            if len(letter) == 1 and unicodedata.name(letter, "").startswith(_WORD_CHARACTERS):
                signs.append(piece_id)
        if len(signs) < _FEWEST_SIGNS:
            flags[signs] = True
        return flags

    def word_of(self, piece: str) -> str:
        """The word that a piece begins, or the punctuation it is; a piece inside a word begins with ##."""
        if self._blank:  # "Ġdog" (bytes) or "▁dog" begins a word, "dog" continues one, "." is punctuation
            return piece[1:] if piece.startswith(self._blank) else (f"##{piece}" if piece.isalnum() else piece)
        return piece


def _is_single_letter(text: str) -> bool:
    """Whether the text is a single letter or vowel sign of another alphabet than the Latin one.

    >>> [_is_single_letter(text) for text in ("σ", "ा", "a", "é", "σκ", "犬", "…")]
    [True, True, False, False, False, False, False]
    """
    if len(text) != 1 or unicodedata.category(text)[0] not in "LM":
        return False
    return not unicodedata.name(text, "LATIN").startswith(("LATIN", *_WORD_CHARACTERS))


def _id(backend: Any, *tokens: str | dict[str, Any] | None) -> int:
    """The id of the first of the tokens that exists, else -1."""
    token_names = (token["content"] if isinstance(token, dict) else token for token in tokens if token is not None)
    return next(
        (int(token_id) for token_name in token_names if (token_id := backend.token_to_id(token_name)) is not None), -1
    )
