"""`capmeter train leic` and `capmeter study leic`, from files to tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from commandline import capmeter
from learning.leic.made import captioned

SIZES = ("--width", "16", "--embedding", "12", "--images", "10", "--epochs", "4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = captioned(160)
    rows = [{"image_id": image.id, "candidate": image.human[0], "references": list(image.human)} for image in images]
    (tmp_path / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    machine = [
        {"photo": image.id, "system": given.system, "candidate": given.caption, "read": list(given.read)}
        for image in images
        for given in image.machine
    ]
    (tmp_path / "machine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in machine))
    (tmp_path / "exclusions.json.gz").write_bytes(gzip.compress(b'{"coco": [7, 8], "flickr": []}'))
    for name, place in (("a", 0), ("b", 1)):
        said = [{"image_id": image.id, "caption": image.machine[place].caption} for image in images[:60]]
        (tmp_path / f"{name}.json").write_text(json.dumps(said))
    return tmp_path


def test_train_then_score(folder: Path) -> None:
    given = ("coco=people.jsonl", "--exclusions", "exclusions.json.gz", "--machine", "machine.jsonl", *SIZES)
    shares = ("--negatives", "machine=1,permutation=0.5", "--hidden", "8+8", "--format", "json")
    done = capmeter("train", "leic", *given, *shares, "-o", "critic", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "158 photos; 2 of benchmarks were left out" in done.stderr
    scores = json.loads(done.stdout)
    assert set(scores) == {"s", "human", "machine", "permutation"} and scores["s"]["mean"] > 0.5
    checkpoint = json.loads((folder / "critic" / "checkpoint.json").read_text())
    assert checkpoint["parameters"]["shape"]["hidden"] == [8, 8] and checkpoint["kind"] == "leic"
    assert checkpoint["training"]["negatives"] == {"machine": 1.0, "permutation": 0.5}
    assert [each["name"] for each in checkpoint["data"]] == ["coco", "machine.jsonl"]
    scored = capmeter(*("score", "people.jsonl", "-m", "leic(checkpoint=critic)", "--format", "json"), folder=folder)
    assert scored.returncode == 0, scored.stderr
    assert "leic(checkpoint=critic)" in scored.stdout


def test_judging_two_submissions_one_of_which_changes(folder: Path) -> None:
    given = ("--references", "people.jsonl", *SIZES, "--format", "json")
    first = capmeter("study", "leic", "submission", "a=a.json", "b=b.json", *given, "-o", "one", folder=folder)
    assert first.returncode == 0, first.stderr
    changed = [{"image_id": str(k), "caption": "some words that are new here"} for k in range(60)]
    (folder / "b.json").write_text(json.dumps(changed))
    second = capmeter("study", "leic", "submission", "b=b.json", "a=a.json", *given, "-o", "two", folder=folder)
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["a"] == two["a"] and one["b"]["score"] != two["b"]["score"]
    assert one["a"]["images"] == 60 and 0 < one["a"]["score"] < 1


def test_capability_and_words(folder: Path) -> None:
    given = ("coco=people.jsonl", "--exclusions", "exclusions.json.gz", "--machine", "machine.jsonl", *SIZES)
    done = capmeter("study", "leic", "capability", *given, "-o", "critics", "--format", "json", folder=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["with augmentation", "without augmentation"]
    assert set(found["with augmentation"]["scores"]) == {"human", "first", "second"}
    words = capmeter("study", "leic", "words", "a=a.json", "-r", "people.jsonl", "--bins", "2", folder=folder)
    assert words.returncode == 0 and "rank in the references" in words.stdout


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--context", "both"), "context=both needs --features"),
        (("--negatives", "machines"), "unknown source 'machines'"),
        (("--negatives", "machine"), "no image has captions of the source 'machine'"),
        (("--hidden", "wide"), "expected widths joined by +"),
        (("--fusion", "bilinear", "--context", "none"), "bilinear pooling multiplies context and candidate"),
        (("--layers", "9"), "1 to 4 LSTM layers"),
    ],
)
def test_mistakes_get_a_sentence(folder: Path, changed: tuple[str, ...], message: str) -> None:
    given = ("train", "leic", "coco=people.jsonl", "--exclusions", "exclusions.json.gz", "-o", "critic")
    negatives = () if "--negatives" in changed else ("--negatives", "permutation")
    done = capmeter(*given, *SIZES, *negatives, *changed, folder=folder)
    assert done.returncode in (1, 2) and message in " ".join(done.stderr.replace("│", " ").split())
