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
from capmeter.report.tables import MetricName, Table
from capmeter_research.common.published import paper_source, paper_table

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
    report_by_judgment = {
        judgment: run(benchmark="coco2015", data=data, protocol=protocol_name, scores=scores)
        for judgment, protocol_name in PROTOCOLS.items()
    }
    ablation_rows = []
    for metric in report_by_judgment["M1"].items:
        label = ROWS.get(split_encoder(metric)[0], "")
        values_by_judgment = {judgment: report[metric].value for judgment, report in report_by_judgment.items()}
        correlations = {judgment: value / 100 for judgment, value in values_by_judgment.items() if value is not None}
        ablation_rows.append(AblationRow(metric, label, correlations, paper_table(TABLE).get(label, {})))
    label_order = list(ROWS.values())
    return sorted(ablation_rows, key=lambda row: label_order.index(row.label) if row.label else len(label_order))


def ablation_table(rows: Sequence[AblationRow]) -> Table:
    """One row per metric, the paper's values in parentheses."""
    table_rows = [
        [MetricName(row.metric), row.label or "-", *(_cell(row, judgment) for judgment in PROTOCOLS)] for row in rows
    ]
    columns = ["metric", "the paper's name", *PROTOCOLS]
    note = NOTE.format(paper_source(TABLE))
    return Table(
        "Pearson's r over twelve teams of the COCO challenge", columns, table_rows, [False, False, True, True], note
    )


def _cell(row: AblationRow, judgment: str) -> str:
    own_value = f"{row.correlations[judgment]:.3f}" if judgment in row.correlations else "-"
    return f"{own_value} ({row.published[judgment]:.3f})" if judgment in row.published else own_value


def ablation_to_dict(rows: Sequence[AblationRow]) -> dict[str, Any]:
    """The same as JSON values."""
    entries = [{**vars(row), "correlations": dict(row.correlations), "published": dict(row.published)} for row in rows]
    return {"source": paper_source(TABLE), "rows": entries}
