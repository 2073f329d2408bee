"""Metrics on pictures from the commands `score`, `meta` and `robustness`, and the errors where pictures are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.vision_models import pictures, tiny_clip, tiny_siglip
from typer.testing import CliRunner

import capmeter
from capmeter.cli.main import app
from capmeter.core.errors import CapmeterError
from capmeter.evaluation.registry import parse

pytest.importorskip("torch", reason="needs the vision extra")
pytest.importorskip("transformers", reason="needs the vision extra")
pytest.importorskip("PIL", reason="needs the vision extra")

TEXTS = ["a dog runs on grass", "two cats sleep here", "a red kite flies", "people eat at a table", "a bus", "a cup"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, pictures as MS COCO names them, and captions."""
    folder = tmp_path_factory.mktemp("images")
    tiny_clip(folder / "clip")
    tiny_siglip(folder / "siglip")
    (folder / "photos").mkdir()
    for k, name in enumerate(pictures(folder / "photos", [(40, 30)] * 6)):
        Path(name).rename(folder / "photos" / f"COCO_val2014_{k + 1:012}.png")
    results = [{"image_id": k + 1, "caption": text} for k, text in enumerate(TEXTS)]
    (folder / "results.json").write_text(json.dumps(results))
    references = {str(k + 1): [text, f"{text} today", f"it is {text}"] for k, text in enumerate(TEXTS)}
    (folder / "references.json").write_text(json.dumps(references))
    rows = [
        {"image_id": str(k + 1), "candidate": text, "references": references[str(k + 1)], "human": [k % 4 + 1]}
        for k, text in enumerate(TEXTS)
    ]
    (folder / "judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def metric(folder: Path, name: str = "clipscore") -> str:
    return str(parse(f'{name}(encoder="{folder / "clip"}",scale=1.0,clamp=false)'))


def test_score_finds_cocos_pictures_and_needs_no_references(folder: Path) -> None:
    name = metric(folder)
    result = run("score", folder / "results.json", "-m", name, "--images-root", folder / "photos", "--format", "json")
    assert result.exit_code == 0, result.output
    captions = capmeter.load(folder / "results.json", on_missing="keep", images_root=folder / "photos")
    assert captions.images[0] == "COCO_val2014_000000000001.png"
    expected = capmeter.score(captions, [name])[name].score
    scores = json.loads(result.stdout)["systems"]
    assert next(iter(scores.values()))["metrics"][name]["score"] == pytest.approx(expected, abs=1e-9)
    in_parts = run(
        *("score", folder / "results.json", "-m", name, "--images-root", folder / "photos", "--format", "json"),
        *("--parts", folder / "scores"),
    )
    assert in_parts.exit_code == 0, in_parts.output
    again = json.loads(in_parts.stdout)["systems"][""]["scores"][name]
    assert again == pytest.approx(expected, abs=1e-6)


def test_score_without_pictures_says_how_to_name_them(folder: Path) -> None:
    result = run("score", folder / "results.json", "-m", metric(folder))
    assert isinstance(result.exception, CapmeterError)
    assert "6 captions name no picture (the first: 1, 2, 3, 4, 5)" in str(result.exception)
    assert "--images-root" in str(result.exception)
    wrong = run("score", folder / "results.json", "-m", metric(folder), "--images-root", folder / "nowhere")
    assert wrong.exit_code == 2
    (folder / "other photos").mkdir(exist_ok=True)
    empty = run("score", folder / "results.json", "-m", metric(folder), "--images-root", folder / "other photos")
    assert "6 captions have no picture in" in str(empty.exception) and "found by image id" in str(empty.exception)


def test_references_are_still_needed_by_what_needs_them(folder: Path) -> None:
    name = metric(folder, "refclipscore")
    result = run("score", folder / "results.json", "-m", name, "--images-root", folder / "photos")
    assert isinstance(result.exception, CapmeterError) and "no references" in str(result.exception)


def test_meta_runs_metrics_on_pictures(folder: Path) -> None:
    result = run(
        *("meta", "-b", "rated", "-d", folder / "judged.jsonl", "-m", f"{metric(folder)},rouge-l", "--format", "json"),
        *("--images-root", folder / "photos", "--resamples", 20),
    )
    assert result.exit_code == 0, result.output
    results = {each["metric"]: each for each in json.loads(result.stdout)["results"]}
    assert results[metric(folder)]["n"] == 6 and results[metric(folder)]["value"] is not None
    without = run("meta", "-b", "rated", "-d", folder / "judged.jsonl", "-m", metric(folder))
    assert isinstance(without.exception, CapmeterError) and "name no picture" in str(without.exception)


def test_robustness_runs_metrics_on_pictures(folder: Path) -> None:
    name = str(parse(f'siglip-score(encoder="{folder / "siglip"}")'))
    common = ("-m", name, "--degradations", "permutation", "--strengths", "0,1", "--resamples", 20, "--format", "json")
    result = run("robustness", folder / "references.json", *common, "--images-root", folder / "photos")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["curves"][0]["metric"] == name
    inputs = run(
        *("robustness", folder / "references.json", "--candidates", folder / "results.json", *common),
        *("--images-root", folder / "photos"),
    )
    assert inputs.exit_code == 0, inputs.output
    without = run("robustness", folder / "references.json", *common)
    assert isinstance(without.exception, CapmeterError) and "name no picture" in str(without.exception)
