"""The tasks of judges on recorded answers: scores equal a slow recomputation, or what the released code gives."""

from __future__ import annotations

import io
import json
import random
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.judges.protocols import CaptionFact, FactMatch, FactVerdict, read_entries, score_facts
from rich.console import Console
from support.judge_server import JudgeServer, Reply, completion, prompt_of, score
from support.judge_tasks import captions_of, run, write

from capmeter.captions.caption_set import Caption
from capmeter.core.errors import InputError
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.registry import parse
from capmeter.metrics.judges.asking import Answer, JudgedCaption
from capmeter.metrics.judges.reading import REFUSED, UNREADABLE, NoScore
from capmeter.report.explain import Explanation, render_explanations

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


CHOICES = ["red", "blue", "green", "grey"]
QUIZ: list[dict[str, Any]] = [
    {
        "id": f"nat_{image}",
        "questions": [
            {"question": "What colour is the bus?", "choices": CHOICES, "answer": "blue", "category": ["colour"]},
            {"question": "Is it raining?", "choices": ["yes", "no"], "answer": "no"},
            {"question": "How many dogs?", "choices": ["1", "2", "3"], "answer": "3"},
        ],
    }
    for image in range(4)
]


def test_captionqa_equals_a_slow_recomputation(tmp_path: Path) -> None:
    path = write(tmp_path / "quiz.json", QUIZ)
    texts = {f"nat_{k}": f"caption {k}" for k in range(4)}
    letters: dict[str, str] = {}

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        cannot = re.search(r"^([A-E])\. Cannot", prompt, re.MULTILINE)
        replies = [f"Answer: {cannot[1]}" if cannot else "B", "A", "B.", "C", "no idea", "I'm sorry, I can't"]
        letters[prompt] = replies[zlib.crc32(prompt.encode()) % len(replies)]
        return letters[prompt]

    results = run(texts, f'captionqa(questions="{path}")', answers)
    shuffle = random.Random(0)  # the released code's, over all questions in order
    credit, right, abstained, count = 0.0, 0, 0, 0
    items: dict[str, list[float]] = {}
    for row in QUIZ:
        for question in row["questions"]:
            options = list(question["choices"])
            if question["question"] != "Is it raining?":
                options.append("Cannot answer from the caption")
            order = list(range(len(options)))
            shuffle.shuffle(order)
            shuffled = [options[k] for k in order]
            lines = "\n".join(f"{'ABCDEF'[k]}. {option}" for k, option in enumerate(shuffled))
            head = f"Caption:\ncaption {row['id'][-1]}\n\nQuestion:\n{question['question']}"
            prompt = f"{head}\n\nOptions:\n{lines}\n\nAnswer:"
            letter = re.search(r"\b([A-F])\b(?!.*\b[A-F]\b)", letters[prompt])
            if letter is None or "sorry" in letters[prompt] or "ABCDEF".index(letter[1]) >= len(shuffled):
                continue
            selection = shuffled["ABCDEF".index(letter[1])]
            points = 1.0 if selection == question["answer"] else 0.0
            if selection.startswith("Cannot"):
                points, abstained = 1 / len(question["choices"]) + 0.05, abstained + 1
            credit, count, right = credit + points, count + 1, right + (points == 1.0)
            items.setdefault(f"cnat_{row['id'][-1]}", []).append(points)
    assert 0 < abstained < count < 12 and len(letters) == 12
    assert results.score == pytest.approx(credit / count, abs=1e-12)
    assert results.parts["accuracy"] == pytest.approx(right / count)
    assert results.parts["abstained"] == pytest.approx(abstained / count)
    for id, credits in items.items():
        assert results.items[id] == pytest.approx(sum(credits) / len(credits))
    assert "some questions without a readable answer" in results.notes


CHECKLIST = [
    {
        "id": "DK001",
        "img_path": "DK001.jpg",
        "instance_checklist": [
            {"Tags": "object", "Question": "Does it mention a robot?"},
            {"Tags": "object", "Question": "Does it mention a ball?"},
        ],
        "attribute_checklist": [{"Tags": "color", "Question": "Is the ball white?"}],
    },
    {"id": "DK002", "img_path": "DK002.jpg", "text_checklist": [{"Tags": "ocr", "Question": "Does it say STOP?"}]},
]


def verdicts(*labels: str | None) -> str:
    listed = [{"item_index": k, "verdict": label, "reasoning": "so"} for k, label in enumerate(labels) if label]
    return json.dumps({"gt_verdicts": listed})


def test_capeval_as_the_released_aggregation(tmp_path: Path) -> None:
    """By hand, C = (yes + no) / all and P = yes / (yes + no) over all questions of all captions."""
    path = write(tmp_path / "checklist.jsonl", CHECKLIST, lines=True)
    replies = {"a robot": verdicts("yes", "no", "not_mentioned"), "a sign": "```json\n" + verdicts("Yes") + "\n```"}
    results = run(
        {"DK001": "a robot", "DK002.jpg": "a sign"},
        f'capeval(questions="{path}")',
        lambda body: next(reply for text, reply in replies.items() if f"CAPTION:\n{text}\n" in prompt_of(body)),
    )
    assert results.score == pytest.approx(3 / 4) and results.parts["precision"] == pytest.approx(2 / 3)
    assert list(results.items.values()) == pytest.approx([2 / 3, 1.0])


