"""Submissions as a table and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.report.tables import Table

if TYPE_CHECKING:
    from capmeter_research.papers.leic.training.submission import Scatter, SubmissionScores


def submission_table(submissions: Sequence[SubmissionScores], scatter: Scatter | None = None) -> Table:
    """One row per submission: its score, that of human captions, and s(Θ, D), each with its deviation over runs.

    With a `scatter` also what people say of it, and their correlation.
    """
    table_rows = []
    for submission in sorted(submissions, key=lambda submission: -submission.scores.mean()):
        score_groups = (submission.scores, submission.human, submission.performance)
        cells = [
            f"{value.mean():.4f}" + (f" ± {submission.spread(value):.4f}" if len(value) > 1 else "")
            for value in score_groups
        ]
        table_rows.append([submission.system, f"{submission.images:,}", *cells])
        if scatter is not None:
            table_rows[-1].append(
                f"{scatter.people[submission.system]:.4f}" if submission.system in scatter.people else "-"
            )
    runs = len(submissions[0].scores) if submissions else 0
    note = f"{runs} runs per fold: mean ± standard deviation" if runs > 1 else "one run: use --runs to see the spread"
    columns = ["submission", "images", "score: P(human)", "human captions", "s(Θ, D)"]
    if scatter is not None:
        columns.append("people")
        note += f"; Pearson's r with people: {scatter.pearson:.3f} (p {scatter.p:.3f}, permutation test)"
    title = "submissions, each judged by critics trained against it alone"
    return Table(title, columns, table_rows, [False] + [True] * (len(columns) - 1), note)


def submission_to_dict(submissions: Sequence[SubmissionScores], scatter: Scatter | None = None) -> dict[str, Any]:
    """The same for a program, with the value of each run."""
    human_scores = {} if scatter is None else scatter.people
    return {
        submission.system: {
            "images": submission.images,
            "score": float(submission.scores.mean()),
            "deviation": submission.spread(submission.scores),
            "scores": submission.scores.tolist(),
            "human": submission.human.tolist(),
            "performance": submission.performance.tolist(),
            **({"people": human_scores[submission.system]} if submission.system in human_scores else {}),
        }
        for submission in submissions
    }


@house_style()
def submission_figure(submissions: Sequence[SubmissionScores], scatter: Scatter) -> Any:
    """Figure 7: the scores of submissions against what people say of them; bars: standard deviation over runs."""
    figure, axes = open_figure(width=5.4, height=4.4)
    panel = axes[0, 0]
    names = list(scatter.people)
    x, y = (np.array([values[name] for name in names]) for values in (scatter.people, scatter.scores))
    spread = {submission.system: submission.spread(submission.scores) for submission in submissions}
    line_ends = np.array([x.min(), x.max()])
    panel.plot(line_ends, np.polyval(np.polyfit(x, y, 1), line_ends), color="#B0B0B0", linewidth=1, zorder=1)
    panel.errorbar(x, y, [spread[name] for name in names], fmt="o", color=COLOURS[0], elinewidth=1, zorder=2)
    for name, point in zip(names, zip(x, y, strict=True), strict=True):
        panel.annotate(name, point, xytext=(5, 3), textcoords="offset points", fontsize=7.5)
    panel.set_xlabel("people")
    panel.set_ylabel("score: P(human)")
    panel.set_title(f"Pearson's r {scatter.pearson:.3f}, p {scatter.p:.3f}")
    return figure
