"""Scene graphs as figures, whatever is in them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from capmeter.report.figures import save_figure
from capmeter.report.scene_drawing import draw_scene
from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets

pytest.importorskip("matplotlib")
HOSTILE = ["$x$", "\x1b[31m<b>", "word " * 40, "", "é"]


def test_a_graph_with_everything(tmp_path: Path) -> None:
    graph = build_scene_graph([("girl", "horse", "ride"), ("girl", "young"), ("horse", "brown")], no_synsets)
    figure = draw_scene(graph, matched=[True, False, True, False, True], title="the caption's")
    texts = figure.axes[0].texts
    assert [text.get_text() for text in texts] == ["girl", "young", "ride → horse", "horse", "brown"]
    assert [text.get_bbox_patch().get_linestyle() for text in texts] == ["-", "-", "-", "--", "--"]
    root = ElementTree.parse(save_figure(figure, tmp_path / "scene.svg")).getroot()
    assert "the caption's" in "".join(root.itertext())


@pytest.mark.parametrize("tuples", [[], [(word,) for word in HOSTILE], [(word, "a", word) for word in HOSTILE]])
def test_any_words_are_drawn(tmp_path: Path, tuples: list[tuple[str, ...]]) -> None:
    figure = draw_scene(build_scene_graph(tuples, no_synsets))
    ElementTree.parse(save_figure(figure, tmp_path / "scene.svg"))
