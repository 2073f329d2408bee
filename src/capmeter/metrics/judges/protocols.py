"""What task files name under `ask:`: which questions are asked about a caption, and how their answers become a score.

| `ask` | after | questions | score |
|---|---|---|---|
| `caption`, `question` | | one about the caption, or each of the image's | mean number, or shares of labels |
| `checklist` | CAPEval | all of the image's at once | shares of labels |
| `answers` | VDCscore | `answer`: every question of the file, from the caption; `match`: is it the expected one? | share of matches; `grade` |
| `facts` | DCScore | `facts` of the caption (and of the references, if no file has those of the image); `verify`; `match` | `score_facts` |
| `claims` | FaithScore | `clauses` that describe; `facts` of each; `verify` every one | share of right facts, of all clauses |
| `pairs` | CapArena-Auto | which of two captions is better, in both orders | wins less losses, -1 to 1; `order_consistency` |
| `elements` | PoSh | every element of a text's scene graph, in the other text | F1 of mean grades / 5 |
| `events` | AutoDQ | `events` of caption and reference; `entailment` by the other text | F1 of the mean shares |

The formulas of `facts`, `claims` and `events` are those of the released code.

>>> score_facts([Fact(fact="a"), Fact(fact="b", descriptive=False), Fact(fact="c")], [True, True, False], [0, 0, 1], 3)[0]
0.3472222222222222
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from capmeter.metrics.judges.asking import Answer, Ask, Failure
from capmeter.metrics.judges.items import CAPTION, EVENT, FACT, QUESTION
from capmeter.metrics.judges.questions import (
    Inquiry,
    judge_caption,
    judge_checklist,
    judge_empty,
    judge_questions,
)
from capmeter.metrics.judges.reading import (
    NoScore,
    read_each,
    read_expectation,
    read_json,
    read_label,
    read_text,
    read_texts,
    unreadable,
)
from capmeter.metrics.judges.verdicts import PLAIN, UNANSWERED, JudgedCaption, Verdict
from capmeter.stats.ratios import Floats, f1, ratio

_NO_FACTS = "no facts in the caption: scored 0"
_UNUSABLE = "questions without a right answer among their choices"
_LOWEST, _HIGHEST, _PRESENT = 1, 5, 2  # grades of elements
_PYTHON_LIST = re.compile(r"[\"']events[\"']\s{0,9}:\s{0,9}\[([^\[\]]{0,20000})\]")
_PYTHON_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_JUDGMENT = re.compile(r"\bjudg(?:e)?ment\W{0,5}(?:caption\W{0,3}([12])\b|(tie)\b)", re.IGNORECASE)
_BETTER = re.compile(r"\bcaption ([12]) is better\b|^\W{0,5}(tie)\W{0,5}$", re.IGNORECASE | re.MULTILINE)
_MATCH = re.compile(r"[\"']pred[\"']\s{0,9}:\s{0,9}[\"'](yes|no)[\"']", re.IGNORECASE)
_GRADE = re.compile(r"[\"']score[\"']\s{0,9}:\s{0,9}[\"']?(\d(?:\.\d{1,9})?)[\"']?\s{0,9}[,}]")


@dataclass(frozen=True)
class JudgeProtocol:
    """What is asked about a caption.

    Attributes:
        judge: asks for a `Judge`, and returns the verdict.
        columns: what its values are; empty: those of the task.
        prompts: the names of the messages in a task file; empty: one, without a name.
        kind: of the items of a file that it reads.
        expected: what they are, for messages.
        rounds: all questions as a multiple of the first ones, for estimates.
        formulas: the scores, from sums of the values over captions; None: those of the task, or their means.
        empty: the verdict on an empty caption; None: zeros.
    """

    judge: Callable[[Inquiry, Ask, JudgedCaption], Awaitable[Verdict]]
    columns: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    kind: str = QUESTION
    expected: str = "questions of images"
    rounds: float = 1.0
    formulas: Callable[[Mapping[str, Floats]], dict[str, Floats]] | None = None
    empty: Callable[[Inquiry, JudgedCaption], Verdict] | None = None


async def _judge_answers(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Answers every question from the caption, then compares the answers with the expected ones."""
    items, steps = inquiry.items_of(caption), inquiry.task.steps
    questions = [inquiry.question(steps["answer"], caption, item=item.text, question=item.text) for item in items]
    responses = zip(items, await ask(questions), strict=True)
    answered = [(item, read_text(response)) for item, response in responses if not isinstance(response, Failure)]
    comparisons = [
        inquiry.question(
            steps["match"], caption, f"match: {item.text}", question=item.text, answer=item.answer, response=response
        )
        for item, response in answered
    ]
    matches = [each for each in read_each(await ask(comparisons), _read_comparison) if each is not None]
    values = (sum(each[k] for each in matches) / len(matches) for k in (0, 1))
    return Verdict(tuple(values), (UNANSWERED,) if len(matches) < len(items) else ())


