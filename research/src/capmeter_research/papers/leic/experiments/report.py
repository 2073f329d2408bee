"""Tables of LEIC's studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from capmeter.report.tables import Table

if TYPE_CHECKING:
    from capmeter_research.papers.leic.training.capability import Capability
    from capmeter_research.papers.leic.training.cases import Cases, RankDisagreement
    from capmeter_research.papers.leic.training.submission import Scatter, SubmissionScores
    from capmeter_research.papers.leic.training.synthetic_scenes import WorldShares
    from capmeter_research.papers.leic.training.word_frequency import WordFrequency


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


def renamed(table: Table, names: Mapping[str, str]) -> Table:
    """The table of a robustness study with critics by their names."""
    table_rows = [[row[0], names.get(str(row[1]), row[1]), *row[2:]] for row in table.rows]
    return replace(table, rows=table_rows)


def words_table(frequencies: WordFrequency) -> Table:
    """One row per range of ranks: people's share of words, and each system's share relative to it."""
    table_rows = []
    for k, (low, high) in enumerate(frequencies.ranges):
        ratios = [f"{shares[k] / frequencies.human[k]:.2f}" for shares in frequencies.systems.values()]
        table_rows.append([f"{low:,} to {high:,}", f"{100 * frequencies.human[k]:.2f}", *ratios])
    unknown_cells = [f"{100 * shares[-1]:.2f} %" for shares in frequencies.systems.values()]
    table_rows.append(["in no reference", "-", *unknown_cells])
    columns = ["rank in the references", "people, % of words", *(f"{name}: relative" for name in frequencies.systems)]
    return Table(
        "use of frequent and rare words", columns, table_rows, [False] + [True] * (len(frequencies.systems) + 1)
    )


def words_to_dict(frequencies: WordFrequency) -> dict[str, Any]:
    """The same for a program."""
    return {
        "ranges": [list(rank_range) for rank_range in frequencies.ranges],
        "human": frequencies.human.tolist(),
        "systems": {system_name: shares.tolist() for system_name, shares in frequencies.systems.items()},
    }


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


def cases_table(disagreements: Cases) -> Table:
    """One row per case: ranks by people and both metrics, and the words that raised and lowered the critic's score."""
    table_rows = []
    for side, cases in (
        (f"nearer: {disagreements.critic}", disagreements.better),
        (f"nearer: {disagreements.other}", disagreements.worse),
    ):
        for case in cases:
            ranks = [f"{100 * rank:.0f}" for rank in case.ranks]
            table_rows.append([side, case.caption.image_id, case.caption.candidate, *ranks, *_raised_and_lowered(case)])
    title = f"cases among {disagreements.captions:,} rated captions: ranks in per cent"
    columns = ["", "image", "caption", "human", disagreements.critic, disagreements.other, "raised", "lowered"]
    share = f"{100 * disagreements.share:.1f} % (ties count half)"
    note = f"{disagreements.critic} is closer to human judgments than {disagreements.other} on {share}"
    return Table(title, columns, table_rows, [False] * 3 + [True] * 3 + [False] * 2, note)


def _raised_and_lowered(case: RankDisagreement, most: int = 3) -> tuple[str, str]:
    """The words with the largest contributions of either sign, with them."""
    words = () if case.evidence.contributions is None else case.evidence.contributions.inputs
    ordered_words = sorted(words, key=lambda each: -abs(each[3]))
    return (
        ", ".join(
            f"{word} {effect:+.1f}" for word, _, _, effect in [each for each in ordered_words if each[3] > 0][:most]
        ),
        ", ".join(
            f"{word} {effect:+.1f}" for word, _, _, effect in [each for each in ordered_words if each[3] < 0][:most]
        ),
    )


def cases_to_dict(disagreements: Cases) -> dict[str, Any]:
    """The same for a program."""

    def case(each: RankDisagreement) -> dict[str, Any]:
        words = each.evidence.contributions
        return {
            "id": each.caption.id,
            "image_id": each.caption.image_id,
            "candidate": each.caption.candidate,
            "references": list(each.caption.references),
            "human": each.human,
            "scores": dict(zip((disagreements.critic, disagreements.other), each.scores, strict=True)),
            "ranks": dict(zip(("people", disagreements.critic, disagreements.other), each.ranks, strict=True)),
            "contributions": None if words is None else words.to_dict(),
        }

    return {
        "captions": disagreements.captions,
        "nearer": disagreements.share,
        "better": [case(each) for each in disagreements.better],
        "worse": [case(each) for each in disagreements.worse],
    }
