from __future__ import annotations

import json

import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.caption_serialization import captions_from_dict, captions_to_dict
from capmeter.evaluation.scores import Results, read_all, save_all
from capmeter.evaluation.scoring import score

ROWS = [
    Caption("a#0", "a", "a dog", ("a dog", "the dog"), image="a.jpg", human=(1.0, 0.5)),
    Caption("a#1", "a", "", ("a dog", "the dog")),
    Caption("b", "b", "half \ud83d", ()),
]


def test_captions_survive_json() -> None:
    captions = CaptionSet.from_captions(ROWS)
    saved = json.loads(json.dumps(captions_to_dict(captions)))
    assert list(captions_from_dict(saved, captions.ids, captions.image_ids)) == ROWS
    assert saved["sentences"].count("a dog") == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda saved: saved["captions"]["sentences"].pop(),
        lambda saved: saved["captions"].pop("references"),
        lambda saved: saved["captions"]["candidates"].pop("0"),
        lambda saved: saved["captions"].update(sentences=[1, 2, 3]),
        lambda saved: saved["metrics"]["bleu-1"]["rows"].pop("0"),
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
