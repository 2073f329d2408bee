"""Anyone's scores, in every form they are read in; what does not fit is said with the first ids."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from capmeter.core.errors import InputError
from capmeter.evaluation.results import enclose_systems
from capmeter.meta.metric_scores import read_scores

IDS = ("a", "b#0", "c")
WANTED = {"a": 0.5, "b#0": 1.0, "c": -2.0}

FORMS = {
    "mine.json": json.dumps(WANTED),
    "x.json": json.dumps({"mine": {**WANTED, "further": 3}}),
    "y.json": json.dumps({id: {"mine": value} for id, value in WANTED.items()}),
    "z.json": json.dumps([{"id": id, "mine": value, "candidate": "7"} for id, value in WANTED.items()]),
    "results.json": json.dumps(enclose_systems({"a": {"metrics": {"mine": {"score": 0.1, "items": WANTED}}}})),
    "mine.jsonl": "".join(json.dumps({"id": id, "score": value}) + "\n" for id, value in WANTED.items()),
    "t.csv": "id,candidate,mine\n" + "".join(f'{id},"a, b",{value}\n' for id, value in WANTED.items()),
    "t.tsv": "id\tmine\n" + "".join(f"{id}\t{value}\n" for id, value in WANTED.items()),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("zipped", [False, True])
def test_forms(tmp_path: Path, name: str, zipped: bool) -> None:
    path = tmp_path / (name + ".gz" if zipped else name)
    path.write_bytes(gzip.compress(FORMS[name].encode()) if zipped else FORMS[name].encode())
    result = read_scores(path, IDS)
    assert list(result) == ["mine"]
    assert {id: result["mine"][id] for id in IDS} == WANTED


def test_parquet(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"id": list(WANTED), "image_id": ["1", "2", "3"], "mine": list(WANTED.values())}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    assert read_scores(tmp_path / "t.parquet", IDS) == {"mine": WANTED}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.json", '{"a": 1, "c": 2}', r"no m score for 1 of 3 ids, the first are 'b#0'; the file has ids such as 'a'"),
        ("m.json", '{"a": 1, "b#0": "high", "c": 2}', "'b#0': expected a finite number"),
        ("m.json", '{"m": {"a": 1, "b#0": NaN, "c": 2}}', "finite|NaN"),
        ("m.json", '{"a": 1, "b#0": 1' + "0" * 400 + ', "c": 2}', "'b#0': expected a finite number"),
        ("m.json", '{"a": {"m": 1}, "b#0": 2, "c": {"m": 3}}', "'b#0': expected scores by metric"),
        ("m.json", json.dumps(enclose_systems({"a": {"metrics": {"m": 3}}})), "m: expected scores by id, but got int"),
        ("m.json", json.dumps(enclose_systems({"a": {"metrics": 3}})), "not a results file of capmeter"),
        ("m.json", json.dumps(enclose_systems({"a": {}, "b": {}})), "contains 2 systems, a, b; score one into a file"),
        ("m.json", "[1, 2, 3]", "item 0: expected an object with an id"),
        ("m.json", "3", "m.json has no rows"),
        ("m.json", "{}", "has no scores"),
        ("m.jsonl", '{"score": 3}\n', "no id; expected a field id"),
        ("m.jsonl", '{"id": "a", "score": 3}\n{"id": "a", "score": 4}\n', "duplicate id 'a'"),
        ("m.csv", "id,m\na,1\nb#0,inf\nc,1\n", "line 3, m: expected a finite number"),
        ("m.csv", "id,m\na,1\nb#0,1e308\nc,1\n", "line 3, m: expected a finite number up to 1e100"),
    ],
)
def test_what_is_no_scores(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_scores(tmp_path / name, IDS)
