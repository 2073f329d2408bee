"""Protocols of several questions about a caption, which task files name (`ask:`), and the formulas of their scores.

| `ask` | after | questions | score |
|---|---|---|---|
| `answers` | VDCscore | `answer`: every question of the file, from the caption; `match`: is it the expected one? | share of matches; `grade` |
| `facts` | DCScore | `facts` of the caption (and of the references, if no file has those of the image); `verify`; `match` | `score_facts` |
| `claims` | FaithScore | `clauses` that describe; `facts` of each; `verify` every one | share of right facts, of all clauses |
| `pairs` | CapArena-Auto | which of two captions is better, in both orders | wins less losses, -1 to 1; `order_consistency` |
| `elements` | PoSh | every element of a text's scene graph, in the other text | F1 of mean grades / 5 |
| `events` | AutoDQ | `events` of caption and reference; `entailment` by the other text | F1 of the mean shares |

The formulas of `facts`, `claims` and `events` are those of the released code.

>>> score_facts([PrimitiveFact("a", True, True, 0), PrimitiveFact("b", False, True, 0), PrimitiveFact("c", True, False, 1)], 3)[0]
0.3472222222222222
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.asking import Answer, Ask, Failure
from capmeter.metrics.judges.items import CAPTION, EVENT, FACT, QUESTION
from capmeter.metrics.judges.judge import PLAIN, UNANSWERED, JudgedCaption, Verdict
from capmeter.metrics.judges.reading import (
    NoScore,
    read_each,
    read_expectation,
    read_json,
    read_label,
    read_text,
    read_texts,
    require_answer,
    unreadable,
)
from capmeter.stats.ratios import f1, ratio

NO_STORED = "nothing about this image in the file: taken from its references"
NO_FACTS = "no facts in the caption: scored 0"
RELATIONS = ("entailment", "neutral", "contradiction")
LOWEST, HIGHEST, PRESENT = 1, 5, 2  # grades of elements
_PYTHON_LIST = re.compile(r"[\"']events[\"']\s{0,9}:\s{0,9}\[([^\[\]]{0,20000})\]")
_PYTHON_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_JUDGMENT = re.compile(r"\bjudg(?:e)?ment\W{0,5}(?:caption\W{0,3}([12])\b|(tie)\b)", re.IGNORECASE)
_BETTER = re.compile(r"\bcaption ([12]) is better\b|^\W{0,5}(tie)\W{0,5}$", re.IGNORECASE | re.MULTILINE)
_MATCH = re.compile(r"[\"']pred[\"']\s{0,9}:\s{0,9}[\"'](yes|no)[\"']", re.IGNORECASE)
_GRADE = re.compile(r"[\"']score[\"']\s{0,9}:\s{0,9}[\"']?(\d(?:\.\d{1,9})?)[\"']?\s{0,9}[,}]")


@dataclass(frozen=True)
class Procedure:
    """What is asked about a caption, step by step.

    Attributes:
        judge: asks for a `TaskJudge`, and returns the verdict.
        columns: what its values are.
        prompts: the names of the messages in a task file; empty: one, without a name.
        kind: of the items of a file that it reads.
        expected: what they are, for messages.
        rounds: all questions as a multiple of the first ones, for estimates.
        formulas: the scores, from sums of the values over captions; None: their means.
        empty: the values of an empty caption, from the number of items of its image; None: 0.
        needs_items: whether there is nothing to ask without a file.
    """

    judge: Callable[[Any, Ask, JudgedCaption], Awaitable[Verdict]]
    columns: tuple[str, ...]
    prompts: tuple[str, ...] = ()
    kind: str = QUESTION
    expected: str = "questions of images"
    rounds: float = 1.0
    formulas: Callable[[Mapping[str, Floats]], dict[str, Floats]] | None = None
    empty: Callable[[int], tuple[float, ...]] | None = None
    needs_items: bool = True


@dataclass(frozen=True, slots=True)
class PrimitiveFact:
    """A fact of a caption: whether it describes the image, is true, and which fact of the image it is, if any."""

    text: str
    is_descriptive: bool
    is_true: bool = False
    match: int | None = None


async def judge_answers(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Answers every question from the caption, then compares the answers with the expected ones."""
    items, steps = judge.items_of(caption), judge.spec.steps
    questions = [judge.question(steps["answer"], caption, item=item.text, question=item.text) for item in items]
    responses = zip(items, await ask(questions), strict=True)
    answered = [(item, read_text(response)) for item, response in responses if isinstance(response, Answer)]
    comparisons = [
        judge.question(
            steps["match"], caption, f"match: {item.text}", question=item.text, answer=item.answer, response=response
        )
        for item, response in answered
    ]
    matches = [each for each in read_each(await ask(comparisons), read_comparison) if each is not None]
    values = (sum(each[k] for each in matches) / len(matches) for k in (0, 1))
    return Verdict(tuple(values), (UNANSWERED,) if len(matches) < len(items) else ())


