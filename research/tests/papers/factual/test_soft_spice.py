"""Soft-SPICE: its definition, and its agreement with people from the official graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.factual.soft_spice import SoftSpice, list_phrases
from support.shared_files import read_rows
from support.spice_parses import Recorded, official_set, recorded, use_parser
from support.written_parses import caption

import capmeter
from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.encoders import SentenceVectors, find_encoder
from capmeter.stats.kendall import TauC
from capmeter.text.scene_graphs.graph import build_scene_graph

pytestmark = [pytest.mark.neural, pytest.mark.meteor]

PARSES = {
    "a dog": caption("a/DT/a/2/det dog/NN/dog/0/root"),
    "brown dogs": caption("brown/JJ/brown/2/amod dogs/NNS/dog/0/root"),
    "grass": caption("grass/NN/grass/0/root"),
    "well": caption("well/RB/well/0/root"),
}


def test_phrases_for_each_choice_of_words():
    synsets = {"man": {1}, "guy": {1}}
    graph = build_scene_graph([("man", "dog", "near"), ("guy", "big")], lambda word: frozenset(synsets.get(word, ())))
    assert list_phrases(graph) == ["man", "guy", "dog", "big man", "big guy", "man near dog", "guy near dog"]


def test_its_definition(monkeypatch):
    use_parser(monkeypatch, Recorded(PARSES))
    results = capmeter.score(
        candidates=["brown dogs", "well"],
        references=[["a dog", "grass"], ["a dog"]],
        metrics=["soft-spice", "soft-spice(bidirectional=true)"],
    )
    dog, brown, grass = (
        SentencePool(("dog", "brown dog", "grass")).analyse(SentenceVectors(find_encoder("minilm"), 6)).astype(float)
    )
    one = results["soft-spice"]
    assert one.items["0"] == pytest.approx((1 + max(brown @ dog, brown @ grass)) / 2, abs=1e-5)
    both = results["soft-spice(bidirectional=true)"]
    precision = (1 + (max(brown @ dog, brown @ grass) + 1) / 2) / 2
    recall = (1 + (max(grass @ dog, grass @ brown) + 1) / 2) / 2
    assert both.part_items["precision"]["0"] == pytest.approx(precision, abs=1e-5)
    assert both.part_items["recall"]["0"] == pytest.approx(recall, abs=1e-5)
    assert both.items["0"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-5)
    assert one.items["1"] == both.items["1"] == 0
    assert one.notes["no tuple in candidate"] == ["1"]


@pytest.mark.slow
def test_agreement_with_people_on_flickr8k(shared: Path, monkeypatch: pytest.MonkeyPatch):
    """Every twelfth row; over all rows tau-c is .531 and .548."""
    use_parser(monkeypatch, recorded(shared))
    captions, _ = official_set(shared, "flickr8k_expert", 12)
    rows = read_rows(shared / "data" / "flickr8k_expert.jsonl.gz")[::12]
    keep = np.flatnonzero([not row["candidate_in_references"] for row in rows])
    part: CaptionSet = captions.select(keep)
    human = np.array([rows[k]["human"] for k in keep]).ravel()
    for metric, expected in ((SoftSpice(), 0.5429), (SoftSpice(bidirectional=True), 0.5634)):
        scores = np.repeat(capmeter.score(part, [metric])[str(metric)].items.array, 3)
        assert TauC(human, scores)() == pytest.approx(expected, abs=5e-4)
