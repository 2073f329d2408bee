"""A scene graph as a figure: objects listed vertically, attributes beside them, relations as arrows.

What matches the other side is filled, what does not has a dashed outline, so that colour is not needed to tell them
apart. `save_figure` writes it as SVG, PNG or PDF.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capmeter.core.messages import escape_controls
from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.text.scene_graphs.graph import SceneGraph

_LONGEST, _LETTER, _GAP, _LINE = 36, 0.085, 0.3, 0.34  # letters of a name; inches


@house_style()
def draw_scene(graph: SceneGraph, *, matched: Sequence[bool] | None = None, title: str = "scene graph") -> Any:
    """The figure of a graph; `matched` says of each of its tuples, in their order, whether the other side has it."""
    flags = [True] * len(graph) if matched is None else list(matched)
    objects, attributes = len(graph.objects), len(graph.attributes)
    owned_attributes = graph.owned()
    lines: list[list[tuple[str, bool]]] = []  # of boxes; the name that a relation leads to ends its line
    for object_index, label in enumerate(graph.objects):
        owned = [(str(graph.attributes[k][1]), flags[objects + k]) for k in owned_attributes.get(object_index, ())]
        lines.append([(str(label), flags[object_index]), *owned])
        for k, (subject, relation, other) in enumerate(graph.relations):
            if subject == object_index:
                words = f"{str(relation) or '–'} → {graph.objects[other]}"
                lines.append([("", True), (words, flags[objects + attributes + k])])
    figure, axes = open_figure(width=5.2, height=0.5 + _LINE * max(1, len(lines)))
    axis = axes[0, 0]
    for row, boxes in enumerate(lines):
        left = 0.1
        for text, is_matched in boxes:
            shown_text = escape_controls(text)
            shown_text = shown_text if len(shown_text) <= _LONGEST else shown_text[: _LONGEST - 1] + "…"
            if shown_text:
                style = {"facecolor": COLOURS[5] if is_matched else "none", "linestyle": "-" if is_matched else "--"}
                box = {"boxstyle": "round", "edgecolor": "#404040", "alpha": 0.6, **style}
                axis.text(left, row, shown_text, bbox=box, va="center", parse_math=False)
            left += _GAP + _LETTER * len(shown_text)
    axis.set(title=title, xlim=(0, 5.2), ylim=(max(1, len(lines)) - 0.5, -0.5))
    axis.axis("off")
    return figure
