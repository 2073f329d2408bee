"""Scene graphs as pictures: well-formed whatever is in them, inside their width."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.report.scene_drawing import draw_scene
from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets


def test_a_graph_with_everything():
    graph = build_scene_graph([("girl", "horse", "ride"), ("girl", "young"), ("horse", "brown")], no_synsets)
    picture = draw_scene(graph, matched=[True, False, True, False, True], title="the caption's")
    root = ElementTree.fromstring(picture)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["girl", "young", "ride", "horse", "horse", "brown"]
    assert picture.count('class="scene-matched"') == 3
    assert picture.count('class="scene-unmatched"') == 2
    assert root.find("{http://www.w3.org/2000/svg}title").text == "the caption's"


def test_an_empty_graph():
    ElementTree.fromstring(draw_scene(build_scene_graph([], no_synsets)))


WORDS = st.text(max_size=60)


@settings(max_examples=60)
@given(st.lists(st.one_of(st.tuples(WORDS), st.tuples(WORDS, WORDS), st.tuples(WORDS, WORDS, WORDS)), max_size=8))
def test_any_words_stay_inside(tuples):
    picture = draw_scene(build_scene_graph(tuples, no_synsets), width=390)
    ElementTree.fromstring(picture)
    for x, width in re.findall(r'<rect class="[^"]*" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture):
        assert float(x) + float(width) <= 390
