"""Why did a metric fail? A sheet of its worst cases for manual labelling, and the tally of the labelled sheet.

The paper's causes (SMURF, Table 5): `c1`, the metric fails although enough words of candidate and references are the
same; `c2`, the better caption says it in words that no reference has; `RF`, the reference metric is wrong instead.
Of the labelled cases of a metric, P(cause | F) is the share that has this cause.

>>> rows = [{"metric": "cider-d", "cause": cause} for cause in ("c1", "c2", "c2", "")]
>>> (found,) = tally(rows)
>>> found.labelled, found.unlabelled, {cause: round(share.value, 2) for cause, share in found.shares.items()}
(3, 1, {'c1': 0.33, 'c2': 0.67, 'RF': 0.0})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.core.errors import InputError
from capmeter.core.output_files import write_table
from capmeter.stats.bootstrap import Interval, bootstrap_interval, mean_statistic
from capmeter_research.common.labelled_sheets import labelled_rows
from capmeter_research.papers.smurf.experiments.failure_cases import FailureStudy

CAUSES = {
    "c1": "enough words are the same, but the metric weighs them wrongly",
    "c2": "the better caption uses right words that no reference has",
    "RF": "the reference metric is wrong, not this one",
}
LABELS = ("cause", "comment")


@dataclass(frozen=True)
class Tally:
    """One metric's labelled cases: P(cause | F) with its interval, by cause, and how many were left unlabelled."""

    metric: str
    labelled: int
    unlabelled: int
    shares: dict[str, Interval]


def sheet(study: FailureStudy) -> list[dict[str, str]]:
    """A row for each of the worst cases, the worst first: captions, scores, and empty `LABELS`."""
    case_rows = []
    for failures in study.failures:
        for case_number, case in enumerate(failures.worst_cases, 1):
            ranked_systems = sorted(case.captions, key=lambda system_name: -study.human[system_name])
            case_row = {
                "case": str(case_number),
                "metric": failures.metric,
                "against": study.reference,
                "image_id": case.image,
                "r": f"{case.tested:.3f}",
                "r_against": f"{case.reference:.3f}",
                "references": " | ".join(case.references),
            }
            for system_name in ranked_systems:  # the system that people found best first
                text, score = case.captions[system_name]
                case_row |= {f"caption: {system_name}": text, f"score: {system_name}": f"{score:.4f}"}
            case_rows.append(case_row | dict.fromkeys(LABELS, ""))
    return case_rows


def write_sheet(study: FailureStudy, path: str | os.PathLike[str]) -> int:
    """Writes the sheet as CSV, atomically; returns the number of cases."""
    import pyarrow

    case_rows = sheet(study)
    if not case_rows:
        raise InputError("there is no critical failure to label; no sheet was written")
    write_table(pyarrow.Table.from_pylist(case_rows), Path(path))
    return len(case_rows)


def read_sheet(path: str | os.PathLike[str], causes: Sequence[str] = tuple(CAUSES)) -> list[dict[str, str]]:
    """The rows of a labelled sheet; an unknown cause is an `InputError` with its row."""
    cause_rows = []
    for row_number, row in labelled_rows(path, ("metric", "cause"), "study failures --sheet"):
        cause = (row["cause"] or "").strip()
        cause_name = next((known_cause for known_cause in causes if known_cause.lower() == cause.lower()), None)
        if cause and cause_name is None:
            raise InputError(
                f"{path}, row {row_number}: unknown cause {cause!r}; expected {', '.join(causes)}, or nothing"
            )
        cause_rows.append({**row, "cause": cause_name or ""})
    return cause_rows


def tally(
    rows: Sequence[Mapping[str, str]], causes: Sequence[str] = tuple(CAUSES), *, resamples: int = 1000, seed: int = 0
) -> list[Tally]:
    """P(cause | F) of each metric's labelled cases; intervals resample cases with replacement."""
    tallies = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        causes_given = [row["cause"] for row in rows if row["metric"] == metric]
        labels = [cause for cause in causes_given if cause]
        if not labels:
            raise InputError(f"no case of {metric} has a cause yet; write {', '.join(causes)} into the column `cause`")
        cases = range(len(labels))
        shares = {
            cause: bootstrap_interval(
                mean_statistic(np.array([label == cause for label in labels], float)), cases, resamples, seed
            )
            for cause in causes
        }
        tallies.append(Tally(metric, len(labels), len(causes_given) - len(labels), shares))
    if not tallies:
        raise InputError("the sheet has no cases")
    return tallies
