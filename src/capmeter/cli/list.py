"""`capmeter list`: the metrics and transforms, what each takes, and what it needs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import MISSING
from typing import Any

import typer

from capmeter.cli.options import Format
from capmeter.cli.output import show
from capmeter.errors import CapmeterError
from capmeter.judgments.protocol import Protocol
from capmeter.meta.significance_tests import TESTS
from capmeter.metrics.availability import availability
from capmeter.metrics.base import Metric
from capmeter.metrics.registry import METRICS
from capmeter.named import Named, Parameter, parameters_of
from capmeter.registry import Registry
from capmeter.report.tables import Table
from capmeter.transforms.registry import TRANSFORMS

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
_WIDE = 120  # columns of a terminal below which parameters are left to `capmeter list NAME`


@app.command("list")
def list_names(
    name: str = typer.Argument(
        "metrics",
        help="metrics, transforms, tests, or one name (of a metric, a transform, a test, or protocol) for its "
        "parameters.",
    ),
    format: Format = "table",
) -> None:
    """List the metrics, the transforms or the tests of significance, or the parameters of one of them.

    **Examples**

    `capmeter list`

    `capmeter list cider-d`

    `capmeter list transforms --format json`
    """
    if name == "metrics":
        columns = ["metric", "measures", "parameters and defaults", "extra", "ready", "explains"]
        title = (
            "Metrics (`capmeter list NAME` explains parameters, `capmeter doctor` shows how to install what is missing)"
        )
        _show_all(title, columns, METRICS, format)
    elif name == "transforms":
        columns = ["transform", "what it does", "parameters and defaults", "ready"]
        _show_all("Transforms (`capmeter list NAME` explains their parameters)", columns, TRANSFORMS, format)
    elif name == "tests":
        columns = ["test", "what it does", "parameters and defaults", "ready"]
        _show_all("Tests of significance (`capmeter compare --test NAME`)", columns, TESTS, format)
    elif name == "protocol":
        _show_one("protocol", Protocol, {"name"}, format)
    else:
        known: tuple[Registry[Any], ...] = (METRICS, TRANSFORMS, TESTS)
        registry = next((each for each in known if each.knows(name)), METRICS)
        _show_one(registry.label(name), registry.kind(name), registry.entry(name).fixed, format)


def _show_all(title: str, columns: list[str], registry: Registry[Any], format: str) -> None:
    rows, data = [], {}
    for name in registry.names():
        why = registry.trouble(name)
        row, known = _known(registry, name) if why is None else ([f"not ready: {why}"], {"ready": False, "why": why})
        rows.append([registry.label(name), *row, *[""] * (len(columns) - 1 - len(row))])
        data[name] = {"package": registry.entry(name).package, **known}
    for name, packages in registry.shadowed().items():
        why = "not ready: the name is capmeter's own"
        rows.append([f"{name} (from {packages})", why, *[""] * (len(columns) - 2)])
    note = f"planned, and not in this version yet: {', '.join(registry.planned())}" if registry.planned() else ""
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE:
        place = columns.index("parameters and defaults")
        columns, rows = [*columns[:place], *columns[place + 1 :]], [[*row[:place], *row[place + 1 :]] for row in rows]
    show(Table(title, columns, rows, [False] * len(columns), note), data, format)


def _known(registry: Registry[Any], name: str) -> tuple[list[str], dict[str, Any]]:
    """The table row of a name, and the same as JSON values."""
    kind, fixed = registry.kind(name), registry.entry(name).fixed
    parameters = {key: each for key, each in parameters_of(kind).items() if key not in fixed}
    row = [kind.SUMMARY, " ".join(f"{key}={_default(each)}" for key, each in parameters.items())]
    data: dict[str, Any] = {
        "summary": kind.SUMMARY,
        "parameters": {key: each.to_dict() for key, each in parameters.items()},
    }
    if not issubclass(kind, Metric):
        return [*row, "yes"], data | {"ready": True}
    needs, extra, explains = list[str](), kind.EXTRA, kind.explain is not Metric.explain
    if not any(each.default is MISSING for each in parameters.values()):
        try:
            metric = registry.parse(name)
            extras = metric.extras
            needs, extra = sorted(metric.needs), "all" if "all" in extras else ",".join(extras) or None
        except CapmeterError as problem:  # a metric whose weights are not here says so in its own row
            data["why"] = str(problem)
    ready = availability(extra) is None and "why" not in data
    row += [f"[{extra}]" if extra else "", "yes" if ready else "no", "yes" if explains else ""]
    data |= {"extra": extra, "ready": ready, "needs": needs, "explains": explains}
    return row, data


def _show_one(label: str, kind: type[Named], fixed: Any, format: str) -> None:
    parameters = {key: each for key, each in parameters_of(kind).items() if key not in fixed}
    rows = [[key, each.expected, _default(each), each.help] for key, each in parameters.items()]
    data = {"summary": kind.SUMMARY, "parameters": {key: each.to_dict() for key, each in parameters.items()}}
    title = f"{label}: {kind.SUMMARY}"
    show(Table(title, ["parameter", "is", "default", "meaning"], rows, [False] * 4), data, format)


def _default(parameter: Parameter) -> str:
    return parameter.to_dict()["default"] or "…"
