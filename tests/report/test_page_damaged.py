"""A damaged results file gives a page or a sentence, never a traceback and never half a page."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pageexamples import candidates, scored

from capmeter.errors import CapmeterError, InputError
from capmeter.metrics.scores import read_all, save_all
from capmeter.report.page import write_page

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 0.5, 2**40, 10**30, 1e308, -1e308, float("nan"), float("inf"), "", "x", "NaN",
    "\0", "\ud83d", [], {}, [1], [None], ["a"], [[]], [{}], {"a": 1}, {"image 0": "x"}, {"image 0": None},
    {"image 0": ["image 1"]},
]  # fmt: skip
KEYS = ["", "x", "\0", "\ud83d", "</script>", "image 9", "one", "bleu-4"]


def place(random_: random.Random, value: Any) -> list[Any]:
    """The way to some value inside this one."""
    way: list[Any] = []
    while isinstance(value, dict | list) and value and (not way or random_.random() < 0.8):
        way.append(random_.choice(list(value)) if isinstance(value, dict) else random_.randrange(len(value)))
        value = value[way[-1]]
    return way


def damage(random_: random.Random, saved: Any) -> None:
    """Replaces, removes, renames, shuffles or copies one value of the file."""
    *way, last = place(random_, saved) or [None]
    target = saved
    for key in way:
        target = target[key]
    if last is None:
        return
    how = random_.random()
    if how < 0.65:
        target[last] = copy.deepcopy(random_.choice(VALUES))
    elif how < 0.8:
        del target[last]
    elif how < 0.9 and isinstance(target, dict):
        target[random_.choice(KEYS)] = target.pop(last)
    elif how < 0.95 and isinstance(target, dict):
        shuffled = list(target.items())
        random_.shuffle(shuffled)
        target.clear()
        target.update(shuffled)
    else:
        other = saved
        for key in place(random_, saved):
            other = other[key]
        target[last] = copy.deepcopy(other)


def outcomes(folder: Path, number: int, seed: int) -> Counter[str]:
    """How many of so many damaged files gave a page and how many a sentence; anything else is raised."""
    source, page = folder / "results.json", folder / "page.html"
    given = {
        name: scored(candidates(5, k), metrics="bleu-4,cider-d,sparcs", image="https://example.org/a.png")
        for k, name in enumerate(("one", "two"))
    }
    save_all(given, source)
    good = json.loads(source.read_text(encoding="utf-8"))
    alone = {**good, "systems": {"one": good["systems"]["one"]}}
    random_, seen = random.Random(seed), Counter[str]()
    for _ in range(number):
        saved = copy.deepcopy(random_.choice([good, good, alone]))
        for _ in range(random_.choice([1, 1, 1, 2, 3])):
            damage(random_, saved)
        text = json.dumps(saved)
        if random_.random() < 0.05:
            at = random_.randrange(len(text))
            text = text[:at] + random_.choice(["", "0", "1e999", '"', "null", "[", "9" * 30]) + text[at + 1 :]
        source.write_text(text, encoding="utf-8")
        page.unlink(missing_ok=True)
        try:
            write_page(read_all(source), page, resamples=10, explained=2, images=random_.choice(["link", "none"]))
        except CapmeterError as problem:
            assert str(problem) and not page.exists()
            seen["sentence"] += 1
        else:
            assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
            seen["page"] += 1
    return seen


@pytest.mark.filterwarnings("error")
def test_damaged_results_give_a_page_or_a_sentence(tmp_path: Path) -> None:
    seen = outcomes(tmp_path, 60, 0)
    assert seen["sentence"] > 10 and seen["page"] > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_thousands_of_damaged_results_give_a_page_or_a_sentence(tmp_path: Path) -> None:
    seen = outcomes(tmp_path, 3000, 1)
    assert seen["sentence"] > 500 and seen["page"] > 500


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda one: one.update(notes=True), "one: the notes is True, expected an object: reason → ids"),
        (lambda one: one.update(notes={"x": [{}]}), "one: the notes, 'x' is [{}], expected a list of ids"),
        (lambda one: one.update(command=3), "one: the command is 3, expected text"),
        (
            lambda one: one["metrics"]["bleu-1"].update(signature=[]),
            "one: the signature of bleu-1 is [], expected text",
        ),
        (
            lambda one: one["metrics"]["bleu-1"].update(notes=None),
            "one: the notes of bleu-1 is None, expected an object: reason → ids",
        ),
        (
            lambda one: one["captions"].update(pictures={"image 0": 7}),
            "one: the picture of image 0 is 7, expected text",
        ),
    ],
)
def test_the_sentence_names_what_is_damaged(tmp_path: Path, change: Any, expected: str) -> None:
    source = tmp_path / "results.json"
    save_all({"one": scored(candidates(3, 0), metrics="bleu-1")}, source)
    saved = json.loads(source.read_text(encoding="utf-8"))
    change(saved["systems"]["one"])
    source.write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        write_page(read_all(source), tmp_path / "page.html")
    assert str(caught.value) == f"{expected}; score the captions again"
