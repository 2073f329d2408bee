"""`capmeter chair` and the objects of images as an option of other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import capmeter

from capmeter.captions.load import load
from capmeter.meta.comparison import compare

SHOWN = {str(k): ["dog"] for k in range(12)}
GOOD = dict.fromkeys(SHOWN, "a dog runs")
BAD = {image_id: "a dog beside a cat" if int(image_id) % 2 else "a cat" for image_id in SHOWN}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {"good": GOOD, "bad": BAD, "shown": SHOWN, "some": dict(list(BAD.items())[:5])}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_two_systems_are_compared_with_p_values(folder: Path) -> None:
    files = folder / "good.json", folder / "bad.json"
    done = capmeter("chair", *files, "--instances", folder / "shown.json", "--format", "json", "--seed", 3)
    printed = json.loads(done.stdout)["comparison"]["metrics"]
    systems = {path.stem: load(path, on_missing="keep") for path in files}
    objects = json.dumps(str(folder / "shown.json"))
    names = [f"chair(level=caption,objects={objects})", f"chair(objects={objects})"]
    expected = compare(systems, names, seed=3)
    for (result,), (significance,) in ((printed[name]["differences"], expected[name].differences) for name in expected):
        assert result["p"] == significance.p < 0.01
    assert "chair(level=caption" in capmeter("chair", *files, "--instances", folder / "shown.json").stdout


def test_systems_of_other_images_have_rates_without_p_values(folder: Path) -> None:
    done = capmeter("chair", folder / "good.json", folder / "some.json", "--instances", folder / "shown.json")
    assert done.returncode == 0 and "no p-values" in done.stderr and "CHAIRs" in done.stdout


def test_compare_and_robustness_take_the_objects_of_images(folder: Path) -> None:
    (folder / "refs.json").write_text(
        json.dumps({image_id: ["a cat and a dog run", "a dog sits", "a dog and a cat"] for image_id in SHOWN})
    )
    arguments = ["-m", "chair", "--instances", folder / "shown.json", "--format", "json"]
    compared = capmeter("compare", folder / "good.json", folder / "bad.json", "-r", folder / "refs.json", *arguments)
    (name,) = json.loads(compared.stdout)["metrics"]
    assert "shown.json" in name
    arguments = ["-m", "bleu-1,chair", "--instances", folder / "shown.json", "--strengths", "0,1", "--resamples", 20]
    degraded = capmeter("robustness", folder / "refs.json", *arguments)  # unmodified captions hallucinate nothing
    assert degraded.returncode == 0 and "shown.json" in degraded.stderr and "bleu-1" in degraded.stdout
