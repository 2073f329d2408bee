"""Tables and figures of the studies: degradation, grammar, critical failures, ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capmeter.meta.published import PublishedValue, published
from capmeter.report.figures import COLOURS, house_style, open_figure, series_style
from capmeter.report.tables import MetricName, Table
from capmeter.stats.bootstrap import Interval
from capmeter_research.common.point_labels import name_points
from capmeter_research.common.published import study_tables
from capmeter_research.papers.smurf.experiments.cases import Tally
from capmeter_research.papers.smurf.experiments.degradation import DegradationStudy
from capmeter_research.papers.smurf.experiments.failure_cases import DISPARITY, FailureStudy
from capmeter_research.papers.smurf.experiments.grammar import Grammar
from capmeter_research.papers.smurf.experiments.ties import PEOPLE, TieFreeAgreement, Ties

_TAUS: tuple[tuple[str, Callable[[TieFreeAgreement], Interval]], ...] = (
    ("τ, tie-free pairs", lambda row: row.tie_free),
    ("τ, pairs the experts order", lambda row: row.ordered),
    ("τ-b, all pairs", lambda row: row.tau_b),
)


def degradation_table(study: DegradationStudy) -> Table:
    """One row per fraction of replaced words, one column per encoder."""
    table_rows = [
        [
            f"{fraction:.0%}",
            *(
                f"{study.means[encoder][k]:.4f} [{study.low[encoder][k]:.4f}, {study.high[encoder][k]:.4f}]"
                for encoder in study.means
            ),
        ]
        for k, fraction in enumerate(study.fractions)
    ]
    title = f"mean MIMA of {study.sentences} sentences as words are replaced at random"
    note = "in brackets: 95% interval, sentences resampled; the paper has a curve without numbers (Figure 5)"
    return Table(title, ["replaced", *study.means], table_rows, [True] * (1 + len(study.means)), note)


def degradation_to_dict(study: DegradationStudy) -> dict[str, Any]:
    """The same for a program, with one sentence at every step."""
    return {
        "sentences": study.sentences,
        "fractions": study.fractions.tolist(),
        "encoders": {
            encoder: {
                "mima": study.means[encoder].tolist(),
                "low": study.low[encoder].tolist(),
                "high": study.high[encoder].tolist(),
            }
            for encoder in study.means
        },
        "example": list(study.example),
    }


def degradation_figure(study: DegradationStudy) -> Any:
    """Mean MIMA over the fraction of replaced words, one line per encoder."""
    figure, axes = open_figure(width=6.4, height=4.0)
    with house_style():
        panel = axes[0, 0]
        percent = 100 * study.fractions
        for series_index, encoder in enumerate(study.means):
            style = series_style(series_index)
            panel.fill_between(percent, study.low[encoder], study.high[encoder], color=style["color"], alpha=0.15, lw=0)
            panel.plot(percent, study.means[encoder], label=encoder, **style)
        panel.set_xlim(0, 100)
        panel.set_xlabel("words replaced at random (%)")
        panel.set_ylabel("mean MIMA")
        panel.set_title(f"{study.sentences} sentences turning into noise; bands: 95% intervals")
        panel.legend(loc="best")
    return figure


def grammar_table(study: Grammar) -> Table:
    """One row per metric: Spearman's and Pearson's correlation with people, and those of the paper's Table 1."""
    table_rows = [
        [
            agreement.metric,
            _bracketed(agreement.spearman),
            _bracketed(agreement.pearson),
            *(
                _published_text(published("conll14", protocol, agreement.metric))
                for protocol in ("napoles2016", "napoles2016-pearson")
            ),
        ]
        for agreement in study.agreements
    ]
    title = f"agreement with people on {len(study.human)} systems, {study.sentences:,} sentences"
    note = (
        "in brackets: 95% interval, sentences resampled; published: Table 1, expected wins of twelve systems and the "
        "input on CoNLL-2014"
    )
    column_heads = ["metric", "Spearman ρ", "Pearson r", "published ρ", "published r"]
    return Table(title, column_heads, table_rows, [False, True, True, False, False], note)


def grammar_to_dict(study: Grammar) -> dict[str, Any]:
    """The same for a program, with every system's scores."""
    return {
        "sentences": study.sentences,
        "human": study.human,
        "agreement": {
            agreement.metric: {
                "spearman": _bounds(agreement.spearman),
                "pearson": _bounds(agreement.pearson),
                "systems": agreement.scores,
            }
            for agreement in study.agreements
        },
    }


