"""Protocols of several steps, after those of papers: which questions are asked, and how answers become a score.

| `ask` | after | questions | score |
|---|---|---|---|
| `answers` | VDCscore | `answer`: every question of the file, from the caption; `match`: is it the expected one? | share of matches; `grade` |
| `facts` | DCScore | `facts` of the caption (and of the references, if no file has those of the image); `verify`; `match` | `score_facts` |
| `claims` | FaithScore | `clauses` that describe; `facts` of each; `verify` every one | share of right facts, of all clauses |
| `pairs` | CapArena-Auto | which of two captions is better, in both orders | wins less losses, -1 to 1; `order_consistency` |
| `elements` | PoSh | every element of a text's scene graph, in the other text | F1 of mean grades / 5 |
| `events` | AutoDQ | `events` of caption and reference; `entailment` by the other text | F1 of the mean shares |

The formulas of `facts`, `claims` and `events` are those of the released code.

>>> score_facts([CaptionFact(fact="a"), CaptionFact(fact="b", descriptive=False), CaptionFact(fact="c")], [True, True, False], [0, 0, 1], 3)[0]
0.3472222222222222
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError

from capmeter.core.settings import Settings
from capmeter.metrics.judges.asking import Answer, Ask, Failure, JudgedCaption, Verdict
from capmeter.metrics.judges.items import Item, Text
from capmeter.metrics.judges.protocols import JudgeProtocol
from capmeter.metrics.judges.reading import (
    PLAIN,
    UNANSWERED,
    NoScore,
    read_each,
    read_expectation,
    read_json,
    read_label,
    read_text,
    unreadable,
)
from capmeter.stats.ratios import Floats, f1, ratio
from capmeter_research.papers.judges.question_protocols import AnsweredQuestion
from capmeter_research.papers.judges.reading import read_texts

_NO_FACTS = "no facts in the caption: scored 0"
_LOWEST, _HIGHEST, _PRESENT = 1, 5, 2  # grades of elements
_PYTHON_LIST = re.compile(r"[\"']events[\"']\s{0,9}:\s{0,9}\[([^\[\]]{0,20000})\]")
_PYTHON_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_JUDGMENT = re.compile(r"\bjudg(?:e)?ment\W{0,5}(?:caption\W{0,3}([12])\b|(tie)\b)", re.IGNORECASE)
_BETTER = re.compile(r"\bcaption ([12]) is better\b|^\W{0,5}(tie)\W{0,5}$", re.IGNORECASE | re.MULTILINE)
_MATCH = re.compile(r"[\"']pred[\"']\s{0,9}:\s{0,9}[\"'](yes|no)[\"']", re.IGNORECASE)
_GRADE = re.compile(r"[\"']score[\"']\s{0,9}:\s{0,9}[\"']?(\d(?:\.\d{1,9})?)[\"']?\s{0,9}[,}]")


class Answers(JudgeProtocol):
    """Every question is answered from the caption, then the answers are compared with the expected ones."""

    NAME: ClassVar[str] = "answers"
    SUMMARY: ClassVar[str] = "answers from the caption, compared with the expected ones"
    COLUMNS = ("score", "grade")
    PROMPTS = ("answer", "match")
    ROUNDS = 2
    ITEM = AnsweredQuestion

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The share of answers that match, and their mean grade."""
        items, steps = self.items_of(caption), self.task.steps
        questions = [self.question(steps["answer"], caption, item.text, question=item.text) for item in items]
        responses = zip(items, await ask(questions), strict=True)
        answered = [(item, read_text(response)) for item, response in responses if not isinstance(response, Failure)]
        comparisons = [
            self.question(
                steps["match"], caption, f"match: {item.text}", question=item.text, answer=item.answer, response=text
            )
            for item, text in answered
        ]
        matches = [each for each in read_each(await ask(comparisons), _read_comparison) if each is not None]
        values = (sum(each[k] for each in matches) / len(matches) for k in (0, 1))
        return Verdict(tuple(values), (UNANSWERED,) if len(matches) < len(items) else ())

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers no question."""
        self.items_of(caption)
        return super().judge_empty(caption)


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


def _as_none(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in ("none", "null") else value


class CaptionFact(BaseModel):
    """A fact of a caption, and whether it describes the image."""

    fact: Text
    descriptive: bool = True


class Clause(BaseModel):
    """A clause of a caption, and whether it describes the image."""

    text: Annotated[str, StringConstraints(strip_whitespace=True)]
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

    Args:
        answer, key: whose JSON has the list under this key.
        form: of the objects.

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


def _list_first(listed: Any) -> Any:
    """The texts of a list, some of which are the first of a list."""
    is_list = isinstance(listed, list)
    return [each[0] if isinstance(each, list) and each else each for each in listed] if is_list else listed


class _ListedProtocol(JudgeProtocol):
    """A protocol about texts that a file lists for each image, or that are taken from the references."""

    def stored_items(self, caption: JudgedCaption) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """What the file has of the caption's image, if there is one; and a note where it has nothing."""
        path = self.metric.item_path
        items = self.file.of(caption.image_id) if path else ()
        is_absent = path and not items
        return items, ("nothing about this image in the file: taken from its references",) if is_absent else ()


