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


def name_system(question: str) -> str:
    """A label that depends on the question alone."""
    return LABELS[zlib.crc32(question.encode()) % 3]


def test_capevals_checklists(shared: Path) -> None:
    """C and P of the released code, 100 (yes + no) / all and 100 yes / (yes + no), on the checklists of 40 images."""
    path = shared / "data" / "capeval.jsonl.gz"
    rows, file = rows_of(path), read_items(str(path))
    assert sum(map(len, file.by_image.values())) == sum(len(row["checklist"]) for row in rows) == 7536

    def plan(body: dict[str, Any], before: int) -> Reply:
        questions = re.findall(r"^  item_index=(\d+) .* Q: (.*)$", prompt_of(body), re.MULTILINE)
        listed = [{"item_index": int(k), "verdict": name_system(text), "reasoning": "so"} for k, text in questions]
        return completion(json.dumps({"gt_verdicts": listed}))

    some = rows[:40]
    captions = CaptionSet.from_captions(
        [Caption(row["id"], row["image_id"], row["references"][0][:300], ("r",)) for row in some]
    )
    with JudgeServer(plan).running() as server:
        results = score(captions, f'capeval(model=m,endpoint="{server.url}",questions="{path}")')
    labels = [name_system(question) for row in some for _, _, question in row["checklist"]]
    counts = {label: labels.count(label) for label in LABELS}
    mentioned = counts["yes"] + counts["no"]
    assert 100 * results.score == pytest.approx(100 * mentioned / len(labels), abs=1e-9)
    assert 100 * results.parts["precision"] == pytest.approx(100 * counts["yes"] / mentioned, abs=1e-9)
    assert results.parts["scored_share"] == 1.0


def test_dreams_events(shared: Path) -> None:
    path = shared / "data" / "dream1k.jsonl.gz"
    rows, file = rows_of(path), read_items(str(path))
    assert len(file.by_image) == 487
    assert [item.text for item in file.of("1")] == rows[0]["events"]
