"""Captions in many files, scored file by file, without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import capmeter
from capmeter.captions.streaming import CaptionStream, stream
from capmeter.errors import InputError
from capmeter.integrations import shards
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.registry import parse_list
from capmeter.text import ptb

METRICS = "bleu-4,rouge-l,cider-d"
WORDS = "a dog runs on the grass while two cats sleep near an old red bus and people watch from one window".split()  # noqa: SIM905


@pytest.fixture(autouse=True)
def _a_disk_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept depends on the disk; that of the tests' machine may be full. Total is more than used and free where
    a part of a disk is not ours."""
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=1000, used=500, free=60))


def written(folder: Path, files: int = 3, captions: int = 7) -> list[dict[str, object]]:
    """Files of captions, two of each image; images lie in several files."""
    draw = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for k in range(files * captions):
        texts = [" ".join(draw.choice(WORDS, draw.integers(4, 11))) for _ in range(4)]
        image = str(k // 2 if k < 12 else k - 6)
        rows.append({"id": f"c{k}", "image_id": image, "candidate": texts[0], "references": texts[1:]})
    for k in range(files):
        part = rows[k * captions : (k + 1) * captions]
        (folder / f"part-{k}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return rows


def run(folder: Path, output: Path) -> tuple[shards.Corpus, list[str]]:
    """What an engine does, here; with it the files that were scored."""
    metrics = parse_list(METRICS)
    files = shards.shards_of(str(folder / "*.jsonl"), output)
    evaluation, scorer = Evaluation(tuple(metrics)), shards.Scorer()
    digests = [shards.digest_of(shard.source) for shard in files]
    plan = shards.plan_of(metrics, evaluation.settings, digests)
    records, scored, redone = [], [], {}
    for shard, digest in zip(files, digests, strict=True):
        record = shards.finished(shard, plan, digest)
        if isinstance(record, str):
            if record:
                redone[Path(shard.target).name] = record
            while evaluation.pending:
                states = [scorer.collect(evaluation, each) for each in files]
                evaluation = evaluation.knowing(states[0] + states[1] + states[2])
            record = scorer.score(evaluation, shard, plan, digest)
            scored.append(Path(shard.source).name)
        records.append(record)
    whole = shards.whole_of(metrics, shards.tables_of(files, metrics), resamples=50, seed=3)
    return shards.merged(metrics, records, whole=whole, redone=redone, found=len(files) - len(scored)), scored


def test_many_files_have_the_scores_and_intervals_of_one_process(tmp_path: Path) -> None:
    from pyarrow import parquet

    rows = written(tmp_path)
    expected = capmeter.score(capmeter.load(whole_file(tmp_path, rows)), METRICS)
    corpus, _ = run(tmp_path, tmp_path / "scores")
    assert corpus.captions == 21 and corpus.shards == 3
    assert corpus.scores == {name: each.score for name, each in expected.items()}
    assert corpus.parts == {name: each.parts for name, each in expected.items()}
    assert corpus.signatures == {name: each.signature for name, each in expected.items()}
    assert corpus.intervals == expected.intervals(resamples=50, seed=3)
    tables = [parquet.read_table(tmp_path / "scores" / f"part-{k}.parquet") for k in range(3)]
    for name, each in expected.items():
        assert np.concatenate([table[name].to_numpy() for table in tables]).tolist() == each.items.array.tolist()
    assert [id for table in tables for id in table["id"].to_pylist()] == list(expected.ids.names)


def whole_file(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "whole" / "whole.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_sums_alone_give_the_same_up_to_rounding(tmp_path: Path) -> None:
    written(tmp_path)
    metrics = parse_list(METRICS)
    exact, _ = run(tmp_path, tmp_path / "scores")
    files = shards.shards_of(str(tmp_path / "*.jsonl"), tmp_path / "scores")
    records = [shards.Record(**json.loads(shard.record.read_text())) for shard in files]
    summed = shards.merged(metrics, records)
    assert summed.scores == pytest.approx(exact.scores, rel=1e-13) and summed.intervals == {}
    assert summed.captions == 21


def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    names: list[str] = []

    def noted(source: str, *rest: Any, **how: Any) -> CaptionStream:
        names.append(Path(source).name)
        return stream(source, *rest, **how)

    monkeypatch.setattr(shards, "stream", noted)
    return names


def test_a_file_is_read_and_tokenised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    read, tokenised = reading(monkeypatch), []
    numbers = ptb.token_numbers
    monkeypatch.setattr(ptb, "token_numbers", lambda sentences: tokenised.extend(sentences) or numbers(sentences))
    run(tmp_path, tmp_path / "scores")
    monkeypatch.undo()
    assert read == ["part-0.jsonl", "part-1.jsonl", "part-2.jsonl"]
    assert len(tokenised) == sum(len(part.pool) for k in range(3) for part in stream(tmp_path / f"part-{k}.jsonl"))


def test_nothing_is_kept_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    evaluation, scorer = Evaluation(tuple(parse_list(METRICS))), shards.Scorer()
    full = SimpleNamespace(total=1000, used=500, free=50)
    monkeypatch.setattr("shutil.disk_usage", lambda path: full)
    read = reading(monkeypatch)
    (shard,) = shards.shards_of(str(tmp_path / "part-1.jsonl"), tmp_path / "scores")
    known = evaluation.knowing(scorer.collect(evaluation, shard))
    assert scorer.score(known, shard, "plan", "digest").captions == 7
    assert read == ["part-1.jsonl", "part-1.jsonl"]


def test_finished_files_are_not_scored_again(tmp_path: Path) -> None:
    written(tmp_path)
    first, scored = run(tmp_path, tmp_path / "scores")
    assert scored == ["part-0.jsonl", "part-1.jsonl", "part-2.jsonl"] and first.redone == {}
    again, scored = run(tmp_path, tmp_path / "scores")
    assert scored == [] and again.found == 3 and again.scores == first.scores


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), "its file of scores is damaged"),
        (lambda path: path.unlink(), "its scores cannot be read"),
        (lambda path: path.with_suffix(".json").write_text("{"), "its record cannot be read"),
        (lambda path: path.with_suffix(".json").write_text("[1]"), "its record cannot be read"),
        (
            lambda path: path.with_suffix(".json").write_text(
                path.with_suffix(".json").read_text().replace('"plan": "', '"plan": "0')
            ),
            "other metrics, settings or captions",
        ),
    ],
)
def test_what_is_damaged_is_named_and_scored_again(tmp_path: Path, damage, said: str) -> None:
    written(tmp_path)
    first, _ = run(tmp_path, tmp_path / "scores")
    damage(tmp_path / "scores" / "part-1.parquet")
    again, scored = run(tmp_path, tmp_path / "scores")
    assert scored == ["part-1.jsonl"]
    assert said in again.redone["part-1.parquet"]
    assert (again.scores, again.intervals) == (first.scores, first.intervals)
    assert run(tmp_path, tmp_path / "scores")[1] == []


