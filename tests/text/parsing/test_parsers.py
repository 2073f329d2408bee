"""Parses and scenes of captions: computed once, cached in memory and on disk under their parser's version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.spice_parses import use_parser
from support.written_parses import caption

from capmeter.captions.caption_set import SentencePool
from capmeter.core.settings import MemoryCache, Settings
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.parsing.parsers import parse_captions
from capmeter.text.scene_graphs.extraction import Scenes, SceneTable
from capmeter.text.scene_graphs.graph import no_synsets

RUNS = caption("a/DT/a/2/det dog/NN/dog/3/nsubj runs/VBZ/run/0/root")

FRENCH = caption("un/NN/un/2/det chien/NN/chien/3/nsubj court/NN/court/0/root vite/NN/vite/3/dep loin/NN/loin/3/dep")


class Counting:
    """A parser with a table of parses, that fails for "bad" and records the captions that it is given."""

    batch = 2

    def __init__(self, version: str = "counting-1") -> None:
        self.version = version
        self.calls: list[list[str]] = []

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        self.calls.append(list(captions))
        return [
            None if text == "bad" else RUNS if "dog" in text else FRENCH if "chien" in text else CaptionParse()
            for text in captions
        ]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    use_parser(monkeypatch, counting)
    return counting


def new_process(cache: Path | None = None) -> Settings:
    """Settings with empty caches in memory."""
    return Settings(cache=cache, memory=MemoryCache())


def test_captions_are_parsed_once() -> None:
    parser, settings = Counting(), new_process()
    assert parse_captions(parser, ["a", "bad"], settings) == [CaptionParse(), None]
    assert parse_captions(parser, ["bad", "a", "dog", "dog"], settings) == [None, CaptionParse(), RUNS, RUNS]
    assert parser.calls == [["a", "bad"], ["bad", "dog"]]


def test_parses_outlive_the_process(tmp_path: Path) -> None:
    captions = ["a dog runs", "bad", "half \ud800"]
    first = parse_captions(Counting(), captions, new_process(tmp_path))
    parser = Counting()
    assert parse_captions(parser, captions, new_process(tmp_path)) == first
    assert parser.calls == [["bad"]]  # a failure is not stored
    parser = Counting("counting-2")
    parse_captions(parser, ["a dog runs"], new_process(tmp_path))
    assert parser.calls[-1] == ["a dog runs"]


def test_scenes_outlive_the_process_and_need_no_parse(parser: Counting, tmp_path: Path) -> None:
    sentences = ["a dog runs", "bad", "un chien court vite loin", "собака бежит", "犬", "🐕"]

    def table(settings: Settings) -> SceneTable:
        scenes: SceneTable = SentencePool(sentences).analyse(Scenes("caption", settings))
        return scenes

    settings = new_process(tmp_path)
    first = table(settings)
    assert first.scenes[0].tuples == (("dog", "run"), ("dog",))
    assert first.scenes[1].tuples is None
    assert [scene.english for scene in first.scenes] == [True, True, False, False, False, True]
    parser.calls.clear()
    table(settings)
    assert parser.calls == [["bad"]]  # the others are in memory
    parser.calls.clear()
    settings = new_process(tmp_path)
    assert table(settings).scenes == first.scenes
    assert parser.calls == [["bad"]]


def test_equal_lists_of_references_share_a_graph(parser: Counting) -> None:
    one: SceneTable = SentencePool(["a dog runs", "well"]).analyse(Scenes("caption"))
    other: SceneTable = SentencePool(["so", "well", "a dog runs"]).analyse(Scenes("caption"))
    graph = one.reference_graph([0, 1], no_synsets)
    assert str(graph) == "dog: run"
    assert other.reference_graph([2, 1], no_synsets) is graph
    assert other.reference_graph([1, 2], no_synsets) is not graph
