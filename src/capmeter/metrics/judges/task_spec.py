"""What a YAML file declares of a judge's task, beside its prompt.

| field | values |
|---|---|
| `ask` | `caption`: one question about each caption; `question`: one for each of the image's questions; `checklist`: all of them at once, as `{items}` |
| `needs` | a list of `references`, `image`: what captions must have |
| `read` | `number: [low, high]`: the number under "score" in JSON, or the first; `expectation: [low, high]`: of the whole numbers by their log-probabilities; `labels: [yes, no]`: one of these words (for a checklist a JSON list, whose fields are `list`, `index` and `label`); `choice: {abstain, bonus, shuffle}`: a letter |
| `scores` | of labels and choices: part: `{of: [labels], among: [labels]}`, the share of these among those; the first is `score` |

Numbers are scaled to 0 … 1. A choice counts as `correct`, `wrong` or `abstained` (the option `abstain`, which is added to
questions that are not yes-no questions); `credit` is 1, 0, or 1/K + `bonus` for abstaining from one of K choices;
`shuffle` is the seed by which options are shuffled, over all questions of the file in order, as CaptionQA does.
"""  # noqa: E501

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.metrics.judges.prompts import Template, file_version, read_yaml, template_of

ASKS = ("caption", "question", "checklist")
CHOICE_LABELS = ("correct", "wrong", "abstained")
_LIST_FIELDS = (("list", "verdicts"), ("index", "index"), ("label", "verdict"))


@dataclass(frozen=True, eq=False)
class TaskSpec:
    """A declared task.

    Attributes:
        prompt: its template.
        ask: one of `ASKS`.
        needs: what captions must have.
        kind: of reading: number, expectation, labels or choice.
        bounds: lowest and highest number.
        labels: the possible answers.
        fields: of a checklist's JSON: the list, its entries' index and label.
        abstain: the text of the option to abstain, or empty; bonus: its credit above chance.
        shuffle: the seed by which options are shuffled; None: not at all.
        scores: each part's labels in the numerator and in the denominator.
    """

    prompt: Template
    ask: str
    needs: frozenset[str]
    kind: str
    bounds: tuple[int, int] = (0, 100)
    labels: tuple[str, ...] = ()
    fields: tuple[str, str, str] = ("verdicts", "index", "verdict")
    abstain: str = ""
    bonus: float = 0.0
    shuffle: int | None = None
    scores: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] | None = None


def read_task(name: str) -> TaskSpec:
    """The task that this name in the package, or this file, declares, read once per content.

    Raises:
        InputError: a field is missing or has another form; the field is named.
    """
    return _read_task(name, file_version(name))


@functools.lru_cache(maxsize=32)
def _read_task(task_name: str, version: tuple[Path, int, int]) -> TaskSpec:
    fields = read_yaml(task_name)
    prompt = template_of(task_name, fields)

    def fail(field: str, expected: str) -> InputError:
        return InputError(f"task {task_name!r}: {field}: got {describe(fields.get(field))}, expected {expected}")

    ask, needs, read = fields.get("ask", "caption"), fields.get("needs", []), fields.get("read")
    if ask not in ASKS:
        raise fail("ask", f"one of {', '.join(ASKS)}")
    if not isinstance(needs, list) or not set(map(str, needs)) <= {"references", "image"}:
        raise fail("needs", "a list of references, image")
    if not isinstance(read, dict):
        raise fail("read", "one of number, expectation, labels, choice with its value")
    value_kinds = [kind for kind in ("number", "expectation", "labels", "choice") if kind in read]
    if (
        len(value_kinds) != 1
        or (ask == "checklist" and value_kinds != ["labels"])
        or (value_kinds == ["choice"] and ask != "question")
    ):
        raise fail("read", "one of number, expectation, labels, choice (a checklist: labels; a choice: ask: question)")
    (kind,), value = value_kinds, read[value_kinds[0]]
    task_details: dict[str, Any] = {}
    if kind in ("number", "expectation"):
        is_pair = isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
        if not is_pair or not 0 <= value[0] < value[1] <= 100:
            raise fail("read", f"{kind}: [low, high], two whole numbers from 0 to 100")
        task_details["bounds"] = tuple(value)
    elif kind == "labels":
        if not isinstance(value, list) or len(value) < 2 or not all(isinstance(each, str) for each in value):
            raise fail("read", "labels: [first, second, …], texts in quotes (yes and no are not text in YAML)")
        task_details["labels"] = tuple(each.strip().lower().replace(" ", "_") for each in value)
        task_details["fields"] = tuple(str(read.get(*each)) for each in _LIST_FIELDS)
    else:
        options = value if isinstance(value, dict) else {}
        task_details["labels"], task_details["abstain"] = CHOICE_LABELS, str(options.get("abstain", ""))
        task_details["bonus"], task_details["shuffle"] = float(options.get("bonus", 0.0)), options.get("shuffle")
    scores = _read_scores(task_name, fields.get("scores"), kind, task_details.get("labels", ()))
    return TaskSpec(prompt, ask, frozenset(map(str, needs)), kind, scores=scores, **task_details)


def _read_scores(
    task_name: str, scores: Any, kind: str, labels: Sequence[str]
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]] | None:
    if kind in ("number", "expectation"):
        return None
    if scores is None:
        return {"score": (("credit",) if kind == "choice" else (labels[0],), tuple(labels))}
    allowed_labels = {*labels, *(("credit",) if kind == "choice" else ())}
    score_parts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for part_name, share_spec in scores.items() if isinstance(scores, dict) else ():
        counted_labels, among_labels = (
            share_spec.get(key) if isinstance(share_spec, dict) else None for key in ("of", "among")
        )
        if not all(
            isinstance(each, list) and each and set(each) <= allowed_labels for each in (counted_labels, among_labels)
        ):
            raise InputError(
                f"task {task_name!r}: scores: {part_name}: expected {{of: [labels], among: [labels]}} with labels of "
                f"{', '.join(sorted(allowed_labels))}"
            )
        score_parts[str(part_name)] = tuple(counted_labels or ()), tuple(among_labels or ())
    if next(iter(score_parts), None) != "score":
        raise InputError(f"task {task_name!r}: scores: expected score: {{of: [labels], among: [labels]}} first")
    return score_parts
