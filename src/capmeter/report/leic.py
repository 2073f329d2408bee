"""Tables of LEIC's studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from capmeter.report.tables import Table

if TYPE_CHECKING:
    from capmeter.learning.leic.capability import Capability
    from capmeter.learning.leic.made_world import WorldShares
    from capmeter.learning.leic.submission import Judged
    from capmeter.learning.leic.word_frequency import WordFrequency


def submission_table(found: Sequence[Judged]) -> Table:
    """One row per submission: its score, that of human captions, and s(Θ, D), each with its deviation over runs."""
    rows = []
    for each in sorted(found, key=lambda judged: -judged.scores.mean()):
        values = (each.scores, each.human, each.performance)
        told = [f"{value.mean():.4f}" + (f" ± {each.spread(value):.4f}" if len(value) > 1 else "") for value in values]
        rows.append([each.system, f"{each.images:,}", *told])
    runs = len(found[0].scores) if found else 0
    note = f"{runs} runs per fold: mean ± standard deviation" if runs > 1 else "one run: use --runs to see the spread"
    columns = ["submission", "images", "score: P(human)", "human captions", "s(Θ, D)"]
    return Table(
        "submissions, each judged by critics trained against it alone", columns, rows, [False] + [True] * 4, note
    )


def submission_to_dict(found: Sequence[Judged]) -> dict[str, Any]:
    """The same for a program, with the value of each run."""
    return {
        each.system: {
            "images": each.images,
            "score": float(each.scores.mean()),
            "deviation": each.spread(each.scores),
            "scores": each.scores.tolist(),
            "human": each.human.tolist(),
            "performance": each.performance.tolist(),
        }
        for each in found
    }


def capability_table(found: Sequence[Capability], images: int) -> Table:
    """One row per critic: the mean score of human captions and of each captioner's, and s(Θ, D)."""
    kinds = list(found[0].scores) if found else []
    rows = [[each.name, *(f"{each.scores[kind]:.4f}" for kind in kinds), f"{each.performance:.4f}"] for each in found]
    title = f"mean scores of captions of {images:,} held-out images"
    return Table(title, ["critic", *kinds, "s(Θ, D)"], rows, [False] + [True] * (len(kinds) + 1))


def capability_to_dict(found: Sequence[Capability]) -> dict[str, Any]:
    """The same for a program."""
    return {each.name: {"scores": dict(each.scores), "performance": each.performance} for each in found}


def words_table(found: WordFrequency) -> Table:
    """One row per range of ranks: people's share of words, and each system's share relative to it."""
    rows = []
    for k, (low, high) in enumerate(found.ranges):
        ratios = [f"{shares[k] / found.human[k]:.2f}" for shares in found.systems.values()]
        rows.append([f"{low:,} to {high:,}", f"{100 * found.human[k]:.2f}", *ratios])
    unknown = [f"{100 * shares[-1]:.2f} %" for shares in found.systems.values()]
    rows.append(["in no reference", "-", *unknown])
    columns = ["rank in the references", "people, % of words", *(f"{name}: relative" for name in found.systems)]
    return Table("use of frequent and rare words", columns, rows, [False] + [True] * (len(found.systems) + 1))


def words_to_dict(found: WordFrequency) -> dict[str, Any]:
    """The same for a program."""
    return {
        "ranges": [list(each) for each in found.ranges],
        "human": found.human.tolist(),
        "systems": {name: shares.tolist() for name, shares in found.systems.items()},
    }


def world_table(found: Sequence[WorldShares], scenes: int) -> Table:
    """One row per context: the share of scenes in which each kind of error is found, and agreement with the truth."""
    kinds = list(found[0].above) if found else []
    rows = [
        [
            each.name,
            *(f"{100 * each.above[kind]:.1f}" for kind in kinds),
            "-" if each.falls is None else f"{100 * each.falls:.1f}",
            f"{each.tau:.3f}",
        ]
        for each in found
    ]
    title = f"true captions scored above wrong ones, % of {scenes:,} held-out scenes (50: chance)"
    columns = ["context", *kinds, "another picture", "τb with the truth"]
    return Table(title, columns, rows, [False] + [True] * (len(kinds) + 2))


def world_to_dict(found: Sequence[WorldShares]) -> dict[str, Any]:
    """The same for a program."""
    return {each.name: {"above": dict(each.above), "falls": each.falls, "tau_b": each.tau} for each in found}
