"""Notes as text: ids are not read as numbers of captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capmeter.captions.load import load
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.meta.comparison import compare
from capmeter.meta.system_ranking import rank_systems
from capmeter.report.comparison import difference_table
from capmeter.report.page import write_page
from capmeter.report.score_table import describe_note, score_table


def test_an_id_is_not_read_as_a_number_of_captions() -> None:
    assert describe_note("truncated", ["2"], {"2"}) == "truncated: caption 2"
    described = describe_note("truncated", list("1234567"), set("1234567"))
    assert described == "truncated: 7 captions: 1, 2, 3, 4, 5 and 2 more"
    assert describe_note("skipped_without_references", ["9"]) == "skipped without references: caption 9"


@pytest.mark.parametrize(
    ("row", "noun"),
    [
        ({"video_id": "v1", "caption": "a dog", "references": ["a dog"]}, "video"),
        ({"audio_id": "s1.wav", "caption": "a dog", "references": ["a dog"]}, "sound"),
        ({"image_id": "1", "timestamps": [[0, 1]], "sentences": ["a dog"], "references": ["a dog"]}, "video"),
        ({"image_id": "1", "timestamps": [[0, 1, 2, 3]], "sentences": ["a dog"], "references": ["a dog"]}, "image"),
        ({"image_id": "1", "caption": "a dog", "references": ["a dog"]}, "image"),
    ],
)
def test_videos_are_called_videos_and_sounds_sounds(row: dict[str, Any], noun: str, tmp_path: Path) -> None:
    systems = {name: evaluate(load([row]), parse_list("bleu-1")) for name in ("one", "two")}
    table = score_table(systems, rank_systems(systems, resamples=10))
    assert table.title == f"1 caption of 1 {noun} each" and f"{noun}s resampled" in table.note
    page = write_page(systems, tmp_path / "page.html", resamples=10).path.read_text("utf-8")
    assert f"2 captions of 1 {noun} by 2 systems" in page and f"10 resamples of {noun}s" in page
    comparison = compare({name: load([row]) for name in systems}, "bleu-1", resamples=10, permutations=100)
    assert f"1 {noun} each" in difference_table(comparison).title and f"by {noun}" in difference_table(comparison).note


def test_entries_that_are_no_captions_are_listed_as_they_are() -> None:
    assert describe_note("unknown_fields", ["licence", "url"], {"1"}) == "unknown fields: licence, url"
