"""`capmeter robustness` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import capmeter
from support.research import needs_research

from capmeter.transforms.degradations import TRANSFORMS

REFERENCES = {
    f"{k}": [f"a {w} dog runs", f"the dog is {w}", f"one {w} dog"] for k, w in enumerate(["red", "blue", "tan"])
}
FAST = ["--strengths", "0,0.5,1", "--resamples", "50", "-m", "bleu-1,rouge-l"]


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return capmeter("robustness", *arguments)


@pytest.fixture
def references(tmp_path: Path) -> Path:
    file = tmp_path / "refs.json"
    file.write_text(json.dumps(REFERENCES))
    return file


@needs_research
def test_a_table_a_study_and_a_plot(references: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png, svg, study = tmp_path / "c.png", tmp_path / "c.svg", tmp_path / "study.json"
    done = _run(references, *FAST, "--degradations", "all", "--plot", png, "--plot", svg, "-o", study)
    assert done.returncode == 0, done.stderr
    assert "3 human captions of 3 images" in done.stdout
    ways = TRANSFORMS.available()
    assert {"substitution", "pos-substitution", "repetition-removal"} <= set(ways)
    assert done.stdout.count("rouge-l") == len(ways)
    assert "capmeter: signature: bleu-1|" in done.stderr
    assert png.read_bytes()[:4] == b"\x89PNG"
    for text in ("substitution", "strength γ", "rouge-l  "):
        assert text in svg.read_text(encoding="utf-8")
    assert len(json.loads(study.read_text())["curves"]) == 2 * len(ways)


def test_a_single_strength_has_its_columns_once(references: Path) -> None:
    table = _run(references, "-m", "bleu-1", "--strengths", "0,1", "--resamples", "20", "--degradations", "removal")
    assert table.returncode == 0, table.stderr
    assert table.stdout.count("score at γ=1") == table.stdout.count("% preferred at γ=1") == 1


def test_json_and_csv_say_the_same(references: Path) -> None:
    curves = json.loads(_run(references, *FAST, "--format", "json").stdout)["curves"]
    rows = list(csv.DictReader(io.StringIO(_run(references, *FAST, "--format", "csv").stdout)))
    assert len(rows) == 3 * len(curves) == 18
    for curve, points in zip(curves, (rows[k : k + 3] for k in range(0, 18, 3)), strict=True):
        assert {(row["degradation"], row["metric"]) for row in points} == {(curve["degradation"], curve["metric"])}
        assert [float(row["normalised"]) for row in points] == curve["normalised"]
        assert {float(row["area"]) for row in points} == {curve["area"]["value"]}


def test_captions_of_a_system_instead_of_a_reference(references: Path, tmp_path: Path) -> None:
    candidates = tmp_path / "system.json"
    candidates.write_text(json.dumps([{"image_id": k, "caption": "a dog runs fast"} for k in REFERENCES]))
    done = _run(references, *FAST, "--candidates", candidates, "--degradations", "removal", "--format", "json")
    result = json.loads(done.stdout)
    assert result["examples"]["removal"][0] == "a dog runs fast"


def test_images_that_cannot_take_part_are_told(tmp_path: Path) -> None:
    file = tmp_path / "refs.json"
    file.write_text(json.dumps({**REFERENCES, "lonely": ["one dog"]}))
    done = _run(file, *FAST)
    assert "note: images with less than two different references: lonely" in done.stderr


def test_what_becomes_of_a_caption_and_captions_that_cannot_change(tmp_path: Path) -> None:
    file = tmp_path / "refs.json"
    file.write_text(json.dumps({"1": ["dogs", "dogs!"], "2": ["ducks", "ducks!"]}))
    done = _run(file, *FAST, "--degradations", "permutation,repetition", "--examples")
    display = [line.split() for line in done.stdout.splitlines()]
    word = next(line[2] for line in display if line[:2] == ["permutation", "0"])
    assert ["1", "dogs", word] in display
    assert "note: permutation left up to 100.0% of the captions unchanged" in done.stderr
    assert "repetition left" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-r", "x.json"], 2, "the references are the file itself: capmeter robustness x.json"),
        (["--degradations", "shuffle"], 1, "unknown degradation 'shuffle'"),
        (["--degradations", "permutate"], 1, "did you mean permutation? (`capmeter list transforms` shows all)"),
        (["--strengths", "0,two"], 2, "expected numbers, such as 0,0.5,1"),
        (["--strengths", "0,7"], 1, "expected numbers from 0"),
        (["--format", "yaml"], 2, "is not one of"),
        (["--plot", "a.gif"], 2, "end the name in .png, .svg or .pdf"),
        (["-m", "blue-4"], 2, "did you mean bleu-4"),
        (["--plot", "nowhere/a.png", "--degradations", "removal", *FAST], 1, "there is no folder"),
    ],
)
def test_mistakes_are_sentences(references: Path, arguments: list[str], code: int, message: str) -> None:
    done = _run(references, *arguments)
    assert done.returncode == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_pictures_are_those_that_the_file_of_references_names(tmp_path: Path) -> None:
    """No file name holds the image id; the scores are those of the same captions given with their pictures."""
    for package in ("torch", "transformers", "PIL"):
        pytest.importorskip(package, reason="needs the vision extra")
    from support.vision_models import pictures, tiny_clip

    tiny_clip(tmp_path / "clip")
    (tmp_path / "shown").mkdir()
    names = pictures(tmp_path / "shown", [(40, 32), (32, 48), (36, 36)])
    rows = [
        {"image_id": f"photo {key}", "image": Path(name).name, "references": texts}
        for name, (key, texts) in zip(names, REFERENCES.items(), strict=True)
    ]
    file = tmp_path / "refs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = f'clipscore(encoder="{tmp_path / "clip"}")'
    requests = ["--strengths", "0,1", "--resamples", "20", "--degradations", "removal", "-m", metric, "-f", "json"]
    done = _run(file, *requests, "--images-root", tmp_path / "shown")
    assert done.returncode == 0, done.stderr
    (curve,) = json.loads(done.stdout)["curves"]

    from capmeter import score
    from capmeter.captions.caption_set import CaptionSet
    from capmeter.meta.robustness import leave_one_out

    human = leave_one_out({row["image_id"]: row["references"] for row in rows})  # type: ignore[misc]
    display = {row["image_id"]: row["image"] for row in rows}
    total = CaptionSet.from_captions(
        (replace(each, image=str(display[each.image_id])) for each in human), images_root=str(tmp_path / "shown")
    )
    assert curve["scores"][0] == pytest.approx(score(total, [metric])[metric].score)

    absent = _run(file, *requests)
    assert absent.returncode == 1 and "0.png" in absent.stderr
