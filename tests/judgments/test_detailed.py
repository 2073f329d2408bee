"""Benchmarks of detailed captions in the layouts that their authors distribute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from capmeter.core.errors import InputError
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import JudgedPairs, Points

BATTLE: dict[str, Any] = {
    "img": "1.jpg",
    "source1": "one",
    "source2": "two",
    "caption1": "a dog",
    "caption2": "a cat",
    "ref": "the dog",
    "winner": "one",
    "cluster": "level 1",
    "in-400": True,
}
DOCENT: dict[str, Any] = {
    "uuid": "u",
    "reference": "a ship",
    "model1": "one",
    "model2": "two",
    "model1_generation": "a boat",
    "model2_generation": "a car",
    "mistakes": "1_much_better",
    "omissions": "equal",
    "overall_quality": "2_slightly_better",
}
DETAIL: dict[str, Any] = {
    "source": "COCO",
    "image": "1.jpg",
    "binary": b"picture",
    "GT_Caption_GPT4O": "a dog",
    "GT_Caption_GPT4V": "the dog",
    "GT_Caption_Gemini15Pro": "one dog",
    "CogVLM": "dog",
    "ShareCaptioner": "cat",
    "LLaVA_v15": "cow",
    "GPT4_Eval": '{"CogVLM": 4, "ShareCaptioner": 2.5, "LLaVA_v15": 1}',
}


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def test_battles_of_caparena(tmp_path: Path) -> None:
    """A tie, a skipped battle and two bad captions are ties; battles with people are left out."""
    battles = [
        BATTLE,
        {**BATTLE, "winner": "two"},
        {**BATTLE, "winner": "equal"},
        {**BATTLE, "winner": "skip"},
        {**BATTLE, "winner": "bad"},
        {**BATTLE, "source2": "human", "winner": "human"},
    ]
    path = write_json(tmp_path / "battles.json", battles)
    pairs = find_benchmark("caparena").load(path)
    assert isinstance(pairs, JudgedPairs)
    assert pairs.better.tolist() == [1, -1, 0, 0, 0] and pairs.notes == {"human-captions": 1}
    assert pairs.systems == (("one", "two"),) * 5 and pairs.captions["1.jpg#1/b"].candidate == "a cat"
    decided = find_benchmark("caparena").load(path, "decided")
    assert decided.notes == {"human-captions": 1, "tied judgments": 3} and len(decided) == 2
    assert find_benchmark("caparena").load(path, "levels").groups == ("level 1",) * 5


def test_docent_has_degrees_of_preference(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "docent.parquet", [DOCENT, {**DOCENT, "mistakes": "2_much_better"}])
    overall = find_benchmark("docent").load(path)
    assert isinstance(overall, JudgedPairs) and overall.better.tolist() == [-1, -1]
    mistakes = find_benchmark("docent").load(path, "spearman-mistakes")
    assert isinstance(mistakes, JudgedPairs) and mistakes.better.tolist() == [2, -2]
    lines = tmp_path / "docent.jsonl"
    lines.write_text(json.dumps(DOCENT) + "\n")
    omissions = find_benchmark("docent").load(lines, "omissions")
    assert isinstance(omissions, JudgedPairs) and omissions.better.tolist() == [0]
    assert omissions.captions["u/a"].references == ("a ship",)


def test_longcap_arena_as_csv_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "desc_dci_val.csv").write_text(
        "imgid,cand,score,refs\nsa_1.jpg,a long caption,0.8,\"['one, long', 'two']\"\nsa_2.jpg,b,0.2,\"['c']\"\n"
    )
    result = find_benchmark("longcap-arena").load(tmp_path / "desc_dci_val.csv")
    assert isinstance(result, Points) and result.human.tolist() == [0.8, 0.2]
    assert result.captions["sa_1.jpg"].references == ("one, long", "two")
    rows = [{"file_name": "sa_1.jpg", "cand": "x", "refs": ["y"], "score": 0.5, "image": {"bytes": b"z", "path": "p"}}]
    result = find_benchmark("longcap-arena").load(write_parquet(tmp_path / "p.parquet", rows * 2))
    assert isinstance(result, Points) and result.ids == ("sa_1.jpg#0", "sa_1.jpg#1")


def test_detailcaps_has_three_captions_an_image(tmp_path: Path) -> None:
    """The image without ratings is counted."""
    path = write_parquet(tmp_path / "d.parquet", [DETAIL, {**DETAIL, "image": "2.jpg", "GPT4_Eval": None}])
    result = find_benchmark("detailcaps").load(path)
    assert isinstance(result, Points) and result.human.tolist() == [4, 2.5, 1]
    assert result.notes == {"without ratings": 3} and result.captions["1.jpg#1"].candidate == "cat"
    assert result.captions["1.jpg#0"].references == ("a dog", "the dog", "one dog")


@pytest.mark.parametrize(
    ("benchmark", "rows", "message"),
    [
        ("caparena", [{**BATTLE, "winner": "three"}], "item 0: 'winner' is 'three'; expected one, two, equal, skip or"),
        ("caparena", [BATTLE, {**BATTLE, "caption1": None}], "item 1: 'caption1' is None; expected text"),
        ("caparena", [BATTLE, 3], "item 1: expected an object .*, but got the number 3"),
        (
            "docent",
            [{**DOCENT, "mistakes": "3"}],
            "'mistakes' is '3'; expected one of 1_much_better, 1_slightly_better",
        ),
        (
            "detailcaps",
            [{**DETAIL, "binary": 0, "GPT4_Eval": "4"}],
            "'GPT4_Eval' is '4'; expected JSON, each model with",
        ),
        ("detailcaps", [{**DETAIL, "binary": 0, "GPT4_Eval": "{"}], "GPT4_Eval, line 1, column 2: not valid JSON"),
        ("detailcaps", [{**DETAIL, "binary": 0, "CogVLM": 7}], "'CogVLM' is 7; expected text"),
        (
            "longcap-arena",
            [{"imgid": "i", "cand": "c", "refs": "[", "score": 1}],
            "'refs' is '\\['; expected a list of",
        ),
        ("longcap-arena", [{"imgid": "i", "cand": "c", "refs": [], "score": "x"}], "'score' is 'x'; expected a number"),
        (
            "longcap-arena",
            [{"imgid": "i", "cand": "c", "refs": [], "score": "nan"}],
            "'score' is 'nan'; expected a number",
        ),
    ],
)
def test_rows_that_are_wrong(tmp_path: Path, benchmark: str, rows: list[Any], message: str) -> None:
    path = write_json(tmp_path / "rows.json", rows)
    with pytest.raises(InputError, match=message):
        find_benchmark(benchmark).load(path)


def test_files_that_are_wrong(tmp_path: Path) -> None:
    damaged = tmp_path / "d.parquet"
    damaged.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="not a whole Parquet file"):
        find_benchmark("detailcaps").load(damaged)
    with pytest.raises(InputError, match="is a folder; docent is a file"):
        find_benchmark("docent").load(tmp_path)
    other = write_json(tmp_path / "other.json", [{"image_id": "1", "caption": "a dog"}])
    with pytest.raises(InputError, match=r"other\.json, item 0 is not a valid row of caparena: it has no candidate_a"):
        find_benchmark("caparena").load(other)
