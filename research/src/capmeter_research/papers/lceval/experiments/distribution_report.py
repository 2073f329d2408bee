"""How human scores are distributed in benchmarks: table and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from capmeter.report.figures import house_style, open_figure, series_style
from capmeter.report.tables import Table
from capmeter_research.papers.lceval.experiments.distribution import BINS, Distribution


def distribution_table(distributions: Sequence[Distribution]) -> Table:
    """One row per benchmark."""
    table_rows = [
        [
            benchmark.name,
            benchmark.captions,
            f"{benchmark.mean:.3f}",
            f"{benchmark.extreme:.1%}",
            f"{benchmark.entropy:.3f}",
        ]
        + [f"{share:.1%}" for share in benchmark.shares]
        for benchmark in distributions
    ]
    bins = [f"{bin_index / BINS:.1f}" for bin_index in range(BINS)]
    columns = ["benchmark", "captions", "mean", "below .2 or above .8", "entropy", *bins]
    note = "from .0: the share of captions with a score from there to the next"
    return Table("human scores, mapped to [0, 1]", columns, table_rows, [False] + [True] * (len(columns) - 1), note)


def distribution_to_dict(distributions: Sequence[Distribution]) -> dict[str, Any]:
    """The same for a program."""
    return {"distributions": [asdict(benchmark) for benchmark in distributions]}


def distribution_figure(distributions: Sequence[Distribution]) -> Any:
    """The share of captions over the score, one line per benchmark."""
    figure, axes = open_figure(width=6.4, height=4.0)
    with house_style():
        panel = axes[0, 0]
        bin_centres = (np.arange(BINS) + 0.5) / BINS
        for series_index, benchmark in enumerate(distributions):
            panel.plot(
                bin_centres, 100 * np.array(benchmark.shares), label=benchmark.name, **series_style(series_index)
            )
        panel.set_xlim(0, 1)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("human score, mapped to [0, 1]")
        panel.set_ylabel("captions (%)")
        panel.legend(loc="best")
    return figure
