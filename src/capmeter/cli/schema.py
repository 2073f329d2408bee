"""`capmeter schema`: the JSON Schema of results."""

from __future__ import annotations

import json

from capmeter.cli.command import Application
from capmeter.cli.output import write
from capmeter.evaluation.results import load_json_schema

app = Application()


@app.command()
def schema() -> None:
    """Print the JSON Schema of the results of `score --output` and `--format json`.

    **Example**

    `capmeter schema > results.schema.json`
    """
    write(json.dumps(load_json_schema(), indent=2) + "\n")
