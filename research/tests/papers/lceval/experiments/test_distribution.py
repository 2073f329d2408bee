"""The distribution of human scores: by hand, and the benchmarks of the paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from capmeter_research.papers.lceval.experiments.distribution import distribution, of_benchmark

from capmeter.core.errors import InputError


def test_by_hand() -> None:
    result = distribution("made", [0.0, 0.05, 0.5, 1.0], (0.0, 1.0))
    assert result.shares == (0.5, 0, 0, 0, 0, 0.25, 0, 0, 0, 0.25) and result.mean == 0.3875
    assert result.extreme == 0.75 and result.entropy == pytest.approx(0.4515, abs=1e-4)
    assert distribution("even", [k / 10 + 0.05 for k in range(10)], (0, 1)).entropy == pytest.approx(1.0)
    with pytest.raises(InputError, match="none different"):
        distribution("made", [2.0, 2.0])


def test_scores_of_the_papers_benchmarks(shared: Path) -> None:
    """Figure 4: Flickr8k near 0, Composite near both ends, CapEval1k in between."""
    data = shared / "data"
    flickr = of_benchmark("flickr8k-expert", str(data / "flickr8k_expert.jsonl.gz"))
    composite = of_benchmark("composite", str(data / "composite.jsonl.gz"))
    capeval = of_benchmark("capeval1k", str(data / "samples" / "capeval1k.jsonl.gz"), sample=True)
    assert flickr.captions == 5664 and sum(flickr.shares[:2]) > 0.5, "most scores are below .2"
    assert composite.shares[0] > 0.15 and composite.shares[-1] > 0.15
    assert capeval.captions == 100 and capeval.extreme < flickr.extreme < 1
    assert capeval.entropy > flickr.entropy and capeval.entropy > composite.entropy


def test_pairs_have_no_ratings(shared: Path) -> None:
    with pytest.raises(InputError, match="expected a benchmark of rated captions"):
        of_benchmark("pascal50s", str(shared / "data" / "samples" / "pascal50s.jsonl.gz"), sample=True)
