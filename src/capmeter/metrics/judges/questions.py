"""Judges whose task is a file: CaptionQA, CAPEval, CapRL-QA, AutoDQ, and tasks of your own or of the package.

    judge(task="colours.yaml",model=M)          judge(task=facts,model=M)

The task says what is asked, how answers are read, and how they become a score (`capmeter.metrics.judges.tasks`).
Questions come from the task or from a benchmark's own file (`questions=FILE`). Captions without a readable answer are
listed and have no score.

CaptionQA (Yang et al. 2026): multiple-choice questions that a language model answers from the caption.

    score = (right answers + Σ (1/K + .05) over abstentions from K choices) / answered questions

Range 0 to 1, over all questions of all captions; the parts are the share of right answers (`accuracy`) and of
abstentions (`abstained`). A question that is not a yes-no question has the option "Cannot answer from the caption".
Options are shuffled by the seed of the released code, over all questions of the file in order. The prompt is that of
lmms-eval. The released code reads the first single letter, "A" and "I" as words too, and calls an unreadable answer
wrong: `as_released=true`. By default a letter on a line of its own or after "answer:" goes first, and an unreadable
answer is listed and does not count.

CAPEval (Liu et al. 2026): a checklist of what a complete caption mentions, and whether what it mentions is right.

    score = (yes + no) / (yes + no + not mentioned)          precision = yes / (yes + no)

Range 0 to 1 (the paper's C and P are 100 times that), over all questions of all captions; a language model answers the
whole checklist of an image at once. The released code counts a question without a verdict as not mentioned; here it
does not count, and its caption is listed.

CapRL-QA (Xing et al. 2025): score = right answers / answered questions, range 0 to 1. `match` says when an answer is
right: `exact`, `relaxed` (numbers within 5 %, also as percentages, as for charts) or `anls` (relaxed, or a normalised
edit similarity of at least .5, as for infographics). A letter is expected where the expected answer is one.

AutoDQ (Wang et al. 2024): the events of a video, entailed by the caption, and those of the caption by the reference.

    score = 2 P R / (P + R), of the means of P and R over captions
    R = reference events that the caption entails / reference events;  P = the same of the caption's events

Range 0 to 1. The events of the reference are extracted if no file has them. As released, a text without events has a
share of 1, and texts are in lower case. The prompts of these four are the released ones. Servers, keys: docs/judges.md.

>>> str(CaptionQa(model="m", questions="q.parquet")), str(OwnJudge(model="m", task="colours.yaml"))
('captionqa(model=m,questions=q.parquet)', 'judge(model=m,task=colours.yaml)')

Yang et al.: CaptionQA: Is Your Caption as Useful as the Image Itself? CVPR 2026.
Liu, Wang, Zhang: CAPEval: A Decoupled Caption Evaluation across Understanding and Generation. arXiv:2608.02589, 2026.
Xing et al.: CapRL: Stimulating Dense Image Caption Capabilities via Reinforcement Learning. arXiv:2509.22647, 2025.
Wang, Yuan, Zhang: Tarsier: Recipes for Training and Evaluating Large Video Description Models. arXiv:2407.00634, 2024.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten
from capmeter.evaluation.base import CorpusState, Floats, RunContext
from capmeter.metrics.judges.asking import Answer, Ask, Failure
from capmeter.metrics.judges.items import (
    QUESTION,
    Item,
    ItemFile,
    UsedEntries,
    describe_item,
    read_item,
    read_items,
    shared_entry,
    shuffle_options,
)
from capmeter.metrics.judges.judge import NO_QUESTIONS, PLAIN, UNANSWERED, Judge, JudgedCaption, Verdict, load_tasks
from capmeter.metrics.judges.protocols import NO_STORED, PROTOCOLS, Procedure
from capmeter.metrics.judges.reading import (
    LETTERS,
    NO_ANSWER,
    UNREADABLE,
    NoScore,
    match_label,
    read_choice,
    read_choice_as_released,
    read_each,
    read_expectation,
    read_json,
    read_label,
    read_match,
    read_number,
    read_text,
    unreadable,
)
from capmeter.stats.ratios import ratio

if TYPE_CHECKING:
    from capmeter.metrics.judges.tasks import Share, Task

_UNUSABLE = "questions without a right answer among their choices"
# the words that the released code of CAPEval accepts beside its labels
_SYNONYMS = dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes")
_SYNONYMS |= dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no")
_SYNONYMS |= dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned")


@dataclass(frozen=True, kw_only=True)
class TaskJudge(Judge):
    """A judge whose task is a file."""

    TASK: ClassVar[str] = ""

    questions: Annotated[str, "the file of questions, facts or events; see docs/judges.md"] = ""

    @property
    def spec(self) -> Task:
        """The task."""
        task: Task = load_tasks().read_task(self.TASK)
        return task

    @property
    def prompt(self) -> Task:
        """The task's prompts."""
        return self.spec

    @property
    def needs(self) -> frozenset[str]:
        """What the task declares."""
        return frozenset(self.spec.needs)

    @property
    def protocol(self) -> Procedure | None:
        """The steps, if there are several.

        Raises:
            InputError: the task lacks the prompt of one of them.
        """
        task, procedure = self.spec, PROTOCOLS.get(self.spec.ask)
        missing = [name for name in procedure.prompts if name not in task.steps] if procedure is not None else []
        if procedure is not None and not procedure.prompts and not task.prompt:
            missing = ["prompt"]
        if missing:
            raise InputError(
                f"task {task.name!r}: ask: {task.ask} needs {', '.join(missing)}, which is missing; copy the package's "
                f"file (capmeter/data/prompts), and change its prompts"
            )
        return procedure

    @property
    def requires_answer(self) -> bool:
        """Whether every question of a file needs its answer."""
        return self.spec.ask == "answers"

    @property
    def rounds(self) -> float:
        """Those of the protocol."""
        return 1.0 if self.protocol is None else self.protocol.rounds

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The score, or the number of each label, also of each group; of choices also their credit."""
        if self.protocol is not None:
            return self.protocol.columns
        labels = (*self.spec.labels, *(("credit",) if self.spec.labels[2:] == ("abstained",) else ()))
        return tuple(f"{label}{group}" for group in self._groups for label in labels) or ("score",)

    @property
    def _groups(self) -> list[str]:
        return [f"/{group}" for group in self.spec.groups] or [""]

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The declared shares, over groups their mean; or the mean of the numbers."""
        if self.protocol is not None and self.protocol.formulas is not None:
            return self.protocol.formulas(sums)
        if self.protocol is not None or not self.spec.labels:
            return super().formulas(sums)
        scores: dict[str, Floats] = {}
        parts: dict[str, Floats] = {}
        for name, share in self.spec.shares.items():
            totals = {group: sum(sums[f"{label}{group}"] for label in share.among) for group in self._groups}
            shares = {group: ratio(_sum_of(sums, share, group), totals[group]) for group in self._groups}
            occurring = sum(np.asarray(total) > 0 for total in totals.values())
            scores[name] = ratio(sum(shares.values()), occurring) if self.spec.groups else shares[""]
            parts |= {f"{name}{group}": each for group, each in shares.items() if group}
        return scores | parts

    def empty_verdict(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers no question: every one counts as wrong, or as the last label."""
        protocol, task = self.protocol, self.spec
        if protocol is not None:
            count = len(self.items_of(caption)) if protocol.needs_items else 0
            return Verdict((0.0,) * len(protocol.columns) if protocol.empty is None else protocol.empty(count))
        usable = [] if task.ask == "caption" else self._usable_items(caption)
        if not task.labels:
            return Verdict((0.0,))
        kinds = [item.tags[0] for item, _ in usable] or [""]
        label = "wrong" if task.labels[2:] == ("abstained",) else task.labels[-1]
        return self._count([(label, 0.0)] * len(kinds), kinds, self._notes_on(caption, usable))

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """Asks what the task declares."""
        task = self.spec
        if self.protocol is not None:
            return await self.protocol.judge(self, ask, caption)
        if task.ask == "caption":
            (answer,) = await ask([self.question(task, caption)])
            return (
                self._judge_numbers([answer], ()) if not task.labels else self._count([self._label(answer)], [""], ())
            )
        usable = self._usable_items(caption)
        kinds, notes = [item.tags[0] for item, _ in usable], self._notes_on(caption, usable)
        if task.ask == "checklist":
            return await self._judge_checklist(ask, caption, [item for item, _ in usable])
        questions = [
            self.question(
                task,
                caption,
                item=describe_item(item, options),
                question=item.text,
                kind=item.tags[0],
                choices="\n".join(f"{LETTERS[k]}. {option}" for k, option in enumerate(options)),
                answer=item.answer,
            )
            for item, options in usable
        ]
        answers = await ask(questions)
        if not task.labels:
            return self._judge_numbers(answers, notes)
        reads = [
            partial(self._label, item=item, options=options) if options else self._label for item, options in usable
        ]
        return self._count(read_each(answers, reads), kinds, notes)

    async def _judge_checklist(self, ask: Ask, caption: JudgedCaption, items: Sequence[Item]) -> Verdict:
        """Asks all questions at once; the answers are the verdicts on each."""
        lines = [
            f"  item_index={k}  tag={item.tags[1]!r}  type={f'{item.tags[0]}_' if item.tags[0] else ''}checklist  "
            f"Q: {item.text}"
            for k, item in enumerate(items)
        ]
        (answer,) = await ask([self.question(self.spec, caption, f"{len(items)} questions", items="\n".join(lines))])
        verdicts = read_checklist(answer, self.spec, len(items))
        if not any(label for label, _ in verdicts):
            raise unreadable(answer)
        labels = [None if label is None else (label, 0.0) for label, _ in verdicts]
        verdict = self._count(labels, [item.tags[0] for item in items], ())
        texts = [": ".join(filter(None, (label or NO_ANSWER, reason))) for label, reason in verdicts]
        return replace(verdict, answers=list(zip((item.text for item in items), texts, strict=True)))

    def _label(
        self, answer: Answer | Failure, item: Item | None = None, options: Sequence[str] = ()
    ) -> tuple[str, float]:
        """The label of an answer, with its credit."""
        if item is None:
            return read_label(answer, self.spec.labels), 0.0
        choice = self._read_choice(answer, len(options))
        if choice is None:
            return "wrong", 0.0
        choices = self.spec.read.choice if self.spec.read is not None else None
        if choices is not None and choices.abstain and options[choice].strip() == choices.abstain:
            return "abstained", 1 / sum(each.strip() != choices.abstain for each in options) + choices.bonus
        return ("correct", 1.0) if options[choice].strip() == item.answer else ("wrong", 0.0)

    def _read_choice(self, answer: Answer | Failure, options: int) -> int | None:
        return read_choice(answer, options)

    def _judge_numbers(self, answers: Sequence[Answer | Failure], notes: Sequence[str]) -> Verdict:
        """The mean of the numbers in the answers, scaled to 0 … 1."""
        task = self.spec.read
        assert task is not None
        low, high = task.expectation or task.number or (0, 100)

        def read(answer: Answer | Failure) -> tuple[float, bool]:
            number, is_expectation = (
                read_expectation(answer, low, high) if task.expectation else (read_number(answer), True)
            )
            if not low <= number <= high:
                raise NoScore(UNREADABLE)
            return (number - low) / (high - low), is_expectation

        numbers = read_each(answers, read)
        readable = [each for each in numbers if each is not None]
        all_notes = [*notes, *([UNANSWERED] if None in numbers else [])]
        all_notes += [] if all(is_expectation for _, is_expectation in readable) else [PLAIN]
        return Verdict((sum(value for value, _ in readable) / len(readable),), tuple(all_notes))

    def _count(self, labels: Sequence[tuple[str, float] | None], kinds: Sequence[str], notes: Sequence[str]) -> Verdict:
        """The numbers of labels, by the kinds of questions if there are groups, and the sums of credits."""
        counts = dict.fromkeys(self.value_columns, 0.0)
        for each, kind in zip(labels, kinds, strict=True):
            if each is not None:
                group = f"/{kind}" if self.spec.groups else ""
                counts[f"{each[0]}{group}"] += 1
                if f"credit{group}" in counts:
                    counts[f"credit{group}"] += each[1]
        return Verdict(tuple(counts.values()), (*notes, *((UNANSWERED,) if None in labels else ())))

    def _usable_items(self, caption: JudgedCaption) -> list[tuple[Item, tuple[str, ...]]]:
        """The image's questions with their options as offered, without those that have no right answer."""
        items, read = self.items_of(caption), self.spec.read
        if read is None or read.choice is None:
            return [(item, ()) for item in items]
        file = self.item_file
        orders = shuffle_options(file, read.choice)[file.key(caption.image_id)]
        usable = [(item, order) for item, order in zip(items, orders, strict=True) if order]
        if not usable:
            raise NoScore(_UNUSABLE)
        return usable

    def _notes_on(self, caption: JudgedCaption, usable: Sequence[Any]) -> tuple[str, ...]:
        """Whether some of the image's questions cannot be used."""
        return (_UNUSABLE,) if usable and len(usable) < len(self.items_of(caption)) else ()

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What is asked about the caption's image.

        Raises:
            NoScore: the file has nothing about it.
        """
        items = self.item_file.of(caption.image_id)
        if not items:
            raise NoScore(NO_QUESTIONS)
        return items

    def stored_items(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What a file has of the caption's image, where that may be taken from the references too."""
        return self.item_file.of(caption.image_id) if self.questions else ()

    def note_missing(self, stored: Sequence[Item]) -> tuple[str, ...]:
        """That the file has nothing of the caption's image."""
        return (NO_STORED,) if self.questions and not stored else ()

    @property
    def item_file(self) -> ItemFile:
        """The questions.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        if self.spec.questions:
            items = tuple(read_item(each, "", f"task {self.spec.name!r}, questions") for each in self.spec.questions)
            return _SameForAll(self.spec.name, "", {"": items}, {})
        if not self.questions:
            raise InputError(
                f'{self.name} needs a file of questions: {self.name}(model=…,questions="FILE"); see docs/judges.md'
            )
        return _select_items(read_items(self.questions), self)

    def item_problem(self, item: Item) -> str:
        """Why an item of the right kind cannot be used, as the end of a sentence about it; empty if it can."""
        if self.requires_answer and not item.answer:
            return "has no answer: write the expected one under answer"
        if self.spec.ask == "checklist" and (item.choices or item.answer):
            return "has choices or an answer: expected a checklist, whose questions have none"
        if self.spec.groups and item.tags[0] not in self.spec.groups:
            return f"is of the kind {item.tags[0]!a}: expected one of {', '.join(self.spec.groups)}"
        return ""

    def corpus_state(self) -> CorpusState | None:
        """Which image each entry is asked about: in the whole run, no two share one."""
        return EntryState(self) if self.questions else None

    def check_sums(self, sums: Floats, count: int, notes: Mapping[str, int]) -> None:
        """Also names images of the file if it has those of none of the captions."""
        try:
            super().check_sums(sums, count, notes)
        except InputError as error:
            if self.questions and NO_QUESTIONS in notes:
                image_names = list_names([shorten(image) for image in self.item_file.by_image], 3)
                raise InputError(f"{error}; images of {self.questions}: {image_names}") from None
            raise

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """Also the hash of the file, and the scene-graph parser if there is one."""
        facts = super().signature_facts(context)
        if self.spec.ask == "elements":
            from capmeter.text.scene_graphs.extraction import describe_source, resolve_source

            facts |= describe_source(resolve_source("factual", "caption"))
        return facts | {"file": self.item_file.sha256[:8]} if self.questions else facts

    def captions_of(self, part: CaptionSet, context: RunContext) -> list[JudgedCaption]:
        """The captions, with the scene graphs of both sides if their elements are asked for."""
        captions = super().captions_of(part, context)
        if self.spec.ask != "elements":
            return captions
        from capmeter.text.scene_graphs.extraction import find_source, find_synset_lookup, resolve_source
        from capmeter.text.scene_graphs.graph import build_scene_graph

        texts = list(dict.fromkeys(text for each in captions for text in (each.candidate, *each.references)))
        scenes = find_source(resolve_source("factual", "caption")).extract(texts, context.settings)
        tuples = {text: scene.tuples or () for text, scene in zip(texts, scenes, strict=True)}
        synsets = find_synset_lookup(False)

        def graph(sides: Sequence[str]) -> Any:
            return build_scene_graph((each for text in sides for each in tuples[text]), synsets)

        return [replace(each, graphs=(graph([each.candidate]), graph(each.references))) for each in captions]


@dataclass(frozen=True, kw_only=True)
class CaptionQa(TaskJudge):
    """Multiple-choice questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "multiple-choice questions answered from the caption"
    TASK: ClassVar[str] = "captionqa"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{right} + \sum_{\text{abstained}} (1/K + .05)}{\text{answered}}",
    )

    as_released: Annotated[bool, "read letters as the released code does; an unreadable answer is wrong"] = False

    def _read_choice(self, answer: Answer | Failure, options: int) -> int | None:
        return (read_choice_as_released if self.as_released else read_choice)(answer, options)


