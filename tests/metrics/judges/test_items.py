"""Files of questions: which are read, and how an image is found in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from support.judge_tasks import write

from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.metrics.judges.items import Item, read_items

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "neither JSON nor Parquet"),
        ("[1]", "row 1: expected an object with an image"),
        ('[{"id": "1"}]', "has no questions"),
        ('[{"id": "1", "questions": 3}]', "row 1: questions: got the number 3; .*valid list"),
        (
            '[{"id": "1", "questions": [{"question": ""}]}]',
            'row 1: questions: 0: question: got the text ""; .*at least 1',
        ),
        (
            '[{"id": "1", "questions": [{"question": 3}]}]',
            "row 1: questions: 0: question: got the number 3; .*valid string",
        ),
        ('[{"id": "1", "questions": [{"question": "q", "choices": "ab"}]}]', "choices: got the text"),
        ('[{"id": " ", "questions": []}]', "id is empty"),
        ('{"id": "1", "question": "a"}\n{"id": "2", "question"', "line 2"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"questions": ["q"]}]', "row 1: has no image's name"),
        ('[{"id": "1", "question_list": ["q"]}, {"id": "2", "questions": ["q"]}]', "row 1: has no questions"),
        ('[{"id": "1", "questions": [{"question": "q", "answer": ["a"]}]}]', "answer: got a list of 1; .*valid string"),
        ('[{"id": "1", "questions": [{"question": "q", "choices": ["a", null]}]}]', "choices: 1: got missing"),
    ],
)
def test_a_malformed_question_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "questions.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_items(str(path))


def test_question_files_in_other_forms(tmp_path: Path) -> None:
    rows = [{"id": "1", "questions": [{"question": "q?", "choices": ["a", "b"], "answer": "a"}]}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    expected = (Item(text="q?", choices=("a", "b"), answer="a"),)
    assert read_items(str(tmp_path / "rows.parquet")).of("1") == expected
    assert read_items(str(tmp_path / "rows.jsonl.gz")).of("1") == expected
    for path in (str(tmp_path / "nothing.json"), "~nobody/questions.json"):
        with pytest.raises(InputError, match="No such file"):
            read_items(path)
    (tmp_path / "two.json").write_text(json.dumps([{"img_path": f"{d}/7.jpg", "question": d} for d in "ab"]))
    two = read_items(str(tmp_path / "two.json"))
    assert two.of("7") == () and two.of("a/7.jpg")[0].text == "a"  # an ambiguous name matches nothing


def test_names_with_and_without_their_ending(tmp_path: Path) -> None:
    rows = [{"id": name, "question": "q?", "answer": name} for name in ("a", "b.jpg", "x/c.jpg", "d", "y/d.png", "e.f")]
    file = read_items(write(tmp_path / "rows.json", rows))
    result = {
        name: file.key(name) for name in ("a.jpg", "z/a.png", "b", "b.png", "c", "c.jpg", "d", "d.jpg", "y/d.png", "e")
    }
    assert result == {
        "a.jpg": "a", "z/a.png": "a", "b": "b.jpg", "b.png": "b.jpg", "c": "x/c.jpg", "c.jpg": "x/c.jpg",
        "d": "d", "d.jpg": "", "y/d.png": "y/d.png", "e": "e.f",
    }  # fmt: skip


def test_two_images_never_share_an_entry(tmp_path: Path) -> None:
    """`a/7.jpg` and `b/7.jpg` both fit `7`: neither is asked about it, and the message names both, in any part."""
    path = write(tmp_path / "rows.json", [{"id": "7", "question": "q?", "answer": "a"}])
    task = tmp_path / "task.yaml"
    task.write_text("prompt: '{candidate} {question}'\nask: question\nread: {labels: ['yes', 'no']}\n")
    metric: Any = parse(f'judge(model=m,endpoint="http://a",task="{task}",questions="{path}")')
    rows = [{"image_id": image, "candidate": "a dog", "references": ["a dog"]} for image in ("a/7.jpg", "8", "a/7.jpg")]
    shared = [*rows, {**rows[0], "image_id": "b/7.jpg"}]
    for open_captions in (load, lambda rows: [load([row]) for row in rows], lambda rows: list(load(rows).chunks(2))):
        states = Evaluation((metric,)).collect_all(open_captions(rows)).states
        assert [list(state.values()) for state in states.values()] == [["a/7.jpg"]]
        with pytest.raises(InputError, match=r"rows.json: the items of image '7' fit 'a/7.jpg' and 'b/7.jpg'"):
            evaluate(open_captions(shared), [metric])