def grammar_figure(study: Grammar) -> Any:
    """One panel per metric: the systems' scores over their human scores."""
    figure, axes = open_figure(1, len(study.agreements), width=5.4, height=4.2)
    with house_style():
        people = np.array(list(study.human.values()))
        for panel_index, (panel, agreement) in enumerate(zip(axes[0], study.agreements, strict=True)):
            scores = np.array(list(agreement.scores.values()))
            ends = np.array([people.min(), people.max()])
            panel.plot(ends, np.polyval(np.polyfit(people, scores, 1), ends), color="#B0B0B0", linewidth=1, zorder=1)
            panel.scatter(people, scores, color=COLOURS[panel_index % len(COLOURS)], s=28, zorder=2)
            panel.set_title(
                f"{agreement.metric}: ρ = {agreement.spearman.value:.3f}, r = {agreement.pearson.value:.3f}"
            )
            panel.set_xlabel("human score")
            panel.set_ylabel("mean score")
            panel.margins(x=0.12, y=0.12)
            name_points(panel, list(study.human), people, scores)
    return figure


def failure_table(study: FailureStudy) -> Table:
    """One row per metric: P(F), and how often it orders nothing."""
    reference_name = study.reference.partition("(")[0]
    table_rows = [
        [
            failures.metric,
            _bracketed(failures.probability),
            f"{failures.disparities.mean():+.3f}",
            f"{failures.undecided:,}",
            _published("study failures", reference_name, failures.metric),
        ]
        for failures in study.failures
    ]
    title = f"critical failures against {study.reference}: {study.images:,} images, systems {', '.join(study.human)}"
    note = "in brackets: 95% interval, images resampled; no order: images whose captions score the same"
    if study.reference not in ("smurf", "spice"):
        note += f"; published: against the paper's {reference_name} (distilbert+distilroberta), not {study.reference}"
    column_heads = ["metric", "P(F)", "mean disparity", "no order", "published"]
    return Table(title, column_heads, table_rows, [False, True, True, True, False], note)


def failure_to_dict(study: FailureStudy) -> dict[str, Any]:
    """The same for a program, with the gravest cases."""
    return {
        "reference": study.reference,
        "images": study.images,
        "human": study.human,
        "failures": {
            failures.metric: {
                "probability": _bounds(failures.probability),
                "mean_disparity": float(failures.disparities.mean()),
                "undecided": failures.undecided,
                "gravest": [
                    {
                        "image_id": case.image,
                        study.reference: case.reference,
                        failures.metric: case.tested,
                        "references": list(case.references),
                        "captions": {
                            name: {"caption": text, "score": score} for name, (text, score) in case.captions.items()
                        },
                    }
                    for case in failures.worst_cases
                ],
            }
            for failures in study.failures
        },
    }


def tally_table(tallies: Sequence[Tally]) -> Table:
    """One row per metric: P(cause | F) of its labelled cases."""
    causes = list(tallies[0].shares)
    (paper,) = study_tables()["study tally/causes"]
    table_rows = []
    for tally in tallies:
        values = paper.rows.get(tally.metric.partition("(")[0], {})
        printed = " ".join(f"{values[cause] / 100:.2f}" for cause in causes) if set(causes) == values.keys() else "-"
        shares = [_bracketed(share) for share in tally.shares.values()]
        table_rows.append([MetricName(tally.metric), *shares, f"{tally.labelled:,}", printed])
    unlabelled = sum(tally.unlabelled for tally in tallies)
    note = "in brackets: 95% interval, cases resampled" + (f"; {unlabelled:,} without a cause" if unlabelled else "")
    note += f"; published: {paper.source}, Table 5, 20 cases of each metric ({', '.join(causes)})"
    column_heads = ["metric", *(f"P({cause}|F)" for cause in causes), "cases", "published"]
    return Table("causes of critical failures", column_heads, table_rows, [False] + [True] * (len(causes) + 2), note)


def tally_to_dict(tallies: Sequence[Tally]) -> dict[str, Any]:
    """The same for a program."""
    return {
        tally.metric: {
            "labelled": tally.labelled,
            "unlabelled": tally.unlabelled,
            "causes": {cause: _bounds(share) for cause, share in tally.shares.items()},
        }
        for tally in tallies
    }