@dataclass(frozen=True, kw_only=True)
class CapEval(TaskJudge):
    """A checklist of what a complete caption mentions, and whether it is right."""

    NAME: ClassVar[str] = "capeval"
    SUMMARY: ClassVar[str] = "a checklist: completeness and precision of a long caption"
    TASK: ClassVar[str] = "capeval"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{yes} + \text{no}}{\text{yes} + \text{no} + \text{not mentioned}}",
        r"\text{precision} = \frac{\text{yes}}{\text{yes} + \text{no}}",
    )


@dataclass(frozen=True, kw_only=True)
class AutoDq(TaskJudge):
    """Events of caption and reference that the other entails."""

    NAME: ClassVar[str] = "autodq"
    SUMMARY: ClassVar[str] = "events of the caption and of the reference that the other entails"
    TASK: ClassVar[str] = "autodq"
    MISLEADS: ClassVar[str] = (
        "A caption without events has full precision; and a judge is as good as its model (docs/judges.md)."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"R = \frac{\text{reference events entailed by } c}{\text{reference events}}, \quad P = \frac{\text{events "
        r"of } c \text{ entailed by the reference}}{\text{events of } c}",
        r"F_1 = \frac{2 P R}{P + R}",
    )


@dataclass(frozen=True, kw_only=True)
class CaprlQa(TaskJudge):
    """Questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "caprl-qa"
    SUMMARY: ClassVar[str] = "questions about the image answered from the caption"
    TASK: ClassVar[str] = "caprl-qa"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{right}}{\text{answered}}",)

    match: Annotated[Literal["exact", "relaxed", "anls"], "when an answer is right"] = "exact"

    @property
    def requires_answer(self) -> bool:
        """Which the model's answer is compared with."""
        return True

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """Asks every question, and compares the answers with the expected ones."""
        items = self.items_of(caption)
        questions = []
        for item in items:
            lettered = [f"{LETTERS[k]}. {choice}" for k, choice in enumerate(item.choices[: len(LETTERS)])]
            text = "\n".join([item.text, *lettered])
            questions.append(self.question(self.prompt, caption, item=describe_item(item, item.choices), question=text))
        reads = [partial(read_match, expected=each.answer, choices=each.choices, match=self.match) for each in items]
        credits = read_each(await ask(questions), reads)
        readable = [credit for credit in credits if credit is not None]
        return Verdict((sum(readable), float(len(readable))), (UNANSWERED,) if None in credits else ())

    def empty_verdict(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers nothing."""
        return Verdict((0.0, float(len(self.items_of(caption)))))

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The sum of the answers' credits, and the number of readable answers."""
        return "correct", "answers"

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The share of right answers."""
        return {"score": ratio(sums["correct"], sums["answers"])}


@dataclass(frozen=True, kw_only=True)
class OwnJudge(TaskJudge):
    """A judge whose task is a YAML file: a user's own, or one of the package."""

    NAME: ClassVar[str] = "judge"
    SUMMARY: ClassVar[str] = "a language model's answers to your own questions"

    task: Annotated[str, "the YAML file of the task, or the name of one in the package"]
    image: Annotated[bool, "show the image too"] = False

    @property
    def spec(self) -> Task:
        """The task in the file."""
        task: Task = load_tasks().read_task(self.task)
        return task

    @property
    def needs(self) -> frozenset[str]:
        """What the task declares, and the image if it is shown."""
        return super().needs | ({"image"} if self.image else set())


@dataclass(frozen=True)
class EntryState(CorpusState):
    """The images that the entries of a judge's file are asked about."""

    AFFECTS_SCORES: ClassVar[bool] = False
    judge: TaskJudge

    def collect(self, part: CaptionSet, context: RunContext) -> UsedEntries:
        """The entries of one part; an `InputError` if two images fit one of them."""
        file = self.judge.item_file
        used: dict[str, str] = {}
        for image_id in part.image_ids:
            if (key := file.key(image_id)) and used.setdefault(key, image_id) != image_id:
                raise shared_entry(file.path, key, used[key], image_id)
        return UsedEntries(file.path, used)


class _SameForAll(ItemFile):
    """The questions of a task, which are the same for all images."""

    def key(self, image_id: str) -> str:
        return ""


def _sum_of(sums: Mapping[str, Floats], share: Share, group: str) -> Any:
    return sum(sums[f"{label}{group}"] for label in share.of)


def read_checklist(answer: Answer | Failure, task: Task, count: int) -> list[tuple[str | None, str]]:
    """The label of each of a number of items, None for those that have none; and the reason for it, if any is given."""
    fields = task.read
    assert fields is not None
    verdicts: list[tuple[str | None, str]] = [(None, "")] * count
    listed_entries = read_json(answer, fields.list_field)
    if isinstance(listed_entries, list):
        entries = [entry for entry in listed_entries if isinstance(entry, dict)]
    else:  # damaged JSON: the entries that are whole
        pattern = rf'"{re.escape(fields.index)}"\s{{0,9}}:\s{{0,9}}"?(\d{{1,6}})"?\s{{0,9}},\s{{0,9}}'
        pattern += rf'"{re.escape(fields.label)}"\s{{0,9}}:\s{{0,9}}"([^"\n]{{1,40}})"'
        pairs = re.findall(pattern, read_text(answer))
        entries = [{fields.index: index, fields.label: label} for index, label in pairs]
    for entry in entries:
        index, label = entry.get(fields.index), entry.get(fields.label)
        if isinstance(index, str | int) and re.fullmatch(r"\d{1,6}", str(index), re.ASCII) and isinstance(label, str):
            reasons = [text for name, text in entry.items() if name not in (fields.index, fields.label)]
            reason = " ".join(" ".join(text for text in reasons if isinstance(text, str)).split())
            if int(index) < count:
                label = match_label(_SYNONYMS.get(label.strip().lower(), label), task.labels)
                verdicts[int(index)] = label, reason
    return verdicts


@functools.lru_cache(maxsize=8)
def _select_items(file: ItemFile, judge: TaskJudge) -> ItemFile:
    """The items of a file that a judge reads.

    Raises:
        InputError: there are none, or one cannot be used.
    """
    protocol = judge.protocol
    kind, expected = (QUESTION, "questions of images") if protocol is None else (protocol.kind, protocol.expected)
    if judge.spec.ask == "checklist":
        expected = "checklists of images (checklist, or …_checklist)"
    selected = {name: tuple(each for each in items if each.kind == kind) for name, items in file.by_image.items()}
    if not any(selected.values()):
        kinds = " and ".join(sorted({f"{each.kind}s" for items in file.by_image.values() for each in items}))
        raise InputError(
            f"{file.path}: has {kinds}, but {judge.name} reads {expected}; see docs/judges.md for the layouts"
        )
    for image_name, items in selected.items():
        for item in items:
            if problem := judge.item_problem(item):
                raise InputError(f"{file.path}, image {image_name!a}: the {item.kind} {shorten(item.text)} {problem}")
    return replace(file, by_image={image_name: items for image_name, items in selected.items() if items})
