"""Captions in parts have the scores of one process, each once, whatever was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pyarrow import parquet
from support.judge_server import KEY, JudgeServer, Reply, completion, prompt_of

import capmeter
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load_options import LoadOptions
from capmeter.core.errors import InputError
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.evaluation.part_scores import PartScores, score_parts

SKIPPED = "skipped_without_references"
METRICS = "bleu-4,rouge-l,cider-d,meteor"
WORDS = "a dog runs on the grass while two cats sleep near an old red bus and people watch from one window".split()  # noqa: SIM905


def write_rows(path: Path, captions: int = 60, **changes: Callable[[int], Any]) -> list[dict[str, Any]]:
    """Captions of which some share their image, which lie apart."""
    draw = np.random.default_rng(0)
    rows = []
    for k in range(captions):
        texts = [" ".join(draw.choice(WORDS, draw.integers(4, 11))) for _ in range(4)]
        row = {"image_id": str(k % 40), "candidate": texts[0], "references": texts[1:]}
        rows.append(row | {name: change(k) for name, change in changes.items()})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def score(path: Path | str, folder: Path, metrics: str = METRICS, **how: Any) -> PartScores:
    return score_parts(path, metrics, folder, rows=how.pop("rows", 7), resamples=50, seed=3, **how)


def read_scores(folder: Path) -> Any:
    """All rows in the order of the files, as DuckDB, Spark and polars read them."""
    return parquet.read_table([str(path) for path in sorted(folder.glob("*.parquet"))])


def check_equal(scores: PartScores, folder: Path, whole: capmeter.Results, system: str = "") -> None:
    """Ids, scores, corpus scores, parts and intervals are bit for bit those of one process."""
    of_system = scores.systems[system]
    assert of_system.scores == {name: each.score for name, each in whole.items()}
    assert of_system.parts == {name: each.parts for name, each in whole.items()}
    assert of_system.signatures == {name: each.signature for name, each in whole.items()}
    assert of_system.intervals == whole.intervals(resamples=50, seed=3)
    table = read_scores(folder)
    repeated = tuple(whole.notes.get("repeated_candidates", ()))
    assert of_system.notes.get("repeated_candidates", (0, [])) == (len(repeated), list(repeated[:5]))
    if system:
        table = table.filter([each == system for each in table["system"].to_pylist()])
    assert table["id"].to_pylist() == list(whole.ids.names)
    for name, each in whole.items():
        assert table[name].to_numpy().tobytes() == each.items.array.tobytes()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("step", [0, 1, 3])
def test_parts_have_the_scores_of_one_process(tmp_path: Path, workers: int, step: int) -> None:
    """No row has an id of its own, or every row, or every third; captions are repeated in other parts."""
    changes: dict[str, Any] = {"candidate": lambda k: f"a dog {k % 40 // 2}", "references": lambda k: ["a dog 7"]}
    write_rows(tmp_path / "x.jsonl", id=lambda k: f"c{k}" if step and k % step == 0 else None, **changes)
    whole = capmeter.score(capmeter.load(tmp_path / "x.jsonl"), METRICS)
    scores = score(tmp_path / "x.jsonl", tmp_path / "out", workers=workers)
    check_equal(scores, tmp_path / "out", whole)
    assert (scores.parts, scores.resumed) == (9, 0)
    assert (
        json.loads((tmp_path / "out" / "corpus.json").read_text())["systems"][""]["scores"] == scores.systems[""].scores
    )
    assert read_scores(tmp_path / "out")["row"].to_pylist() == list(range(60))


def test_many_files_are_one_set_and_systems_are_scored_apart(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "x.jsonl", system=lambda k: "ab"[k % 2])
    for k in range(3):
        lines = "".join(json.dumps(row) + "\n" for row in rows[20 * k : 20 * k + 20])
        (tmp_path / f"part-{k}.jsonl").write_text(lines)
    scores = score(str(tmp_path / "part-*.jsonl"), tmp_path / "out", rows=8)
    for system, captions in capmeter.load_systems(tmp_path / "x.jsonl").items():
        check_equal(scores, tmp_path / "out", capmeter.score(captions, METRICS), system)


def test_references_apart_are_read_by_every_process(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "x.jsonl", 40)
    references = {f"{row['image_id']}.jpg": row.pop("references") for row in rows}
    (tmp_path / "refs.json").write_text(json.dumps(references | {"unused": ["a dog"]}))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = capmeter.score(capmeter.load(tmp_path / "x.jsonl", tmp_path / "refs.json"), METRICS)
    options = LoadOptions(references=tmp_path / "refs.json")
    scores = score(tmp_path / "x.jsonl", tmp_path / "out", options=options, workers=2)
    check_equal(scores, tmp_path / "out", whole)
    assert scores.systems[""].notes["references_without_candidate"] == (1, ["unused"])
    assert scores.systems[""].notes["matched_by"][1] == whole.notes["matched_by"]
    with zipfile.ZipFile(tmp_path / "refs.zip", "w") as archive:
        archive.write(tmp_path / "refs.json", "in/refs.json")
    options = LoadOptions(references=tmp_path / "refs.zip" / "in" / "refs.json")
    assert score(tmp_path / "x.jsonl", tmp_path / "zip", options=options).systems == scores.systems
    (tmp_path / "twice.jsonl").write_text(
        "".join(json.dumps({**row, "image_id": f"{n}/{row['image_id']}"}) + "\n" for n in "ab" for row in rows)
    )
    with pytest.raises(InputError, match=r"80 images .* within a part alone: .* ambiguous; use the same ids"):
        score(tmp_path / "twice.jsonl", tmp_path / "none", options=options)
    for name, message in (("nowhere.json", "no such file"), (".", "is a folder"), ("/dev/zero", "a device")):
        with pytest.raises(InputError, match=message):
            score(tmp_path / "x.jsonl", tmp_path / "none", options=LoadOptions(references=tmp_path / name))
    with pytest.raises(InputError, match="would replace that file, which is read"):
        (tmp_path / "refs.json").rename(tmp_path / "out" / "corpus.json")
        score(tmp_path / "x.jsonl", tmp_path / "out", options=LoadOptions(references=tmp_path / "out" / "corpus.json"))


def test_skipped_candidates_have_null_scores_beside_their_columns(tmp_path: Path) -> None:
    changes = {"references": lambda k: [] if k == 3 else ["a dog"], "url": lambda k: k if k < 9 else f"u{k}"}
    write_rows(tmp_path / "x.jsonl", 20, **changes)
    options = LoadOptions(on_missing="skip")
    scores = score(tmp_path / "x.jsonl", tmp_path / "out", "rouge-l", options=options, keep=["url"])
    table = read_scores(tmp_path / "out")
    assert table["rouge-l"].is_null().to_pylist() == [k == 3 for k in range(20)]
    assert table["url"].to_pylist() == [*map(str, range(9)), *(f"u{k}" for k in range(9, 20))]
    assert scores.systems[""].captions == 19
    assert scores.systems[""].notes[SKIPPED] == (1, ["3"])
    with pytest.raises(InputError, match="1 of 7 candidates has no references"):
        score(tmp_path / "x.jsonl", tmp_path / "out", "rouge-l")
    with pytest.raises(InputError, match="no row has the column nosuch"):
        score(tmp_path / "x.jsonl", tmp_path / "out", "rouge-l", options=options, keep=["nosuch"])


def test_a_part_whose_candidates_are_all_left_out(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.jsonl", 20, references=lambda k: [] if k < 8 else [f"a dog {k}"])
    options = LoadOptions(on_missing="skip")
    whole = capmeter.score(capmeter.load(tmp_path / "x.jsonl", options=options), "cider-d")
    scores = score(tmp_path / "x.jsonl", tmp_path / "out", "cider-d", options=options)
    assert scores.systems[""].scores == {"cider-d": whole["cider-d"].score} and scores.systems[""].captions == 12
    assert read_scores(tmp_path / "out")["cider-d"].null_count == scores.systems[""].notes[SKIPPED][0] == 8
    write_rows(tmp_path / "none.jsonl", 20, references=lambda k: [])
    with pytest.raises(InputError, match="there is no caption to score: none has references"):
        score(tmp_path / "none.jsonl", tmp_path / "none", "cider-d", options=options)
    with pytest.raises(InputError, match="there is no caption to score: no row is of the system"):
        score(tmp_path / "none.jsonl", tmp_path / "none", "cider-d", options=LoadOptions(system="B"))


def test_an_id_that_two_parts_have_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.jsonl", 20, id=lambda k: str(k % 15))
    with pytest.raises(InputError, match=r"duplicate id '[0-4]'; scores are keyed by id"):
        score(tmp_path / "x.jsonl", tmp_path / "out", "rouge-l")


def test_a_row_without_id_behind_many_that_have_one_has_the_same_id_as_in_one_process_or_is_refused(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "x.jsonl", 130, id=lambda k: f"c{k}" if k < 120 else None)
    with pytest.raises(InputError, match=r"x\.jsonl, line 121: it has no id"):
        score(tmp_path / "x.jsonl", tmp_path / "out", "rouge-l", rows=50)
    whole = capmeter.score(capmeter.load(tmp_path / "x.jsonl"), "rouge-l,cider-d")
    for metrics, rows in (("rouge-l", 200), ("rouge-l,cider-d", 50)):
        score(tmp_path / "x.jsonl", tmp_path / f"{rows}", metrics, rows=rows)
        assert read_scores(tmp_path / f"{rows}")["id"].to_pylist() == list(whole.ids.names)


def test_finished_parts_are_not_run_again_unless_something_changed(tmp_path: Path) -> None:
    path, folder = tmp_path / "x.jsonl", tmp_path / "out"
    rows = write_rows(path, 20, id=lambda k: f"c{k}")
    assert score(path, folder, "rouge-l").resumed == 0
    assert score(path, folder, "rouge-l").resumed == 3
    files = sorted(folder.glob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:100])
    assert score(path, folder, "rouge-l").resumed == 1 and sorted(folder.glob("*.parquet")) == files
    assert score(path, folder, "bleu-1").resumed == 0
    assert not set(files) & set(folder.glob("*.parquet")), "scores of other metrics are removed"
    rows[0]["candidate"] = "a cow"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert score(path, folder, "bleu-1").resumed == 0
    assert score(path, folder, "bleu-1", options=LoadOptions(unicode="nfc")).resumed == 0
    other = tmp_path / "other.parquet"
    other.write_bytes(b"PAR1")
    assert score(path, folder, "bleu-1", rows=6).resumed == 0 and other.exists()


PROGRAM = """
import sys
from capmeter.evaluation.part_scores import score_parts
if __name__ == "__main__":
    score_parts(sys.argv[1], "bleu-4,cider-d", sys.argv[2], rows=40, workers=int(sys.argv[3]), resamples=50, seed=3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on_from_its_finished_parts(tmp_path: Path, workers: int) -> None:
    write_rows(tmp_path / "x.jsonl", 2000)
    (tmp_path / "program.py").write_text(PROGRAM)
    folder = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "x.jsonl"), str(folder), str(workers)]
    program = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    while program.poll() is None and len(list(folder.glob("*.parquet"))) < 3:
        time.sleep(0.005)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    finished = len(list(folder.glob("*.parquet")))
    assert 3 <= finished < 50 and not (folder / "corpus.json").exists()
    scores = score(tmp_path / "x.jsonl", folder, "bleu-4,cider-d", rows=40)
    assert scores.resumed == finished and scores.parts == 50
    check_equal(scores, folder, capmeter.score(capmeter.load(tmp_path / "x.jsonl"), "bleu-4,cider-d"))
    assert {path.suffix for path in folder.iterdir()} == {".parquet", ".json"}, "no temporary file is left"


