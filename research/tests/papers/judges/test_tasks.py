"""Prompts of papers' judges are those of the released code, to the letter; tasks in their layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_server import prompt_of
from support.judge_tasks import run, write

from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.metrics.judges.asking import JudgedCaption, Question
from capmeter.metrics.judges.judge import Judge
from capmeter.metrics.judges.protocols import find_tasks, read_task

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def test_every_task_names_its_source() -> None:
    assert {"answers", "capeval", "claims-references", "g-veval-ref-only"} <= set(find_tasks())
    assert all(read_task(name).source for name in find_tasks())


def test_a_protocols_prompts_are_required(tmp_path: Path) -> None:
    task = tmp_path / "task.yaml"
    task.write_text("prompt: '{candidate}'\nask: facts")
    with pytest.raises(InputError, match="ask: facts needs facts, verify, match, which is missing"):
        run({"1": "a"}, f'judge(task="{task}")', lambda body: "1")


def test_capability_by_dimension(tmp_path: Path) -> None:
    """Means over the dimensions, as released: object number 1 of 2 correct and 1 wrong; scene missing."""
    rows = [
        {"file_id": "1", "task": "object_number", "annotation": {"dog": 2, "cat": 1}},
        {"file_id": "1", "task": "scene", "annotation": "a park"},
    ]
    path = write(tmp_path / "capability.jsonl", rows, lines=True)
    replies = {"dog: 2": "correct", "cat: 1": "wrong", "a park": "missing"}
    answers = lambda body: next(reply for text, reply in replies.items() if text in prompt_of(body))  # noqa: E731
    results = run({"1": "two dogs"}, f'judge(task=capability,questions="{path}")', answers)
    assert results.score == pytest.approx((0.5 + 0) / 2) and results.parts["hit"] == pytest.approx((1 + 0) / 2)
    assert results.parts["precision/object number"] == 0.5 and results.parts["recall/scene"] == 0
    write(tmp_path / "capability.jsonl", [{"file_id": "1", "question": "q", "kind": "smell"}], lines=True)
    with pytest.raises(InputError, match=r"the question .q. is of the kind .smell.: expected one of"):
        run({"1": "two dogs"}, f'judge(task=capability,questions="{path}")', answers)


def test_options_of_a_task_of_ones_own(tmp_path: Path) -> None:
    """Two questions with four options, of which the last one abstains: one right, and 1/3 + .2 for abstaining."""
    task, questions = tmp_path / "quiz.yaml", tmp_path / "questions.json"
    task.write_text(
        "prompt: '{candidate} {question} {choices}'\nask: captionqa\nabstain: Cannot tell\nbonus: .2\nshuffle: null\n"
    )
    write(questions, {"1": [{"question": f"{name}?", "choices": ["a", "b", "c"], "answer": "a"} for name in "xy"]})
    name = f'judge(task="{task}",questions="{questions}")'
    results = run({"1": "a dog"}, name, lambda body: "A" if "x?" in prompt_of(body) else "D")
    assert results.score == pytest.approx((1 + 1 / 3 + 0.2) / 2) and results.parts["abstained"] == 0.5
    assert set(results.answers["c1"]) == {f"{name}? [A. a (right); B. b; C. c; D. Cannot tell]" for name in "xy"}


def test_a_checklist_of_ones_own(tmp_path: Path) -> None:
    path, task = write(tmp_path / "rows.json", {"1": {"checklist": ["red?", "new?", "old?"]}}), tmp_path / "list.yaml"
    reply = '{"verdicts": [{"index": 0, "verdict": "right"}, {"index": "2", "verdict": "correct"}]}'
    name = f'judge(task="{task}",questions="{path}")'
    task.write_text("prompt: '{candidate}: {items}'\nask: checklist\nread: {labels: [right, correct]}\n")
    assert run({"1": "a bus"}, name, lambda body: reply).score == 0.5
    task.write_text("prompt: '{candidate}: {items}'\nask: checklist\nread: {number: [0, 1]}\n")
    with pytest.raises(InputError, match="a checklist has labels"):
        run({"1": "a bus"}, name, lambda body: reply)


CAPTION = JudgedCaption("1", "1", "a {candidate} dog", ("one dog", "a puppy {references}"))
_FLEUR = (
    "Your task is to evaluate and rate the {}caption on a scale of 0.0 to 1.0 based on the given Grading Criteria. "
    "(Print Real Number Score ONLY)\n\nGrading Criteria:\n\n0.0: The caption does not describe the image at all.\n"
    "1.0: The caption accurately and clearly describes the image.\n\n{}\n\nScore(Choose a rating from 0.0 to 1.0):"
)


def first_question(name: str) -> Question:
    metric = parse(name)
    assert isinstance(metric, Judge)
    (question,) = metric.first_questions(CAPTION)
    return question


def test_clair_as_prompt() -> None:
    text = first_question("clair-a(model=m)").text
    assert "same sound" in text and "Candidate set:\n- a {candidate} dog\n\n\nReference set:\n- one dog\n" in text


def test_fleurs_prompts() -> None:
    texts = "Reference Captions: one dog\na puppy {references}\n\nCandidate Caption: a {candidate} dog"
    assert first_question("fleur(model=m)").text == _FLEUR.format("", "Caption: a {candidate} dog")
    assert first_question("fleur(model=m,references=true)").text == _FLEUR.format("candidate ", texts)


@pytest.mark.parametrize(
    ("setting", "needs"), [("combined", {"image", "references"}), ("ref-free", {"image"}), ("ref-only", {"references"})]
)
def test_g_vevals_prompts(setting: str, needs: set[str]) -> None:
    name = f"g-veval(model=m,setting={setting})"
    question = first_question(name)
    assert parse(name).needs == needs and question.message.probabilities
    assert "Generated captions:\na {candidate} dog\n\nResponse Format:" in question.text
    assert "The final score is ${{score}}$." in question.text
    assert ("Reference captions:\n'one dog'; 'a puppy {references}\n" in question.text) == ("references" in needs)
    assert question.message.role == ("system" if setting == "ref-only" else "user")
