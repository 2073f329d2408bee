"""`capmeter schema`: the JSON Schema of results."""

from __future__ import annotations

import json

from support.command_line import capmeter

from capmeter.evaluation.results import load_json_schema


def test_the_schema_is_printed() -> None:
    assert json.loads(capmeter("schema").stdout) == load_json_schema()