class Facts(_ListedProtocol):
    """The facts of a caption are extracted, then verified, and matched with those of the image."""

    NAME: ClassVar[str] = "facts"
    SUMMARY: ClassVar[str] = "facts of the caption, verified and matched with those of the image"
    COLUMNS = ("score", "precision", "recall", "f1", "f1_descriptive")
    PROMPTS = ("facts", "verify", "match")
    ROUNDS = 3

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The facts of an image (of FaithScore each with whether it is right)."""
        return {name: _list_first(row[name]) for name in ("oracle_facts", "facts") if name in row}

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The scores of `score_facts`."""
        steps, (stored, notes) = self.task.steps, self.stored_items(caption)
        questions = [self.question(steps["facts"], caption, "facts of the caption")]
        if not stored:
            reference = "\n".join(caption.references)
            questions.append(self.question(steps["facts"], caption, "facts of the references", candidate=reference))
        facts, *reference_facts = [
            _distinct(read_entries(answer, "facts", CaptionFact)) for answer in await ask(questions)
        ]
        oracle = [item.text for item in stored] or [each.fact for each in reference_facts[0]]
        if not facts:
            return Verdict((0.0,) * 5, (_NO_FACTS, *notes))
        listed_facts = _list_numbered([each.fact for each in facts])
        verification, matching = await ask(
            [
                self.question(steps["verify"], caption, "verification", items=listed_facts),
                self.question(steps["match"], caption, "matching", items=listed_facts, oracle=_list_numbered(oracle)),
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
    facts: Sequence[CaptionFact], truths: Sequence[bool], matches: Sequence[int | None], oracle: int
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


def _distinct(facts: Sequence[CaptionFact]) -> list[CaptionFact]:
    first_facts: dict[str, CaptionFact] = {}
    for each in facts:
        first_facts.setdefault(each.fact, each)
    return list(first_facts.values())


def _list_numbered(texts: Sequence[str]) -> str:
    """The texts as JSON objects with ids from 0, one per line."""
    return "\n".join(json.dumps({"id": k, "fact": text}, ensure_ascii=False) for k, text in enumerate(texts))


class Claims(JudgeProtocol):
    """The clauses of a caption that describe, the facts of each, and whether every fact of every clause is right."""

    NAME: ClassVar[str] = "claims"
    SUMMARY: ClassVar[str] = "facts of each clause, verified"
    COLUMNS = ("score", "sentences")
    PROMPTS = ("clauses", "facts", "verify")
    ROUNDS = 12

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The shares of right facts, and of clauses with right facts alone."""
        steps = self.task.steps
        (answer,) = await ask([self.question(steps["clauses"], caption, "clauses")])
        clauses = [each.text for each in read_entries(answer, "clauses", Clause) if each.descriptive and each.text]
        questions = [self.question(steps["facts"], caption, f"facts: {each}", items=each) for each in clauses]
        fact_lists = [read_texts(each, "facts") for each in await ask(questions)] if clauses else []
        facts = [fact for clause_facts in fact_lists for fact in clause_facts]
        if not facts:
            return Verdict((0.0, 0.0), (_NO_FACTS,))
        answers = await ask([self.question(steps["verify"], caption, fact, items=fact) for fact in facts])
        labels = read_each(answers, partial(read_label, labels=("yes", "no")))
        readable_labels = [label for label in labels if label is not None]
        right_share = readable_labels.count("yes") / len(readable_labels)
        remaining = iter(labels)
        clause_labels = [[next(remaining) for _ in clause_facts] for clause_facts in fact_lists]
        checked = [known for each in clause_labels if (known := [label for label in each if label is not None])]
        right_clauses = sum("no" not in each for each in checked) / len(checked)
        return Verdict((right_share, right_clauses), (UNANSWERED,) if None in labels else ())


class Pairs(JudgeProtocol):
    """Which of two captions is better, this one or that of each baseline, in both orders."""

    NAME: ClassVar[str] = "pairs"
    SUMMARY: ClassVar[str] = "which of two captions is better, in both orders"
    COLUMNS = ("wins", "ties", "losses", "consistent", "swapped")

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The caption of a baseline system (kind: its name), and the human caption (tag)."""
        captions, system = row.get("captions"), row.get("ref_model")
        if not isinstance(captions, dict):
            return {}
        text = captions.get(system) if isinstance(system, str) else None
        return {f"captions: {system} (ref_model)": [{"question": text, "kind": system, "tag": captions.get("human")}]}

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The numbers of outcomes, of pairs with the same winner in both orders, and of pairs."""
        questions = []
        for item in self.items_of(caption):
            references = item.tag or "\n".join(caption.references) or "none"
            for order, *texts in (("first", caption.candidate, item.text), ("second", item.text, caption.candidate)):
                label = f"against {item.kind or 'the baseline'}, {order}"
                slots = {"candidate": texts[0], "other": texts[1], "references": references}
                questions.append(self.question(self.task, caption, label, **slots))
        winners = read_each(await ask(questions), _read_winner)
        outcomes = [
            None if winner is None else 0 if winner == 0 else 1 if winner == 1 + k % 2 else -1
            for k, winner in enumerate(winners)
        ]
        order_pairs = [each for each in zip(outcomes[::2], outcomes[1::2], strict=True) if None not in each]
        counts = [float(outcomes.count(outcome)) for outcome in (1, 0, -1)]
        consistent = float(sum(a == b for a, b in order_pairs))
        return Verdict((*counts, consistent, float(len(order_pairs))), (UNANSWERED,) if None in outcomes else ())

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """An empty caption loses to each baseline, in both orders."""
        count = float(len(self.items_of(caption)))
        return Verdict((0.0, 0.0, 2 * count, count, count))

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The mean outcome, the shares of outcomes, and the share of pairs with the same winner in both orders."""
        count = sums["wins"] + sums["ties"] + sums["losses"]
        shares = {name: ratio(sums[name], count) for name in ("wins", "ties", "losses")}
        consistency = ratio(sums["consistent"], sums["swapped"])
        return {"score": shares["wins"] - shares["losses"], **shares, "order_consistency": consistency}


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


class Elements(JudgeProtocol):
    """How well each text says what the other's scene graph has: its objects, then attributes and relations of these."""

    NAME: ClassVar[str] = "elements"
    SUMMARY: ClassVar[str] = "elements of the scene graph of each text, looked for in the other"
    COLUMNS = ("score", "precision", "recall")
    ROUNDS = 2

    def prepare(self, captions: list[JudgedCaption], settings: Settings) -> list[JudgedCaption]:
        """The captions with the scene graphs of candidate and references."""
        from capmeter.text.scene_graphs.extraction import find_source, find_synset_lookup, resolve_source
        from capmeter.text.scene_graphs.graph import build_scene_graph

        texts = list(dict.fromkeys(text for each in captions for text in (each.candidate, *each.references)))
        scenes = find_source(resolve_source("factual", "caption")).extract(texts, settings)
        tuples = {text: scene.tuples or () for text, scene in zip(texts, scenes, strict=True)}
        synsets = find_synset_lookup(False)

        def graph(sides: Sequence[str]) -> Any:
            return build_scene_graph((each for text in sides for each in tuples[text]), synsets)

        return [replace(each, graphs=(graph([each.candidate]), graph(each.references))) for each in captions]

    def signature_facts(self) -> dict[str, str]:
        """The scene-graph parser."""
        from capmeter.text.scene_graphs.extraction import describe_source, resolve_source

        return describe_source(resolve_source("factual", "caption"))

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """F1, precision and recall of the grades."""
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
                self.question(self.task, caption, statement, candidate=texts[side], items=statement)
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


class Events(_ListedProtocol):
    """The events of caption and reference are extracted, then looked for in the other text."""

    NAME: ClassVar[str] = "events"
    SUMMARY: ClassVar[str] = "events of each text, entailed by the other"
    COLUMNS = ("precision", "recall")
    PROMPTS = ("events", "entailment")
    ROUNDS = 2

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The events of a video, also in `extra_info` (DREAM-1K)."""
        extra_info = row.get("extra_info")
        row = {**row, **extra_info} if isinstance(extra_info, dict) else row
        return {"events": _list_first(row["events"])} if "events" in row else {}

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The shares of the caption's and of the reference's events that the other text entails."""
        steps, (stored, notes) = self.task.steps, self.stored_items(caption)
        candidate, reference = caption.candidate.lower(), "\n".join(caption.references).lower()
        texts = {"caption": candidate} if stored else {"caption": candidate, "reference": reference}
        extractions = [
            self.question(steps["events"], caption, f"extraction from the {whose}", candidate=text.replace('"', "'"))
            for whose, text in texts.items()
        ]
        events, *reference_events = [_read_events(answer) for answer in await ask(extractions)]
        oracle = [item.text for item in stored] or reference_events[0]
        directions = [each for each in (("caption", events, reference), ("reference", oracle, candidate)) if each[1]]
        questions = [
            self.question(steps["entailment"], caption, f"events of the {whose}", candidate=text, items=str(each))
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

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The means of precision and recall over captions, and their harmonic mean."""
        means = super().formulas(sums)
        return {"score": f1(means["precision"], means["recall"]), **means}


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
