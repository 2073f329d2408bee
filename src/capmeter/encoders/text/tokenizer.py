"""An encoder's tokenizer: sentences to word-piece ids, begin and end tokens included, and back."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNLIMITED = 10**30
_WORD_CHARACTERS = ("CJK", "HIRAGANA", "KATAKANA")  # one alone can be a word
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
            tokenizer_config = _tokenizer_config(folder)
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

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The word pieces of some ids as text; empty for an unused id."""
        return [self._backend.id_to_token(int(piece_id)) or "" for piece_id in ids]

    @cached_property
    def uninformative(self) -> NDArray[np.bool_]:
        """Which word pieces are the unknown one, or a single letter or vowel sign that is not Latin, (vocabulary,).

        These are what is left of words in a language that the encoder was not trained on.
        """
        flags = np.zeros(len(self), np.bool_)
        for piece, piece_id in self.vocabulary().items():
            flags[piece_id] = piece_id == self.unknown_id or _is_single_letter(piece.removeprefix("##"))
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


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    """The tokenizer's configuration from the files beside it, if any."""
    config: dict[str, Any] = {}
    for file_name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / file_name).is_file():
            config |= json.loads((folder / file_name).read_text(encoding="utf-8"))
    return config


def _id(backend: Any, *tokens: str | dict[str, Any] | None) -> int:
    """The id of the first of the tokens that exists, else -1."""
    token_names = (token["content"] if isinstance(token, dict) else token for token in tokens if token is not None)
    return next(
        (int(token_id) for token_name in token_names if (token_id := backend.token_to_id(token_name)) is not None), -1
    )
