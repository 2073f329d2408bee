"""A captioner that retrieves (Devlin et al. 2015): it says of a photo what people said of another that resembles it.

It reads one caption of the photo in place of its pixels, ranks all other photos by the cosine of the stems of their
captions' content words (weighted by idf) with that caption, takes the photo at a rank, and says that one of its
captions that is most like what was read. The lower the rank, the worse the captioner: fluent, and wrong in what the
photo shows. What was read is known (`Machine.read`), so that it is no reference of what was said.

>>> people = {("coco", "1"): ("a dog runs",), ("coco", "2"): ("a dog sleeps", "the cat"), ("coco", "3"): ("a car",)}
>>> [(each.system, each.caption) for each in retrieved(people, [("coco", "1")], ranks=(1, 2))]
[('retrieval-1', 'a dog sleeps'), ('retrieval-2', 'a car')]

J. Devlin, S. Gupta, R. Girshick, M. Mitchell, C. L. Zitnick. Exploring Nearest Neighbor Approaches for Image
Captioning. arXiv:1505.04467.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.learning.lceval.examples import Machine, PhotoId
from capmeter.text.porter import stem
from capmeter.text.stopwords import STOP_WORDS
from capmeter.text.tokens import token_lists

RANKS = (300, 1000, 10000)
_ROWS = 256


def retrieved(
    photos: Mapping[PhotoId, Sequence[str]],
    of: Sequence[PhotoId],
    *,
    ranks: Sequence[int] = RANKS,
    seed: int = 0,
) -> list[Machine]:
    """The captions of the captioners of these ranks (`retrieval-1` …) for the photos `of`, among all `photos`.

    A rank beyond the number of other photos is the last one. What is read depends on seed, photo and rank alone.
    """
    names = list(photos)
    place = {name: k for k, name in enumerate(names)}
    texts = [text for name in names for text in photos[name]]
    starts = np.cumsum([0, *(len(photos[name]) for name in names)])
    captions = _vectors(texts)
    whole = _unit(_sums(starts) @ captions)
    found: list[Machine] = []
    for rank in ranks:
        read = [_place(seed, rank, name, len(photos[name])) for name in of]
        own = np.array([starts[place[name]] + shown for name, shown in zip(of, read, strict=True)])
        for start in range(0, len(of), _ROWS):
            chosen = own[start : start + _ROWS]
            likeness = (captions[chosen] @ whole.T).toarray()
            for row, name in enumerate(of[start : start + _ROWS]):
                likeness[row, place[name]] = -np.inf
                other = np.argsort(-likeness[row], kind="stable")[min(rank, len(names) - 1) - 1]
                theirs = captions[starts[other] : starts[other + 1]] @ captions[[chosen[row]]].T
                said = texts[starts[other] + int(np.argmax(theirs.toarray()[:, 0]))]
                found.append(Machine(name, f"retrieval-{rank}", said, (read[start + row],)))
    return found


def _place(seed: int, rank: int, photo: PhotoId, count: int) -> int:
    digest = hashlib.sha256(f"{seed} {rank} {photo}".encode()).hexdigest()
    return int(digest[:12], 16) % count


def _vectors(texts: Sequence[str]) -> Any:
    """Unit vectors of texts, [texts, stems], sparse: stems of content words, weighted by idf."""
    from scipy.sparse import csr_array

    stems: dict[str, int] = {}
    columns: dict[str, int] = {}  # of words as they are written; -1: no content
    lists = []
    for tokens in token_lists("ptb", texts):
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
    return _unit(counts)


def _unit(table: Any) -> Any:
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return table.multiply((1 / np.maximum(length, 1e-12))[:, None]).tocsr()


def _sums(starts: Any) -> Any:
    """The matrix that adds the captions of each photo."""
    from scipy.sparse import csr_array

    total = int(starts[-1])
    return csr_array((np.ones(total), np.arange(total), starts), shape=(len(starts) - 1, total))