@pytest.mark.parametrize(
    ("reply", "labels"),
    [
        (verdicts("yes", None, "no"), {"yes": 1, "no": 1}),  # one item is missing: it does not count
        (verdicts("yes", "perhaps", "nm"), {"yes": 1, "not_mentioned": 1}),
        (verdicts("yes", "no", "no")[:-40], {"yes": 1, "no": 1}),  # truncated: what is whole counts
        ("<think>" + verdicts("no", "no", "no") + "</think>" + verdicts("yes", "yes", "yes"), {"yes": 3}),
    ],
)
def test_capeval_counts_what_can_be_read(tmp_path: Path, reply: str, labels: dict[str, int]) -> None:
    path = write(tmp_path / "checklist.jsonl", CHECKLIST, lines=True)
    results = run({"DK001": "a robot"}, f'capeval(questions="{path}")', lambda body: reply)
    mentioned, total = labels.get("yes", 0) + labels.get("no", 0), sum(labels.values())
    assert results.score == pytest.approx(mentioned / total)
    assert results.parts["precision"] == pytest.approx(labels.get("yes", 0) / mentioned)
    assert ("some questions without a readable answer" in results.notes) == (total < 3)


def test_vdcscore_answers_then_matches(tmp_path: Path) -> None:
    questions = [{"question": f"q{k}?", "answer": f"a{k}"} for k in range(3)]
    path = write(tmp_path / "vdc.jsonl", [{"v1": questions}, {"v2": questions[:2]}], lines=True)
    grades = {"v1": [("yes", 5), ("no", 1), ("yes", 3)], "v2": [("no", 0), ("no", 0)]}

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        number = int(prompt.split("Question: q")[1][0])
        if "<response>" not in prompt:
            return f"{prompt.split('video ')[1][:2]} says {number}"
        video = prompt.split("<response>\n")[1][:2]
        pred, grade = grades[video][number]
        return f"{{'pred': '{pred}', 'score': {grade}}}"

    texts = {"v1": "video v1", "v2": "video v2"}
    results = run(texts, f'judge(task=answers,questions="{path}")', answers)
    assert results.score == pytest.approx((2 / 3 + 0) / 2) and results.parts["grade"] == pytest.approx((3 + 0) / 2)


def test_caprl_qa(tmp_path: Path) -> None:
    chat = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>How many?<|im_end|>\n<|im_start|>assistant\n"
    rows = [
        {"image_id": "1", "prompt": chat, "answer": "40"},
        {"image_id": "1", "question": "Which?", "choices": ["cat", "dog"], "answer": "dog"},
        {"image_id": "2", "prompt": "What does it say?", "answer": "Main Street"},
    ]
    path = write(tmp_path / "rows.json", rows)
    visits: list[str] = []

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        visits.append(prompt)
        if "How many?" in prompt:
            return "<think>hm</think> <answer>\\boxed{41}</answer>"
        return "B" if "Which?" in prompt else "Answer: Main Streat"

    texts = {"1": "a", "2": "b"}
    exact = run(texts, f'caprl-qa(questions="{path}")', answers)
    assert exact.score == pytest.approx(1 / 3)
    assert run(texts, f'caprl-qa(questions="{path}",match=relaxed)', answers).score == pytest.approx(2 / 3)
    anls = run(texts, f'caprl-qa(questions="{path}",match=anls)', answers)
    assert anls.score == pytest.approx((1 + 1 + 10 / 11) / 3)  # one of eleven letters differs
    start = "Here is a detailed caption of an image: a. Please answer the question based on the caption."
    assert f"{start}How many?" in visits and f"{start}Which?\nA. cat\nB. dog" in visits


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_schema_is_left_out_where_the_server_refuses_it(tmp_path: Path, status: int) -> None:
    path = write(tmp_path / "checklist.jsonl", CHECKLIST, lines=True)
    received: list[str] = []

    def plan(body: dict[str, Any], before: int) -> Reply:
        form = body.get("response_format", {"type": ""})
        received.append(form["type"])
        if form["type"]:
            assert form["json_schema"]["schema"]["required"] == ["gt_verdicts"]
            return Reply(status, b'{"error": {"message": "response_format is not supported"}}')
        return completion(verdicts("yes", "yes", "yes"))

    with JudgeServer(plan).running() as server:
        name = f'capeval(model=m,endpoint="{server.url}",questions="{path}")'
        assert score(captions_of({"DK001": "a", "DK002": "b"}), name).score == 1.0  # both are under way at once
    assert received.count("") == 2 and received[0] == "json_schema"
    assert len(received) <= 2 + (6 if status == 500 else 2)


