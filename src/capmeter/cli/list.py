"""`capmeter list`: the metrics and perturbations, what each takes, and what it needs."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, replace
from typing import Any

from capmeter.cli.command import Application
from capmeter.cli.options import format_option
from capmeter.cli.output import show
from capmeter.core.assets import missing_install_command
from capmeter.core.errors import CapmeterError
from capmeter.core.named import Named, parameters_of
from capmeter.core.options import argument
from capmeter.core.registry import Registry
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import METRICS
from capmeter.judgments.protocol import Protocol
from capmeter.report.tables import Table
from capmeter.transforms.degradations import TRANSFORMS

app = Application()
WIDTH = 150
# what can be listed: its registry, the table's title and the headings of its columns
LISTS: dict[str, tuple[Registry[Any], str, list[str]]] = {
    "metrics": (
        METRICS,
        "Metrics (`capmeter list NAME`: parameters; `capmeter doctor`: how to install what is missing)",
        ["metric", "measures", "needs", "explains"],
    ),
    "transforms": (TRANSFORMS, "Transforms (`capmeter list NAME`: parameters)", ["transform", "what it does", "ready"]),
}


@dataclass(frozen=True, kw_only=True)
class _ListOptions:
    """What to list, and how."""

    name: str = argument(
        "metrics", "metrics, transforms, or one name (of a metric, a transform, or protocol) for its parameters."
    )
    format: str = format_option()


@app.command("list")
def list_names(options: _ListOptions) -> None:
    """List the metrics or the transforms, or the parameters of one of them.

    **Examples**

    `capmeter list`

    `capmeter list cider-d`

    `capmeter list transforms --format json`
    """
    name = options.name
    if name in LISTS:
        table, data = _list_table(*LISTS[name])
    elif name == "protocol":
        table, data = _parameter_table("protocol", Protocol, {"name"})
    else:
        _show_parameters(name, options.format)
        return
    show(table, data, options.format, wrap=WIDTH)


def _show_parameters(name: str, format: str) -> None:
    """The parameters of what has this name: a metric or a transform; both where several have it."""
    registries = {list_name: registry for list_name, (registry, _, _) in LISTS.items()}
    kinds = {list_name: registry for list_name, registry in registries.items() if name in registry}
    if not kinds:  # the error is of those with a similar name
        kinds = {key: each for key, each in registries.items() if each.similar(name)} or registries
    tables, contents = [], {}
    for list_name, registry in kinds.items():
        implied_parameters = registry.entry(name).implied_parameters
        table, contents[list_name] = _parameter_table(registry.label(name), registry.class_of(name), implied_parameters)
        title = f"{table.title} ({list_name[:-1]})" if len(kinds) > 1 else table.title
        notes = [] if table.rows else ["no parameters"]
        if misleads := getattr(registry.class_of(name), "MISLEADS", ""):
            notes.append(f"When it misleads: {misleads}")
        tables.append(replace(table, title=title, note="\n".join(notes)))
    first_name, *other_names = contents
    data = contents[first_name] | (
        {"also": {list_name: contents[list_name] for list_name in other_names}} if other_names else {}
    )
    for table in tables[:1] if format == "json" else tables:
        show(table, data, format, wrap=WIDTH)


def _list_table(registry: Registry[Any], title: str, columns: list[str]) -> tuple[Table, dict[str, Any]]:
    """The table of a registry's names, and the same as JSON values."""
    table_rows, data = [], {}
    for name in registry.names():
        problem = registry.load_error(name)
        if problem is None:
            table_row, description = _describe(registry, name)
        else:
            table_row, description = [f"not ready: {problem}"], {"ready": False, "why": problem}
        table_rows.append([registry.label(name), *table_row, *[""] * (len(columns) - 1 - len(table_row))])
        data[name] = {"package": registry.entry(name).package, **description}
    for name, packages in registry.overridden().items():
        table_row = [f"{name} (from {packages})", "not ready: the name is capmeter's own"]
        table_rows.append([*table_row, *[""] * (len(columns) - 2)])
    return Table(title, columns, table_rows, [False] * len(columns)), data


def _describe(registry: Registry[Any], name: str) -> tuple[list[str], dict[str, Any]]:
    """The table row of a name without the name itself, and the same as JSON values."""
    named_class, implied_parameters = registry.class_of(name), registry.entry(name).implied_parameters
    parameters = {key: each for key, each in parameters_of(named_class).items() if key not in implied_parameters}
    _, data = _parameter_table(name, named_class, implied_parameters)
    if not issubclass(named_class, Metric):
        return [named_class.SUMMARY, "yes"], data | {"ready": True}
    needed_inputs, extra, explains = list[str](), named_class.EXTRA, named_class.explain is not Metric.explain
    if not any(each.default is MISSING for each in parameters.values()):
        try:
            metric = registry.parse(name)
            extras = metric.extras
            needed_inputs, extra = sorted(metric.needs), "all" if "all" in extras else ",".join(extras) or None
        except CapmeterError as problem:  # a metric whose weights are missing says so in its own row
            data["why"] = str(problem)
    is_ready = missing_install_command(extra) is None and "why" not in data
    installation = " ".join([*([f"[{extra}]"] if extra else []), *([] if is_ready else ["missing"])])
    table_row = [named_class.SUMMARY, installation, "yes" if explains else ""]
    return table_row, data | {"extra": extra, "ready": is_ready, "needs": needed_inputs, "explains": explains}


def _parameter_table(label: str, named_class: type[Named], implied_parameters: Any) -> tuple[Table, dict[str, Any]]:
    """The table of the parameters of one name, and the same as JSON values."""
    parameters = {key: each for key, each in parameters_of(named_class).items() if key not in implied_parameters}
    parameter_rows = [
        [key, each.expected, each.to_dict()["default"] or "…", each.help] for key, each in parameters.items()
    ]
    table = Table(
        f"{label}: {named_class.SUMMARY}", ["parameter", "type", "default", "meaning"], parameter_rows, [False] * 4
    )
    return table, {
        "summary": named_class.SUMMARY,
        "parameters": {key: each.to_dict() for key, each in parameters.items()},
    }
