"""Captions in many files, scored file by file, without an engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from support.judge_server import KEY, JudgeServer, Reply, completion, prompt_of

import capmeter
from capmeter.captions.load_options import LoadOptions
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import Evaluation
from capmeter.integrations import shards
from capmeter.integrations.shard_records import Record

METRICS = "bleu-4,rouge-l,cider-d"
WORDS = "a dog runs on the grass while two cats sleep near an old red bus and people watch from one window".split()  # noqa: SIM905


@pytest.fixture
def judge_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A key, and a cache of its own."""
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", KEY)
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))


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


def run(folder: Path, output: Path) -> tuple[shards.ShardedCaptions, list[str], dict[str, str]]:
    """What an engine does, in this process; also the files that were scored, and why those scored before were."""
    files = shards.find_shards(str(folder / "*.jsonl"), output)
    evaluation = Evaluation(tuple(parse_list(METRICS)))
    digests = [sha256(Path(shard.source)) for shard in files]
    plan = shards.plan_digest(evaluation.metrics, evaluation.settings, digests)
    records, scored, rescored = [], [], {}
    for shard, digest in zip(files, digests, strict=True):
        record = shards.check_record(shard, plan, digest)
        if isinstance(record, str):
            if record:
                rescored[Path(shard.target).name] = record
            while evaluation.pending_states:
                states = [evaluation.collect_all(each.read(evaluation.ordered_metrics)) for each in files]
                evaluation = evaluation.with_states(states[0] + states[1] + states[2])
            record = shards.score_shard(evaluation, shard, plan, digest)
            scored.append(Path(shard.source).name)
        records.append(record)
    tables = [parquet.read_table(shard.target) for shard in files]
    corpus = shards.combine_results(evaluation.metrics, tables, records[0].signatures, resamples=50, seed=3)
    return corpus, scored, rescored


def test_many_files_have_the_scores_and_intervals_of_one_process(tmp_path: Path) -> None:
    from pyarrow import parquet

    rows = written(tmp_path)
    expected = capmeter.score(capmeter.load(whole_file(tmp_path, rows)), METRICS)
    corpus, _, _ = run(tmp_path, tmp_path / "scores")
    assert corpus.captions == 21
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
    exact, _, _ = run(tmp_path, tmp_path / "scores")
    tables = [parquet.read_table(path) for path in sorted((tmp_path / "scores").glob("*.parquet"))]
    metrics = parse_list(METRICS)
    summed = shards.combine_results(metrics, tables, exact.signatures, resamples=50, seed=3, exact=False)
    assert summed.scores == pytest.approx(exact.scores, rel=1e-13) and summed.intervals == {}
    assert summed.captions == 21 and summed.parts.keys() == exact.parts.keys()


def test_a_shard_at_which_workers_are_lost_again_and_again_is_named(tmp_path: Path) -> None:
    written(tmp_path)
    shard, *_ = shards.find_shards(str(tmp_path / "*.jsonl"), tmp_path / "scores")
    tries = 0
    with pytest.raises(InputError, match=r"20 workers were lost at .*part-0.jsonl"):
        while True:
            with contextlib.suppress(KeyError), shards.counted_try(shard):
                tries += 1
                raise KeyError("a lost worker does not come to its end")
    assert tries == 20
    shards.check_record(shard, "plan", "digest")  # a new run counts anew
    with shards.counted_try(shard):
        pass
    assert list((tmp_path / "scores").iterdir()) == []


def test_finished_files_are_not_scored_again(tmp_path: Path) -> None:
    written(tmp_path)
    first, scored, rescored = run(tmp_path, tmp_path / "scores")
    assert scored == ["part-0.jsonl", "part-1.jsonl", "part-2.jsonl"] and rescored == {}
    again, scored, rescored = run(tmp_path, tmp_path / "scores")
    assert scored == [] and rescored == {} and again == first


