"""A scene graph as a picture (SVG): objects listed vertically, attributes beside them, relations as arrows.

The picture has the requested width (390 px fits a phone) and the height it needs. What matches the other side is
filled, what does not has a dashed outline, so that colour is not needed to tell them apart.

>>> from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets
>>> graph = build_scene_graph([("dog", "brown")], no_synsets)
>>> picture = draw_scene(graph, matched=[True, False], title="the candidate")
>>> picture.count("<rect"), picture.count('class="scene-matched"'), "<title>the candidate</title>" in picture
(2, 1, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from capmeter.text.scene_graphs.graph import SceneGraph

_LINE, _BOX, _LETTER, _PAD, _GAP, _INDENT = 32.0, 24.0, 7.4, 9.0, 8.0, 26.0
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:currentColor}"
    "rect,path{stroke:currentColor;fill:none}"
    ".scene-matched{fill:#2a78d6;fill-opacity:.22}"
    ".scene-unmatched{stroke-dasharray:4 3;stroke-opacity:.65}"
    "path{stroke-opacity:.55}"
)


def draw_scene(
    graph: SceneGraph, *, matched: Sequence[bool] | None = None, title: str = "scene graph", width: int = 390
) -> str:
    """The picture of a graph; `matched` says of each of its tuples, in their order, whether the other side has it."""
    flags = [True] * len(graph) if matched is None else list(matched)
    objects, attributes = len(graph.objects), len(graph.attributes)
    canvas = _Canvas(width)
    owned_attributes = graph.owned()
    leaving_relations: dict[int, list[int]] = {}
    for k, (subject, _, _) in enumerate(graph.relations):
        leaving_relations.setdefault(subject, []).append(k)
    for object_index, label in enumerate(graph.objects):
        object_top = canvas.line()
        canvas.box(0.0, str(label), matched=flags[object_index])
        for k in owned_attributes.get(object_index, ()):
            canvas.beside(str(graph.attributes[k][1]), matched=flags[objects + k])
        for k in leaving_relations.get(object_index, ()):
            _, relation, thing = graph.relations[k]
            canvas.line()
            canvas.branch(object_top)
            canvas.box(_INDENT, str(relation) or "–", matched=flags[objects + attributes + k], round_=False)
            canvas.arrow(str(graph.objects[thing]))
    return canvas.svg(title, str(graph))


class _Canvas:
    """Shapes on lines from top to bottom."""

    def __init__(self, width: int) -> None:
        self._width = float(width)
        self._top = -_LINE
        self._end = 0.0  # where the last shape of the line ends
        self._shapes: list[str] = []

    def line(self) -> float:
        """Starts a line and gives its top."""
        self._top += _LINE
        self._end = 0.0
        return self._top

    def box(self, left: float, text: str, *, matched: bool, round_: bool = True) -> None:
        """Text in a box."""
        visible_text, box_width = self._fitted(text, left)
        box_class = "scene-matched" if matched else "scene-unmatched"
        self._shapes.append(
            f'<rect class="{box_class}" x="{left + 1:g}" y="{self._top + 4:g}" width="{box_width:g}" height="{_BOX:g}" '
            f'rx="{12 if round_ else 3}"/>'
        )
        self._text(left + 1 + _PAD, visible_text)
        self._end = left + 1 + box_width

    def beside(self, text: str, *, matched: bool) -> None:
        """Text in a box after the last one, on a new line where there is no room."""
        left = self._end + _GAP
        if left + self._wide(text) + 2 > self._width:
            self.line()
            left = _INDENT
        self.box(left, text, matched=matched, round_=False)

    def branch(self, top: float) -> None:
        """A line from the object that started at `top` down to this line."""
        x = _INDENT / 2
        middle = self._top + 4 + _BOX / 2
        self._shapes.append(f'<path d="M{x:g} {top + 4 + _BOX:g}V{middle:g}H{_INDENT:g}"/>')

    def arrow(self, text: str) -> None:
        """An arrow from the last box to a name."""
        start, middle = self._end, self._top + 4 + _BOX / 2
        if start + 30 + self._wide(text) > self._width and start > self._width / 2:
            self.line()
            start, middle = _INDENT, self._top + 4 + _BOX / 2
        end = start + 20
        self._shapes.append(f'<path d="M{start:g} {middle:g}H{end:g}m-5 -4l5 4l-5 4"/>')
        self._text(end + 6, self._fitted(text, end + 6)[0])

    def svg(self, title: str, description: str) -> str:
        """The picture."""
        height = self._top + _LINE if self._shapes else _LINE
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {self._width:g} {height:g}" '
            f'width="{self._width:g}" height="{height:g}"><title>{_plain(title)}</title>'
            f"<desc>{_plain(description)}</desc><style>{_STYLE}</style>{''.join(self._shapes)}</svg>"
        )

    def _text(self, left: float, text: str) -> None:
        self._shapes.append(f'<text x="{left:g}" y="{self._top + 4 + 17:g}">{_plain(text)}</text>')

    def _fitted(self, text: str, left: float) -> tuple[str, float]:
        """The part of a text that fits up to the right edge, and the width of its box."""
        room = int((self._width - left - 2 - 2 * _PAD) / _LETTER)
        visible_text = text if len(text) <= room else text[: max(room - 1, 1)] + "…"
        return visible_text, self._wide(visible_text)

    @staticmethod
    def _wide(text: str) -> float:
        return len(text) * _LETTER + 2 * _PAD


def _plain(text: str) -> str:
    """Text that is valid in XML."""
    return escape("".join(c if c.isprintable() or c == "\n" else "�" for c in text))
