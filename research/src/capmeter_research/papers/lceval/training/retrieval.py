"""Nearest-neighbour captioning (Devlin et al. 2015): a photo gets a human caption of a similar photo.

The captioner has one human caption of the photo in place of its pixels. It ranks all other photos by the cosine between
this caption and theirs (stems of content words, weighted by idf), takes the photo at a given rank, and returns the one
of its captions that is most similar to the input. The lower the rank, the worse the captioner: fluent, and wrong about
the photo. The input is recorded (`MachineCaption.inputs`), so that it is not a reference of the output.

>>> human = {("coco", "1"): ("a dog runs",), ("coco", "2"): ("a dog sleeps", "the cat"), ("coco", "3"): ("a car",)}
>>> [(each.system, each.caption) for each in retrieve_captions(human, [("coco", "1")], ranks=(1, 2))]
[('retrieval-1', 'a dog sleeps'), ('retrieval-2', 'a car')]

J. Devlin, S. Gupta, R. Girshick, M. Mitchell, C. L. Zitnick. Exploring Nearest Neighbor Approaches for Image
Captioning. arXiv:1505.04467.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.core.ragged import Ragged
from capmeter.text.concepts import STOP_WORDS
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter_research.common.benchmark_exclusions import PhotoId
from capmeter_research.common.machine_captions import MachineCaption

RANKS = (300, 1000, 10000)
_ROWS = 256


def retrieve_captions(
    human: Mapping[PhotoId, Sequence[str]], photos: Sequence[PhotoId], *, ranks: Sequence[int] = RANKS, seed: int = 0
) -> list[MachineCaption]:
    """The captions that the captioners of these ranks (`retrieval-1` …) give the photos.

    Args:
        human: the human captions of all photos.
        photos: those to caption.
        ranks: of the retrieved photos; a rank above the number of other photos is the last one.
        seed: chooses the input captions, which depend on seed, photo and rank alone.
    """
    photo_ids = list(human)
    photo_rows = {photo: k for k, photo in enumerate(photo_ids)}
    texts = [text for photo in photo_ids for text in human[photo]]
    starts = np.cumsum([0, *(len(human[photo]) for photo in photo_ids)])
    captions = _tf_idf(texts)
    photo_vectors = _normalise_rows(_photo_sums(starts) @ captions)
    results: list[MachineCaption] = []
    for rank in ranks:
        digests = [hashlib.sha256(f"{seed} {rank} {photo}".encode()).hexdigest() for photo in photos]
        inputs = [int(digest[:12], 16) % len(human[photo]) for photo, digest in zip(photos, digests, strict=True)]
        input_rows = np.array([starts[photo_rows[photo]] + index for photo, index in zip(photos, inputs, strict=True)])
        for block_start in range(0, len(photos), _ROWS):
            block_rows = input_rows[block_start : block_start + _ROWS]
            similarity = (captions[block_rows] @ photo_vectors.T).toarray()
            for k, photo in enumerate(photos[block_start : block_start + _ROWS]):
                similarity[k, photo_rows[photo]] = -np.inf
                other_photo = np.argsort(-similarity[k], kind="stable")[min(rank, len(photo_ids) - 1) - 1]
                to_input = captions[starts[other_photo] : starts[other_photo + 1]] @ captions[[block_rows[k]]].T
                text = texts[starts[other_photo] + int(np.argmax(to_input.toarray()[:, 0]))]
                results.append(MachineCaption(photo, f"retrieval-{rank}", text, (inputs[block_start + k],)))
    return results


def _tf_idf(texts: Sequence[str]) -> Any:
    """Unit vectors (texts, stems), sparse: stems of content words, weighted by idf."""
    from scipy.sparse import csr_array

    stem_columns: dict[str, int] = {}
    word_columns: dict[str, int] = {}  # by word; -1: a stop word
    column_lists = []
    for tokens in tokenise_sentences("ptb", texts):
        for word in tokens:
            if word not in word_columns:
                word_columns[word] = (
                    -1 if word in STOP_WORDS else stem_columns.setdefault(stem(word), len(stem_columns))
                )
        column_lists.append([word_columns[word] for word in tokens if word_columns[word] >= 0])
    columns = Ragged.from_rows(column_lists, np.int64)
    stem_counts = csr_array(
        (np.ones(len(columns.values)), columns.values, columns.offsets), shape=(len(texts), max(len(stem_columns), 1))
    )
    stem_counts.sum_duplicates()
    document_counts = np.maximum(np.bincount(stem_counts.indices, minlength=stem_counts.shape[1]), 1)
    stem_counts.data *= np.log((1 + len(texts)) / document_counts)[stem_counts.indices]
    return _normalise_rows(stem_counts)


def _normalise_rows(table: Any) -> Any:
    row_norms = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return table.multiply((1 / np.maximum(row_norms, 1e-12))[:, None]).tocsr()


def _photo_sums(starts: Any) -> Any:
    """The matrix (photos, captions) that sums the captions of each photo."""
    from scipy.sparse import csr_array

    caption_count = int(starts[-1])
    return csr_array((np.ones(caption_count), np.arange(caption_count), starts), shape=(len(starts) - 1, caption_count))