def _match_nothing(inquiry: Inquiry, caption: JudgedCaption) -> Verdict:
    """An empty caption answers no question."""
    inquiry.items_of(caption)
    return Verdict((0.0, 0.0))


def _read_comparison(answer: Answer) -> tuple[float, float]:
    """Whether an answer matches, and its grade from 0 to 5.

    >>> _read_comparison(Answer("{'pred': 'yes', 'score': 4}"))
    (1.0, 4.0)
    """
    text = read_text(answer)
    match, grade = _MATCH.search(text), _GRADE.search(text)
    if match is None or grade is None or not 0 <= float(grade[1]) <= 5:
        raise unreadable(answer)
    return float(match[1].lower() == "yes"), float(grade[1])


def _as_text(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _as_none(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in ("none", "null") else value


class Fact(BaseModel):
    """A fact of a caption, and whether it describes the image."""

    fact: Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
    descriptive: bool = True


class Clause(BaseModel):
    """A clause of a caption, and whether it describes the image."""

    text: Annotated[str, BeforeValidator(_as_text)]
    descriptive: bool


class FactVerdict(BaseModel):
    """Whether the fact of this number is true."""

    id: int
    true: bool


class FactMatch(BaseModel):
    """Which fact of the image the fact of this number is, if any."""

    id: int
    oracle: Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_as_none)]


class Relation(BaseModel):
    """Whether a text entails an event."""

    relationship: Annotated[
        Literal["entailment", "neutral", "contradiction"], BeforeValidator(lambda value: str(value).strip().lower())
    ]


Entry = TypeVar("Entry", bound=BaseModel)


def read_entries(answer: Answer, key: str, form: type[Entry]) -> list[Entry]:
    """The objects in the list under a key of the JSON in an answer.

    >>> read_entries(Answer('{"verdicts": [{"id": "0", "true": "yes"}]}'), "verdicts", FactVerdict)
    [FactVerdict(id=0, true=True)]
    """
    entries = read_json(answer, key)
    if not isinstance(entries, list):
        raise unreadable(answer)
    try:
        return [form.model_validate(entry) for entry in entries]
    except ValidationError:
        raise unreadable(answer) from None


