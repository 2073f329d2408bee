"""Subwords of captions: byte-level BPE, learned and applied by the tokenizers library.

Bytes are the alphabet, so that every text has subwords; case and punctuation are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from capmeter.core.errors import AssetError, MissingBackend

_SPECIAL = ("<pad>", "<begin>", "<end>")


class Subwords:
    """The subwords of a writer. Ids 0 to 2 are padding, begin and end; then come the marks; then text.

    Args:
        text: what `str(subwords)` gave.

    Raises:
        AssetError: the text is damaged.
        MissingBackend: tokenizers is not installed.
    """

    def __init__(self, text: str) -> None:
        try:
            self._backend: Any = _tokenizers().Tokenizer.from_str(text)
        except MissingBackend:
            raise
        except Exception as error:  # the library raises nothing more specific
            raise AssetError(f"subwords: the tokenizer's text is damaged ({error}); train the writer again") from error

    @classmethod
    def learned(cls, captions: Iterable[str], size: int, marks: Sequence[str] = ()) -> Subwords:
        """Subwords learned from captions.

        Args:
            captions: what to learn from.
            size: number of subwords, with the special ones, the marks and the 256 bytes.
            marks: names of further special subwords, which no text has.
        """
        library = _tokenizers()
        backend = library.Tokenizer(library.models.BPE())
        backend.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=True)
        backend.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=[*_SPECIAL, *marks],
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        backend.train_from_iterator(captions, trainer)
        return cls(backend.to_str())

    def __str__(self) -> str:
        """A text from which the subwords are built again."""
        text: str = self._backend.to_str()
        return text

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size())

    def mark(self, name: str) -> int:
        """The id of a mark."""
        token_id = self._backend.token_to_id(name)
        if token_id is None:
            raise AssetError(f"subwords: there is no mark {name!r}; train the writer again")
        return int(token_id)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's subwords; a text that spells a mark, such as "<end>", has none of that mark."""
        texts = [text.replace("<", " < ") if "<" in text else text for text in texts]
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, without special ids, with single spaces."""
        return [" ".join(text.split()) for text in self._backend.decode_batch(rows, skip_special_tokens=True)]


def _tokenizers() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise MissingBackend('the caption writer needs tokenizers: pip install "capmeter[neural]"') from error
    return tokenizers
