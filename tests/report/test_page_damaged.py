"""A damaged results file gives a page or a sentence, never a traceback and never half a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fuzz.pages import outcomes
from support.page_examples import candidates, scored

from capmeter.core.errors import InputError
from capmeter.evaluation.results import read_all, save_all
from capmeter.report.page import write_page


@pytest.mark.filterwarnings("error")
def test_damaged_results_give_a_page_or_a_sentence(tmp_path: Path) -> None:
    """A few; `make fuzz` tries thousands."""
    visits = outcomes(tmp_path, 400, 1)
    assert visits["sentence"] > 60 and visits["page"] > 60


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
            "one: the image of image 0 is 7, expected text",
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
