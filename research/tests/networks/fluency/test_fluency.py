"""Errors made in captions, captions of sounds, and a small training run."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from capmeter_research.networks.fluency.texts import make_error, write_sound_caption
from capmeter_research.networks.fluency.train import FluencyOptions, train_detector
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import InputError


@given(st.integers(0, 10_000))
def test_every_caption_gets_another_form(seed: int) -> None:
    rng = random.Random(seed)
    caption = write_sound_caption(rng)
    error = make_error(caption, rng)
    assert error != caption and error.split()
    assert make_error("go", random.Random(seed)) != "go"


def test_a_small_run_is_repeatable(tmp_path: Path) -> None:
    kinds = [(animal, place) for animal in ("dog", "cat", "man", "cow") for place in ("road", "bed", "hill", "car") * 5]
    photos = [
        {"image_id": f"{k}.jpg", "references": [f"a {animal} runs on the {place}", f"the {animal} is near a {place}"]}
        for k, (animal, place) in enumerate(kinds)
    ]
    captions, exclusions = tmp_path / "captions.jsonl", tmp_path / "exclusions.json.gz"
    captions.write_text("".join(json.dumps(row) + "\n" for row in photos))
    exclusions.write_bytes(gzip.compress(json.dumps({"coco": [], "flickr": [3]}).encode()))
    labels = []
    for name in ("one", "two"):
        options = FluencyOptions(
            captions=[f"flickr30k={captions}"], exclusions=exclusions, output=tmp_path / name, number=40, size=1 << 12
        )
        detector, scores = train_detector(options)
        labels.append(detector.label)
        assert scores["auc sounds"] > 0.5
        assert Checkpoint.read(tmp_path / name, "fluency").scores == pytest.approx(scores)
    assert labels[0] == labels[1]


def test_captions_of_sounds_from_a_file(tmp_path: Path) -> None:
    """Of errors in captions of one voice only its file shows that "beeping pumps" are fluent."""
    photos = [{"image_id": f"{k}.jpg", "references": [f"a dog runs {k}", f"a cat sleeps {k}"]} for k in range(80)]
    captions, exclusions, clotho = tmp_path / "c.jsonl", tmp_path / "e.json.gz", tmp_path / "clotho.csv"
    captions.write_text("".join(json.dumps(row) + "\n" for row in photos))
    exclusions.write_bytes(gzip.compress(json.dumps({"coco": [], "flickr": []}).encode()))
    clotho.write_text(
        "file_name,caption_1,caption_2\n" + "".join(f"{k}.wav,beeping pumps {k},pumps beeping {k}\n" for k in range(60))
    )
    settings = {"captions": [f"flickr30k={captions}"], "exclusions": exclusions, "number": 60, "size": 1 << 12}
    plain, _ = train_detector(FluencyOptions(**settings))
    detector, scores = train_detector(FluencyOptions(**settings, also=[clotho], output=tmp_path / "out"))
    text = ["beeping pumps 7"]
    assert detector.probabilities(text)[0] < plain.probabilities(text)[0]
    assert "auc clotho" in scores
    data = Checkpoint.read(tmp_path / "out", "fluency").data
    assert [each.name for each in data] == ["flickr30k", "clotho"]
    clotho.write_text("file_name,caption_1\n1.wav,a\n")
    with pytest.raises(InputError, match="1 sounds are too few"):
        train_detector(FluencyOptions(**settings, also=[clotho]))
