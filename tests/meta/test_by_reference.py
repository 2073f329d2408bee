"""Scores by single reference: against the metric itself, the spread, the file, and the commands."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from capmeter.captions.load import load
from capmeter.cli.main import main
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.meta.by_reference import score_by_reference
from capmeter.report.score_table import write_by_reference

CANDIDATES = ["a dog runs on grass", "two cats sleep", "a red ball lies here"]
REFERENCES = [
    ["a dog runs on grass", "an animal plays outside", "the dog"],
    ["two cats sleep on a sofa", "kittens"],
    ["a ball"],
]


def test_each_value_is_the_metrics_own_with_the_frequencies_of_the_whole_set() -> None:
    captions = load(CANDIDATES, REFERENCES)
    metrics = parse_list("cider-d,rouge-l")
    result = score_by_reference(captions, metrics)
    assert [(each.id, each.metric) for each in result] == [(str(k), str(m)) for k in range(3) for m in metrics]
    total = evaluate(captions, metrics)
    for each in result:
        assert each.score == total[each.metric].items[each.id]
        assert len(each.values) == len(each.references) and each.spread == max(each.values) - min(each.values)
    cider = result[0]
    # CIDEr-D is the mean over references, so that the mean of the single values is the score itself
    assert sum(cider.values) / 3 == pytest.approx(cider.score) and cider.spread > 1
    rouge = result[1]
    alone = evaluate(load(CANDIDATES[:1], [REFERENCES[0][1:2]]), parse_list("rouge-l"))
    assert rouge.values[1] == alone["rouge-l"].score and rouge.values[0] == 1.0
    assert result[4].spread == 0.0  # one reference
    (only,) = score_by_reference(captions, "rouge-l", ids=["1"])
    assert only.references == ("two cats sleep on a sofa", "kittens")


def test_what_cannot_be_told_apart_by_reference_is_refused() -> None:
    with pytest.raises(InputError, match="spurts uses no references"):
        score_by_reference(load(CANDIDATES, REFERENCES), "spurts,rouge-l")
    with pytest.raises(InputError, match="1 caption has no reference, the first: 2"):
        score_by_reference(load(CANDIDATES, [*REFERENCES[:2], []], on_missing="keep"), "rouge-l")


def test_the_file_has_a_row_for_each_reference(tmp_path: Path) -> None:
    result = score_by_reference(load(CANDIDATES, REFERENCES), "rouge-l")
    write_by_reference({"mine": result}, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 and rows[1]["reference"] == "an animal plays outside"
    assert float(rows[1]["value"]) == result[0].values[1] and float(rows[0]["spread"]) == result[0].spread
    with pytest.raises(InputError, match=r"ends in \.parquet, \.csv, \.tsv or \.jsonl"):
        write_by_reference({"mine": result}, tmp_path / "r.txt")


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = zip(CANDIDATES, REFERENCES, strict=True)
    text = "".join(
        json.dumps({"image_id": str(k), "candidate": c, "references": r}) + "\n" for k, (c, r) in enumerate(rows)
    )
    (tmp_path / "rows.jsonl").write_text(text)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["capmeter", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        return int(leaving.value.code or 0), capsys.readouterr().out

    code, out = run("explain", "rows.jsonl", "-m", "rouge-l", "--id", "0", "--by-reference")
    assert code == 0 and "an animal plays outside" in out and "spread" in out and "two cats" not in out
    code, out = run("explain", "rows.jsonl", "-m", "rouge-l", "--id", "0", "--by-reference", "-f", "json")
    assert json.loads(out)["by_reference"][0]["values"][0] == 1.0
    code, _ = run("score", "rows.jsonl", "-m", "rouge-l,bleu-1", "--resamples", "10", "--by-reference", "r.jsonl")
    assert code == 0
    file_text = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert len(file_text) == 12 and {row["system"] for row in file_text} == {"rows"}
