"""Captions of boxes: by hand, in two and three dimensions, by recall and F1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse


def rows(*objects: tuple[str, list[float]], image: str = "room") -> list[dict[str, Any]]:
    return [{"image_id": image, "caption": text, "box": box} for text, box in objects]


FOUND = rows(("a red chair", [0, 0, 2, 2]), ("a lamp", [9, 9, 10, 10]), ("a dog", [5, 5, 6, 7]))
TRUTH = rows(
    ("a red chair", [0, 0, 2, 1.5]), ("the chair", [0, 0, 2, 1.5]), ("a cat", [5, 5, 6, 6]), ("a door", [20, 0, 21, 9])
)


@pytest.mark.parametrize("form", ["recall", "f1"])
def test_boxes_by_hand(form: str) -> None:
    """Three objects: the chair at IoU .75 scores 1, the cat at .5 is called a dog (ROUGE-L .5), the door is missing."""
    name = f"gated(metric=rouge-l,form={form})" if form == "f1" else "gated(metric=rouge-l)"
    scores = capmeter.score(capmeter.load(FOUND, TRUTH), name)[name]
    recall, precision = 1.5 / 3, 1.5 / 3
    assert scores.parts == pytest.approx({"recall": recall, "precision": precision, "f1": 0.5})
    assert scores.score == scores.parts[form]
    strict = "gated(metric=rouge-l,iou=0.6)"
    assert capmeter.score(capmeter.load(FOUND, TRUTH), strict)[strict].score == pytest.approx(1 / 3)


def test_boxes_in_space_and_scenes_are_summed() -> None:
    truth = rows(("a bed", [0, 0, 0, 2, 2, 2]), ("a desk", [4, 0, 0, 5, 1, 1])) + rows(
        ("a bed", [-1, 0, 0, 1, 1, 1]), image="b"
    )
    found = rows(("a bed", [0, 0, 0, 2, 2, 1])) + rows(
        ("a bed", [-1, 0, 0, 1, 1, 1]), ("a", [9, 9, 9, 10, 10, 10]), image="b"
    )
    name = "gated(metric=rouge-l)"
    scores = capmeter.score(capmeter.load(found, truth), name)[name]
    assert scores.parts == pytest.approx({"recall": 2 / 3, "precision": 2 / 3, "f1": 2 / 3})
    assert dict(scores.items) == {"room": 0.5, "b": 1.0}


def test_document_frequencies_are_of_boxes() -> None:
    signature = capmeter.score(capmeter.load(FOUND, TRUTH), "gated")["gated"].signature
    assert "3 documents" in signature  # two captions of the chair are one


def test_tables_hold_boxes_as_json(tmp_path: Path) -> None:
    path = tmp_path / "found.csv"
    lines = [f'room,{row["caption"]},"{json.dumps(row["box"])}"' for row in FOUND]
    path.write_text("\n".join(["image_id,caption,box", *lines]) + "\n")
    assert capmeter.load(path, TRUTH)["room"].events == capmeter.load(FOUND, TRUTH)["room"].events


@pytest.mark.parametrize(
    ("found", "metric", "sentence"),
    [
        (rows(("a", [0, 0, 2])), "gated", "a list of 3, expected"),
        (rows(("a", [2, 0, 0, 2])), "gated", "has its upper corner first"),
        (rows(("a", [0, 0, float("nan"), 2])), "gated", "its number 3 is NaN"),
        (rows(("a", [0, 0, 0, 1, 1, 1])), "gated", "boxes of 4 and 6 numbers in one scene"),
        (FOUND, "soda-c(metric=rouge-l)", "boxes have no order in time"),
        (FOUND, "gated(metric=repetition)", "lower values of metric=repetition are better"),
    ],
)
def test_mistakes_get_a_sentence(found: Any, metric: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        capmeter.score(capmeter.load(found, TRUTH), metric)


def test_bad_thresholds_get_a_sentence() -> None:
    with pytest.raises(InputError, match="expected iou above 0 and at most 1, but got 0"):
        parse("gated(iou=0)")


@pytest.mark.parametrize("box", [[0, 0, 0, 2], [0, 0, 2, 0], [1, 1, 1, 1]])
def test_a_box_without_area_is_noted(box: list[float]) -> None:
    scores = capmeter.score(capmeter.load(rows(("a red chair", box)), TRUTH), "gated(metric=rouge-l)")
    assert scores["gated(metric=rouge-l)"].notes["event of zero length"] == ["room"]
