from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.caption_sets import caption_set

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import evaluate, score

ROWS = [("a dog runs", ["a dog runs fast"]), ("two cats", ["two cats sleep"]), ("a man", ["a man sits"]), ("x", ["y"])]


@pytest.fixture
def results() -> Results:
    return evaluate(caption_set(ROWS), parse_list("bleu-2,rouge-l,cider-d"))


def test_names_are_read_as_values(results: Results) -> None:
    assert results["cider-d(n=4)"] is results["cider-d"]
    assert "cider-d" in results and "cider-r" not in results and "no-such-metric" not in results
    with pytest.raises(KeyError, match="cider-r was not scored; scored were bleu-2, rouge-l, cider-d"):
        results["cider-r"]


def test_items_are_keyed_by_id_in_the_order_of_the_input(results: Results) -> None:
    items = results["rouge-l"].items
    assert list(items) == ["i0", "i1", "i2", "i3"]
    assert items["i3"] == 0.0
    with pytest.raises(KeyError):
        items["i9"]


def test_saved_and_read_back(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "scores.json")
    saved = json.loads((tmp_path / "scores.json").read_text())
    assert (saved["schema"], list(saved["systems"])) == (1, ["scores"])
    assert set(saved["systems"]["scores"]["metrics"]["bleu-2"]) >= {"score", "signature", "parts", "items", "notes"}
    again = Results.read(tmp_path / "scores.json")
    for name, scores in results.items():
        assert again[name].score == scores.score
        assert dict(again[name].items) == dict(scores.items)
        assert again[name].parts == scores.parts
        assert again[name].signature == scores.signature
        assert {part: dict(items) for part, items in again[name].part_items.items()} == {
            part: dict(items) for part, items in scores.part_items.items()
        }
    assert list(again.ids.images) == list(results.ids.images)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"metrics": {}}',  # how it was laid out before there was a schema
        '{"capmeter": "0", "schema": 1, "systems": {}}',
        '{"capmeter": "0", "schema": 2, "systems": {"a": {}}}',
        *(
            f'{{"capmeter": "0", "schema": 1, "systems": {{"a": {each}}}}}'
            for each in ("3", "{}", '{"metrics": {}}', '{"metrics": {"b": 3}}', '{"metrics": {"b": {"items": []}}}')
        ),
    ],
)
def test_a_foreign_file_is_an_input_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        Results.read(tmp_path / "x.json")


def test_intervals_hold_the_score_and_are_the_same_for_a_seed(results: Results) -> None:
    intervals = results.intervals(seed=3)
    assert intervals == results.intervals(seed=3)
    for name, (low, high) in intervals.items():
        assert low <= results[name].score <= high
        assert low < high


def test_the_interval_of_an_additive_metric_is_of_the_corpus_score(results: Results) -> None:
    """BLEU's resamples are functions of drawn sums, not means of captions' scores."""
    scores = results["bleu-2"]
    sums, counts = scores.sum_by_cluster(results.ids.clusters)
    assert scores.score_from_sums(sums.sum(axis=0), counts.sum()) == pytest.approx(scores.score, abs=1e-15)
    assert scores.score_from_sums(2 * sums[0], 2 * counts[0]) == pytest.approx(scores.items["i0"], abs=1e-9)


def test_captions_of_one_image_are_drawn_together() -> None:
    captions = CaptionSet.from_captions(
        [
            Caption("a1", "a", "a dog", references=("a dog",)),
            Caption("a2", "a", "x", references=("a dog",)),
            Caption("b1", "b", "a dog", references=("a dog",)),
            Caption("b2", "b", "x", references=("a dog",)),
        ]
    )
    # every image has the same mean, so whichever images are drawn, the score does not move
    low, high = score(captions, "rouge-l").intervals()["rouge-l"]
    assert low == high == 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("keys", "value"),
    [
        *product(
            [("score",), ("items", "i1"), ("parts", "bleu-1"), ("rows", "i1")],
            [None, float("nan"), float("inf"), 10**400, "x"],
        ),
        # rows that do not give the saved scores
        *product([("rows", "i0")], [[-1, -1, 3, 2, 3, 3], [-5, 2, 3, 2, 3, 4], [1e308] * 6, [3, 2], []]),
        # answers that are not texts
        *product([("answers",)], [[1], {"i1": "text"}, {"i1": {"asked": 3}}, "text"]),
    ],
)
def test_a_saved_value_that_cannot_be_is_refused(results: Results, keys: tuple[str, ...], value) -> None:
    saved = json.loads(json.dumps(results.to_dict()))
    inside = saved["systems"]["captions"]["metrics"]["bleu-2"]
    for key in keys[:-1]:
        inside = inside[key]
    inside[keys[-1]] = value
    with pytest.raises(InputError, match="bleu-2: not a results file of capmeter") as raised:
        Results.from_dict(saved)
    assert "Error" not in str(raised.value)


