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

from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.stop_words import STOP_WORDS
from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter_recipes.common.benchmark_exclusions import PhotoId
from capmeter_recipes.lceval.examples import MachineCaption

RANKS = (300, 1000, 10000)
_ROWS = 256


def retrieve_captions(
    human: Mapping[PhotoId, Sequence[str]],
    photos: Sequence[PhotoId],
    *,
    ranks: Sequence[int] = RANKS,
    seed: int = 0,
) -> list[MachineCaption]:
    """The captions that the captioners of these ranks (`retrieval-1` …) give the photos.

    Args:
        human: the human captions of all photos.
        photos: those to caption.
        ranks: of the retrieved photos; a rank above the number of other photos is the last one.
        seed: chooses the input captions, which depend on seed, photo and rank alone.
    """
    names = list(human)
    number = {name: k for k, name in enumerate(names)}
    texts = [text for name in names for text in human[name]]
    starts = np.cumsum([0, *(len(human[name]) for name in names)])
    captions = _tf_idf(texts)
    photo_vectors = _normalise_rows(_photo_sums(starts) @ captions)
    results: list[MachineCaption] = []
    for rank in ranks:
        inputs = [_input_index(seed, rank, name, len(human[name])) for name in photos]
        input_rows = np.array([starts[number[name]] + index for name, index in zip(photos, inputs, strict=True)])
        for start in range(0, len(photos), _ROWS):
            rows = input_rows[start : start + _ROWS]
            similarity = (captions[rows] @ photo_vectors.T).toarray()
            for k, name in enumerate(photos[start : start + _ROWS]):
                similarity[k, number[name]] = -np.inf
                other = np.argsort(-similarity[k], kind="stable")[min(rank, len(names) - 1) - 1]
                to_input = captions[starts[other] : starts[other + 1]] @ captions[[rows[k]]].T
                text = texts[starts[other] + int(np.argmax(to_input.toarray()[:, 0]))]
                results.append(MachineCaption(name, f"retrieval-{rank}", text, (inputs[start + k],)))
    return results


def _input_index(seed: int, rank: int, photo: PhotoId, count: int) -> int:
    digest = hashlib.sha256(f"{seed} {rank} {photo}".encode()).hexdigest()
    return int(digest[:12], 16) % count


def _tf_idf(texts: Sequence[str]) -> Any:
    """Unit vectors (texts, stems), sparse: stems of content words, weighted by idf."""
    from scipy.sparse import csr_array

    stems: dict[str, int] = {}
    columns: dict[str, int] = {}  # by word; -1: a stop word
    lists = []
    for tokens in tokenise_sentences("ptb", texts):
        for word in tokens:
            if word not in columns:
                columns[word] = -1 if word in STOP_WORDS else stems.setdefault(stem(word), len(stems))
        lists.append([columns[word] for word in tokens if columns[word] >= 0])
    lengths = np.array([len(each) for each in lists])
    flat = np.array([column for each in lists for column in each], np.int64)
    counts = csr_array(
        (np.ones(len(flat)), flat, np.concatenate([[0], np.cumsum(lengths)])), shape=(len(texts), max(len(stems), 1))
    )
    counts.sum_duplicates()
    documents = np.maximum(np.bincount(counts.indices, minlength=counts.shape[1]), 1)
    counts.data *= np.log((1 + len(texts)) / documents)[counts.indices]
    return _normalise_rows(counts)


def _normalise_rows(table: Any) -> Any:
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return table.multiply((1 / np.maximum(length, 1e-12))[:, None]).tocsr()


def _photo_sums(starts: Any) -> Any:
    """The matrix (photos, captions) that sums the captions of each photo."""
    from scipy.sparse import csr_array

    total = int(starts[-1])
    return csr_array((np.ones(total), np.arange(total), starts), shape=(len(starts) - 1, total))
