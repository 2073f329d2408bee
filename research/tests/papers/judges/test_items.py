"""Files of questions, facts and events: which are read, and by which judge."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from capmeter_research.papers.judges.protocols import Events
from capmeter_research.papers.judges.question_protocols import ChecklistProtocol
from support.judge_server import JudgeServer, Reply, completion, prompt_of, score
from support.judge_tasks import write
from support.shared_files import read_rows

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.metrics.judges.items import read_items

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


ITEMS: dict[str, Any] = {
    "captionqa": [{"id": "1", "questions": [{"question": "q?", "choices": ["a", "b"], "answer": "a"}]}],
    "caprl-qa": [{"id": "1", "question": "q?", "answer": "a"}],
    "capeval": [{"id": "1", "checklist": [["attribute", "colour", "Is it red?"]]}],
    "judge(task=facts": [{"id": "1", "oracle_facts": ["It is red."]}],
    "autodq": [{"id": "1", "events": ["A dog runs."]}],
    "judge(task=pairs": [{"id": "1", "ref_model": "GPT", "captions": {"GPT": "a dog"}}],
}


@pytest.mark.parametrize("judge", ITEMS)
@pytest.mark.parametrize("file", ITEMS)
def test_a_file_of_another_judge(tmp_path: Path, judge: str, file: str) -> None:
    """What a judge cannot read is refused: facts are not asked as questions, nor prompts compared as captions."""
    path = write(tmp_path / "items.json", ITEMS[file])
    opening = f"{judge}," if "(" in judge else f"{judge}("
    metric: Any = parse(f'{opening}model=m,endpoint="http://a",questions="{path}")')
    readable = {judge}
    readable |= {"captionqa": {"caprl-qa"}, "caprl-qa": {"captionqa"}}.get(judge, set())  # those are noted
    if file in readable:
        assert len(metric.protocol.file.of("1")) == 1
        return
    message = "has no .* fields: |has choices or an answer: |got a list of 3"
    with pytest.raises(InputError, match=f"items.json, row 1: .*({message})"):
        _ = metric.protocol.file


LABELS = ("yes", "no", "not_mentioned")


def name_system(question: str) -> str:
    """A label that depends on the question alone."""
    return LABELS[zlib.crc32(question.encode()) % 3]


def test_capevals_checklists(shared: Path) -> None:
    """C and P of the released code, 100 (yes + no) / all and 100 yes / (yes + no), on the checklists of 40 images."""
    path = shared / "data" / "capeval.jsonl.gz"
    rows, file = read_rows(path), read_items(str(path), ChecklistProtocol.list_items)
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
    rows, file = read_rows(path), read_items(str(path), Events.list_items)
    assert len(file.by_image) == 487
    assert [item.text for item in file.of("1")] == rows[0]["events"]