def test_a_truncated_results_file_is_said_to_be_truncated(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    results.save(path)
    content = path.read_text("utf-8")
    for end in range(20, len(content), 17):
        path.write_text(content[:end], "utf-8")
        with pytest.raises(InputError, match="the file ends in the middle"):
            Results.read(path)


@pytest.mark.parametrize("side", ["candidates", "references"])
def test_results_are_not_captions(results: Results, tmp_path: Path, side: str) -> None:
    path = tmp_path / "scores.json"
    results.save(path)
    with pytest.raises(InputError, match=r"scores.json: this is a results file of capmeter, expected captions"):
        score(load(path) if side == "candidates" else load({"i1": "a dog"}, references=path), "bleu-1")


def test_saved_values_belong_to_their_ids_in_any_order(results: Results) -> None:
    saved = json.loads(json.dumps(results.to_dict()))
    for each in saved["systems"]["captions"]["metrics"].values():
        for key in ("rows", "images"):
            if key in each:
                each[key] = dict(reversed(each[key].items()))
        each["part_items"] = {part: dict(reversed(items.items())) for part, items in each["part_items"].items()}
    read = Results.from_dict(saved)
    for name, scores in results.items():
        assert {p: dict(v) for p, v in read[name].part_items.items()} == {
            p: dict(v) for p, v in scores.part_items.items()
        }
    assert read.intervals(resamples=50) == results.intervals(resamples=50)


def test_a_results_file_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"r\.json: the JSON is nested too deeply"):
        Results.read(tmp_path / "r.json")


def test_whole_numbers_find_the_id_that_they_are_written_as() -> None:
    items = score(
        candidates={"391895": "a dog", "x": "y"}, references={"391895": ["a dog"], "x": ["z"]}, metrics="bleu-1"
    )["bleu-1"].items
    assert items[391895] == items[np.int64(391895)] == items["391895"] > 0.99
    assert 391895 in items and 7 not in items and True not in items
    with pytest.raises(KeyError, match="no caption has the id 7; ids are such as '391895', 'x'"):
        items[7]


def test_as_data_frames(results: Results) -> None:
    pandas = pytest.importorskip("pandas")
    frame = results.to_pandas(texts=True)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["image_id", "candidate", "references", "bleu-2", "rouge-l", "cider-d"]
    assert frame.loc["i0", "candidate"] == "a dog runs" and frame.loc["i1", "references"] == ["two cats sleep"]
    assert frame["rouge-l"].mean() == pytest.approx(results["rouge-l"].score, abs=1e-15)
    table = results.to_arrow()
    assert table.column_names == ["id", "image_id", "bleu-2", "rouge-l", "cider-d"]
    assert table.column("rouge-l").to_pylist() == list(results["rouge-l"].items.values())


def test_texts_of_unknown_captions_are_refused(results: Results) -> None:
    without = Results(list(results.values()), results.ids)
    with pytest.raises(InputError, match="texts are not known"):
        without.to_columns(texts=True)


def test_shown_in_a_notebook_and_in_a_terminal(results: Results) -> None:
    assert repr(results["rouge-l"]) == f"Scores(rouge-l: {results['rouge-l'].score:.4f}; 4 captions)"
    assert len(repr(results)) < 100 and len(repr(results["rouge-l"].items)) < 100
    rendered = Results([replace(results["rouge-l"], name="<b>", signature="a&b")], results.ids)._repr_html_()
    assert "<td>&lt;b&gt;</td>" in rendered and "<code>a&amp;b</code>" in rendered and "4 captions" in rendered


def test_several_systems_at_once(tmp_path: Path) -> None:
    references = {"1": ["a dog runs"], "2": ["two cats"]}
    good, bad = ({"1": [a], "2": [b]} for a, b in (("a dog runs", "two cats"), ("x", "two cats")))
    for name, content in (("good", good), ("bad", bad), ("references", references)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    result = score(
        {name: tmp_path / f"{name}.json" for name in ("good", "bad")},
        "rouge-l",
        references=tmp_path / "references.json",
    )
    assert {name: each["rouge-l"].score for name, each in result.items()} == {"good": 1.0, "bad": 0.5}
    sets = {name: load(content, references) for name, content in (("good", good), ("bad", bad))}
    assert score(sets, "rouge-l")["bad"]["rouge-l"].items["1"] == 0.0
    one = score({"1": ["a dog runs"], "2": ["two cats"]}, "rouge-l", references=references)  # captions by id
    assert isinstance(one, Results) and one["rouge-l"].score == 1.0


@pytest.mark.parametrize(
    "call",
    [lambda: score("a dog", "a dog runs"), lambda: score("a dog", references="a dog runs"), lambda: score("a dog")],
)
def test_text_in_place_of_files_is_refused_with_an_example(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"'a dog' is not a file; .*score\(candidates=\[\"a dog\"\]"):
        call()


def test_a_missing_file_is_still_a_missing_file() -> None:
    with pytest.raises(InputError, match="there is no such file"):
        score("my captions.json", "rouge-l")