def test_other_captions_are_scored_again_and_so_is_what_depends_on_them(tmp_path: Path) -> None:
    written(tmp_path)
    run(tmp_path, tmp_path / "scores")
    path = tmp_path / "part-2.jsonl"
    path.write_text(path.read_text().replace("dog", "horse"))
    corpus, scored = run(tmp_path, tmp_path / "scores")
    assert len(scored) == 3, "document frequencies are those of all files"
    assert set(corpus.redone) == {"part-0.parquet", "part-1.parquet", "part-2.parquet"}


def test_the_plan_of_metrics_without_a_corpus_knows_no_other_file() -> None:
    settings = capmeter.Settings()
    assert shards.plan_of(parse_list("rouge-l"), settings, ["a"]) == shards.plan_of(parse_list("rouge-l"), settings, [])
    assert shards.plan_of(parse_list("cider-d"), settings, ["a"]) != shards.plan_of(parse_list("cider-d"), settings, [])
    assert shards.plan_of(parse_list("spider"), settings, ["a"]) != shards.plan_of(parse_list("spider"), settings, [])


def test_mistakes_in_patterns_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        shards.shards_of(str(tmp_path / "*.parquet"), tmp_path)
    (tmp_path / "a.csv").touch()
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(InputError, match="would both get the name a"):
        shards.shards_of(str(tmp_path / "a.*"), tmp_path)
    (tmp_path / "corpus.csv").touch()
    with pytest.raises(InputError, match="corpus"):
        shards.shards_of(str(tmp_path / "corpus.csv"), tmp_path)


def test_notes_are_counted(tmp_path: Path) -> None:
    rows = [
        {"id": str(k), "image_id": str(k), "candidate": "" if k % 2 else "a dog", "references": ["a dog runs"]}
        for k in range(40)
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (shard,) = shards.shards_of(str(tmp_path / "x.jsonl"), tmp_path / "scores")
    record = shards.Scorer().score(Evaluation(tuple(parse_list("rouge-l"))), shard, "plan", "digest")
    assert record.notes["empty candidate"] == (20, ["1", "3", "5", "7", "9"])
