"""Judges of facts, events and elements, on recorded answers: scores equal a slow recomputation, or are by hand."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.judge_server import prompt_of
from support.judge_tasks import run, write

from capmeter.core.errors import InputError
from capmeter.metrics.judges.asking import Answer
from capmeter.metrics.judges.protocols import Fact, FactMatch, FactVerdict, read_entries, score_facts
from capmeter.metrics.judges.reading import REFUSED, UNREADABLE, NoScore

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def test_autodq_is_the_f1_of_mean_precision_and_recall(tmp_path: Path) -> None:
    rows = [
        {"idx": "1", "extra_info": {"events": ["A dog runs.", "A man waves."]}},
        {"idx": "2", "events": ["It rains."]},
    ]
    path = write(tmp_path / "events.jsonl", rows, lines=True)
    extracted = {"video one": ["A dog runs.", "It's late.", "A cat sits."], "video two": []}
    relations = {"A dog runs.": "entailment", "It's late.": "neutral", "It rains.": "contradiction"}

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        if "Extract at most" in prompt:
            return str({"events": extracted[prompt.split("Video Description: ")[1][:9]]})
        events = re.findall(r"[\"']([A-Z][^\"]*?\.)[\"']", prompt.split("Events: ")[1].split("\n")[0])
        listed = [{"event": each, "relationship": relations.get(each, "entailment"), "reason": ""} for each in events]
        return json.dumps({"events": listed})

    texts = {"1": 'Video "one"'.replace('"', ""), "2": "Video two"}
    results = run(texts, f'autodq(questions="{path}")', answers)
    precision = (2 / 3 + 1.0) / 2  # no events in the second caption: 1, as released
    recall = (2 / 2 + 0 / 1) / 2
    assert results.parts["precision"] == pytest.approx(precision) and results.parts["recall"] == pytest.approx(recall)
    assert results.score == pytest.approx(2 * precision * recall / (precision + recall))
    assert results.notes["no events in the caption: precision 1, as released"] == ["c2"]


def test_autodq_extracts_the_references_events_and_refuses_incomplete_answers() -> None:
    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        if "Extract at most" in prompt:
            return '{"events": ["A dog runs."]}'
        entailment = [{"event": "A dog runs.", "relationship": "entailment"}]
        return json.dumps({"events": entailment * (2 if "bad" in prompt else 1)})

    results = run({"1": "good", "2": "bad"}, "autodq()", answers)
    assert results.score == 1.0 and results.notes["no score in the answer"] == ["c2"]


def slow_dcscore(facts: list[dict[str, Any]], oracle: int) -> float:
    """From the paper, with the released weights: an oracle fact is shared among all facts that match it."""
    scores = []
    for selection in (facts, [fact for fact in facts if fact["descriptive"]]):
        if not selection:
            scores.append(0.0)
            continue
        correct, total, right = 0.0, float(oracle), 0
        for fact in selection:
            if not fact["true"]:
                continue
            right += 1
            if fact["match"] is None:
                correct, total = correct + 1, total + 1
            else:
                correct += 1 / len([other for other in facts if other["match"] == fact["match"]])
        precision, recall = right / len(selection), correct / total
        scores.append(0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall))
    return sum(scores) / 2


def test_dcscore_equals_a_slow_recomputation() -> None:
    generator = random.Random(3)
    for _ in range(200):
        oracle = generator.randint(1, 6)
        facts = [
            {
                "descriptive": generator.random() < 0.7,
                "true": generator.random() < 0.7,
                "match": generator.choice([None, *range(oracle)]),
            }
            for _ in range(generator.randint(1, 8))
        ]
        judged = [Fact(fact=str(k), descriptive=fact["descriptive"]) for k, fact in enumerate(facts)]
        truths, matches = ([fact[name] for fact in facts] for name in ("true", "match"))
        assert score_facts(judged, truths, matches, oracle)[0] == pytest.approx(slow_dcscore(facts, oracle), abs=1e-12)


def test_faithscore_by_hand() -> None:
    """Every fact of every clause counts: three of four, of which one is in both clauses; one clause is all right."""
    facts = {
        "A man irons clothes": ["There is a man.", "A man irons."],
        "in a red van": ["There is a man.", "It is red."],
    }

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        if "into clauses" in prompt:
            listed = [{"text": text, "descriptive": 1} for text in facts] + [{"text": "how odd", "descriptive": 0}]
            return json.dumps({"clauses": listed})
        if "atomic facts" in prompt:
            return json.dumps({"facts": facts[prompt.split("<sentence>\n")[1].split("\n")[0]]})
        return "No." if "red" in prompt.split("Statement: ")[1] else "Yes, it is."

    results = run({"1": "A man irons clothes in a red van, how odd"}, "judge(task=claims-references)", answers)
    assert results.score == pytest.approx(3 / 4) and results.parts["sentences"] == pytest.approx(1 / 2)


def test_posh_grades_elements_of_both_graphs() -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    grades = {"dog": 5, "ball": 4, "cat": 1}

    def answers(body: dict[str, Any]) -> str:
        statement = prompt_of(body).split("say that ")[1].split("? Synonyms")[0]
        if statement.endswith("is mentioned"):
            return str(grades.get(statement.split()[-3], 3))
        return "2"

    requests: list[str] = []

    def noted(body: dict[str, Any]) -> str:
        requests.append(prompt_of(body).split("say that ")[1].split("? Synonyms")[0])
        return answers(body)

    texts = {"1": "a brown dog chases a ball"}
    results = run(texts, "judge(task=elements)", noted, references=("a dog", "a black cat"))
    objects = [statement for statement in requests if statement.endswith("is mentioned")]
    details = [statement for statement in requests if not statement.endswith("is mentioned")]
    assert len(objects) == 4 and not any("cat is described" in each for each in details)
    assert any("the dog is described as" in each for each in details)
    # of the candidate: dog 5, ball 4, brown 2, chase 2; of the reference: dog 5, cat 1, black 1 (not asked: no cat)
    precision, recall = np.mean([5, 4, 2, 2]) / 5, np.mean([5, 1, 1]) / 5
    assert results.parts["precision"] == pytest.approx(precision)
    assert results.parts["recall"] == pytest.approx(recall)
    assert results.score == pytest.approx(2 * precision * recall / (precision + recall))


FORMS: dict[str, Any] = {"facts": Fact, "verdicts": FactVerdict, "matches": FactMatch}


@pytest.mark.parametrize(
    ("key", "entry", "expected"),
    [
        *(("verdicts", {"id": 0.0, "true": value}, (0, True)) for value in (1.0, True, "1", "yes")),
        *(("verdicts", {"id": "3", "true": value}, (3, False)) for value in ("false", 0, "No")),
        *(("matches", {"id": 0, "oracle": value}, (0, None)) for value in (None, "none", "Null")),
        ("matches", {"id": 1, "oracle": 2.0}, (1, 2)),
        ("facts", {"fact": " a ", "descriptive": "no"}, ("a", False)),
        ("facts", {"fact": "a"}, ("a", True)),
    ],
)
def test_entries_in_other_forms_are_read(key: str, entry: Any, expected: tuple[Any, ...]) -> None:
    (read,) = read_entries(Answer(json.dumps({key: [entry]})), key, FORMS[key])
    assert tuple(read.model_dump().values()) == expected


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        *(("verdicts", {"id": 0, "true": value}) for value in (None, 0.5, 2, -1, "maybe", "", [1], {}, 1e300)),
        *(("matches", {"id": 0, "oracle": value}) for value in (-1, 0.5, "the second", "", [0])),
        *(("facts", {"fact": "a", "descriptive": value}) for value in ("perhaps", None, 7)),
        *(("facts", {"fact": value}) for value in (" ", None, 3)),
        ("verdicts", {"id": 0}),
        ("verdicts", "true"),
    ],
)
def test_an_entry_that_cannot_be_read_is_not_false(key: str, entry: Any) -> None:
    with pytest.raises(NoScore, match=UNREADABLE):
        read_entries(Answer(json.dumps({key: [entry]})), key, FORMS[key])
    with pytest.raises(NoScore, match=REFUSED):
        read_entries(Answer(json.dumps({key: [entry], "sorry": "I'm sorry"})), key, FORMS[key])


@pytest.mark.parametrize(("truths", "matches"), [([0], [0, 1]), ([0, 1], [0]), ([0, 1], [0, 9]), ([0, 1, 2], [0, 1])])
def test_facts_without_a_verdict_have_no_score(tmp_path: Path, truths: list[int], matches: list[int]) -> None:
    """Every fact needs its verdict and its match, which is a fact of the image; more of them do no harm."""
    path = write(tmp_path / "facts.json", [{"id": "1", "facts": ["A dog.", "A cat."]}])

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        if "<oracle>" in prompt:
            return json.dumps({"matches": [{"id": k, "oracle": match} for k, match in enumerate(matches)]})
        if "trusted description" in prompt:
            return json.dumps({"verdicts": [{"id": k, "true": 1} for k in truths]})
        return json.dumps({"facts": [{"fact": "f0"}, {"fact": "f1"}]})

    name = f'judge(task=facts,questions="{path}")'
    if matches == [0, 1] and len(truths) >= 2:
        assert run({"1": "a"}, name, answers).score == 1.0
    else:
        with pytest.raises(InputError, match=UNREADABLE):
            run({"1": "a"}, name, answers)
