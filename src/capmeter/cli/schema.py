"""`capmeter schema`: the JSON Schema of results."""

from __future__ import annotations

import json

import typer

from capmeter.cli.output import write
from capmeter.metrics.results_file import json_schema

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the results of `score --output` and `--format json`.

    **Example**

    `capmeter schema > results.schema.json`
    """
    write(json.dumps(json_schema(), indent=2) + "\n")
