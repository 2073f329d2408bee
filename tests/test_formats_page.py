"""docs/formats.md says what the code reads and writes."""

from __future__ import annotations

import re
from pathlib import Path

from capmeter.captions.layouts import FIELDS, OTHER_NAMES
from capmeter.captions.reading import NAMES
from capmeter.evaluation.results import SCHEMA, load_json_schema

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "formats.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_format_and_every_name_of_a_column_is_explained() -> None:
    captions = PAGE.partition("## Results")[0]
    assert [name for name in (*NAMES, *FIELDS, *OTHER_NAMES) if f"`{name}`" not in captions] == []


def test_every_key_of_the_results_is_explained_and_no_other() -> None:
    results = PAGE.partition("## Results")[2].partition("In Python:")[0]
    schema = load_json_schema()
    for kind in ("metric", "system"):
        rows = results.partition(f"| of a {kind} |")[2].partition("\n\n")[0]
        message = {
            name
            for line in rows.splitlines()
            for name in re.findall(r"`([^`]+)`", line.split("|")[1] if "|" in line else "")
        }
        assert message == set(schema["$defs"][kind]["properties"])
    assert set(schema["$defs"]["captions"]["properties"]) <= NAMED
    assert f'"schema": {SCHEMA}' in PAGE and schema["properties"]["schema"]["const"] == SCHEMA
