"""Notes as text: ids are not read as numbers of captions."""

from __future__ import annotations

from capmeter.report.score_table import describe_note


def test_an_id_is_not_read_as_a_number_of_captions() -> None:
    assert describe_note("truncated", ["2"], {"2"}) == "truncated: caption 2"
    described = describe_note("truncated", list("1234567"), set("1234567"))
    assert described == "truncated: 7 captions: 1, 2, 3, 4, 5 and 2 more"
    assert describe_note("skipped_without_references", ["9"]) == "skipped without references: caption 9"


def test_entries_that_are_no_captions_are_listed_as_they_are() -> None:
    assert describe_note("unknown_fields", ["licence", "url"], {"1"}) == "unknown fields: licence, url"
