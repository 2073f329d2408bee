"""BLIP's image-text matching (Li et al. 2022): the probability that a caption describes its image.

    score = softmax(W E(c, v))_match            E: the text encoder, whose layers attend to the image's patches

Range 0 to 1. `head=itc` is the cosine of caption and image, each encoded separately (-1 to 1). An empty candidate
scores 0; the corpus score is the mean. Captions over `length` word pieces are truncated before the end token and listed
in the notes under `truncated`; 35 is the released code's limit. Each image is encoded once for all its captions.

>>> str(BlipItm(head="itc"))
'blip-itm(head=itc)'

Li, Li, Xiong, Hoi: BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language Understanding and
Generation. ICML 2022.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.encoders.handle import find_joint_encoder
from capmeter.encoders.text.tokenizer import PieceTable
from capmeter.evaluation.base import Floats, Measurement, RunContext, empty_candidates, merge_notes, note_truncated
from capmeter.images.joint_features import ImageReader
from capmeter.images.reading import ContentHashes, ContentHashTable
from capmeter.metrics.vision.image_text import ImageTextMetric, note_conversions
from capmeter_research.common.image_text_matcher import ImageTextMatcher, load_matcher


@dataclass(frozen=True, kw_only=True)
class BlipItm(ImageTextMetric):
    """The probability of a match by BLIP.

    Args:
        encoder: alias, hub id or folder of BLIP for image-text retrieval.
        head: `itm` or `itc`.
        length: maximum number of word pieces of a caption.
    """

    NAME: ClassVar[str] = "blip-itm"
    SUMMARY: ClassVar[str] = "BLIP's image-text matching"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \text{softmax}(W E(c, v))_{\text{match}}",)

    encoder: Annotated[str, "alias, hub id or folder of BLIP for image-text retrieval"] = "blip"
    head: Annotated[Literal["itm", "itc"], "joint encoding (itm), or the cosine of separate ones (itc)"] = "itm"
    length: Annotated[int, "maximum number of word pieces of a caption, begin and end included"] = 35

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 3:
            raise InputError(f"blip-itm: expected a length of 3 or more, but got {self.length}")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        matcher = load_matcher(find_joint_encoder(self.encoder), context.settings)
        hash_table: ContentHashTable = part.image_pool.analyse(ContentHashes())
        distinct_images, image_rows = np.unique(hash_table.first, return_inverse=True)
        hashes = [hash_table.hashes[k] for k in distinct_images.tolist()]
        reader = ImageReader([part.image_pool[k] for k in distinct_images.tolist()], matcher.preprocessing)
        distinct_sentences, sentence_rows = np.unique(part.candidates, return_inverse=True)
        pieces = matcher.pieces([part.pool[k] for k in distinct_sentences.tolist()], self.length)
        pairs, pair_rows = np.unique(
            np.stack([image_rows[part.image_indices], sentence_rows], axis=1), axis=0, return_inverse=True
        )
        caption_scores = self._pair_scores(matcher, pairs, pieces, hashes, reader)[pair_rows.reshape(-1)]
        caption_scores[empty_candidates(part)] = 0.0
        conversions = reader.notes(hashes, context.settings)
        converted = note_conversions(part, tuple(conversions[k] for k in image_rows.tolist()))
        return Measurement(
            caption_scores[:, None], merge_notes([note_truncated(part, pieces.truncated[sentence_rows]), converted])
        )

    def _pair_scores(
        self,
        matcher: ImageTextMatcher,
        pairs: NDArray[np.int64],
        pieces: PieceTable,
        hashes: list[str],
        reader: ImageReader,
    ) -> Floats:
        """The score of each pair (image, sentence), from the disk cache or computed and cached."""
        cache_space = f"match {self.head} {' '.join(matcher.signature_facts().values())}"
        cache_keys = [
            hashlib.sha256(bytes.fromhex(hashes[image]) + pieces[sentence].tobytes()).digest()
            for image, sentence in pairs.tolist()
        ]

        def match(missing: list[int]) -> list[float | None]:
            scores: list[float | None] = [None] * len(missing)
            for rows, values in matcher.match(pairs[missing], pieces, reader.pixels, self.head):
                for row, score in zip(rows.tolist(), values.tolist(), strict=True):
                    scores[row] = score
            return scores

        pair_scores = matcher.settings.result_cache().results(cache_space, cache_keys, match)
        reader.check()
        return np.array(pair_scores, np.float64)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return load_matcher(find_joint_encoder(self.encoder), context.settings).signature_facts()