@dataclass(frozen=True, kw_only=True)
class KillsItsProcess(MeanMetric):
    """Kills the process that measures it, the first `times` times."""

    NAME: ClassVar[str] = "kills-its-process"
    SUMMARY: ClassVar[str] = "kills"
    folder: str
    times: int

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        deaths = len(list(Path(self.folder).iterdir()))
        if deaths < self.times:
            (Path(self.folder) / f"{deaths}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Measurement(np.array([[len(each.candidate)] for each in part], np.float64))


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_lost_processes_are_replaced_until_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    rows = write_rows(tmp_path / "x.jsonl", 20)
    (tmp_path / "deaths").mkdir()
    metric: Any = [KillsItsProcess(folder=str(tmp_path / "deaths"), times=2)]
    scores = score(tmp_path / "x.jsonl", tmp_path / "out", metric, workers=2)
    assert read_scores(tmp_path / "out")[str(metric[0])].to_pylist() == [len(row["candidate"]) for row in rows]
    assert scores.systems[""].captions == 20
    metric = [KillsItsProcess(folder=str(tmp_path / "deaths"), times=1000)]
    with pytest.raises(InputError, match=r"3 workers were lost at x-0.* is there enough memory"):
        score(tmp_path / "x.jsonl", tmp_path / "out", metric, workers=2)


def test_a_judge_is_asked_again_about_parts_without_any_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai", reason="needs the judges extra")
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", KEY)
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    write_rows(tmp_path / "x.jsonl", 4)
    task, is_down = tmp_path / "task.yaml", True

    def plan(body: dict[str, Any], before: int) -> Reply:
        if is_down:
            return Reply(422, b"cannot")
        return completion("50" if "first" in prompt_of(body) else "100")

    with JudgeServer(plan).running() as server:
        metric = f'judge(model=m,endpoint="{server.url}",task="{task}")'
        task.write_text("prompt: 'first {candidate}'\nread: {number: [0, 100]}\n")
        with pytest.raises(InputError, match="none of 4 captions has a score: no answer"):
            score(tmp_path / "x.jsonl", tmp_path / "out", metric, rows=2)
        is_down = False
        for prompt, expected, resumed in (("first", 0.5, 0), ("first", 0.5, 2), ("second", 1.0, 0)):
            task.write_text(f"prompt: '{prompt} {{candidate}}'\nread: {{number: [0, 100]}}\n")
            scores = score(tmp_path / "x.jsonl", tmp_path / "out", metric, rows=2)
            assert (list(scores.systems[""].scores.values()), scores.resumed) == ([expected], resumed)


def test_references_larger_than_memory_are_joined_by_duckdb(tmp_path: Path) -> None:
    """The line of the page: both files sorted by image, and candidates with their references in one file."""
    duckdb = pytest.importorskip("duckdb")
    rows = write_rows(tmp_path / "all.jsonl", id=lambda k: f"c{k}")
    references = {row["image_id"]: row["references"] for row in rows}
    captions = [{"id": row["id"], "image_id": row["image_id"], "candidate": row["candidate"]} for row in rows]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))
    lines = [json.dumps({"image_id": image, "references": texts}) + "\n" for image, texts in references.items()]
    (tmp_path / "references.jsonl").write_text("".join(lines))
    page = (Path(__file__).resolve().parents[2] / "docs" / "scale.md").read_text("utf-8")
    (statement,) = (each for each in page.split("```sql\n")[1:] if "joined.parquet" in each)
    with duckdb.connect() as database:
        sql = statement.partition("```")[0]
        for name in ("captions.jsonl", "references.jsonl", "joined.parquet"):
            sql = sql.replace(f"'{name}'", f"'{tmp_path / name}'")
        database.execute(sql)
        joined = score(tmp_path / "joined.parquet", tmp_path / "out", "bleu-4,cider-d")
        result = database.execute(f"SELECT id, \"cider-d\" FROM '{tmp_path}/out/*.parquet'").fetchall()
    whole = capmeter.score(capmeter.load(tmp_path / "captions.jsonl", tmp_path / "references.jsonl"), "bleu-4,cider-d")
    assert dict(result) == dict(whole["cider-d"].items)
    assert joined.systems[""].scores == pytest.approx({name: each.score for name, each in whole.items()}, rel=1e-13)


def test_videos_without_results_that_count_0_need_all_captions(tmp_path: Path) -> None:
    event = {"sentence": "a dog", "timestamp": [0, 1]}
    (tmp_path / "results.json").write_text(json.dumps({"results": {"a": [event]}}))
    (tmp_path / "val.json").write_text(json.dumps({"a": {"duration": 1, "timestamps": [[0, 1]], "sentences": ["a"]}}))
    options = LoadOptions(references=tmp_path / "val.json")
    with pytest.raises(InputError, match="counts videos without results 0, which needs all captions"):
        score_parts(tmp_path / "results.json", "proposals(as_released=true)", tmp_path / "out", options=options)
