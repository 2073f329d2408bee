"""Figures of LEIC's studies, numbered as in Cui et al. 2018."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.report.figures import COLOURS, house_style, open_figure

if TYPE_CHECKING:
    from capmeter_research.papers.leic.training.capability import Capability
    from capmeter_research.papers.leic.training.submission import Scatter, SubmissionScores
    from capmeter_research.papers.leic.training.synthetic_scenes import WorldShares


@house_style()
def capability_figure(capabilities: Sequence[Capability]) -> Any:
    """Figures 5, 8 and 9: the mean score of human and of machine captions, a bar for each critic."""
    figure, axes = open_figure(1, 2, width=1.6 + 0.55 * len(capabilities), height=4.0, share="y")
    for panel, (title, mean_scores) in zip(
        axes[0],
        (
            ("human captions (1 is best)", [critic.scores["human"] for critic in capabilities]),
            (
                "machine captions (0 is best)",
                [
                    np.mean([value for kind, value in critic.scores.items() if kind != "human"])
                    for critic in capabilities
                ],
            ),
        ),
        strict=True,
    ):
        panel.bar(
            range(len(capabilities)),
            mean_scores,
            color=[COLOURS[critic_index % len(COLOURS)] for critic_index in range(len(capabilities))],
            width=0.7,
        )
        panel.set_xticks(range(len(capabilities)), [critic.name for critic in capabilities], rotation=35, ha="right")
        panel.set_ylim(0, 1)
        panel.set_title(title)
    axes[0, 0].set_ylabel("mean score")
    return figure


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


@house_style()
def world_figure(shares: Sequence[WorldShares]) -> Any:
    """The share of synthetic scenes in which each kind of error is found, by context."""
    kinds = list(shares[0].above)
    figure, axes = open_figure(width=2 + 0.8 * len(kinds), height=4.0)
    panel = axes[0, 0]
    bar_width = 0.8 / len(shares)
    for series_index, context in enumerate(shares):
        bar_positions = np.arange(len(kinds)) + (series_index - (len(shares) - 1) / 2) * bar_width
        error_shares = [100 * context.above[kind] for kind in kinds]
        panel.bar(
            bar_positions, error_shares, bar_width, label=context.name, color=COLOURS[series_index % len(COLOURS)]
        )
    panel.axhline(50, color="#808080", linewidth=1, linestyle=":")
    panel.set_xticks(range(len(kinds)), kinds, rotation=35, ha="right")
    panel.set_ylim(0, 105)
    panel.set_ylabel("true caption above the wrong one (%)")
    panel.legend(ncols=len(shares), loc="lower right")
    return figure
