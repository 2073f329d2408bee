"""BERT's tokenizer made from a list of word pieces, for checkpoints that carry their vocabulary.

>>> tokenizer = WordPieceTokenizer([*SPECIAL, "a", "dog", "run", "##s"], lowercase=True)
>>> tokenizer.ids(["A dog runs", "a zebra"])
[[2, 4, 5, 6, 7, 3], [2, 4, 1, 3]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from capmeter.core.errors import AssetError

PAD, UNKNOWN, BEGIN, END = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


class WordPieceTokenizer:
    """Sentences to ids, [CLS] and [SEP] included.

    Args:
        vocabulary: the pieces in the order of their ids, the special tokens among them.
        lowercase: lower-case and strip accents first, as uncased BERTs do.

    Raises:
        AssetError: the vocabulary lacks a special token or has duplicates.
    """

    def __init__(self, vocabulary: Sequence[str], lowercase: bool) -> None:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

        piece_ids = {piece: piece_id for piece_id, piece in enumerate(vocabulary)}
        missing_pieces = [special_piece for special_piece in SPECIAL if special_piece not in piece_ids]
        if missing_pieces or len(piece_ids) != len(vocabulary):
            problem_text = f"lacks {', '.join(missing_pieces)}" if missing_pieces else "has duplicates"
            raise AssetError(
                f"the vocabulary of word pieces {problem_text}; expected BERT's vocab.txt, one piece per line"
            )
        backend: Any = Tokenizer(models.WordPiece(piece_ids, unk_token=UNKNOWN, max_input_chars_per_word=100))
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=lowercase, lowercase=lowercase
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.post_processor = processors.BertProcessing((END, piece_ids[END]), (BEGIN, piece_ids[BEGIN]))
        self.backend, self.vocabulary = backend, tuple(vocabulary)
        self.end_id = piece_ids[END]

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """The word pieces of each sentence, not truncated."""
        return [encoding.ids for encoding in self.backend.encode_batch_fast(list(sentences))]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of some ids as text."""
        return [self.vocabulary[piece_id] for piece_id in ids]
