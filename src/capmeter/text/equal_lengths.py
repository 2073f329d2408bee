"""Groups of sentences of one length, which networks in numpy read together, so that nothing is padded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence, Sized


def equal_lengths(sentences: Sequence[Sized], at_once: Callable[[int], int]) -> list[list[int]]:
    """The places of sentences, in groups of one length; empty sentences are in none.

    Args:
        sentences: in any order.
        at_once: how many of a length are in a group at most; at least one is.

    Returns:
        The groups, those of the longest sentences first, which take longest.

    >>> equal_lengths(["ab", "", "c", "de", "fg"], lambda length: 4 // length)
    [[0, 3], [4], [2]]
    """
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, sentence in enumerate(sentences):
        by_length[len(sentence)].append(place)
    by_length.pop(0, None)
    return [
        places[start : start + most]
        for length, places in sorted(by_length.items(), reverse=True)
        for most in (max(1, at_once(length)),)
        for start in range(0, len(places), most)
    ]
