"""Scores by single reference: against the metric itself, the spread, the file, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from capmeter_research.papers.umic.by_reference import score_by_reference

from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate

CANDIDATES = ["a dog runs on grass", "two cats sleep", "a red ball lies here"]
REFERENCES = [
    ["a dog runs on grass", "an animal plays outside", "the dog"],
    ["two cats sleep on a sofa", "kittens"],
    ["a ball"],
]


def test_each_value_is_the_metrics_own_with_the_frequencies_of_the_whole_set() -> None:
    captions = load(CANDIDATES, REFERENCES)
    metrics = parse_list("cider-d,rouge-l")
    rows = score_by_reference(captions, metrics)
    assert [(row["id"], row["metric"], row["reference"]) for row in rows] == [
        (str(k), str(metric), reference) for k in range(3) for metric in metrics for reference in REFERENCES[k]
    ]
    total = evaluate(captions, metrics)
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        assert row["score"] == total[row["metric"]].items[row["id"]]
        values.setdefault((row["id"], row["metric"]), []).append(row["value"])
    for row in rows:
        of_caption = values[row["id"], row["metric"]]
        assert row["spread"] == max(of_caption) - min(of_caption)
    # CIDEr-D is the mean over references, so that the mean of the single values is the score itself
    assert sum(values["0", "cider-d"]) / 3 == pytest.approx(rows[0]["score"]) and rows[0]["spread"] > 1
    alone = evaluate(load(CANDIDATES[:1], [REFERENCES[0][1:2]]), parse_list("rouge-l"))
    assert values["0", "rouge-l"][:2] == [1.0, alone["rouge-l"].score]


def test_what_cannot_be_told_apart_by_reference_is_refused() -> None:
    with pytest.raises(InputError, match="spurts uses no references"):
        score_by_reference(load(CANDIDATES, REFERENCES), "spurts,rouge-l")
    with pytest.raises(InputError, match="1 caption has no reference, the first: 2"):
        score_by_reference(load(CANDIDATES, [*REFERENCES[:2], []], on_missing="keep"), "rouge-l")


def test_the_file_has_a_row_for_each_reference(tmp_path: Path, run) -> None:
    rows = zip(CANDIDATES, REFERENCES, strict=True)
    text = "".join(
        json.dumps({"image_id": str(k), "candidate": c, "references": r}) + "\n" for k, (c, r) in enumerate(rows)
    )
    (tmp_path / "rows.jsonl").write_text(text)
    words = ("study", "by-reference", "rows.jsonl", "-m", "rouge-l,bleu-1", "-o", "r.jsonl")
    assert run(*words).code == 0
    file_text = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert len(file_text) == 12 and {row["system"] for row in file_text} == {"rows"}
    assert run("study", "by-reference", "rows.jsonl", "-o", "./rows.jsonl").code == 2
    assert (tmp_path / "rows.jsonl").read_text() == text