def test_caparena_asks_in_both_orders(tmp_path: Path) -> None:
    rows = {str(k): {"ref_model": "GPT", "captions": {"GPT": f"base {k}", "human": f"human {k}"}} for k in (1, 2, 3)}
    path = write(tmp_path / "auto.json", rows)
    replies = {"1": ("1", "2"), "2": ("1", "1"), "3": ("Tie", "2")}  # a win twice, the first twice, a tie and a win

    def answers(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        image = prompt.split("human ")[1][0]
        first = prompt.split("Caption 1:\n<caption>\n")[1].startswith("mine")
        winner = replies[image][0 if first else 1]
        return "Reason: so.\nJudgment: " + ("Tie" if winner == "Tie" else f"Caption {winner} is better.")

    results = run({str(k): f"mine {k}" for k in (1, 2, 3)}, f'judge(task=pairs,questions="{path}")', answers)
    assert results.score == pytest.approx((1 + 1 + 1 - 1 + 0 + 1) / 6)
    assert results.parts["ties"] == pytest.approx(1 / 6)
    assert results.parts["order_consistency"] == pytest.approx(1 / 3)
    empty = run({"1": "", "2": "mine 2"}, f'judge(task=pairs,questions="{path}")', answers)
    assert empty.items["c1"] == -1.0


@pytest.mark.parametrize("name", ["answers", "caprl-qa", "captionqa", "capeval", "pairs"])
def test_an_empty_caption_of_an_image_without_questions_has_no_score(tmp_path: Path, name: str) -> None:
    """As any other caption of the image: what is not asked of some counts for none."""
    checklist, baseline = CHECKLIST[0], {"ref_model": "GPT", "captions": {"GPT": "base", "human": "human"}}
    rows = {"captionqa": [QUIZ[0] | {"id": "1"}], "capeval": [checklist | {"id": "1"}], "pairs": {"1": baseline}}.get(
        name, [{"image_id": "1", "question": "How many?", "answer": "2"}]
    )
    path = write(tmp_path / "rows.json", rows)
    named = f"judge(task={name}," if name in ("answers", "pairs") else f"{name}("
    judge: Any = parse(f'{named}model=m,questions="{path}")')
    assert judge.protocol.judge_empty(JudgedCaption("c1", "1", " ", ())).values
    with pytest.raises(NoScore, match="no questions about this image"):
        judge.protocol.judge_empty(JudgedCaption("c2", "2", " ", ()))


def test_images_of_the_file_are_named_if_no_caption_is_of_any(tmp_path: Path) -> None:
    path = write(tmp_path / "quiz.json", QUIZ)
    with pytest.raises(
        InputError, match=r"about this image \(1\); images of .*quiz.json: .nat_0., .nat_1., .nat_2. and 1"
    ):
        run({"other": "a caption"}, f'captionqa(questions="{path}")', lambda body: "A")


def test_facts_of_references_in_place_of_a_file_are_noted(tmp_path: Path) -> None:
    events = write(tmp_path / "events.json", [{"id": "1", "events": ["A dog runs."]}])

    def answers(body: dict[str, Any]) -> str:
        listed = [{"event": "e", "relationship": "entailment"}]
        return json.dumps({"events": ["e"] if "Extract" in prompt_of(body) else listed})

    results = run({"1": "a dog", "2": "a cat"}, f'autodq(questions="{events}")', answers)
    assert results.score == 1.0
    assert results.notes == {"nothing about this image in the file: taken from its references": ["c2"]}


def test_answers_to_a_checklist_are_kept_by_question(tmp_path: Path) -> None:
    rows = [{"id": "1", "checklist": [["attribute", "colour", f"Is it {text}?"] for text in ("red", "new", "red")]}]
    path = write(tmp_path / "checklist.json", rows)
    listed = [{"item_index": 0, "verdict": "yes", "reasoning": "it  says so"}, {"item_index": "2", "verdict": "no"}]
    results = run({"1": "a bus"}, f'capeval(questions="{path}")', lambda body: json.dumps({"gt_verdicts": listed}))
    assert results.answers == {
        "c1": {"Is it red?": "yes: it says so", "Is it new?": "no answer", "Is it red? (2)": "no"}
    }
    evidence = Evidence(("a", "bus"), (), facts={**results.answers["c1"]})
    explanation = Explanation(Caption("c1", "1", "a bus"), {"capeval": 1.0}, {"capeval": evidence})
    output = io.StringIO()
    Console(width=60, file=output).print(render_explanations([explanation]))
    lines = [line.strip() for line in output.getvalue().splitlines() if line.strip()]
    assert lines[-4:-3] == ["caption  a bus"]
    assert lines[-3:] == ["answers  Is it red?: yes: it says so", "Is it new?: no answer", "Is it red? (2): no"]
    with pytest.raises(InputError, match=r"no score in the answer"):
        run({"1": "a bus"}, f'capeval(questions="{path}")', lambda body: "nothing")


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
        judged = [CaptionFact(fact=str(k), descriptive=fact["descriptive"]) for k, fact in enumerate(facts)]
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


FORMS: dict[str, Any] = {"facts": CaptionFact, "verdicts": FactVerdict, "matches": FactMatch}


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
