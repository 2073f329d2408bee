"""The released files of the benchmarks: their layouts are read, and scores on them equal the released aggregation."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import JudgeServer, Reply, completion, prompt_of, score

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.metrics.judges.items import read_items

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")
LABELS = ("yes", "no", "not_mentioned")


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def label_of(question: str) -> str:
    """A label that depends on the question alone."""
    return LABELS[zlib.crc32(question.encode()) % 3]


def test_capevals_checklists(shared: Path) -> None:
    """C and P of the released code, 100 (yes + no) / all and 100 yes / (yes + no), on the checklists of 40 images."""
    path = shared / "data" / "capeval.jsonl.gz"
    rows, file = rows_of(path), read_items(str(path))
    assert sum(map(len, file.by_image.values())) == sum(len(row["checklist"]) for row in rows) == 7536

    def plan(body: dict[str, Any], before: int) -> Reply:
        questions = re.findall(r"^  item_index=(\d+) .* Q: (.*)$", prompt_of(body), re.MULTILINE)
        listed = [{"item_index": int(k), "verdict": label_of(text), "reasoning": "so"} for k, text in questions]
        return completion(json.dumps({"gt_verdicts": listed}))

    some = rows[:40]
    captions = CaptionSet.from_captions(
        [Caption(row["id"], row["image_id"], row["references"][0][:300], ("r",)) for row in some]
    )
    with JudgeServer(plan).running() as server:
        results = score(captions, f'capeval(model=m,endpoint="{server.url}",questions="{path}")')
    labels = [label_of(question) for row in some for _, _, question in row["checklist"]]
    counts = {label: labels.count(label) for label in LABELS}
    mentioned = counts["yes"] + counts["no"]
    assert 100 * results.score == pytest.approx(100 * mentioned / len(labels), abs=1e-9)
    assert 100 * results.parts["precision"] == pytest.approx(100 * counts["yes"] / mentioned, abs=1e-9)
    assert results.parts["scored_share"] == 1.0


def test_decapbenchs_facts(shared: Path) -> None:
    """Every fact of the image found once and true: DCScore 1; the first half only: P 1, R the share."""
    path = shared / "data" / "decapbench_facts.jsonl.gz"
    rows, file = rows_of(path)[:12], read_items(str(path))
    assert len(file.by_image) == 179
    facts = {row["candidate"]: [fact.strip() for fact in row["facts"]] for row in rows}

    def plan(body: dict[str, Any], before: int) -> Reply:
        prompt = prompt_of(body)
        if "<oracle>" in prompt:
            listed = [json.loads(line) for line in prompt.split("<facts>\n")[1].split("\n</facts>")[0].splitlines()]
            return completion(json.dumps({"matches": [{"id": each["id"], "oracle": each["id"]} for each in listed]}))
        if "trusted description" in prompt:
            listed = [json.loads(line) for line in prompt.split("<facts>\n")[1].split("\n</facts>")[0].splitlines()]
            return completion(json.dumps({"verdicts": [{"id": each["id"], "true": 1} for each in listed]}))
        local = facts[prompt.split("<caption>\n")[1].split("\n</caption>")[0]]
        listed = list(dict.fromkeys(local))
        return completion(
            json.dumps({"facts": [{"fact": f"{k} {text}", "descriptive": 1} for k, text in enumerate(listed)]})
        )

    captions = CaptionSet.from_captions([Caption(row["id"], row["image_id"], row["candidate"], ("r",)) for row in rows])
    with JudgeServer(plan).running() as server:
        results = score(captions, f'judge(model=m,task=facts,endpoint="{server.url}",questions="{path}")')
    for row in rows:
        local = facts[row["candidate"]]
        recall = len(dict.fromkeys(local)) / len(local)  # a few files name a fact twice
        assert results.items[row["id"]] == pytest.approx(2 * recall / (1 + recall))


def test_dreams_events(shared: Path) -> None:
    path = shared / "data" / "dream1k.jsonl.gz"
    rows, file = rows_of(path), read_items(str(path))
    assert len(file.by_image) == 487
    assert [item.text for item in file.of("1")] == rows[0]["events"]
