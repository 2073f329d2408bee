"""Files of questions, facts and events: which are read, by which judge, and how an image is found in them."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import JudgeServer, Reply, completion, prompt_of, score
from support.judge_tasks import write

from capmeter.captions.caption_set import Caption, CaptionSet
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
        ('[{"id": "1"}]', "has no questions, checklist, facts or events"),
        ('[{"id": "1", "questions": 3}]', "row 1: questions is the number 3, expected a list"),
        ('[{"id": "1", "questions": [{"question": ""}]}]', "row 1: question is empty"),
        (
            '[{"id": "1", "questions": [{"question": 3}]}]',
            "row 1: question is the number 3, expected a caption as text",
        ),
        ('[{"id": "1", "questions": [{"question": "q", "choices": "ab"}]}]', "choices is the text"),
        ('[{"id": " ", "questions": []}]', "id is empty"),
        ('{"id": "1", "question": "a"}\n{"id": "2", "question"', "line 2"),
        ('[{"id": "1", "captions": {"a": "b"}, "ref_model": "c"}]', "has no caption of the system"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"questions": ["q"]}]', "row 1: has no image's name"),
        ('[{"id": "1", "question_list": ["q"]}, {"id": "2", "questions": ["q"]}]', "row 1: has no questions"),
        ('[{"id": "1", "questions": [{"question": "q", "answer": ["a"]}]}]', "answer is a list of 1, expected text"),
        ('[{"id": "1", "questions": [{"question": "q", "choices": ["a", null]}]}]', "a choice is missing"),
    ],
)
def test_a_malformed_question_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "questions.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_items(str(path))


def test_question_files_in_other_forms(tmp_path: Path) -> None:
    import gzip

    import pyarrow as arrow
    import pyarrow.parquet as parquet

    rows = [{"id": "1", "questions": [{"question": "q?", "choices": ["a", "b"], "answer": "a"}]}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(json.dumps(rows[0]).encode()))
    expected = (Item("q?", ("a", "b"), "a", ("", "")),)
    assert read_items(str(tmp_path / "rows.parquet")).of("1") == expected
    assert read_items(str(tmp_path / "rows.jsonl.gz")).of("1") == expected
    with pytest.raises(InputError, match="No such file"):
        read_items(str(tmp_path / "nothing.json"))
    (tmp_path / "two.json").write_text(json.dumps([{"img_path": f"{d}/7.jpg", "question": d} for d in "ab"]))
    two = read_items(str(tmp_path / "two.json"))
    assert two.of("7") == () and two.of("a/7.jpg")[0].text == "a"  # an ambiguous name matches nothing


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
    readable |= {"captionqa": {"caprl-qa", "capeval"}, "caprl-qa": {"captionqa"}}.get(judge, set())  # those are noted
    if file in readable:
        assert len(metric.protocol.file.of("1")) == 1
        return
    are_questions = {judge, file} <= {"captionqa", "caprl-qa", "capeval"}
    name = judge.partition("(")[0]
    message = rf"items.json: has \w+s, but {name} reads "
    message = r"has no answer: |has choices or an answer: " if are_questions else message
    with pytest.raises(InputError, match=message):
        _ = metric.protocol.file


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
    metric: Any = parse(f'caprl-qa(model=m,endpoint="http://a",questions="{path}")')
    rows = [{"image_id": image, "candidate": "a dog", "references": ["a dog"]} for image in ("a/7.jpg", "8", "a/7.jpg")]
    shared = [*rows, {**rows[0], "image_id": "b/7.jpg"}]
    for open_captions in (load, lambda rows: [load([row]) for row in rows], lambda rows: list(load(rows).chunks(2))):
        states = Evaluation((metric,)).collect_all(open_captions(rows)).states
        assert [list(state.values()) for state in states.values()] == [["a/7.jpg"]]
        with pytest.raises(InputError, match=r"rows.json: the items of image '7' fit 'a/7.jpg' and 'b/7.jpg'"):
            evaluate(open_captions(shared), [metric])


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
