"""How many processes share the work where nobody says so."""

from __future__ import annotations

import pytest

from capmeter.evaluation.pools import choose_worker_count
from capmeter.evaluation.registry import parse_list


@pytest.mark.parametrize(
    ("captions", "metrics", "cores", "expected"),
    [
        (5_000, "bleu-4,rouge-l,cider-d,meteor", 2, 1),  # 1.6 s in one process
        (49_000, "bleu-4,rouge-l,cider-d,meteor", 8, 8),
        (1_000_000, "rouge-l", 4, 4),
        (1_000_000, "rouge-l", 1, 1),
        (1_000_000, "rouge-l,bertscore", 4, 1),  # the network takes all cores itself
    ],
)
def test_processes_are_chosen_where_they_pay(captions: int, metrics: str, cores: int, expected: int) -> None:
    assert choose_worker_count(captions, parse_list(metrics), cores) == expected