def failure_figure(study: FailureStudy) -> Any:
    """P(F) of each metric, and how the disparities are distributed."""
    figure, axes = open_figure(1, 2, width=4.9, height=1.8 + 0.45 * len(study.failures))
    with house_style():
        bars, curves = axes[0]
        for metric_index, failures in enumerate(study.failures):
            colour = COLOURS[metric_index % len(COLOURS)]
            failure_share = failures.probability
            bars.barh(metric_index, failure_share.value, color=colour, alpha=0.85, height=0.6)
            bars.plot(
                [failure_share.low, failure_share.high], [metric_index, metric_index], color="black", linewidth=1.2
            )
            bars.annotate(
                f"{failure_share.value:.3f}",
                (max(failure_share.high, failure_share.value), metric_index),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
            ordered_disparities = np.sort(failures.disparities)
            shares_above = 1 - np.arange(1, len(ordered_disparities) + 1) / len(ordered_disparities)
            style = {key: value for key, value in series_style(metric_index).items() if key != "marker"}
            curves.plot(ordered_disparities, shares_above, drawstyle="steps-post", label=failures.metric, **style)
        bars.set_yticks(range(len(study.failures)), [failures.metric for failures in study.failures])
        bars.invert_yaxis()
        bars.grid(axis="y", visible=False)
        bars.set_xlim(0, max(0.02, 1.25 * max(failures.probability.high for failures in study.failures)))
        bars.set_xlabel("P(F)")
        bars.set_title(f"critical failures against {study.reference}")
        curves.axvline(DISPARITY, color="#606060", linewidth=1, linestyle=(0, (3, 2)))
        curves.set_xlim(-2, 2)
        curves.set_ylim(0, 1)
        curves.set_xlabel(f"disparity: r of {study.reference} − r of the metric")
        curves.set_ylabel("share of images above")
        curves.set_title(f"{study.images:,} images")
        curves.legend(loc="best")
    return figure


def tie_table(study: Ties) -> Table:
    """One row per metric, and one for the other people."""
    table_rows = [
        [
            row.name,
            *(_bracketed(value_of(row)) for _, value_of in _TAUS),
            *(_published("study ties", which, row.name) for which in ("tie-free", "all")),
        ]
        for row in study.rows
    ]
    title = f"agreement with the experts on {study.captions:,} captions that both groups judged"
    note = (
        f"pairs: {study.pairs:,} tied by neither group, {study.ordered_pairs:,} ordered by the experts, "
        f"{study.all_pairs:,} in all; in brackets: 95% interval, images resampled"
    )
    column_heads = ["metric", *(label for label, _ in _TAUS), "published: tie-free", "published: all of Flickr8k"]
    return Table(title, column_heads, table_rows, [False, True, True, True, False, False], note)


def tie_to_dict(study: Ties) -> dict[str, Any]:
    """The same for a program."""
    tie_rows = {
        row.name: {"tie_free": _bounds(row.tie_free), "ordered": _bounds(row.ordered), "tau_b": _bounds(row.tau_b)}
        for row in study.rows
    }
    pairs = {"tie_free": study.pairs, "ordered": study.ordered_pairs, "all": study.all_pairs}
    return {"captions": study.captions, "pairs": pairs, "agreement": tie_rows}


def tie_figure(study: Ties) -> Any:
    """Each metric's τ with and without ties, beside the inter-human ones."""
    figure, axes = open_figure(width=6.8, height=1.7 + 0.5 * len(study.rows))
    with house_style():
        panel = axes[0, 0]
        ordered_rows = sorted(study.rows, key=lambda row: -row.tie_free.value)
        human_row = next(row for row in study.rows if row.name == PEOPLE)
        for series_index, (label, value_of) in enumerate(_TAUS):
            style = series_style(series_index)
            panel.axvline(value_of(human_row).value, color=style["color"], linewidth=1, linestyle=(0, (3, 2)), zorder=0)
            for row_index, row in enumerate(ordered_rows):
                height, bounds = row_index + 0.2 * (series_index - 1), value_of(row)
                panel.plot([bounds.low, bounds.high], [height, height], color=style["color"], linewidth=1.6)
                legend_label = {"label": label} if row_index == 0 else {}
                panel.plot(
                    bounds.value, height, color=style["color"], marker=style["marker"], linestyle="", **legend_label
                )
        panel.set_yticks(range(len(ordered_rows)), [row.name for row in ordered_rows])
        for tick, row in zip(panel.get_yticklabels(), ordered_rows, strict=True):
            tick.set_fontweight("bold" if row.name == PEOPLE else "normal")
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("Kendall's τ with the experts (bars: 95% intervals; dashed: other people)")
        panel.set_title(f"{study.captions:,} captions that both groups judged")
        figure.legend(loc="outside lower left", ncols=3)
    return figure


def _published(study: str, table_name: str, metric: str) -> str:
    """A published value as a fraction, as the studies print theirs; one made with another encoder says so."""
    return _published_text(published(study, table_name, metric, study_tables()))


def _published_text(published_value: PublishedValue | None) -> str:
    if published_value is None:
        return "-"
    value = f"{published_value.value / 100:.3f}"
    return (
        f"{value} ({published_value.source})"
        if published_value.agrees
        else f"other encoder: {value} ({published_value.made_with}, {published_value.source})"
    )


def _bracketed(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _bounds(interval: Interval) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
