"""Columns in and out of pandas, polars, Arrow and datasets: the numbers of `capmeter.score` bit by bit."""

from __future__ import annotations

from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from support.thousand_captions import METRICS, expected, thousand

import capmeter
from capmeter.core.errors import InputError
from capmeter.integrations import frames

CANDIDATES, REFERENCES, IDS = thousand()
COLUMNS = {"image_id": IDS, "candidate": CANDIDATES, "references": REFERENCES}


def make_frame(kind: str, columns: dict[str, list[Any]]) -> Any:
    if kind == "arrow":
        return pyarrow.table(columns)
    library = pytest.importorskip(kind, reason=f"needs {kind} (pip install 'capmeter[frames]')")
    return library.Dataset.from_dict(columns) if kind == "datasets" else library.DataFrame(columns)


def values(frame: Any, column: str) -> list[Any]:
    result = frame[column]
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(result, method):
            return list(getattr(result, method)())
    return list(result)


KINDS = ["arrow", "pandas", "polars", "datasets"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_captions_are_scored_as_by_score(kind: str) -> None:
    frame = make_frame(kind, COLUMNS)
    scored = frames.with_scores(frame, METRICS)
    assert type(scored) is type(frame)
    for name, each in expected().items():
        assert values(scored, name) == each.items.array.tolist()
    assert values(scored, "candidate") == CANDIDATES
    whole_set = capmeter.score(frames.read(frame), METRICS)
    assert {name: each.score for name, each in whole_set.items()} == {
        name: each.score for name, each in expected().items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_other_names_no_ids_and_columns_that_are_replaced(kind: str) -> None:
    columns = {
        "hyp": ["a dog runs", "two cats"],
        "gt_1": ["a dog runs", "cats"],
        "gt_2": ["a dog", None],
        "rouge-l": [9, 9],
    }
    selected = {"hyp": "candidate", "gt_1": "references", "gt_2": "references"}
    scored = frames.with_scores(make_frame(kind, columns), "rouge-l", columns=selected)
    expected_scores = capmeter.score(
        candidates=["a dog runs", "two cats"], references=[["a dog runs", "a dog"], ["cats"]], metrics="rouge-l"
    )
    assert values(scored, "rouge-l") == expected_scores["rouge-l"].items.array.tolist()
    assert values(scored, "hyp") == columns["hyp"]


def test_rows_of_pandas_stay_under_their_index() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"caption": ["cats", "a dog"], "reference": ["a dog", "a dog"]}, index=[7, 7])
    scored = frames.with_scores(frame, "rouge-l")
    assert scored.index.tolist() == [7, 7] and scored["rouge-l"].tolist() == [0.0, 1.0]
    assert list(frame) == ["caption", "reference"], "the given frame is unchanged"


def test_selected_datasets_and_references_beside_the_frame() -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    whole_set = datasets.Dataset.from_dict({"caption": ["a", "b", "a dog"], "reference": ["a dog"] * 3})
    scored = frames.with_scores(whole_set.select([2, 0]), "rouge-l")
    assert scored["caption"][:] == ["a dog", "a"] and scored["rouge-l"][0] == 1.0 and scored["rouge-l"][1] < 1.0
    frame = pyarrow.table({"image_id": ["7", "9"], "caption": ["a dog", "cats"]})
    references = {"9": ["cats"], "7": ["a dog", "dogs"]}
    for each in (references, pyarrow.table({"image_id": ["9", "7"], "references": [*references.values()]})):
        assert frames.with_scores(frame, "rouge-l", references=each)["rouge-l"].to_pylist() == [1.0, 1.0]


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "cells", [[LOOP, {"loop": LOOP}], [Path("1.jpg"), float("nan")], [object(), np.array([{"loop": LOOP}])]]
)
def test_values_of_pandas_may_be_of_any_type(cells: list[Any]) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    columns = {"image_id": [1, "b"], "caption": ["a dog", "cats"], "references": ["a dog", np.array(["cats"])]}
    assert frames.read(pandas.DataFrame({**columns, "meta": cells}))["b"].references == ("cats",)
    for name in ("image_id", "caption", "references"):
        with pytest.raises(InputError, match=rf"the candidates\[0\]: {name}"):
            frames.read(pandas.DataFrame({**columns, name: cells}))


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ([{"caption": "a"}], "expected a data frame of pandas or polars"),
        ("captions.csv", "expected a data frame of pandas or polars"),
        (pyarrow.table({"image_id": ["7"], "candidat": ["a dog"]}), r"candidat \(candidate\?\)"),
        (pyarrow.table({"caption": ["a dog"]}), "has no references"),
        (pyarrow.table([["a"], ["b"]], names=["caption", "caption"]), "several columns .* are called caption; rename"),
        (lambda: pytest.importorskip("pandas").Series(["a"]), "got Series; .* to_frame"),
        (lambda: pytest.importorskip("polars").LazyFrame({"caption": ["a"]}), "got LazyFrame; call its collect"),
        (lambda: pytest.importorskip("datasets").DatasetDict(), "got DatasetDict; choose one of its splits"),
    ],
)
def test_mistakes_get_a_sentence(frame: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        frames.with_scores(frame() if isfunction(frame) else frame, "rouge-l")
