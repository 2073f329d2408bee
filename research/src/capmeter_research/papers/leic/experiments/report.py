"""Tables of LEIC's studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from capmeter.report.tables import Table

if TYPE_CHECKING:
    from capmeter_research.papers.leic.training.capability import Capability
    from capmeter_research.papers.leic.training.submission import Scatter, SubmissionScores
    from capmeter_research.papers.leic.training.synthetic_scenes import WorldShares


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


def capability_table(capabilities: Sequence[Capability], images: int) -> Table:
    """One row per critic: the mean score of human captions and of each captioner's, and balanced s(Θ, D)."""
    kinds = list(capabilities[0].scores) if capabilities else []
    table_rows = [
        [critic.name, *(f"{critic.scores[kind]:.4f}" for kind in kinds), f"{critic.performance:.4f}"]
        for critic in capabilities
    ]
    title = f"mean scores of captions of {images:,} held-out images"
    return Table(title, ["critic", *kinds, "balanced s(Θ, D)"], table_rows, [False] + [True] * (len(kinds) + 1))


def capability_to_dict(capabilities: Sequence[Capability]) -> dict[str, Any]:
    """The same for a program."""
    return {critic.name: {"scores": dict(critic.scores), "performance": critic.performance} for critic in capabilities}


def world_table(shares: Sequence[WorldShares], scenes: int) -> Table:
    """One row per context: the share of scenes in which each kind of error is found, and agreement with the truth."""
    kinds = list(shares[0].above) if shares else []
    table_rows = [
        [
            context.name,
            *(f"{100 * context.above[kind]:.1f}" for kind in kinds),
            "-" if context.falls is None else f"{100 * context.falls:.1f}",
            f"{context.tau:.3f}",
        ]
        for context in shares
    ]
    title = f"true captions scored above wrong ones, % of {scenes:,} held-out scenes (50: chance)"
    columns = ["context", *kinds, "another picture", "τb with the truth"]
    return Table(title, columns, table_rows, [False] + [True] * (len(kinds) + 2))


def world_to_dict(shares: Sequence[WorldShares]) -> dict[str, Any]:
    """The same for a program."""
    return {
        context.name: {"above": dict(context.above), "falls": context.falls, "tau_b": context.tau} for context in shares
    }