@pytest.mark.parametrize(
    ("damage", "reason"),
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
def test_what_is_damaged_is_named_and_scored_again(
    tmp_path: Path, damage: Callable[[Path], object], reason: str
) -> None:
    written(tmp_path)
    first, _, _ = run(tmp_path, tmp_path / "scores")
    damage(tmp_path / "scores" / "part-1.parquet")
    again, scored, rescored = run(tmp_path, tmp_path / "scores")
    assert scored == ["part-1.jsonl"]
    assert reason in rescored["part-1.parquet"]
    assert again == first
    assert run(tmp_path, tmp_path / "scores")[1] == []


def test_other_captions_are_scored_again_and_so_is_what_depends_on_them(tmp_path: Path) -> None:
    written(tmp_path)
    run(tmp_path, tmp_path / "scores")
    path = tmp_path / "part-2.jsonl"
    path.write_text(path.read_text().replace("dog", "horse"))
    _, scored, rescored = run(tmp_path, tmp_path / "scores")
    assert len(scored) == 3, "document frequencies are those of all files"
    assert set(rescored) == {"part-0.parquet", "part-1.parquet", "part-2.parquet"}


def test_the_plan_of_metrics_without_a_corpus_knows_no_other_file() -> None:
    settings = capmeter.Settings()
    for name, depends in (("rouge-l", False), ("cider-d", True), ("spider", True)):
        plans = {shards.plan_digest(parse_list(name), settings, digests) for digests in ([], ["a"])}
        assert len(plans) == 1 + depends


def test_the_plan_of_a_judge_depends_on_its_file_of_items_and_on_no_other_captions(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs the judges extra")
    items = tmp_path / "items.json"
    metrics = parse_list(f'caprl-qa(model=m,endpoint="http://a",questions="{items}")')
    plans = []
    for question, digests in (("q?", []), ("q?", ["a"]), ("another?", [])):
        items.write_text(json.dumps([{"id": "7", "question": question, "answer": "a"}]))
        plans.append(shards.plan_digest(metrics, capmeter.Settings(), digests))
    assert plans[0] == plans[1] != plans[2]


@pytest.mark.usefixtures("judge_key")
def test_an_edited_task_of_a_judge_is_scored_again_and_outages_are_asked_again(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs the judges extra")
    written(tmp_path, files=2, captions=2)
    task, is_down = tmp_path / "task.yaml", True
    asked: list[str] = []

    def plan(body: dict[str, Any], before: int) -> Reply:
        asked.append(prompt_of(body))
        return Reply(422, b"cannot") if is_down else completion("50" if "first" in asked[-1] else "100")

    with JudgeServer(plan).running() as server:
        metrics = parse_list(f'judge(model=m,endpoint="{server.url}",task="{task}")')

        def score() -> shards.ShardedCaptions:
            return shards.score_shards(str(tmp_path / "*.jsonl"), metrics, tmp_path / "scores", intervals=False)

        task.write_text("prompt: 'first {candidate}'\nread: {number: [0, 100]}\n")
        with pytest.raises(InputError, match=r"none of 4 captions has a score: no answer: status 422: cannot \(4\)"):
            score()
        is_down = False
        assert list(score().scores.values()) == [0.5] and score().resumed == 2
        task.write_text("prompt: 'second {candidate}'\nread: {number: [0, 100]}\n")
        assert list(score().scores.values()) == [1.0] and len(asked) == 12


@pytest.mark.usefixtures("judge_key")
def test_a_shard_without_a_score_does_not_end_the_run(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs the judges extra")
    rows = written(tmp_path, files=2, captions=2)
    refused = str(rows[2]["candidate"]), str(rows[3]["candidate"])

    def plan(body: dict[str, Any], before: int) -> Reply:
        return completion("I can't." if any(text in prompt_of(body) for text in refused) else '{"score": 50}')

    with JudgeServer(plan).running() as server:
        metrics = parse_list(f'clair(model=m,endpoint="{server.url}")')
        corpus = shards.score_shards(str(tmp_path / "*.jsonl"), metrics, tmp_path / "scores", intervals=False)
    assert list(corpus.scores.values()) == [0.5] and corpus.notes["refused"] == (2, ["c2", "c3"])


def test_scores_of_different_signatures_have_no_common_score(tmp_path: Path) -> None:
    written(tmp_path, files=2)
    files = shards.find_shards(str(tmp_path / "*.jsonl"), tmp_path / "scores")
    records = [Record("plan", "in", "out", 7, {"rouge-l": signature}, {}) for signature in ("old", "new")]
    with pytest.raises(InputError, match=r"part-1.parquet was scored as new, but .*part-0.parquet as old; remove"):
        shards.common_signatures(files, records)


def test_mistakes_in_patterns_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        shards.find_shards(str(tmp_path / "*.parquet"), tmp_path)
    (tmp_path / "a.csv").touch()
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(InputError, match="would both get the name a"):
        shards.find_shards(str(tmp_path / "a.*"), tmp_path)
    (tmp_path / "corpus.csv").touch()
    with pytest.raises(InputError, match="corpus"):
        shards.find_shards(str(tmp_path / "corpus.csv"), tmp_path)


def test_no_scores_are_written_over_captions_or_references(tmp_path: Path) -> None:
    captions = tmp_path / "captions"
    captions.mkdir()
    parquet.write_table(pyarrow.table({"image_id": ["1"], "candidate": ["a dog"]}), captions / "a.parquet")
    (captions / "corpus.json").write_text('{"1": ["a dog"]}')
    (captions / "b.json").write_text("[]")
    (tmp_path / "link").symlink_to(captions)
    references = LoadOptions(references=[captions / "corpus.json"])
    for pattern, options, lost in (
        ("a.parquet", None, "a.parquet"),
        ("b.json", None, "b.json"),
        ("b.json", references, "corpus.json"),
    ):
        for folder in (captions, tmp_path / "link"):
            with pytest.raises(InputError, match=f"would replace .*{lost}, which is read"):
                shards.find_shards(str(captions / pattern), folder, options)
    assert shards.find_shards(str(captions / "a.parquet"), tmp_path / "scores")


def test_references_whose_candidate_is_in_another_shard_are_not_noted(tmp_path: Path) -> None:
    """Four shards of five images, with references of 23: three have a candidate in none of the shards."""
    references = {f"image {k}": ["a dog runs", "the dog"] for k in range(23)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    for shard in range(4):
        rows = [{"image_id": f"image {5 * shard + k}", "candidate": "a dog"} for k in range(5)]
        (tmp_path / f"part-{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def notes(pattern: str) -> dict[str, Any]:
        options = LoadOptions(references=tmp_path / "refs.json")
        return shards.score_shards(
            str(tmp_path / pattern), parse_list("rouge-l"), tmp_path / pattern[:6], options=options, intervals=False
        ).notes

    assert notes("part-*.jsonl") == {"references_without_candidate": (3, [])}
    (tmp_path / "refs.json").write_text(json.dumps(dict(reversed(references.items()))))
    late = ["image 22", "image 21", "image 20"]
    assert notes("part-*.jsonl") == {"references_without_candidate": (3, late)}
    count, ids = notes("part-3.jsonl")["references_without_candidate"]
    assert count == 18 and ids == [*late, "image 14", "image 13"]
    (tmp_path / "refs.json").write_text(json.dumps({f"image {k}": ["a dog runs"] for k in range(20)}))
    assert notes("part-*.jsonl") == {}


def test_notes_are_counted(tmp_path: Path) -> None:
    rows = [
        {"id": str(k), "image_id": str(k), "candidate": "" if k % 2 else "a dog", "references": ["a dog runs"]}
        for k in range(40)
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (shard,) = shards.find_shards(str(tmp_path / "x.jsonl"), tmp_path / "scores")
    record = shards.score_shard(Evaluation(tuple(parse_list("rouge-l"))), shard, "plan", "digest")
    assert record.notes["empty candidate"] == (20, ["1", "3", "5", "7", "9"])
