"""Draws the figures of the paper from the stored results: python scripts/paper_figures.py. Needs the extra `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow.csv

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
RESULTS, TARGET = ROOT / "docs" / "leaderboard", ROOT / "paper"
SIZE = {"figure.dpi": 150, "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}


def main() -> None:
    """Writes both figures."""
    rows = [row for path in sorted(RESULTS.glob("*.csv")) for row in pyarrow.csv.read_csv(path).to_pylist()]
    with mpl.rc_context(SIZE):
        draw_published(rows).savefig(TARGET / "published.png")
        draw_agreement(rows).savefig(TARGET / "agreement.png")


def draw_published(rows: list[dict[str, Any]]) -> Any:
    """Published values against those computed here, for metrics of the same encoder."""
    own = {(row["benchmark"], row["metric"]): row for row in rows if row["analysis"] == "results"}
    pairs = [
        (row["value"], own[key])
        for row in rows
        if row["analysis"] == "published" and (key := (row["benchmark"], row["metric"])) in own
    ]
    figure, axes = plt.subplots(figsize=(4, 3.6), layout="constrained")
    limits = [min(value for value, _ in pairs) - 3, max(value for value, _ in pairs) + 3]
    axes.plot(limits, limits, color="0.7", linewidth=1)
    for benchmark in sorted({row["benchmark"] for _, row in pairs}):
        points = [(value, row) for value, row in pairs if row["benchmark"] == benchmark]
        values = [row["value"] for _, row in points]
        spread = [[row["value"] - row["low"] for _, row in points], [row["high"] - row["value"] for _, row in points]]
        axes.errorbar([value for value, _ in points], values, yerr=spread, fmt="o", markersize=4, label=benchmark)
    axes.set(xlabel="published", ylabel="capmeter", xlim=limits, ylim=limits)
    axes.legend(frameon=False)
    return figure


def draw_agreement(rows: list[dict[str, Any]]) -> Any:
    """Every metric on every benchmark, beside length and people."""
    names = sorted({row["benchmark"] for row in rows if row["analysis"] == "results"})
    figure, grid = plt.subplots(-(-len(names) // 4), 4, figsize=(7.5, 11), layout="constrained")
    for axes, name in zip(grid.flat, names, strict=False):
        mine = [
            row for row in rows if row["benchmark"] == name and row["analysis"] in ("results", "length", "human_level")
        ]
        mine.sort(key=lambda row: row["value"])
        for place, row in enumerate(mine):
            colour = "C0" if row["analysis"] == "results" else "C1"
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1)
            axes.plot(row["value"], place, "o", color=colour, markersize=3)
        labels = ["people" if row["analysis"] == "human_level" else row["metric"] for row in mine]
        axes.set_yticks(range(len(mine)), labels, fontsize=6)
        axes.set_title(f"{name}\n{mine[0]['statistic']}", fontsize=7)
    for axes in list(grid.flat)[len(names) :]:
        axes.axis("off")
    return figure


if __name__ == "__main__":
    main()
