"""Metrics on regions from the command line: score, explain, meta, robustness, report, and the negatives to read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.umic.word_piece import SPECIAL
from support.command_line import capmeter
from support.uniter_examples import SENTENCES, random_region_folder, small_checkpoint

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regions")
    small_checkpoint(folder / "model")
    random_region_folder(folder / "regions")
    rows = [
        {"image_id": str(k), "candidate": text, "references": [text, SENTENCES[(k + 1) % 4]], "human": k / 4}
        for k, text in enumerate(SENTENCES)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def metric(place: Path) -> str:
    return f'umic(checkpoint="{place / "model"}")'


def test_score_and_compare(place: Path) -> None:
    inputs = [place / "rows.jsonl", "-m", metric(place), "--regions", place / "regions", "--format", "json"]
    done = capmeter("score", *inputs, "--no-intervals")
    assert done.returncode == 0, done.stderr
    (scores,) = json.loads(done.stdout)["systems"]["rows"]["metrics"].values()
    assert 0 < scores["score"] < 1
    without = capmeter("score", place / "rows.jsonl", "-m", metric(place))
    assert without.returncode == 1 and "--regions" in without.stderr
    both = capmeter("compare", f"a={place / 'rows.jsonl'}", f"b={place / 'rows.jsonl'}", *inputs[1:])
    assert both.returncode == 0, both.stderr


def test_explain_shows_the_regions(place: Path) -> None:
    done = capmeter("explain", place / "rows.jsonl", "-m", metric(place), "--regions", place / "regions", "--id", "1")
    assert done.returncode == 0 and "region 0." in done.stdout, done.stderr


def test_the_page_shows_the_regions_that_it_is_given(place: Path, tmp_path: Path) -> None:
    inputs = ["-m", metric(place), "--regions", place / "regions", "--output", tmp_path / "scores.json"]
    assert capmeter("score", place / "rows.jsonl", *inputs).returncode == 0
    done = capmeter("report", tmp_path / "scores.json", "--regions", place / "regions", "-o", tmp_path / "page.html")
    assert done.returncode == 0 and "4 of them explained" in done.stderr, done.stderr
    without = capmeter("report", tmp_path / "scores.json", "-o", tmp_path / "other.html")
    assert without.returncode == 0 and "0 of them explained" in without.stderr, without.stderr
    assert "could not be explained: 4 captions have no regions" in (tmp_path / "other.html").read_text()


def test_meta_and_robustness(place: Path) -> None:
    inputs = ["-m", metric(place), "--regions", place / "regions", "--resamples", 20, "--format", "json"]
    done = capmeter("meta", "-b", "rated", "-d", place / "rows.jsonl", *inputs)
    assert done.returncode == 0, done.stderr
    ways = "pos-substitution,repetition-removal,other-caption(nearest=1)"
    done = capmeter("robustness", place / "rows.jsonl", "--degradations", ways, "--strengths", "0,0.3", *inputs)
    assert done.returncode == 0, done.stderr
    assert all(way in done.stdout for way in ways.split(","))


def test_negatives_are_shown_and_written(place: Path, tmp_path: Path) -> None:
    done = capmeter("negatives", place / "rows.jsonl", "--show", 2, "-o", tmp_path / "n.jsonl", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [each["kind"] for each in result["examples"][:6]] == [
        *("caption", "substitution", "random", "hard", "repetition-removal", "permutation")
    ]
    rows = [json.loads(line) for line in (tmp_path / "n.jsonl").read_text().splitlines()]
    assert len(rows) == 20 and {row["system"] for row in rows} == {
        *("caption", "substitution", "random", "repetition-removal", "permutation")
    }
    again = capmeter("negatives", place / "rows.jsonl", "--show", 2, "--format", "json")
    assert json.loads(again.stdout) == result, "the same seed, the same negatives"


def test_hard_negatives_are_chosen_by_words_or_by_features(tmp_path: Path) -> None:
    said = [
        "a dog runs fast",
        "a dog runs fast today",
        "a cat sleeps",
        "a cat sleeps here",
        "a red bus",
        "a red bus waits",
    ]
    rows = [{"image_id": str(k), "candidate": text, "references": [text]} for k, text in enumerate(said)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    angles = np.array([0.0, 2.0, 4.0, 0.1, 2.1, 4.1])  # other pairs than the words'
    np.savez(tmp_path / "f.npz", image_ids=list("012345"), features=np.stack([np.cos(angles), np.sin(angles)], axis=1))
    for similarity, near in (("tf-idf", [1, 0, 3, 2, 5, 4]), (f"{tmp_path / 'f.npz'}", [3, 4, 5, 0, 1, 2])):
        plot = f'paper(nearest=1,similarity="{similarity}")'
        done = capmeter("negatives", tmp_path / "rows.jsonl", "--show", 6, "-n", plot, "--format", "json")
        assert done.returncode == 0, done.stderr
        texts = [each["text"] for each in json.loads(done.stdout)["examples"]]
        assert {texts[k]: texts[k + 3] for k in range(0, 36, 6)} == {said[k]: said[near[k]] for k in range(6)}


def test_import_uniter(tmp_path: Path) -> None:
    from capmeter_research.papers.umic.training.weights import initial_weights
    from capmeter_research.papers.umic.uniter import UniterShape

    torch.save(initial_weights(UniterShape(6, 64, 1, 1, 8, 8, 4), 0), tmp_path / "umic.pt")
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "a", "dog"]))
    done = capmeter(
        "train", "import-uniter", tmp_path / "umic.pt", "--vocabulary", tmp_path / "vocab.txt", "-o", tmp_path / "umic"
    )
    assert done.returncode == 0 and "itm_output, rank_output" in done.stderr
    (tmp_path / "umic.pt").write_bytes(b"not a pickle")
    done = capmeter(
        "train", "import-uniter", tmp_path / "umic.pt", "--vocabulary", tmp_path / "vocab.txt", "-o", tmp_path / "u"
    )
    assert done.returncode == 3 and "umic.pt" in done.stderr


def test_train_umic_says_what_it_needs(tmp_path: Path) -> None:
    done = capmeter("train", "umic", "-o", tmp_path)
    assert done.returncode == 2 and "--scenes" in done.stderr
    done = capmeter("train", "umic", "captions.json", "-o", tmp_path)
    assert done.returncode == 2 and "--exclusions" in done.stderr


@pytest.mark.slow
def test_runs_and_ablations_of_training(tmp_path: Path) -> None:
    """Every variant and seed leaves a checkpoint and its curves; the run with the lowest loss is the result."""
    pytest.importorskip("matplotlib")
    short = ["--scenes", 4, "--epochs", 1, "--batches", 8, "--batch", 4, "--held-out-pairs", 10]
    plot = "paper(without=permutation+random)"
    inputs = [*short, "--runs", 2, "--ablate", "--negatives", plot, "--format", "json"]
    done = capmeter("train", "umic", *inputs, "-o", tmp_path / "umic")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["umic"]
    assert list(result) == ["all", "without substitution", "without repetition-removal"]
    assert all(each.keys() >= {"hard", "repetition", "removal", "swapped picture"} for each in result.values())
    output = {}
    for folder in (tmp_path / "umic", *(tmp_path / "umic").glob("without-*")):
        losses = {}
        for place in (folder, *folder.glob("seed-*")):
            assert (place == folder) != (place / "curves.png").exists()
            checkpoint = json.loads((place / "checkpoint.json").read_text())
            losses[place.name] = checkpoint["scores"]["minus_loss"], checkpoint["weights"]
            assert checkpoint["training"]["pairs"] == 10
        assert losses.pop(folder.name) == max(losses.values()) and len(losses) == 2
        output[folder.name] = losses
    assert len({weights for losses in output.values() for _, weights in losses.values()}) == 6
