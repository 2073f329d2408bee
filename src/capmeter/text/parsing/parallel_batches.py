"""Batches of sentences of equal length, processed by numpy on several threads.

Sentences of one batch have the same number of words, so that nothing is padded. The threads of one product of small
matrices mostly wait for each other; whole batches do not. There are as many threads as numpy's BLAS would use
(`OMP_NUM_THREADS` limits both), and meanwhile BLAS uses one in each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Sized
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from capmeter.core.progress import task

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")
_blas_limit = Lock()  # BLAS's number of threads is process-wide


def group_by_length(sentences: Sequence[Sized], batch_size: Callable[[int], int]) -> list[list[int]]:
    """Groups sentences of equal length; empty sentences are in no group.

    Args:
        sentences: in any order.
        batch_size: the largest number of sentences of a length in a group (at least one is).

    Returns:
        The indices of each group's sentences, the longest sentences first, which take longest.

    >>> group_by_length(["ab", "", "c", "de", "fg"], lambda length: 4 // length)
    [[0, 3], [4], [2]]
    """
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for sentence_index, sentence in enumerate(sentences):
        by_length[len(sentence)].append(sentence_index)
    by_length.pop(0, None)
    return [
        indices[group_start : group_start + group_size]
        for sentence_length, indices in sorted(by_length.items(), reverse=True)
        for group_size in (max(1, batch_size(sentence_length)),)
        for group_start in range(0, len(indices), group_size)
    ]


def map_batches(
    work: Callable[[list[int]], Sequence[Result]],
    sentences: Sequence[Sized],
    batch_size: Callable[[int], int],
    title: str,
) -> list[Result]:
    """Processes sentences in batches of equal length, on several threads, with a progress bar.

    Args:
        work: returns the results of the sentences with these indices.
        sentences: none of them empty.
        batch_size: see `group_by_length`.
        title: of the progress bar.

    Returns:
        The result of each sentence.
    """
    batches = group_by_length(sentences, batch_size)
    results: dict[int, Result] = {}
    with task(title, total=len(sentences)) as advance:
        for batch_indices, batch_results in zip(batches, map_in_threads(work, batches), strict=True):
            results.update(zip(batch_indices, batch_results, strict=True))
            advance(len(batch_indices))
    return [results[sentence_index] for sentence_index in range(len(sentences))]


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yields `work(item)` for each item, in order.

    A concurrent call from another thread uses no threads of its own or waits for its turn.
    """
    blas_controller = _load_blas()
    threads = min(len(items), max((library_info["num_threads"] for library_info in blas_controller.info()), default=1))
    if threads < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    with _blas_limit, blas_controller.limit(limits=1), ThreadPoolExecutor(threads) as thread_pool:
        yield from thread_pool.map(work, items)


@lru_cache(maxsize=1)
def _load_blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def index_words(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """Returns each sentence's words as indices into the distinct words, and these.

    >>> index_words([["a", "dog"], ["a", "cat"]])
    ([[0, 1], [0, 2]], ['a', 'dog', 'cat'])
    """
    word_ids: defaultdict[str, int] = defaultdict()
    word_ids.default_factory = word_ids.__len__
    return [[word_ids[word] for word in sentence] for sentence in sentences], list(word_ids)


def split_long_sentence(words: list[str], max_words: int) -> list[list[str]]:
    """Splits a sentence of more than `max_words` words into pieces of nearly equal length.

    >>> split_long_sentence(["a", "dog", "on", "grass", "runs"], 3)
    [['a', 'dog'], ['on', 'grass', 'runs']]
    """
    piece_count = -(-len(words) // max_words)
    piece_edges = [len(words) * piece_index // piece_count for piece_index in range(piece_count + 1)]
    return [words[piece_start:piece_end] for piece_start, piece_end in pairwise(piece_edges)]
