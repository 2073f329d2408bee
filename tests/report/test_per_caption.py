"""Scores per caption are written part by part: the same rows as at once, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from capmeter.captions.load import load
from capmeter.evaluation.runner import score
from capmeter.report import per_caption

SAID = ["a dog runs", "two cats, asleep", "a bus", "", "é man"]
TOLD = [["a dog is running", "the dog"], ["cats sleep"], ["a red bus", "bus"], ["a tree"], ["a man"]]


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet"])
def test_parts_are_those_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, texts: bool
) -> None:
    captions = load(SAID, references=TOLD)
    systems = {"one": score(captions, "bleu-4,rouge-l"), "two": score(captions.select([3, 0, 4]), "bleu-4,rouge-l")}
    at_once, in_parts = tmp_path / f"once.{ending}", tmp_path / f"parts.{ending}"
    per_caption.write_per_caption(systems, at_once, texts=texts)
    monkeypatch.setattr(per_caption, "_AT_ONCE", 2)
    per_caption.write_per_caption(systems, in_parts, texts=texts)
    if ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(in_parts).equals(parquet.read_table(at_once))
        assert parquet.read_table(in_parts)["id"].to_pylist() == ["0", "1", "2", "3", "4", "3", "0", "4"]
        assert parquet.ParquetFile(in_parts).num_row_groups == 5
    else:
        assert in_parts.read_bytes() == at_once.read_bytes()
        assert at_once.read_text().count("\n") == 8 + (ending != "jsonl")


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = score(candidates=SAID, references=TOLD, metrics="bleu-4")
    monkeypatch.setattr(per_caption, "_AT_ONCE", 2)
    columns = type(results).to_columns
    calls: list[slice] = []

    def full(self: object, *inputs: object, rows: slice = slice(None), **named: object) -> object:
        calls.append(rows)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return columns(self, *inputs, rows=rows, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(type(results), "to_columns", full)
    for ending in ("jsonl", "parquet"):
        calls.clear()
        with pytest.raises(Exception, match="No space"):
            per_caption.write_per_caption({"one": results}, tmp_path / f"scores.{ending}")
        assert not list(tmp_path.iterdir())
