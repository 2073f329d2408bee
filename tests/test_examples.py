"""The shipped example captions: whole, and ordered as their qualities are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import capmeter
from capmeter.captions.validation import examine

FOLDER = Path(__file__).resolve().parents[1] / "examples"
SYSTEMS = ("human", "strong", "weak", "broken")


@pytest.mark.parametrize("system", SYSTEMS)
def test_whole(system: str) -> None:
    captions = capmeter.load(FOLDER / f"{system}.json", FOLDER / "references.json")
    assert len(captions) == 36
    assert set(captions.references.lengths.tolist()) == {5}
    assert captions.notes == {}
    findings = examine(FOLDER / f"{system}.json", FOLDER / "references.json")
    assert findings.problems == []
    assert len(findings.warnings) == (2 if system == "broken" else 0), "its empty caption, and its truncated ones"


def test_order() -> None:
    scores = {}
    for system in SYSTEMS:
        captions = capmeter.load(FOLDER / f"{system}.json", FOLDER / "references.json")
        scores[system] = capmeter.score(captions, ["cider-d"])["cider-d"].score
    assert min(scores["human"], scores["strong"]) > 2 * scores["weak"] > 2 * scores["broken"] > 0


def test_the_torchmetrics_example_prints_the_scores_of_the_set(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torchmetrics", reason="needs torchmetrics (pip install 'capmeter[torchmetrics]')")
    variables = runpy.run_path(str(FOLDER / "torchmetrics_captions.py"))
    rows = [
        {"image_id": id, "candidate": candidate, "references": references}
        for batch in variables["BATCHES"]
        for id, candidate, references in zip(batch["ids"], batch["preds"], batch["target"], strict=True)
    ]
    printed = capsys.readouterr().out
    for name, each in capmeter.score(capmeter.load(rows), "bleu-1,rouge-l,cider-d").items():
        assert f"{name}: {each.score:.4f}\n" in printed
