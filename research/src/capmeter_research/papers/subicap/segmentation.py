"""Captions as words, characters or subwords: learned, applied and undone by SentencePiece.

>>> parts = Segmentation.learned(["a cat sleeps", "a dog is sleeping", "the cats sleep"], "char", 95)
>>> parts.decode(parts.encode(["the cat is sleeping"])) == ["the cat is sleeping"]
True

Sharif: Novel Methods for Image Captioning and its Evaluation, appendix A. Kudo and Richardson: SentencePiece. EMNLP
2018 (demonstrations).
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import string
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter_research.common.transformer.decoding import BEGIN, END, PAD

Kind: TypeAlias = Literal["word", "char", "bpe", "unigram"]
KINDS: tuple[Kind, ...] = get_args(Kind)
UNKNOWN = 3
UNALTERED = 0.99
"""The share of captions that are not truncated."""
_PRINTABLE = "".join(map(chr, range(33, 127)))
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Segmentation:
    """A vocabulary and how captions are taken apart. Ids 0 to 3 are padding, begin, end and unknown.

    Args:
        kind: `word`, `char`, `bpe` or `unigram`.
        model: SentencePiece's model, in base64 (`model`).

    Raises:
        AssetError: the model is damaged, or has other special ids.
        MissingBackend: sentencepiece is not installed.
    """

    def __init__(self, kind: str, model: str) -> None:
        library = _sentencepiece()
        self.kind, self.model = kind, model
        try:
            self._backend: Any = library.SentencePieceProcessor()
            self._backend.LoadFromSerializedProto(base64.b64decode(model, validate=True))
            special_ids = [getattr(self._backend, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")]
        except (RuntimeError, binascii.Error, ValueError, TypeError) as error:
            raise AssetError(
                f"segmentation: SentencePiece's model is damaged ({error}); train the captioner again"
            ) from error
        if special_ids != [PAD, BEGIN, END, UNKNOWN]:
            raise AssetError(f"segmentation: special ids {special_ids}, expected {[PAD, BEGIN, END, UNKNOWN]}")

    @classmethod
    def learned(cls, captions: Iterable[str], kind: str, size: int) -> Segmentation:
        """A vocabulary learned from captions.

        Subwords and characters always include the 95 printable characters of ASCII, as in the paper, so that every
        English caption can be written.

        Args:
            captions: what to learn from.
            kind: `word`, `char`, `bpe` or `unigram`.
            size: the number of entries, with the four special ones; fewer where the captions have no more. `char` has
                all characters, whatever the size.

        Raises:
            InputError: an unknown kind, a size that is too small, or no caption.
        """
        if kind not in KINDS:
            raise InputError(f"segmentation: expected one of {', '.join(KINDS)}, but got {kind!r}")
        texts = [caption_text for caption_text in captions if caption_text.strip()]
        if not texts:
            raise InputError("segmentation: there is no caption to learn from")
        model_buffer = io.BytesIO()
        try:
            _sentencepiece().SentencePieceTrainer.Train(
                sentence_iterator=iter(texts),
                model_writer=model_buffer,
                model_type=kind,
                vocab_size=size,
                hard_vocab_limit=False,
                use_all_vocab=kind == "char",
                character_coverage=1.0,
                required_chars="" if kind == "word" else _PRINTABLE,
                normalization_rule_name="identity",
                split_digits=False,
                max_sentence_length=1 << 16,
                pad_id=PAD,
                bos_id=BEGIN,
                eos_id=END,
                unk_id=UNKNOWN,
                num_threads=1,
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"segmentation: SentencePiece learns no {kind} vocabulary of {size:,} entries from {len(texts):,} "
                f"captions ({error}); expected more entries than characters, and fewer than the captions have"
            ) from error
        return cls(kind, base64.b64encode(model_buffer.getvalue()).decode("ascii"))

    def __len__(self) -> int:
        return int(self._backend.GetPieceSize())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segmentation) and (self.kind, self.model) == (other.kind, other.model)

    def __hash__(self) -> int:
        return hash((self.kind, self.model))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's tokens, without an end."""
        ids: list[list[int]] = self._backend.Encode(list(texts))
        return ids

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's tokens; `▁` stands for a blank."""
        pieces: list[list[str]] = self._backend.Encode(list(texts), out_type=str)
        return pieces

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """The text of each row of ids, without padding, begin and end; what is unknown is `⁇`."""
        ids = [[int(token_id) for token_id in token_ids if token_id not in (PAD, BEGIN, END)] for token_ids in rows]
        texts: list[str] = [" ".join(text.split()) for text in self._backend.Decode(ids)] if ids else []
        return texts


def plain(caption: str, words: int = 0) -> str:
    """The caption in lower case without punctuation, as in Karpathy's files; truncated to this many words (0: not).

    >>> plain("A man's T-shirt, on a bed.", words=4)
    'a mans tshirt on'
    """
    plain_words = caption.lower().translate(_PUNCTUATION).split()
    return " ".join(plain_words[:words] if words else plain_words)


def unaltered_length(rows: Sequence[Sequence[int]], share: float = UNALTERED) -> int:
    """The smallest number of tokens to which this share of the captions need not be truncated (τ of A.2).

    >>> unaltered_length([[1]] * 98 + [[1, 2]] + [[1] * 9])
    2
    """
    lengths = np.sort(np.fromiter(map(len, rows), np.int64, len(rows)))
    if not len(lengths):
        raise InputError("there is no caption whose tokens could be counted")
    return int(lengths[max(0, math.ceil(share * len(lengths) - 1e-9) - 1)])


def _sentencepiece() -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise MissingBackend('the captioner needs sentencepiece: pip install "capmeter-research[captioner]"') from error
    return sentencepiece
