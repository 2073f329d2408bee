"""Robustness studies as a table and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capmeter.core.messages import format_count
from capmeter.meta.robustness import DegradationCurve, Robustness
from capmeter.report.figures import house_style, open_figure, series_style
from capmeter.report.tables import Table, default_digits, format_scale, name_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COLUMNS = 3
_POINTS = {"strength": "strengths", "score": "scores"} | {
    name: name for name in ("normalised", "low", "high", "preferred", "tied")
}
"""The columns of points, and the fields of a curve that hold them."""
_INSIDE = 5  # metrics whose legend fits inside a panel


def robustness_table(study: Robustness, scale: float = 1, names: Mapping[str, str] | None = None) -> Table:
    """One row per degradation and metric, the most sensitive metric (the smallest area) first.

    Args:
        study: what was measured.
        scale: by which areas and scores are multiplied.
        names: of metrics that have another name here.
    """
    digits = max(0, default_digits(scale) - 1)
    strength_indices = list(dict.fromkeys(_nearest(study, strength) for strength in (0.5, 1.0)))
    strengths = [f"γ={study[0].strengths[index]:g}" for index in strength_indices]
    labels = {**name_metrics(study.metrics), **(names or {})}
    table_rows = [
        [
            each.degradation,
            labels[each.metric],
            f"{scale * each.area.value:.{digits}f}",
            f"[{scale * each.area.low:.{digits}f}, {scale * each.area.high:.{digits}f}]",
            *(f"{scale * each.normalised[index]:.{digits}f}" for index in strength_indices),
            *(f"{100 * each.preferred[index]:.1f}" for index in strength_indices),
        ]
        for degradation_name in study.degradations
        for each in _sorted(study, degradation_name)
    ]
    column_names = [
        "degradation",
        "metric",
        "area",
        f"{100 * study.level:g}% interval",
        *(f"score at {each}" for each in strengths),
        *(f"% preferred at {each}" for each in strengths),
    ]
    image_count = len(set(study.captions.image_ids))
    return Table(
        f"{format_count(len(study.captions), 'human caption')} of {format_count(image_count, 'image')}, degraded with "
        f"increasing strength γ{format_scale(scale)}",
        column_names,
        table_rows,
        [False, False, *[True] * (len(column_names) - 2)],
        "area: under the curve of the score over γ, relative to the untouched captions; lower is more sensitive. "
        "preferred: the untouched caption scores higher than the degraded one.",
    )


def curve_points(study: Robustness) -> Table:
    """Every point of every curve in full precision, for programs."""
    rows = [
        [each.degradation, each.metric, *point, each.area.value, each.area.low, each.area.high]
        for each in study
        for point in zip(*(getattr(each, field_name).tolist() for field_name in _POINTS.values()), strict=True)
    ]
    return Table("", ["degradation", "metric", *_POINTS, "area", "area_low", "area_high"], rows, [])


@house_style()
def robustness_figure(study: Robustness, names: Mapping[str, str] | None = None) -> Any:
    """A panel per degradation: each metric's normalised score over γ with its band, the legend sorted by area.

    `names` says what the legend calls metrics that have another name there.
    """
    ways, labels = study.degradations, {**name_metrics(study.metrics), **(names or {})}
    columns = min(_COLUMNS, len(ways))
    rows = -(-len(ways) // columns)
    legend_inside = len(study.metrics) <= _INSIDE
    figure, axes = open_figure(rows, columns, width=4.0 if legend_inside else 5.4, height=3.5)
    top = max(float(each.high.max()) for each in study)
    styles = {metric: series_style(number) for number, metric in enumerate(study.metrics)}
    for panel, degradation_name in zip(axes.flat, ways, strict=False):
        for each in _sorted(study, degradation_name):
            style = styles[each.metric]
            label = f"{labels[each.metric]}  {each.area.value:.2f}"
            panel.plot(each.strengths, each.normalised, label=label, **style)
            panel.fill_between(each.strengths, each.low, each.high, color=style["color"], alpha=0.15, linewidth=0)
        bottom = min(0.0, *(float(each.low.min()) for each in _sorted(study, degradation_name)))
        panel.set(title=degradation_name, xlabel="strength γ", xlim=(-0.02, 1.02), ylim=(bottom - 0.02, top * 1.03))
        legend_position = {} if legend_inside else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        panel.legend(title="area under the curve", title_fontsize=8, handlelength=2.6, **legend_position)
    for row in axes:
        row[0].set_ylabel("score, untouched captions = 1")
    for panel in axes.flat[len(ways) :]:
        panel.set_visible(False)
    return figure


def _sorted(study: Robustness, degradation_name: str) -> Sequence[DegradationCurve]:
    return sorted((each for each in study if each.degradation == degradation_name), key=lambda each: each.area.value)


def _nearest(study: Robustness, strength: float) -> int:
    """The study's strength that is nearest to this one, except 0."""
    strengths = study[0].strengths
    return 1 + int(abs(strengths[1:] - strength).argmin())


def examples_table(study: Robustness) -> Table:
    """The first caption at each strength."""
    table_rows = [
        [degradation_name if strength_index == 0 else "", f"{strength:g}", caption_text]
        for degradation_name, texts in study.examples.items()
        for strength_index, (strength, caption_text) in enumerate(zip(study[0].strengths.tolist(), texts, strict=True))
    ]
    return Table("one caption at each strength", ["degradation", "γ", "caption"], table_rows, [False, True, False])