def read_comparison(answer: Answer | Failure) -> tuple[float, float]:
    """Whether an answer matches, and its grade from 0 to 5.

    >>> read_comparison(Answer("{'pred': 'yes', 'score': 4}"))
    (1.0, 4.0)
    """
    text = read_text(answer)
    match, grade = _MATCH.search(text), _GRADE.search(text)
    if match is None or grade is None or not 0 <= float(grade[1]) <= 5:
        raise unreadable(answer)
    return float(match[1].lower() == "yes"), float(grade[1])


async def judge_facts(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Extracts the facts, then verifies and matches them."""
    steps, stored = judge.spec.steps, judge.stored_items(caption)
    questions = [judge.question(steps["facts"], caption, "facts of the caption")]
    if not stored:
        reference = "\n".join(caption.references)
        questions.append(judge.question(steps["facts"], caption, "facts of the references", candidate=reference))
    facts, *reference_facts = [read_facts(answer) for answer in await ask(questions)]
    oracle = [item.text for item in stored] or [fact.text for fact in reference_facts[0]]
    notes = judge.note_missing(stored)
    if not facts:
        return Verdict((0.0,) * 5, (NO_FACTS, *notes))
    listed_facts = list_numbered([fact.text for fact in facts])
    verification, matching = await ask(
        [
            judge.question(steps["verify"], caption, "verification", items=listed_facts),
            judge.question(steps["match"], caption, "matching", items=listed_facts, oracle=list_numbered(oracle)),
        ]
    )
    truths = read_numbers(verification, "verdicts", "true", len(facts), range(2))
    matches = read_numbers(matching, "matches", "oracle", len(facts), range(len(oracle)), or_none=True)
    judged_facts = [
        replace(fact, is_true=truth == 1, match=match)
        for fact, truth, match in zip(facts, truths, matches, strict=True)
    ]
    return Verdict(score_facts(judged_facts, len(oracle)), notes)


def score_facts(facts: Sequence[PrimitiveFact], oracle: int) -> tuple[float, ...]:
    """DCScore (Ye et al. 2025): score, precision, recall, F1 and F1 of the descriptive facts.

        P = true facts / facts
        R = (Σ 1 / n_o over true matched facts + e) / (facts of the image + e)
        score = (F1 of all facts + F1 of the descriptive ones) / 2

    e is the number of true facts without a match, n_o that of all facts matched with the same fact o of the image, as
    in the released code, also for the descriptive ones.

    Args:
        facts: of the caption.
        oracle: number of facts of the image.
    """
    match_counts = Counter(fact.match for fact in facts)

    def rates(some_facts: Sequence[PrimitiveFact]) -> tuple[float, float, float]:
        true_facts = [fact for fact in some_facts if fact.is_true]
        extra_count = sum(fact.match is None for fact in true_facts)
        correct = extra_count + sum(1 / match_counts[fact.match] for fact in true_facts if fact.match is not None)
        precision = len(true_facts) / len(some_facts) if some_facts else 0.0
        recall = correct / (oracle + extra_count) if oracle + extra_count else 0.0
        return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    precision, recall, all_f1 = rates(facts)
    *_, descriptive_f1 = rates([fact for fact in facts if fact.is_descriptive])
    return (all_f1 + descriptive_f1) / 2, precision, recall, all_f1, descriptive_f1


def list_numbered(texts: Sequence[str]) -> str:
    """The texts as JSON objects with ids from 0, one per line."""
    return "\n".join(json.dumps({"id": k, "fact": text}, ensure_ascii=False) for k, text in enumerate(texts))


def read_facts(answer: Answer | Failure) -> list[PrimitiveFact]:
    """The facts in an answer."""
    listed_facts = read_json(answer, "facts")
    facts: dict[str, PrimitiveFact] = {}
    for entry in listed_facts if isinstance(listed_facts, list) else [None]:
        fields = entry if isinstance(entry, dict) else {}
        text, is_descriptive = fields.get("fact"), _parse_whole_number(fields.get("descriptive", 1))
        if not isinstance(text, str) or not text.strip() or is_descriptive not in (0, 1):
            raise unreadable(answer)
        facts.setdefault(text.strip(), PrimitiveFact(text.strip(), is_descriptive == 1))
    return list(facts.values())


def read_numbers(
    answer: Answer | Failure, key: str, field: str, count: int, allowed: range, *, or_none: bool = False
) -> list[int | None]:
    """For each id from 0 the number in a field of a JSON list.

    Every id must be in the list, and every number among those allowed, or with `or_none` null or "none".
    """
    listed_entries = read_json(answer, key)
    values: dict[int, int | None] = {}
    for entry in listed_entries if isinstance(listed_entries, list) else ():
        entry_id = _parse_whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if entry_id is None or not 0 <= entry_id < count:
            continue
        value = entry.get(field, "")
        is_none = or_none and (value is None or str(value).strip().lower() in ("none", "null"))
        values[entry_id] = None if is_none else _parse_whole_number(value)
        if not is_none and values[entry_id] not in allowed:
            raise unreadable(answer)
    if len(values) < count:
        raise unreadable(answer)
    return [values[k] for k in range(count)]


def _parse_whole_number(value: Any) -> int | None:
    """The whole number that a JSON value says: 1, 1.0, true, "1" or "yes"; None if it says none."""
    text = str(value).strip().lower()
    text = {"yes": "1", "true": "1", "no": "0", "false": "0"}.get(text, text)
    is_number = isinstance(value, bool | int | float | str) and re.fullmatch(r"\d{1,6}(\.0+)?", text, re.ASCII)
    return int(float(text)) if is_number else None


async def judge_claims(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Marks clauses, lists the facts of the descriptive ones, and verifies every fact of every clause."""
    steps = judge.spec.steps
    (answer,) = await ask([judge.question(steps["clauses"], caption, "clauses")])
    clauses = read_clauses(answer)
    questions = [judge.question(steps["facts"], caption, f"facts: {each}", items=each) for each in clauses]
    fact_lists = [read_texts(each, "facts") for each in await ask(questions)] if clauses else []
    facts = [fact for clause_facts in fact_lists for fact in clause_facts]
    if not facts:
        return Verdict((0.0, 0.0), (NO_FACTS,))
    answers = await ask([judge.question(steps["verify"], caption, fact, items=fact) for fact in facts])
    labels = read_each(answers, partial(read_label, labels=("yes", "no")))
    readable_labels = [label for label in labels if label is not None]
    right_share = readable_labels.count("yes") / len(readable_labels)
    remaining = iter(labels)
    clause_labels = [[next(remaining) for _ in clause_facts] for clause_facts in fact_lists]
    checked = [known for each in clause_labels if (known := [label for label in each if label is not None])]
    right_clauses = sum("no" not in each for each in checked) / len(checked)
    return Verdict((right_share, right_clauses), (UNANSWERED,) if None in labels else ())


def read_clauses(answer: Answer | Failure) -> list[str]:
    """The descriptive clauses in an answer."""
    clauses = read_json(answer, "clauses")
    texts: list[str] = []
    for entry in clauses if isinstance(clauses, list) else [None]:
        fields = entry if isinstance(entry, dict) else {}
        if not isinstance(fields.get("text"), str) or fields.get("descriptive") not in (0, 1):
            raise unreadable(answer)
        texts += [fields["text"].strip()] if fields["descriptive"] and fields["text"].strip() else []
    return texts


async def judge_pairs(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Compares with each baseline, in both orders."""
    items = judge.items_of(caption)
    questions = []
    for item in items:
        system_name, human_caption = item.tags
        references = human_caption or "\n".join(caption.references) or "none"
        for order, first, second in (("first", caption.candidate, item.text), ("second", item.text, caption.candidate)):
            label = f"against {system_name or 'the baseline'}, {order}"
            texts = {"candidate": first, "other": second, "references": references}
            questions.append(judge.question(judge.spec, caption, label, **texts))
    winners = read_each(await ask(questions), read_winner)
    outcomes = [
        None if winner is None else 0 if winner == 0 else 1 if winner == 1 + k % 2 else -1
        for k, winner in enumerate(winners)
    ]
    order_pairs = [each for each in zip(outcomes[::2], outcomes[1::2], strict=True) if None not in each]
    counts = [float(outcomes.count(outcome)) for outcome in (1, 0, -1)]
    consistent = float(sum(a == b for a, b in order_pairs))
    return Verdict((*counts, consistent, float(len(order_pairs))), (UNANSWERED,) if None in outcomes else ())


def read_winner(answer: Answer | Failure) -> int:
    """1 or 2: this caption is better; 0: a tie.

    >>> read_winner(Answer("More detail.\\nJudgment: Caption 2 is better")), read_winner(Answer("Judgment: Tie"))
    (2, 0)
    """
    text = read_text(answer)
    matches = [*_JUDGMENT.finditer(text)] or [*_BETTER.finditer(text)]
    winners = {0 if match[2] else int(match[1]) for match in matches}
    if len(winners) != 1:
        raise unreadable(answer)
    return winners.pop()


def score_pairs(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    """The mean outcome, the shares of outcomes, and the share of pairs with the same winner in both orders."""
    count = sums["wins"] + sums["ties"] + sums["losses"]
    shares = {name: ratio(sums[name], count) for name in ("wins", "ties", "losses")}
    consistency = ratio(sums["consistent"], sums["swapped"])
    return {"score": shares["wins"] - shares["losses"], **shares, "order_consistency": consistency}


async def judge_elements(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Asks for the objects of both graphs, then for attributes and relations of those that are there."""
    texts = "\n".join(caption.references), caption.candidate
    grades: list[dict[Any, float | None]] = [{}, {}]
    notes: dict[str, None] = {}
    for list_elements in (_list_objects, _list_details):
        elements = [
            (side, key, statement)
            for side, graph in enumerate(caption.graphs)
            for key, statement in list_elements(graph, grades[side])
        ]
        questions = [
            judge.question(judge.spec, caption, statement, candidate=texts[side], items=statement)
            for side, _, statement in elements
        ]
        answers = await ask(questions) if questions else []
        values = read_each(answers, partial(read_expectation, low=LOWEST, high=HIGHEST)) if answers else []
        for (side, key, _), value in zip(elements, values, strict=True):
            grades[side][key] = None if value is None else value[0]
            notes |= {UNANSWERED: None} if value is None else {} if value[1] else {PLAIN: None}
    if any(each and not any(each.values()) for each in grades):
        raise NoScore(UNANSWERED)
    known_grades = [[grade for grade in each.values() if grade is not None] for each in grades]
    precision, recall = (sum(each) / len(each) / HIGHEST if each else 1.0 for each in known_grades)
    return Verdict((2 * precision * recall / (precision + recall), precision, recall), tuple(notes))


def _list_objects(graph: Any, grades: dict[Any, float | None]) -> list[tuple[Any, str]]:
    """The objects of a graph, each with its first attribute."""
    owned = graph.owned()
    return [
        (
            k,
            " ".join(
                [*(graph.attributes[a][1].words[0] for a in owned.get(k, ())[:1]), f"{each.words[0]} is mentioned"]
            ),
        )
        for k, each in enumerate(graph.objects)
    ]


def _list_details(graph: Any, grades: dict[Any, float | None]) -> list[tuple[Any, str]]:
    """The attributes and relations of objects that are there; those of absent objects get the lowest grade."""
    names = [each.words[0] for each in graph.objects]
    elements = [
        (("attribute", k), (owner,), f'the {names[owner]} is described as "{attribute.words[0]}"')
        for k, (owner, attribute) in enumerate(graph.attributes)
    ] + [
        (("relation", k), (a, b), f'the relation of the {names[a]} to the {names[b]} is "{relation.words[0]}"')
        for k, (a, relation, b) in enumerate(graph.relations)
    ]
    for key, ends, _ in elements:
        known = [grade for end in ends if (grade := grades.get(end)) is not None]
        if len(known) == len(ends) and min(known) < PRESENT:
            grades[key] = float(LOWEST)
    return [(key, text) for key, ends, text in elements if all((grades.get(end) or 0.0) >= PRESENT for end in ends)]


async def judge_events(judge: Any, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Extracts events, then asks of each whether the other text entails it."""
    steps, stored = judge.spec.steps, judge.stored_items(caption)
    candidate, reference = caption.candidate.lower(), "\n".join(caption.references).lower()
    texts = {"caption": candidate} if stored else {"caption": candidate, "reference": reference}
    extractions = [
        judge.question(steps["events"], caption, f"extraction from the {whose}", candidate=text.replace('"', "'"))
        for whose, text in texts.items()
    ]
    events, *reference_events = [read_events(answer) for answer in await ask(extractions)]
    oracle = [item.text for item in stored] or reference_events[0]
    directions = [each for each in (("caption", events, reference), ("reference", oracle, candidate)) if each[1]]
    questions = [
        judge.question(steps["entailment"], caption, f"events of the {whose}", candidate=text, items=str(each))
        for whose, each, text in directions
    ]
    answers = await ask(questions) if questions else []
    shares = {
        whose: read_entailed_share(answer, len(each))
        for (whose, each, _), answer in zip(directions, answers, strict=True)
    }
    notes = () if events else ("no events in the caption: precision 1, as released",)
    return Verdict((shares.get("caption", 1.0), shares.get("reference", 1.0)), (*notes, *judge.note_missing(stored)))


def read_events(answer: Answer | Failure) -> list[str]:
    """The events in an answer, a JSON object or a Python dictionary.

    >>> read_events(Answer("{'events': ['A dog runs', \\"The dog's owner waves\\"]}"))
    ['A dog runs', "The dog's owner waves"]
    """
    try:
        return read_texts(answer, "events")
    except NoScore:
        python_list = _PYTHON_LIST.search(read_text(answer))
        if python_list is None:
            raise
    quoted_texts = [first or second for first, second in _PYTHON_TEXT.findall(python_list[1])]
    return [re.sub(r"\\(.)", r"\1", " ".join(text.split())) for text in quoted_texts if text.strip()]


def read_entailed_share(answer: Answer | Failure, count: int) -> float:
    """The share of a number of events that are entailed."""
    events = read_json(require_answer(answer), "events")
    fields = [event if isinstance(event, dict) else {} for event in events] if isinstance(events, list) else []
    relations = [str(each.get("relationship", "")).strip().lower() for each in fields]
    if len(relations) != count or not set(relations) <= set(RELATIONS):
        raise unreadable(answer)
    return relations.count("entailment") / count


def score_events(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    """The means of precision and recall over captions, and their harmonic mean."""
    means = {name: ratio(sums[name], sums["scored"]) for name in ("precision", "recall")}
    return {"score": f1(means["precision"], means["recall"]), **means}


PROTOCOLS = {
    "answers": Procedure(
        judge_answers,
        ("score", "grade"),
        ("answer", "match"),
        expected="questions of videos with their answers",
        rounds=2,
    ),
    "facts": Procedure(
        judge_facts,
        ("score", "precision", "recall", "f1", "f1_descriptive"),
        ("facts", "verify", "match"),
        FACT,
        "facts of images (oracle_facts or facts: a list of texts)",
        rounds=3,
        needs_items=False,
    ),
    "claims": Procedure(
        judge_claims, ("score", "sentences"), ("clauses", "facts", "verify"), rounds=12, needs_items=False
    ),
    "pairs": Procedure(
        judge_pairs,
        ("wins", "ties", "losses", "consistent", "swapped"),
        (),
        CAPTION,
        "captions of baseline systems (ref_model and captions: {system: caption})",
        formulas=score_pairs,
        empty=lambda count: (0.0, 0.0, 2.0 * count, float(count), float(count)),
    ),
    "elements": Procedure(judge_elements, ("score", "precision", "recall"), rounds=2, needs_items=False),
    "events": Procedure(
        judge_events,
        ("precision", "recall"),
        ("events", "entailment"),
        EVENT,
        "events of videos (events: a list of texts)",
        rounds=2,
        formulas=score_events,
        needs_items=False,
    ),
}
"""The protocols by their names in task files."""
