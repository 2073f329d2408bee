"""Checkpoints hold all that a metric is rebuilt from, and damage is told."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.core.checkpoints import Checkpoint, TrainingData, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError

pytest.importorskip("safetensors", reason="needs the neural extra")

MADE = Checkpoint(
    kind="lceval",
    parameters={"hidden": [8], "dropout": 0.5, "activation": "tanh"},
    weights={
        "layer.weight": np.arange(12, dtype=np.float32).reshape(3, 4).T,  # not contiguous
        "layer.bias": np.zeros(0, np.float64),
        "ids": np.array(7, np.int64),
    },
    features=("bleu-4", "cider-d"),
    vocabulary=("a", "été", "\ud800"),
    data=(TrainingData("train.jsonl", "0" * 64, 1000),),
    training={"steps": 300, "seed": 0, "rate": 1e-3},
    selection="smallest loss on the validation set",
    scores={"kendall": 0.513},
)


def test_everything_comes_back(tmp_path: Path) -> None:
    MADE.save(tmp_path / "made" / "lceval")
    result = Checkpoint.read(tmp_path / "made" / "lceval", "lceval")
    for name in ("kind", "parameters", "features", "vocabulary", "data", "training", "selection", "scores", "licence"):
        assert getattr(result, name) == getattr(MADE, name), name
    assert result.weights.keys() == MADE.weights.keys()
    for name, array in MADE.weights.items():
        np.testing.assert_array_equal(result.weights[name], array)
        assert result.weights[name].dtype == array.dtype
    assert result.sha256 == MADE.sha256 and result.label == f"lceval@{MADE.sha256[:12]}"
    assert sorted(path.name for path in (tmp_path / "made" / "lceval").iterdir()) == [
        "checkpoint.json",
        "weights.safetensors",
    ]


def test_the_hash_is_of_what_moves_a_number() -> None:
    assert replace(MADE, scores={}, selection="", data=(), version="0").sha256 == MADE.sha256
    others = [
        replace(MADE, kind="other"),
        replace(MADE, parameters={}),
        replace(MADE, features=("cider-d", "bleu-4")),
        replace(MADE, vocabulary=()),
        replace(MADE, weights={**MADE.weights, "ids": np.array(8, np.int64)}),
        replace(MADE, weights={**MADE.weights, "ids": np.array(7, np.int32)}),
    ]
    assert len({MADE.sha256, *(other.sha256 for other in others)}) == 7


def test_no_damage_is_believed(tmp_path: Path) -> None:
    MADE.save(tmp_path)
    draw = random.Random(1)
    for file in ("checkpoint.json", "weights.safetensors"):
        good = (tmp_path / file).read_bytes()
        message = 0
        for _ in range(500):
            data = bytearray(good)
            if draw.random() < 0.2:
                del data[draw.randrange(len(data)) :]
            for _ in range(draw.randrange(1, 4)):
                if data:
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            (tmp_path / file).write_bytes(data)
            try:
                assert Checkpoint.read(tmp_path).sha256 == MADE.sha256  # white space of the JSON may differ
            except AssetError as error:
                assert str(tmp_path) in str(error)
                message += 1
        assert message > 480
        (tmp_path / file).write_bytes(good)
    assert Checkpoint.read(tmp_path).sha256 == MADE.sha256


def test_another_checkpoints_weights_are_told(tmp_path: Path) -> None:
    MADE.save(tmp_path / "a")
    replace(MADE, weights={"x": np.ones(3)}).save(tmp_path / "b")
    (tmp_path / "a" / "weights.safetensors").write_bytes((tmp_path / "b" / "weights.safetensors").read_bytes())
    with pytest.raises(AssetError, match="damaged, or belongs to another checkpoint"):
        Checkpoint.read(tmp_path / "a")


def test_wrong_kind_format_and_name_say_what_was_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_DATA", str(tmp_path))
    MADE.save(tmp_path / "weights" / "mine")
    assert load_checkpoint("mine", "lceval").sha256 == MADE.sha256
    with pytest.raises(AssetError, match="expected a checkpoint of 'parser', but it is one of 'lceval'"):
        load_checkpoint("mine", "parser")
    with pytest.raises(AssetError, match=r"no checkpoint 'none'.*mine"):
        load_checkpoint("none")
    path = tmp_path / "weights" / "mine" / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": "capmeter checkpoint 9"}))
    with pytest.raises(AssetError, match="expected the format"):
        load_checkpoint("mine")


@pytest.mark.parametrize("wrong", [{"parameters": {"x": float("nan")}}, {"training": {"x": {1}}}])
def test_what_is_no_json_is_refused_before_anything_is_written(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises((ValueError, TypeError)):
        replace(MADE, **wrong).save(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AssetError, match="cannot write"):
        MADE.save(tmp_path / "file" / "a")


@pytest.mark.parametrize(
    "array", [np.array([1, np.nan], np.float16), np.array(np.inf), np.array([True]), np.array([1j], np.complex64)]
)
def test_weights_that_are_no_finite_numbers_are_refused(tmp_path: Path, array: Any) -> None:
    replace(MADE, weights={"good": np.zeros(2), "bad": array}).save(tmp_path)
    with pytest.raises(AssetError, match=r"the array bad \(\w+\) holds something else than finite numbers"):
        Checkpoint.read(tmp_path)


def test_a_model_that_cannot_be_rebuilt_is_an_asset_error() -> None:
    for error in (
        KeyError("a"),
        AttributeError("a"),
        OverflowError("a"),
        AssertionError(),
        InputError("a"),
        IndexError(),
        MemoryError(),
    ):
        with pytest.raises(AssetError, match="checkpoint x: its "), rebuilding("a parser", "x"):
            raise error
