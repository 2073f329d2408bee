"""MIMA and SPURTS: the information flow by hand and by its definition, the released code's values for MiniLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.smurf.mima import Mima, Spurts, information_flow, layer_flow
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_document

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import AssetError
from capmeter.encoders import Settings, find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse

SENTENCES = [
    "Two dogs run along the wet beach.",
    "a cat",
    "the of and",
    "!!! ???",
    "a cat",
    "red-hot peppers, in a bowl",
]
encoder = pytest.mark.neural


def captions(sentences: list[str]) -> CaptionSet:
    return CaptionSet.from_captions(Caption(str(k), str(k), sentence) for k, sentence in enumerate(sentences))


def values(metric: Any, sentences: list[str], **settings: Any) -> np.ndarray:
    pytest.importorskip("torch", reason="needs the neural extra")
    return metric.measure(captions(sentences), RunContext(settings=Settings(**settings))).values[:, 0]


def by_definition(joint: np.ndarray) -> float:
    """Eq. 6 with its brackets, of one map."""
    joint = joint / joint.sum()

    def entropy(masses: np.ndarray) -> float:
        masses = masses[masses > 0]
        return float(-(masses * np.log2(masses)).sum())

    queries, keys = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return 2 * (queries + keys - entropy(joint)) / (queries + keys)


def test_by_hand() -> None:
    # rows (1, 0) and (1/2, 1/2): keys (3/4, 1/4); H(Y) = 2 - 3/4 log2 3, mean row entropy 1/2, H(X) = 1
    half = np.array([[1.0, 0.0], [0.5, 0.5]])[None, None, None]
    keys = 2 - 0.75 * np.log2(3)
    assert information_flow(half).item() == pytest.approx(2 * (keys - 0.5) / (keys + 1), abs=1e-12)


@given(st.integers(1, 3), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_is_the_normalised_mutual_information_of_the_map(captions: int, positions: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    maps = draws.dirichlet(np.full(positions, 0.2), size=(captions, 2, 3, positions))
    maps[..., 0] += maps[..., 1]
    maps[..., 1] = 0  # a hidden key
    flow = information_flow(maps)
    assert ((flow > -1e-12) & (flow <= 1 + 1e-12)).all()
    expected = [by_definition(one) for one in maps.reshape(-1, positions, positions)]
    np.testing.assert_allclose(flow.ravel(), expected, rtol=0, atol=1e-9)


@encoder
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mima", "spurts"])
def test_equals_the_released_code(shared: Path, name: str) -> None:
    official = read_document(shared / "oracles" / "smurf_mima_spurts_minilm_500.json.gz")
    # the extra captions were not stripped of full stops, so that "a dog ." is not what a metric would see
    extra = [row for row in official["extra"] if "." not in row["caption"]]
    got = values(parse(f"{name}(encoder=minilm)"), [*official["captions"], *(row["caption"] for row in extra)])
    assert len(got) == 511
    np.testing.assert_allclose(got, [*official[name], *(row[name] for row in extra)], rtol=0, atol=1e-5)


@encoder
@pytest.mark.parametrize("metric", [Mima(encoder="minilm"), Spurts(encoder="minilm")], ids=str)
def test_a_score_depends_on_the_caption_alone(metric: Any) -> None:
    expected = values(metric, SENTENCES)
    assert expected[1] == expected[4]
    assert ((expected > 0) & (expected < 1)).all()
    for k, sentence in enumerate(SENTENCES):
        assert values(metric, [sentence])[0] == pytest.approx(expected[k], abs=1e-6)
    np.testing.assert_allclose(values(metric, SENTENCES, tokens=8), expected, rtol=0, atol=1e-6)


@encoder
def test_case_full_stops_and_for_style_punctuation_do_not_matter() -> None:
    mima, spurts = Mima(encoder="minilm"), Spurts(encoder="minilm")
    assert values(mima, ["A Dog runs ."])[0] == values(mima, ["a dog runs"])[0]
    assert values(spurts, ["a dog, runs!"])[0] == pytest.approx(values(spurts, ["a dog runs"])[0], abs=1e-6)
    assert values(spurts, ["the dog runs"])[0] == pytest.approx(values(spurts, ["a dog runs"])[0], abs=1e-6)
    assert values(mima, ["the dog runs"])[0] != values(mima, ["a dog runs"])[0]


@encoder
def test_empty_captions_score_zero_and_long_ones_are_noted() -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    got = Mima(encoder="minilm").measure(captions(["", " .", "dog " * 2000, "a dog"]), RunContext())
    assert got.values[:2, 0].tolist() == [0, 0]
    assert (got.values[2:, 0] > 0).all()
    assert got.notes == {"truncated": ["2"]}


@encoder
@pytest.mark.parametrize("metric", [Mima(encoder="minilm"), Spurts(encoder="minilm")], ids=str)
def test_words_are_marked_by_the_change_of_the_score_without_them(metric: Any) -> None:
    full, *without = values(metric, ["two dogs run.", "dogs run.", "two run.", "two dogs"])
    first, empty = metric.explain(captions(["two dogs run.", ""]), RunContext())
    assert first.candidate == ("two", "dogs", "run.") and empty.candidate == ()
    assert [(mark.start, mark.kind) for mark in first.marks] == [
        (k, "raises" if full > score else "lowers") for k, score in enumerate(without)
    ]
    assert [mark.weight for mark in first.marks] == pytest.approx(full - np.array(without), abs=1e-6)


@pytest.mark.neural
def test_an_encoder_without_padding_hides_no_stop_words(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(find_encoder("minilm"))
    monkeypatch.setattr(encoder.tokenizer, "pad_id", -1)
    with pytest.raises(AssetError, match="no padding token to replace stop words"):
        layer_flow(["a dog runs"], encoder, content_only=True)


def test_names() -> None:
    assert str(parse("mima")) == "mima"
    assert str(parse("mima(encoder=distilbert)")) == "mima"
    assert str(parse("spurts(encoder=minilm)")) == "spurts(encoder=minilm)"
    assert parse("spurts") == Spurts(encoder="distilroberta")
