"""Parses and scenes of captions: made once, kept in memory and on disk under their parser's version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from parsed import caption

from capmeter.captions.model import SentencePool
from capmeter.recent import Recent
from capmeter.store import Store
from capmeter.text import parsers, scenes
from capmeter.text.parses import CaptionParse
from capmeter.text.scene_graphs import no_synsets
from capmeter.text.scenes import Scenes, SceneTable

RUNS = caption("a/DT/a/2/det dog/NN/dog/3/nsubj runs/VBZ/run/0/root")

CHIEN = caption("un/NN/un/2/det chien/NN/chien/3/nsubj court/NN/court/0/root")


class Counting:
    """A parser that knows one sentence by heart, gives up "bad", and counts what it is asked."""

    version = "counting-1"
    batch = 2

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        self.asked.append(list(captions))
        return [
            None if text == "bad" else RUNS if "dog" in text else CHIEN if "chien" in text else CaptionParse()
            for text in captions
        ]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    for module in (parsers, scenes):
        monkeypatch.setattr(module, "find_parser", lambda name: made)
    monkeypatch.setattr(scenes, "knows_language", lambda parse: parse != CHIEN)
    forget(monkeypatch)
    return made


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a new process does."""
    monkeypatch.setattr(parsers, "known_parses", Recent(100))
    for memory in ("_known_scenes", "_known_graphs"):
        monkeypatch.setattr(scenes, memory, Recent(100))


def test_parses_are_made_once(parser: Counting) -> None:
    assert parsers.parse_captions(parser, ["a", "bad"]) == [CaptionParse(), None]
    assert parsers.parse_captions(parser, ["bad", "a", "dog", "dog"]) == [None, CaptionParse(), RUNS, RUNS]
    assert parser.asked == [["a", "bad"], ["bad", "dog"]]


def test_parses_outlive_the_process(parser: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    first = parsers.parse_captions(parser, ["a dog runs", "bad", "half \ud800"], store)
    forget(monkeypatch)
    parser.asked.clear()
    assert parsers.parse_captions(parser, ["a dog runs", "bad", "half \ud800"], store) == first
    assert parser.asked == [["bad"]]  # what took too long is tried again
    forget(monkeypatch)
    monkeypatch.setattr(Counting, "version", "counting-2")
    parsers.parse_captions(parser, ["a dog runs"], store)
    assert parser.asked[-1] == ["a dog runs"]


def test_scenes_outlive_the_process_and_need_no_parse(
    parser: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = ["a dog runs", "bad", "un chien court", "собака бежит", "犬", "🐕"]

    def table() -> SceneTable:
        found: SceneTable = SentencePool(sentences).analyse(Scenes("caption", Store(tmp_path)))
        return found

    first = table()
    assert first.scenes[0].tuples == (("dog", "run"), ("dog",))
    assert first.scenes[1].tuples is None
    assert [scene.english for scene in first.scenes] == [True, True, False, False, False, True]
    parser.asked.clear()
    table()
    assert not parser.asked  # in memory, the failure too
    forget(monkeypatch)
    assert table().scenes == first.scenes
    assert parser.asked == [["bad"]]
    part: SceneTable = SentencePool(sentences).analyse(Scenes("caption")).take(np.array([5, 0]))
    assert part.sentences == ["🐕", "a dog runs"]
    assert part.scenes[1] is table().scenes[0]


def test_references_that_are_the_same_texts_have_one_graph(parser: Counting) -> None:
    one: SceneTable = SentencePool(["a dog runs", "well"]).analyse(Scenes("caption"))
    other: SceneTable = SentencePool(["so", "well", "a dog runs"]).analyse(Scenes("caption"))
    graph = one.reference_graph([0, 1], no_synsets)
    assert str(graph) == "dog: run"
    assert other.reference_graph([2, 1], no_synsets) is graph
    assert other.reference_graph([1, 2], no_synsets) is not graph
