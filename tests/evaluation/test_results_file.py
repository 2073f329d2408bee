"""Results files: written, read, described by the schema, damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.caption_sets import caption_set

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import (
    Results,
    _captions_from_dict,
    _captions_to_dict,
    from_dict,
    load_json_schema,
    read_all,
    save_all,
    to_dict,
)
from capmeter.evaluation.runner import evaluate, score
from capmeter.meta.system_ranking import rank_systems
from capmeter.report.score_table import scores_to_dict

jsonschema = pytest.importorskip("jsonschema", reason="the group dev brings jsonschema")
ROWS = [("a dog runs", ["a dog runs fast"]), ("two cats", ["two cats sleep"]), ("", ["a man sits"]), ("x", ["y"])]


@pytest.fixture(scope="module")
def results() -> Results:
    result = evaluate(caption_set(ROWS), parse_list("bleu-2,rouge-l,cider-d,mean(bleu-1,rouge-l)"))
    result.command = "capmeter score x.json"
    return result


def valid(saved: Any) -> None:
    jsonschema.validate(json.loads(json.dumps(saved)), load_json_schema(), cls=jsonschema.Draft202012Validator)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(load_json_schema())


def test_one_system_and_many_have_one_layout_and_fit_the_schema(results: Results, tmp_path: Path) -> None:
    for systems in ({"a": results}, {"a": results, "b\x1b[31m\n": results}):
        save_all(systems, tmp_path / "scores.json")
        saved = json.loads((tmp_path / "scores.json").read_text())
        valid(saved)
        assert list(saved) == ["capmeter", "schema", "systems"] and saved["schema"] == 1
        assert list(saved["systems"]) == list(systems)
        each = saved["systems"]["a"]
        assert set(each) == {"metrics", "images", "notes", "captions", "command"}
        assert list(each["metrics"]["bleu-2"]) == [
            *("score", "signature", "parts", "items", "part_items", "notes", "rows")
        ]
        assert each["metrics"]["bleu-2"]["notes"] == {
            "empty candidate": ["i2"],
            "fewer than 2 words: no 2-gram": ["i3"],
        }
        printed = scores_to_dict(systems, rank_systems(systems, resamples=20))
        valid(printed)
        assert list(printed) == list(saved) and list(printed["systems"]) == list(systems)
        assert printed["systems"]["a"]["metrics"]["bleu-2"]["score"] == results["bleu-2"].score


def test_what_is_read_gives_the_same_file_again(results: Results, tmp_path: Path) -> None:
    save_all({"a": results, "b": results}, tmp_path / "one.json")
    save_all(read_all(tmp_path / "one.json"), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_captions_with_people_and_pictures_fit_the_schema() -> None:
    row = {"id": "1", "image_id": "1", "candidate": "a dog", "references": ["the dog"], "image": "a.png", "human": [1]}
    from capmeter.captions.load import load

    valid(score(load([row]), "bleu-1").to_dict())


@pytest.mark.parametrize(
    "damage",
    [
        lambda saved: saved.pop("schema"),
        lambda saved: saved.update(schema=2),
        lambda saved: saved.update(metrics={}),
        lambda saved: saved["systems"]["a"].pop("metrics"),
        lambda saved: saved["systems"]["a"]["metrics"]["bleu-2"].update(score="high"),
        lambda saved: saved["systems"]["a"]["metrics"]["bleu-2"]["items"].update(i1=None),
        lambda saved: saved["systems"]["a"]["captions"]["candidates"].update(i1=-1),
    ],
)
def test_what_the_schema_forbids_is_not_read_either(results: Results, damage: Any) -> None:
    saved = json.loads(json.dumps(to_dict({"a": results})))
    damage(saved)
    with pytest.raises(jsonschema.ValidationError):
        valid(saved)
    if "metrics" not in saved:  # an additional key does no harm
        with pytest.raises(InputError):
            from_dict(saved)


def test_what_format_json_prints_has_no_captions_to_read(results: Results) -> None:
    with pytest.raises(InputError, match="lacks the scores of single captions"):
        from_dict(scores_to_dict({"a": results}))


def test_another_version_of_the_layout_is_named() -> None:
    with pytest.raises(
        InputError, match=r"its layout is schema 7 \(of capmeter 9\.0\), but this version reads schema 1"
    ):
        from_dict({"capmeter": "9.0", "schema": 7, "systems": {}}, "x.json")


CAPTIONS = [
    Caption("a#0", "a", "a dog", ("a dog", "the dog"), image="a.jpg", human=(1.0, 0.5)),
    Caption("a#1", "a", "", ("a dog", "the dog")),
    Caption("b", "b", "half \ud83d", ()),
]


def test_captions_survive_json() -> None:
    captions = CaptionSet.from_captions(CAPTIONS)
    saved = json.loads(json.dumps(_captions_to_dict(captions)))
    assert list(_captions_from_dict(saved, captions.ids, captions.image_ids)) == CAPTIONS
    assert saved["sentences"].count("a dog") == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda saved: saved["captions"]["sentences"].pop(),
        lambda saved: saved["captions"].pop("references"),
        lambda saved: saved["captions"]["candidates"].pop("0"),
        lambda saved: saved["captions"].update(sentences=[1, 2, 3]),
        lambda saved: saved["metrics"]["bleu-1"]["rows"].pop("0"),
        lambda saved: saved["metrics"]["bleu-1"].update(items=[1]),
        lambda saved: saved["metrics"]["bleu-1"].update(signature=["bleu-1"]),
        lambda saved: saved["metrics"]["bleu-1"].update(notes={"why": 1}),
        lambda saved: saved.update(notes="text"),
    ],
)
def test_damaged_files_are_refused(damage) -> None:  # type: ignore[no-untyped-def]
    saved = score(candidates=["a dog"], references=[["the dog", "one dog"]], metrics="bleu-1").to_dict("one")
    Results.from_dict(saved)
    damage(saved["systems"]["one"])
    with pytest.raises(InputError, match="not a results file"):
        Results.from_dict(saved)


def test_systems_keep_their_names_captions_and_command(tmp_path) -> None:  # type: ignore[no-untyped-def]
    one = score(candidates=["a dog", "a cat"], references=[["the dog"], ["a cat"]], metrics="bleu-2,rouge-l")
    one.command = "capmeter score 'a b.json'"
    save_all({"first": one}, tmp_path / "one.json")
    save_all({"first": one, "second": one}, tmp_path / "two.json")
    assert list(read_all(tmp_path / "one.json")) == ["first"]
    result = read_all(tmp_path / "two.json")
    assert list(result) == ["first", "second"]
    second = result["second"]
    assert second.command == one.command
    assert second.captions is not None and [each.candidate for each in second.captions] == ["a dog", "a cat"]
    assert second.intervals(resamples=50) == one.intervals(resamples=50)
    with pytest.raises(InputError, match="contains 2 systems"):
        Results.read(tmp_path / "two.json")


def test_a_file_without_rows_gives_scores_but_no_intervals() -> None:
    saved = score(candidates=["a dog"], references=[["the dog"]], metrics="bleu-1").to_dict("one")
    del saved["systems"]["one"]["metrics"]["bleu-1"]["rows"]
    results = Results.from_dict(saved)
    assert results["bleu-1"].items["0"] == pytest.approx(0.5)
    with pytest.raises(InputError, match="without rows to resample"):
        results.intervals()


def test_numbers_near_the_largest_of_a_float_name_the_caption(results: Results) -> None:
    saved = json.loads(json.dumps(to_dict({"a": results})))
    items = saved["systems"]["a"]["metrics"]["rouge-l"]["items"]
    second = list(items)[1]
    items[second] = 1e308
    with pytest.raises(InputError, match=rf"mine.json, rouge-l: .*\({second} has no finite number of at most 1e.100\)"):
        from_dict(saved, "mine.json")
