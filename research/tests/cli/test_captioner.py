"""`train captioner` and `caption` from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.command_line import capmeter as run
from support.synthetic_scenes import write_files

pytest.importorskip("torch", reason="training needs the neural extra")
pytest.importorskip("sentencepiece", reason="the captioner needs the captioner extra")

SMALL = (
    *("--segmentation", "word", "--pieces", "40", "--width", "32", "--hidden", "32", "--heads", "2", "--layers", "1"),
    *("--geometry", "8", "--batch", "8", "--lr", "0.01"),
)

FEW = ("--dev-scenes", "5", "--test-scenes", "12")


def test_from_files_to_scores(tmp_path: Path) -> None:
    captions, held_out = tmp_path / "captions.jsonl", tmp_path / "held_out.jsonl"
    references = write_files(tmp_path, 130)
    rows = [{"image_id": name, "candidate": texts[0], "references": texts} for name, texts in references.items()]
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows[:90]))
    held_out.write_text("".join(json.dumps(row) + "\n" for row in rows[90:]))
    made, regions, results = tmp_path / "made", tmp_path / "regions", tmp_path / "results.json"
    how = (*SMALL, "--epochs", "8", "--self-critical-epochs", "1", "--reward", "bleu-2", "--self-critical-lr", "1e-4")
    done = run(
        "train", "captioner", captions, "--regions", regions, "--held-out", held_out, "-o", made, *how, "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    display = json.loads(done.stdout)
    assert set(display["captions"]) == {"cross-entropy", "self-critical"}
    assert display["captions"]["cross-entropy"]["cider_d"] > 0.5
    assert "% of the time of self-critical steps" in done.stderr
    again = run(
        "train", "captioner", captions, "--regions", regions, "--held-out", held_out, "-o", made, *how, "-f", "json"
    )
    assert json.loads(again.stdout)["captions"] == display["captions"]

    inputs = ("caption", "--captioner", made, "--regions", regions)
    (tmp_path / "link.json").symlink_to(held_out)
    for output in (held_out, tmp_path / "link.json"):
        lost = run(*inputs, "--images", held_out, "-o", output)
        assert lost.returncode == 2 and "would be lost" in " ".join(lost.stderr.replace("│", " ").split())
    done = run(*inputs, "--images", held_out, "-o", results)
    assert done.returncode == 0, done.stderr
    assert "40 captions of 40 images by captioner@" in done.stderr and "captioner(decode=beam)" in done.stderr
    file_text = json.loads(results.read_text())
    assert [row["image_id"] for row in file_text] == list(map(int, references))[90:]
    shuffled = tmp_path / "shuffled.json"
    assert run(*inputs, "--images", held_out, "-o", shuffled, "--decode", "greedy", "--shuffle").returncode == 0
    done = run("score", results, shuffled, "--references", held_out, "--metrics", "cider-d", "-f", "json")
    assert done.returncode == 0, done.stderr
    local, other = (each["metrics"]["cider-d"]["score"] for each in json.loads(done.stdout)["systems"].values())
    assert local > 2 * other
    coco = tmp_path / "coco"
    coco.mkdir()
    shutil.copy(regions / "1003.npz", coco / "COCO_val2014_000000001003.npz")
    assert run("caption", "--captioner", made, "--regions", coco, "-o", shuffled).returncode == 0
    assert [row["image_id"] for row in json.loads(shuffled.read_text())] == [1003]
    samples = tmp_path / "samples.json"
    done = run(*inputs, "-o", samples, "--decode", "captioner(decode=sample,temperature=2.0)", "--samples", "3")
    assert len(json.loads(samples.read_text())) == 390
    for wrong, message, code in (
        ((*inputs, "-o", results, "--decode", "beam", "--samples", "2"), "samples=2", 1),
        ((*inputs, "-o", results, "--decode", "best"), "best", 1),
        (("caption", "--captioner", made, "-o", results), "--regions", 2),
        (("caption", "--captioner", tmp_path, "--regions", regions, "-o", results), "no checkpoint", 3),
        (("caption", "--captioner", made, "--regions", tmp_path / "none", "-o", results), "no such folder", 1),
        (("train", "captioner", "-o", made), "--scenes N", 2),
        (("train", "captioner", captions, "-o", made), "--regions", 2),
        (("train", "captioner", captions, "--regions", regions, "-o", made, *SMALL, "--epochs", "3"), "settings", 1),
        (("train", "captioner", captions, "--regions", regions, "-o", made, "--reward", "blue"), "blue", 1),
        (("train", "captioner", captions, "--regions", regions, "-o", made, "--heads", "7"), "7 heads", 1),
    ):
        failed = run(*wrong)
        assert failed.returncode == code, (wrong, failed.stderr)
        assert message in failed.stderr, (wrong, failed.stderr)


def test_from_synthetic_scenes(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need the images extra")
    made = tmp_path / "made"
    done = run(
        *("train", "captioner", "--scenes", "24", *FEW, "-o", made, *SMALL, "--epochs", "2"),
        *("--self-critical-epochs", "1", "--samples", "2", "-f", "json"),
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["captions"]) == {"cross-entropy", "self-critical", "of other pictures"}
    world = tmp_path / "scenes"
    assert run("scenes", world, "--size", "4", "--encoder", "world-encoder").returncode == 0
    results = tmp_path / "results.json"
    done = run("caption", "--captioner", made, "--regions", world / "regions", "-o", results)
    assert done.returncode == 0, done.stderr
    done = run("score", results, "--references", world / "captions.jsonl", "--metrics", "cider-d")
    assert done.returncode == 0, done.stderr
