"""`capmeter list`: the metrics, what each measures and what it needs."""

from __future__ import annotations

import json
from dataclasses import fields

import typer

from capmeter.cli.output import FORMAT_HELP, checked_format, show
from capmeter.metrics.availability import availability
from capmeter.metrics.base import Metric
from capmeter.metrics.registry import metric_class, names
from capmeter.named import value_text
from capmeter.report.tables import Table

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")


@app.command("list")
def list_metrics(
    format: str = typer.Option("table", "--format", "-f", help=FORMAT_HELP),
) -> None:
    """List the metrics: their parameters with defaults, what they measure, and what they need.

    **Example**

    `capmeter list --format json`
    """
    checked_format(format)
    rows, data = [], {}
    for name in names():
        cls, fixed = metric_class(name)
        parameters = {each.name: value_text(each.default) for each in fields(cls) if each.name not in fixed}
        missing = availability(cls.EXTRA)
        needs = f"[{cls.EXTRA}]" if cls.EXTRA else ""
        rows.append(
            [
                name,
                cls.SUMMARY,
                " ".join(f"{key}={value}" for key, value in parameters.items()),
                needs,
                "yes" if missing is None else "no",
                "yes" if cls.explain is not Metric.explain else "",
            ]
        )
        data[name] = {
            "summary": cls.SUMMARY,
            "parameters": parameters,
            "extra": cls.EXTRA,
            "ready": missing is None,
            "references": cls.REFERENCES,
            "explains": cls.explain is not Metric.explain,
        }
    columns = ["metric", "measures", "parameters and defaults", "extra", "ready", "explains"]
    table = Table("Metrics (`capmeter doctor` says how to get what is not ready)", columns, rows, [False] * 6)
    show(table, json.loads(json.dumps(data)), format)
