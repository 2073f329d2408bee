"""`capmeter train leic` and `capmeter study leic`, from files to tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from capmeter_research.synthetic_scenes.evaluation import SWAPPED
from support.command_line import capmeter
from support.leic_captions import captioned

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
    for name, location in (("a", 0), ("b", 1)):
        output = [{"image_id": image.id, "caption": image.machine[location].caption} for image in images[:60]]
        (tmp_path / f"{name}.json").write_text(json.dumps(output))
    return tmp_path


def test_train_then_score(folder: Path) -> None:
    given = ("coco=people.jsonl", "--exclusions", "exclusions.json.gz", "--machine", "machine.jsonl", *SIZES)
    shares = ("--negatives", "machine=1,permutation=0.5", "--hidden", "8+8", "--format", "json")
    done = capmeter("train", "leic", *given, *shares, "-o", "critic", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "158 photos; 2 benchmark photos were left out" in done.stderr
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


def test_capability(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    given = ("coco=people.jsonl", "--exclusions", "exclusions.json.gz", "--machine", "machine.jsonl", *SIZES)
    drawn = ("--plot", "bars.png", "--format", "json")
    done = capmeter("study", "leic", "capability", *given, "-o", "critics", *drawn, folder=folder)
    assert done.returncode == 0 and (folder / "bars.png").stat().st_size > 5000, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["name"] for row in rows] == ["with augmentation", "without augmentation"]
    assert set(rows[0]["found"]) == {"human", "first", "second", "balanced s(Θ, D)"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--context", "both"), "context=both needs --features"),
        (("--negatives", "machines"), "unknown source 'machines'"),
        (("--negatives", "machine"), "no image has captions of the source 'machine'"),
        (("--hidden", "wide"), "expected widths joined by +"),
        (("--fusion", "bilinear", "--context", "none"), "bilinear pooling multiplies context and candidate"),
        (("--layers", "9"), "1 to 4 LSTM layers"),
        (("--lr", "-1"), "got -1"),
        (("--dropout", "2"), "got 2"),
        (("--gamma", "-2"), "got -2"),
    ],
)
def test_mistakes_get_a_sentence(folder: Path, changed: tuple[str, ...], message: str) -> None:
    given = ("train", "leic", "coco=people.jsonl", "--exclusions", "exclusions.json.gz", "-o", "critic")
    negatives = () if "--negatives" in changed else ("--negatives", "permutation")
    done = capmeter(*given, *SIZES, *negatives, *changed, folder=folder)
    assert done.returncode in (1, 2) and message in " ".join(done.stderr.replace("│", " ").split())


def rated(folder: Path, system: str, location: int, rating: float) -> str:
    rows = [
        {
            "image_id": image.id,
            "candidate": image.machine[location].caption if location >= 0 else image.human[0],
            "references": list(image.human[1:] if location < 0 else image.human),
            "human": [rating + (int(image.id) % 3) / 10],
            "system": system,
        }
        for image in captioned(60)
    ]
    (folder / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"{system}.jsonl"


def test_submissions_beside_people_with_samples(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    files = [rated(folder, "first", 0, 2.0), rated(folder, "second", 1, 1.0), rated(folder, "people", -1, 4.0)]
    samples = [{"image_id": image.id, "candidate": image.samples[0].caption} for image in captioned(60)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    given = ("--negatives", "machine=1,permutation=1,monte-carlo=1", *SIZES, "-o", "judged", "--format", "json")
    sample = tuple(part for name in ("first", "second", "people") for part in ("--samples", f"{name}=samples.jsonl"))
    done = capmeter("study", "leic", "submission", *files, *sample, *given, "--plot", "m1.png", folder=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [round(result[name]["people"], 2) for name in ("first", "second", "people")] == [2.1, 1.1, 4.1]
    assert all(0 < result[name]["score"] < 1 for name in result) and (folder / "m1.png").stat().st_size > 5000
    (folder / "m1.json").write_text('{"first": 0.2, "second": 0.1, "people": 0.6}')
    table = capmeter("study", "leic", "submission", *files, *sample, *given[:-2], "--human", "m1.json", folder=folder)
    by_system = [(human, result[name]["score"]) for name, human in (("first", 0.2), ("second", 0.1), ("people", 0.6))]
    r = np.corrcoef(np.array(by_system).T)[0, 1]
    assert f"Pearson's r with people: {r:.3f} (p " in " ".join(table.stdout.split()) and "0.6000" in table.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--samples", "c=a.json"), "expected NAME=FILE with the name of a submission (a)"),
        (("--human", "people.json"), "people.json: there is no such file"),
        (("--plot", "m1.png"), "give --human, for at least 3 submissions"),
    ],
)
def test_mistakes_with_submissions_get_a_sentence(folder: Path, given: tuple[str, ...], message: str) -> None:
    done = capmeter(
        *("study", "leic", "submission", "a=a.json", "-r", "people.jsonl", *SIZES, "-o", "judged", *given),
        folder=folder,
    )
    assert done.returncode == 1 and message in " ".join(done.stderr.split())


def test_robustness_with_and_without_each_augmentation(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    given = ("coco=people.jsonl", "--exclusions", "exclusions.json.gz", "--machine", "machine.jsonl", *SIZES)
    judged = ("--judged", "people.jsonl", "--judged-images", "20", "-m", "rouge-l", "--plot", "curves.svg")
    done = capmeter("study", "leic", "robustness", *given, *judged, "-o", "critics", "--format", "csv", folder=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()[1:]]
    ways = ("other-caption", "permutation", "replacement")
    assert {row[0] for row in rows} == set(ways) and len(rows) == 3 * 6
    named = {"all negatives", *(f"without {each}" for each in (*ways, "augmentation")), "rouge-l"}
    assert {row[1] for row in rows} == named
    assert "without permutation" in (folder / "curves.svg").read_text()


def test_the_made_world_with_pictures(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = ("--epochs", "2", "--width", "16", "--embedding", "12", "--pooled", "64", "--curriculum-epochs", "1")
    worlds = ("--train", "world(split=train,size=60)", "--test", "world(split=test,size=20)")
    done = capmeter(
        *("study", "leic", "scenes", "-o", "critics", *sizes, *worlds, "--contexts", "none,both"),
        *("--plot", "world.png", "--format", "json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    none, both = (row["found"] for row in json.loads(done.stdout)["rows"])
    assert SWAPPED not in none and 0 <= both[SWAPPED] <= 100
    assert len(list((folder / "critics").glob("features-world-reader-*.npz"))) == 1 and (folder / "world.png").exists()
    judged = capmeter(
        *("study", "leic", "scenes", "-o", "elsewhere", worlds[2], worlds[3], "--format", "json"),
        *("--critic", "critics/none", "--critic", "critics/both"),
        folder=folder,
    )
    assert judged.returncode == 0, judged.stderr
    assert [row["found"] for row in json.loads(judged.stdout)["rows"]] == [none, both]  # the features are drawn again
    assert not (folder / "elsewhere" / "both").exists()
    (data,) = json.loads((folder / "critics" / "both" / "checkpoint.json").read_text("utf-8"))["data"]
    assert data["name"] == "world(size=60)" and data["examples"] == 60
