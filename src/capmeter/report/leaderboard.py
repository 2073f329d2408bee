"""The leaderboard: all metrics on all benchmarks, made of results files of `capmeter meta --output`, as one page.

Rows of analysis `held_out` in such a file are values that were measured once, on judgments that nobody had seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from capmeter._version import __version__
from capmeter.core.errors import CapmeterError, InputError
from capmeter.core.messages import describe_error
from capmeter.core.output_files import write_atomic
from capmeter.evaluation.registry import parse
from capmeter.judgments.benchmarks import all_benchmarks

PAGE = "leaderboard.html"
_BASELINES = {"length": "number of words", "human_level": "people"}
_SHOWN = ("results", "published", "published_otherwise", "held_out", *_BASELINES)
_TEMPLATES = Path(__file__).parent / "templates"


def write_leaderboard(folder: Path) -> Path:
    """Writes the page of the results files in a folder, into the folder.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    head = (
        '<!doctype html><html lang=en><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        "<title>Metrics of captions: agreement with people</title><h1>Agreement with people</h1>"
    )
    note = (
        f"<p>capmeter {__version__}. Values × 100 with 95% intervals; small: published values with their source, and "
        "held-out values. To add a metric, write its results into the folder "
        "(<code>capmeter meta … --output FILE.csv</code>), and make the page again.</p>"
    )
    write_atomic(folder / PAGE, f"{head}{note}{leaderboard_html(folder)}</html>\n")
    return folder / PAGE


def leaderboard_html(folder: Path) -> str:
    """The sortable table of the results files in a folder, as a piece of HTML with its style and script.

    Raises:
        InputError: there is none, or one cannot be read.
    """
    rows = [row for path in _find_files(folder) for row in _read_rows(path)]
    columns = sorted({(row["benchmark"], row["protocol"]) for row in rows})
    cells: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in rows:
        name = row["metric"] if row["analysis"] not in _BASELINES else _BASELINES[row["analysis"]]
        cell = cells.setdefault(name, {}).setdefault((row["benchmark"], row["protocol"]), {})
        kind = (
            "results" if row["analysis"] in _BASELINES else row["analysis"].replace("published_otherwise", "published")
        )
        cell.setdefault(kind, row)
    titles = {name: each.title for name, each in all_benchmarks().items()}
    heads = [_head("metric", ""), _head("reads", "")]
    for benchmark, protocol in columns:
        statistic = re.search(r"statistic=([\w-]+)", protocol)
        title = f"{titles.get(benchmark, benchmark)}; {protocol}"
        heads.append(_head(benchmark, title, statistic[1] if statistic else protocol.partition("(")[0]))
    lines = [_line(name, cells[name], columns) for name in sorted(cells, key=lambda name: _order(cells[name], columns))]
    table = (
        f"<table class=board><thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{chr(10).join(lines)}\n</tbody></table>"
    )
    style, script = ((_TEMPLATES / f"leaderboard.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return f"<style>\n{style}</style>\n<div class=board-scroll tabindex=0>{table}</div>\n<script>\n{script}</script>\n"


def _find_files(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.glob("*")) if path.suffix in (".csv", ".jsonl", ".parquet")]
    if not files:
        raise InputError(
            f"{folder}: no results (.csv, .jsonl or .parquet); `capmeter meta … --output FILE` writes them"
        )
    return files


def _read_rows(path: Path) -> Iterable[Mapping[str, Any]]:
    """The rows of a results file that the table shows: those of all categories together."""
    import pyarrow
    from pyarrow import csv, json, parquet

    read = {".csv": csv.read_csv, ".jsonl": json.read_json, ".parquet": parquet.read_table}[path.suffix]
    try:
        rows: list[dict[str, Any]] = read(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as problem:
        raise InputError(f"{path}: not a table of results ({describe_error(problem)})") from None
    if missing := {"benchmark", "protocol", "analysis", "metric", "value"} - set(rows[0] if rows else ()):
        raise InputError(
            f"{path}: no column {', '.join(sorted(missing))}; expected what `capmeter meta --output` writes"
        )
    shown = [row for row in rows if row["analysis"] in _SHOWN and row.get("subset", "all") in ("all", "", None)]
    return [row for row in shown if isinstance(row["value"], int | float)]


def _order(cells: Mapping[tuple[str, str], Mapping[str, Any]], columns: Iterable[tuple[str, str]]) -> float:
    """Minus the mean of a metric's values, over those that it has."""
    values = [cells[column]["results"]["value"] for column in columns if "results" in cells.get(column, {})]
    return -sum(values) / len(values) if values else 0.0


def _head(text: str, title: str, below: str = "") -> str:
    small = f"<small>{escape(below)}</small>" if below else ""
    return (
        f'<th scope=col aria-sort=none title="{escape(title)}"><button type=button>{escape(text)}</button>{small}</th>'
    )


def _line(name: str, cells: Mapping[tuple[str, str], Mapping[str, Any]], columns: Iterable[tuple[str, str]]) -> str:
    """The row of a metric."""
    is_baseline = name in _BASELINES.values()
    parts = [f"<td>{escape(name)}</td><td>{'' if is_baseline else escape(_describe_inputs(name))}</td>"]
    for column in columns:
        cell = cells.get(column, {})
        own = cell.get("results")
        text = "" if own is None else f"{own['value']:.1f}"
        if own is not None and isinstance(own.get("low"), float):
            text += f"<small>[{own['low']:.1f}, {own['high']:.1f}]</small>"
        if "held_out" in cell:
            text += f"<small>held out {cell['held_out']['value']:.1f}</small>"
        if "published" in cell:
            source = escape(cell["published"].get("source") or "published")
            text += f"<small>{source}: {cell['published']['value']:g}</small>"
        parts.append(f'<td data-value="{own["value"] if own else -1000}">{text}</td>')
    return f"<tr{' class=base' if is_baseline else ''}>{''.join(parts)}</tr>"


def _describe_inputs(name: str) -> str:
    """What a metric reads beside the caption; "" for scores of others."""
    try:
        metric = parse(name)
        model = {"neural", "vision", "judges"} & set(metric.extras)
        return ", ".join([*sorted(metric.needs), *(["a model"] if model else [])]) or "the caption"
    except CapmeterError:
        return ""