async def _judge_facts(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Extracts the facts, then verifies and matches them."""
    steps, (stored, notes) = inquiry.task.steps, inquiry.stored_items(caption)
    questions = [inquiry.question(steps["facts"], caption, "facts of the caption")]
    if not stored:
        reference = "\n".join(caption.references)
        questions.append(inquiry.question(steps["facts"], caption, "facts of the references", candidate=reference))
    facts, *reference_facts = [_distinct(read_entries(answer, "facts", Fact)) for answer in await ask(questions)]
    oracle = [item.text for item in stored] or [each.fact for each in reference_facts[0]]
    if not facts:
        return Verdict((0.0,) * 5, (_NO_FACTS, *notes))
    listed_facts = _list_numbered([each.fact for each in facts])
    verification, matching = await ask(
        [
            inquiry.question(steps["verify"], caption, "verification", items=listed_facts),
            inquiry.question(steps["match"], caption, "matching", items=listed_facts, oracle=_list_numbered(oracle)),
        ]
    )
    truths = {each.id: each.true for each in read_entries(verification, "verdicts", FactVerdict)}
    matches = {each.id: each.oracle for each in read_entries(matching, "matches", FactMatch)}
    for values, answer in ((truths, verification), (matches, matching)):
        if not set(range(len(facts))) <= values.keys():
            raise unreadable(answer)
    matched = [matches[k] for k in range(len(facts))]
    if any(match is not None and match >= len(oracle) for match in matched):
        raise unreadable(matching)
    return Verdict(score_facts(facts, [truths[k] for k in range(len(facts))], matched, len(oracle)), notes)


def score_facts(
    facts: Sequence[Fact], truths: Sequence[bool], matches: Sequence[int | None], oracle: int
) -> tuple[float, ...]:
    """DCScore (Ye et al. 2025): score, precision, recall, F1 and F1 of the descriptive facts.

        P = true facts / facts
        R = (Σ 1 / n_o over true matched facts + e) / (facts of the image + e)
        score = (F1 of all facts + F1 of the descriptive ones) / 2

    e is the number of true facts without a match, n_o that of all facts matched with the same fact o of the image, as
    in the released code, also for the descriptive ones.

    Args:
        facts: of the caption.
        truths: whether each is true.
        matches: which fact of the image each is, if any.
        oracle: number of facts of the image.
    """
    match_counts = Counter(matches)

    def rates(chosen: Sequence[int]) -> tuple[float, float, float]:
        true_matches = [matches[k] for k in chosen if truths[k]]
        extra_count = true_matches.count(None)
        correct = extra_count + sum(1 / match_counts[match] for match in true_matches if match is not None)
        precision = len(true_matches) / len(chosen) if chosen else 0.0
        recall = correct / (oracle + extra_count) if oracle + extra_count else 0.0
        return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    precision, recall, all_f1 = rates(range(len(facts)))
    *_, descriptive_f1 = rates([k for k, each in enumerate(facts) if each.descriptive])
    return (all_f1 + descriptive_f1) / 2, precision, recall, all_f1, descriptive_f1


def _distinct(facts: Sequence[Fact]) -> list[Fact]:
    first_facts: dict[str, Fact] = {}
    for each in facts:
        first_facts.setdefault(each.fact, each)
    return list(first_facts.values())


def _list_numbered(texts: Sequence[str]) -> str:
    """The texts as JSON objects with ids from 0, one per line."""
    return "\n".join(json.dumps({"id": k, "fact": text}, ensure_ascii=False) for k, text in enumerate(texts))


async def _judge_claims(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Marks clauses, lists the facts of the descriptive ones, and verifies every fact of every clause."""
    steps = inquiry.task.steps
    (answer,) = await ask([inquiry.question(steps["clauses"], caption, "clauses")])
    clauses = [each.text for each in read_entries(answer, "clauses", Clause) if each.descriptive and each.text]
    questions = [inquiry.question(steps["facts"], caption, f"facts: {each}", items=each) for each in clauses]
    fact_lists = [read_texts(each, "facts") for each in await ask(questions)] if clauses else []
    facts = [fact for clause_facts in fact_lists for fact in clause_facts]
    if not facts:
        return Verdict((0.0, 0.0), (_NO_FACTS,))
    answers = await ask([inquiry.question(steps["verify"], caption, fact, items=fact) for fact in facts])
    labels = read_each(answers, partial(read_label, labels=("yes", "no")))
    readable_labels = [label for label in labels if label is not None]
    right_share = readable_labels.count("yes") / len(readable_labels)
    remaining = iter(labels)
    clause_labels = [[next(remaining) for _ in clause_facts] for clause_facts in fact_lists]
    checked = [known for each in clause_labels if (known := [label for label in each if label is not None])]
    right_clauses = sum("no" not in each for each in checked) / len(checked)
    return Verdict((right_share, right_clauses), (UNANSWERED,) if None in labels else ())


async def _judge_pairs(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Compares with each baseline, in both orders."""
    questions = []
    for item in inquiry.items_of(caption):
        system_name, human_caption = item.tags
        references = human_caption or "\n".join(caption.references) or "none"
        for order, first, second in (("first", caption.candidate, item.text), ("second", item.text, caption.candidate)):
            label = f"against {system_name or 'the baseline'}, {order}"
            texts = {"candidate": first, "other": second, "references": references}
            questions.append(inquiry.question(inquiry.task, caption, label, **texts))
    winners = read_each(await ask(questions), _read_winner)
    outcomes = [
        None if winner is None else 0 if winner == 0 else 1 if winner == 1 + k % 2 else -1
        for k, winner in enumerate(winners)
    ]
    order_pairs = [each for each in zip(outcomes[::2], outcomes[1::2], strict=True) if None not in each]
    counts = [float(outcomes.count(outcome)) for outcome in (1, 0, -1)]
    consistent = float(sum(a == b for a, b in order_pairs))
    return Verdict((*counts, consistent, float(len(order_pairs))), (UNANSWERED,) if None in outcomes else ())


def _lose_pairs(inquiry: Inquiry, caption: JudgedCaption) -> Verdict:
    """An empty caption loses to each baseline, in both orders."""
    count = float(len(inquiry.items_of(caption)))
    return Verdict((0.0, 0.0, 2 * count, count, count))


def _read_winner(answer: Answer) -> int:
    """1 or 2: this caption is better; 0: a tie.

    >>> _read_winner(Answer("More detail.\\nJudgment: Caption 2 is better")), _read_winner(Answer("Judgment: Tie"))
    (2, 0)
    """
    text = read_text(answer)
    matches = [*_JUDGMENT.finditer(text)] or [*_BETTER.finditer(text)]
    winners = {0 if match[2] else int(match[1]) for match in matches}
    if len(winners) != 1:
        raise unreadable(answer)
    return winners.pop()


def _score_pairs(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    """The mean outcome, the shares of outcomes, and the share of pairs with the same winner in both orders."""
    count = sums["wins"] + sums["ties"] + sums["losses"]
    shares = {name: ratio(sums[name], count) for name in ("wins", "ties", "losses")}
    consistency = ratio(sums["consistent"], sums["swapped"])
    return {"score": shares["wins"] - shares["losses"], **shares, "order_consistency": consistency}


async def _judge_elements(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
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
            inquiry.question(inquiry.task, caption, statement, candidate=texts[side], items=statement)
            for side, _, statement in elements
        ]
        answers = await ask(questions) if questions else []
        values = read_each(answers, partial(read_expectation, low=_LOWEST, high=_HIGHEST)) if answers else []
        for (side, key, _), value in zip(elements, values, strict=True):
            grades[side][key] = None if value is None else value[0]
            notes |= {UNANSWERED: None} if value is None else {} if value[1] else {PLAIN: None}
    if any(each and not any(each.values()) for each in grades):
        raise NoScore(UNANSWERED)
    known_grades = [[grade for grade in each.values() if grade is not None] for each in grades]
    precision, recall = (sum(each) / len(each) / _HIGHEST if each else 1.0 for each in known_grades)
    return Verdict((2 * precision * recall / (precision + recall), precision, recall), tuple(notes))


def _list_objects(graph: Any, grades: dict[Any, float | None]) -> list[tuple[Any, str]]:
    """The objects of a graph, each with its first attribute."""
    owned = graph.owned()
    firsts = [[graph.attributes[a][1].words[0] for a in owned.get(k, ())[:1]] for k in range(len(graph.objects))]
    return [(k, " ".join([*firsts[k], f"{each.words[0]} is mentioned"])) for k, each in enumerate(graph.objects)]


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
        if len(known) == len(ends) and min(known) < _PRESENT:
            grades[key] = float(_LOWEST)
    return [(key, text) for key, ends, text in elements if all((grades.get(end) or 0.0) >= _PRESENT for end in ends)]


async def _judge_events(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Extracts events, then asks of each whether the other text entails it."""
    steps, (stored, notes) = inquiry.task.steps, inquiry.stored_items(caption)
    candidate, reference = caption.candidate.lower(), "\n".join(caption.references).lower()
    texts = {"caption": candidate} if stored else {"caption": candidate, "reference": reference}
    extractions = [
        inquiry.question(steps["events"], caption, f"extraction from the {whose}", candidate=text.replace('"', "'"))
        for whose, text in texts.items()
    ]
    events, *reference_events = [_read_events(answer) for answer in await ask(extractions)]
    oracle = [item.text for item in stored] or reference_events[0]
    directions = [each for each in (("caption", events, reference), ("reference", oracle, candidate)) if each[1]]
    questions = [
        inquiry.question(steps["entailment"], caption, f"events of the {whose}", candidate=text, items=str(each))
        for whose, each, text in directions
    ]
    shares = {"caption": 1.0, "reference": 1.0}
    for (whose, each, _), answer in zip(directions, await ask(questions) if questions else [], strict=True):
        relations = [entry.relationship for entry in read_entries(answer, "events", Relation)]
        if len(relations) != len(each):
            raise unreadable(answer)
        shares[whose] = relations.count("entailment") / len(each)
    notes = notes if events else ("no events in the caption: precision 1, as released", *notes)
    return Verdict((shares["caption"], shares["reference"]), notes)


def _read_events(answer: Answer) -> list[str]:
    """The events in an answer, a JSON object or a Python dictionary.

    >>> _read_events(Answer("{'events': ['A dog runs', \\"The dog's owner waves\\"]}"))
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


def _score_events(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    """The means of precision and recall over captions, and their harmonic mean."""
    means = {name: ratio(sums[name], sums["scored"]) for name in ("precision", "recall")}
    return {"score": f1(means["precision"], means["recall"]), **means}


PROTOCOLS = {
    "caption": JudgeProtocol(judge_caption, empty=judge_empty),
    "question": JudgeProtocol(judge_questions, empty=judge_empty),
    "checklist": JudgeProtocol(
        judge_checklist, empty=judge_empty, expected="checklists of images (checklist, or …_checklist)"
    ),
    "answers": JudgeProtocol(
        _judge_answers,
        ("score", "grade"),
        ("answer", "match"),
        expected="questions of videos with their answers",
        rounds=2,
        empty=_match_nothing,
    ),
    "facts": JudgeProtocol(
        _judge_facts,
        ("score", "precision", "recall", "f1", "f1_descriptive"),
        ("facts", "verify", "match"),
        FACT,
        "facts of images (oracle_facts or facts: a list of texts)",
        rounds=3,
    ),
    "claims": JudgeProtocol(_judge_claims, ("score", "sentences"), ("clauses", "facts", "verify"), rounds=12),
    "pairs": JudgeProtocol(
        _judge_pairs,
        ("wins", "ties", "losses", "consistent", "swapped"),
        (),
        CAPTION,
        "captions of baseline systems (ref_model and captions: {system: caption})",
        formulas=_score_pairs,
        empty=_lose_pairs,
    ),
    "elements": JudgeProtocol(_judge_elements, ("score", "precision", "recall"), rounds=2),
    "events": JudgeProtocol(
        _judge_events,
        ("precision", "recall"),
        ("events", "entailment"),
        EVENT,
        "events of videos (events: a list of texts)",
        rounds=2,
        formulas=_score_events,
    ),
}
"""The protocols by their names in task files."""
