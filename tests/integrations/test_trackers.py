"""Weights & Biases and MLflow, both offline: numbers and tables as they read them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.thousand_captions import expected, scores

from capmeter.core.errors import InputError
from capmeter.evaluation.results import Results

METRICS = "bleu-4,rouge-l,cider-d(sigma=5.0)"


@pytest.fixture(scope="module")
def results() -> Results:
    return expected(METRICS)


def test_wandb_keeps_scores_signatures_and_captions(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="needs wandb (pip install 'capmeter[wandb]')")
    from capmeter.integrations.wandb import log, table

    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(InputError, match=r"no active run of wandb; call wandb.init\(\)"):
        log(results)
    with wandb.init(mode="offline", dir=str(tmp_path), project="captions") as run:
        log(results, run)
        summary: Any = dict(run.summary)
        config = dict(run.config)
    assert {name: summary[f"captions/{name}"] for name in results} == scores(results)
    assert config["captions/signatures"]["bleu-4"] == results["bleu-4"].signature
    assert summary["captions/table"]["nrows"] == 1000
    rendered = table(results)
    assert rendered.columns == ["id", "image_id", "candidate", "references", *results]
    for k in (0, 17, 999):
        row = dict(zip(rendered.columns, rendered.data[k], strict=True))
        caption = list(results.captions)[k]
        assert (row["id"], row["candidate"]) == (caption.id, caption.candidate)
        assert row["references"].split("\n") == list(caption.references)
        assert [row[name] for name in results] == [each.items[caption.id] for each in results.values()]


def test_wandb_table_of_systems() -> None:
    pytest.importorskip("wandb", reason="needs wandb (pip install 'capmeter[wandb]')")
    import capmeter
    from capmeter.integrations.wandb import table

    systems = {
        "ours": capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics="rouge-l,bleu-1"),
        "theirs": capmeter.score(candidates=["cats"], references=[["a dog"]], metrics="rouge-l"),
    }
    rendered = table(systems)
    assert rendered.columns == ["id", "image_id", "system", "candidate", "references", "rouge-l", "bleu-1"]
    assert rendered.data[1] == ["0", "0", "theirs", "cats", "a dog", 0.0, None]


def test_mlflow_keeps_scores_signatures_and_captions(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow (pip install 'capmeter[mlflow]')")
    pytest.importorskip("pandas", reason="MLflow's tables need pandas")
    from capmeter.integrations.mlflow import log

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        log(results)
    remaining = mlflow.get_run(run.info.run_id).data
    assert remaining.metrics == {
        "bleu-4": results["bleu-4"].score,
        "rouge-l": results["rouge-l"].score,
        "cider-d_sigma_5.0_": results["cider-d(sigma=5.0)"].score,
    }
    assert remaining.tags["signature.rouge-l"] == results["rouge-l"].signature
    frame = mlflow.load_table("captions.json", run_ids=[run.info.run_id])
    assert list(frame["candidate"]) == [caption.candidate for caption in results.captions]
    assert list(frame["references"]) == [list(caption.references) for caption in results.captions]
    # MLflow writes its tables with ten decimals
    expected_scores = results["cider-d(sigma=5.0)"].items.array.tolist()
    assert frame["cider-d(sigma=5.0)"].tolist() == pytest.approx(expected_scores, abs=1e-9)
