"""How word pieces are matched if references differ much in length."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the neural extra")

import torch

from capmeter.metrics.own.network import PieceBatch, matching_features

LONG, SHORT = 120, 60


def batch_of(lengths: list[list[int]], seed: int) -> PieceBatch:
    """Random pieces of captions whose sentences have these lengths; sentences of length 0 have no piece."""
    draw = torch.Generator().manual_seed(seed)
    sentences, pieces, longest = max(map(len, lengths)), max(map(sum, lengths)), max(map(max, lengths))
    positions = torch.full((len(lengths), sentences, longest), -1)
    mask = torch.arange(pieces) < torch.tensor([[sum(each)] for each in lengths])
    for row, counts in enumerate(lengths):
        start = 0
        for sentence, count in enumerate(counts):
            places = torch.arange(start, start + count)
            positions[row, sentence] = torch.cat([places, places[:1].expand(longest - count)]) if count else -1
            start += count
    states, static, associations = (torch.randn(len(lengths), pieces, 8, generator=draw) for _ in range(3))
    ids = torch.randint(0, 9, (len(lengths), pieces), generator=draw)
    nouns = torch.rand(len(lengths), pieces, generator=draw) * mask
    return PieceBatch(states, ids, mask, positions, static, associations, torch.ones(8), nouns)


def test_a_long_reference_among_many_short_ones_counts_as_if_all_were_alike() -> None:
    candidates, references = batch_of([[5], [4]], 1), batch_of([[2, 0] * SHORT, [LONG]], 2)
    together = matching_features(candidates, references)
    for row, sentences in ((0, 2 * SHORT), (1, 1)):
        longest = LONG if row else 2
        alone = [
            PieceBatch(*(each if each.dim() == 1 else each[row : row + 1] for each in side))
            for side in (candidates, references)
        ]
        alone[1] = alone[1]._replace(positions=alone[1].positions[:, :sentences, :longest])
        for result, expected in zip(together, matching_features(*alone), strict=True):
            torch.testing.assert_close(result[row : row + 1], expected, atol=1e-5, rtol=0)


def test_a_long_reference_among_many_short_ones_takes_no_more_memory_than_the_pairs_of_pieces() -> None:
    candidates, references = batch_of([[5]], 1), batch_of([[2] * SHORT + [LONG]], 2)
    with torch.profiler.profile(profile_memory=True) as profiler:
        matching_features(candidates, references)
    pairs = 4 * (2 * SHORT + LONG) ** 2  # bytes of a number for each pair of pieces
    assert max(event.self_cpu_memory_usage for event in profiler.events()) <= 4 * pairs
