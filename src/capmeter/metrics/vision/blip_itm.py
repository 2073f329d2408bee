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
from capmeter.encoders.joint.matcher import ImageTextMatcher, load_matcher
from capmeter.encoders.pieces import PieceTable
from capmeter.evaluation.base import Floats, Measurement, RunContext, merge_notes
from capmeter.images.analyses import ContentHashes, ContentHashTable
from capmeter.images.joint_features import ImageReader
from capmeter.metrics.notes import empty_candidates, note_truncated
from capmeter.metrics.vision.image_text import ImageTextMetric, note_conversions


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
        contents: ContentHashTable = part.image_pool.analyse(ContentHashes())
        distinct, image = np.unique(contents.first, return_inverse=True)
        hashes = [contents.hashes[k] for k in distinct.tolist()]
        reader = ImageReader([part.image_pool[k] for k in distinct.tolist()], matcher.preprocessing)
        sentences, sentence = np.unique(part.candidates, return_inverse=True)
        pieces = matcher.pieces([part.pool[k] for k in sentences.tolist()], self.length)
        pairs, pair = np.unique(np.stack([image[part.image_indices], sentence], axis=1), axis=0, return_inverse=True)
        scores = self._pair_scores(matcher, pairs, pieces, hashes, reader)[pair.reshape(-1)]
        scores[empty_candidates(part)] = 0.0
        conversions = reader.notes(hashes, context.settings)
        converted = note_conversions(part, tuple(conversions[k] for k in image.tolist()))
        return Measurement(scores[:, None], merge_notes([note_truncated(part, pieces.truncated[sentence]), converted]))

    def _pair_scores(
        self,
        matcher: ImageTextMatcher,
        pairs: NDArray[np.int64],
        pieces: PieceTable,
        hashes: list[str],
        reader: ImageReader,
    ) -> Floats:
        """The score of each pair (image, sentence), from the disk cache or computed and cached."""
        space = f"match {self.head} {' '.join(matcher.signature_facts().values())}"
        contents = [_pair_hash(hashes[image], pieces[sentence]) for image, sentence in pairs.tolist()]
        cache = matcher.settings.disk_cache()
        cached = {} if cache is None else cache.get(space, contents)
        scores = np.array([cached.get(content, 0.0) for content in contents])
        missing = np.array([row for row, content in enumerate(contents) if content not in cached], np.int64)
        for rows, values in matcher.match(pairs[missing], pieces, reader.pixels, self.head):
            scores[missing[rows]] = values
            if cache is not None:
                cache.put(space, {contents[missing[k]]: float(each) for k, each in zip(rows, values, strict=True)})
        reader.check()
        return scores

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the preprocessing, the libraries and the precision."""
        return load_matcher(find_joint_encoder(self.encoder), context.settings).signature_facts()


def _pair_hash(image: str, sentence: NDArray[np.int32]) -> bytes:
    """The cache key of a pair's score."""
    return hashlib.sha256(bytes.fromhex(image) + sentence.tobytes()).digest()
