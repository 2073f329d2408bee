"""TBR's ablation and replacement study (Yi et al. 2020, Table 2), from scores of the challenge's systems.

The captions of the twelve teams of the 2015 COCO challenge are not public, so scores of the teams are given; each
metric's Pearson correlation with M1 and M2 is printed next to the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.meta.agreement import run
from capmeter.meta.published import split_encoder
from capmeter.report.metric_names import MetricName
from capmeter.report.tables import Table
from capmeter_recipes.reproductions.published import paper_source, paper_table

TABLE = "tbr/ablation"
ROWS = {
    "bleu-1": "BLEU-1",
    "bleu-1(references=cat)": "BLEU-1 (cat)",
    "rouge-l": "ROUGE-L",
    "rouge-l(references=cat)": "ROUGE-L (cat)",
    "meteor(references=cat)": "METEOR (cat)",
    "meteor": "METEOR",
    "bertscore": "BS",
    "tbr-unigram": "Unigram",
    "tbr(combine=false,remove=false,references=max)": "T",
    "tbr(combine=false,references=cat)": "T+cat+R",
    "tbr(remove=false)": "TB",
    "tbr": "TBR",
}
"""The rows of Table 2: the metric (but for its encoder), and the paper's name."""
PROTOCOLS = {"M1": "yi2020", "M2": "yi2020-m2"}
NOTE = (
    "in parentheses: {}, Table 2, with BERT. Its BLEU-1 (0.307, 0.338) contradicts its own Table 1 (0.029, 0.165) for "
    "the same metric and systems"
)


@dataclass(frozen=True)
class AblationRow:
    """A metric with its correlations, and the paper's, by judgment (`M1`, `M2`)."""

    metric: str
    label: str  # of the paper; empty where the paper has no such row
    correlations: Mapping[str, float]
    published: Mapping[str, float]


def ablation(data: Path, scores: Sequence[Path]) -> list[AblationRow]:
    """The rows of Table 2, in its order, then further metrics.

    Args:
        data: the file of the benchmark `coco2015`.
        scores: files of scores of the twelve teams by metric (`capmeter meta --scores`).

    Raises:
        InputError: a file cannot be read.
        ProtocolError: other than twelve teams have scores.
    """
    reports = {
        name: run(benchmark="coco2015", data=data, protocol=each, scores=scores) for name, each in PROTOCOLS.items()
    }
    rows = []
    for metric in reports["M1"].items:
        label = ROWS.get(split_encoder(metric)[0], "")
        values = {name: report[metric].value for name, report in reports.items()}
        correlations = {name: value / 100 for name, value in values.items() if value is not None}
        rows.append(AblationRow(metric, label, correlations, paper_table(TABLE).get(label, {})))
    order = list(ROWS.values())
    return sorted(rows, key=lambda row: order.index(row.label) if row.label else len(order))


def ablation_table(rows: Sequence[AblationRow]) -> Table:
    """One row per metric, the paper's values in parentheses."""
    cells = [[MetricName(row.metric), row.label or "-", *(_cell(row, name) for name in PROTOCOLS)] for row in rows]
    columns = ["metric", "the paper's name", *PROTOCOLS]
    note = NOTE.format(paper_source(TABLE))
    return Table(
        "Pearson's r over twelve teams of the COCO challenge", columns, cells, [False, False, True, True], note
    )


def _cell(row: AblationRow, name: str) -> str:
    ours = f"{row.correlations[name]:.3f}" if name in row.correlations else "-"
    return f"{ours} ({row.published[name]:.3f})" if name in row.published else ours


def ablation_to_dict(rows: Sequence[AblationRow]) -> dict[str, Any]:
    """The same as JSON values."""
    entries = [{**vars(row), "correlations": dict(row.correlations), "published": dict(row.published)} for row in rows]
    return {"source": paper_source(TABLE), "rows": entries}
