"""Published values of metrics on benchmarks, x 100, with their source: printed beside ours, never instead.

Only values whose protocol is known are listed; a value under another, or an unknown, protocol would mislead. A value of
BERTScore with RoBERTa says nothing about BERTScore with MiniLM: values carry the encoder or word vectors that they were
computed with, and are labelled where these differ from ours.

A file of `data/published` has the tables of one paper; a table is named after its benchmark and protocol:

    {"source": "Yi et al. 2020",
     "tables": {"pascal50s/yi2020": {"columns": ["HC", "HI", "HM", "MM", "value"],
                                     "rows": {"bertscore@bert": [64.4, 97.9, 96.6, 59.0, 79.5]},
                                     "notes": {"bertscore@bert": "a remark"}}}}

A row is a metric as `parse` prints it, or one of the paper's `external` metrics, whose scores capmeter does not compute
but reads (`meta --scores`). One that rests on an encoder or on word vectors has `@` and their name, and nothing after
the `@` where the source does not say. The column `value` is in hundredths, `p` is its p; every other column is a
category. Rows that no protocol tried comes within two points of are left out (docs/benchmarks.md has them).

>>> published("coco2015", "yi2020", "bertscore(encoder=bert)")
PublishedValue(value=80.7, source='Yi et al. 2020', made_with='bert', agrees=True, groups={}, note='p 0.001')
>>> found = published("coco2015", "yi2020", "bertscore")
>>> found.made_with, found.agrees  # by default it runs with minilm
('bert', False)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.assets import added_folders
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse

if TYPE_CHECKING:
    from importlib.abc import Traversable

_ENCODER_PARAMETERS = ("encoder", "vectors")
# word vectors as their authors distribute them (Sharif et al. 2019, Tables 7.1 and 8.1)
_VECTOR_FILES = {"glove.840B.300d": "glove", "GoogleNews-vectors-negative300": "word2vec", "wiki.en": "fasttext"}
_ROUNDING = 0.1  # a mean of rounded columns may differ from the rounded mean by this much


@dataclass(frozen=True)
class PublishedValue:
    """A published value and who published it.

    `made_with`: the encoder or vectors, "" where the metric has none, "not stated" where the source does not say;
    `agrees`: whether our score was computed with the same. `groups`: the values of the categories.
    """

    value: float
    source: str
    made_with: str = ""
    agrees: bool = True
    groups: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


Tables = Mapping[str, Sequence[Mapping[str, Any]]]
"""Benchmark/protocol → the tables of papers: `source`, `rows` (name → column → number, no empty cells), `notes`."""


def read_tables(*folders: Traversable) -> Tables:
    """The tables of all JSON files in these folders, by name (several papers may have values under one protocol)."""
    tables: dict[str, list[dict[str, Any]]] = {}
    table_files = [each for folder in folders for each in folder.iterdir() if each.name.endswith(".json")]
    for table_file in sorted(table_files, key=lambda each: each.name):
        paper = json.loads(table_file.read_text(encoding="utf-8"))
        for table_name, table in paper["tables"].items():
            rows = {
                row_name: {name: cell for name, cell in zip(table["columns"], cells, strict=True) if cell is not None}
                for row_name, cells in table["rows"].items()
            }
            tables.setdefault(table_name, []).append(
                {"source": paper["source"], "rows": rows, "notes": table.get("notes", {})}
            )
    return tables


@cache
def library_tables() -> Tables:
    """The tables of the library and of installed packages (group `capmeter.published`), named benchmark/protocol."""
    return read_tables(files("capmeter") / "data" / "published", *added_folders("published"))


def published(benchmark: str, protocol: str, metric: str) -> PublishedValue | None:
    """The published value of a metric (its text form) on a benchmark under an unchanged protocol.

    But for the encoder or vectors the metric must be at its defaults. Of several values, one computed with the same
    encoder is preferred; another paper's other value is in its note.

    Args:
        benchmark: its name.
        protocol: the name of one of its protocols.
        metric: its text form.
    """
    metric_name, made_with = _split_encoder(metric)
    published_values = [
        _published_value(table, row_name, made_with)
        for table in library_tables().get(f"{benchmark}/{protocol}", ())
        for row_name in table["rows"]
        if row_name.partition("@")[0] == metric_name
    ]
    published_values.sort(key=lambda each: not each.agrees)
    if not published_values:
        return None
    others = [
        f"{each.source} has {each.value:g}" + (f" ({each.note})" if each.note else "")
        for each in published_values[1:]
        if each.agrees == published_values[0].agrees
        and each.source != published_values[0].source
        and each.value != published_values[0].value
    ]
    return replace(published_values[0], note="; ".join(filter(None, [published_values[0].note, *others])))


def _split_encoder(metric: str) -> tuple[str, str | None]:
    """A metric's name where all but its encoder is at the defaults, and the encoder; None is unknown."""
    try:
        parsed_metric: Any = parse(metric)
    except InputError:
        return metric, None
    for parameter in _ENCODER_PARAMETERS:
        encoder = parsed_metric.parameters().get(parameter)
        default = next((each.default for each in fields(parsed_metric) if each.name == parameter), MISSING)
        if isinstance(encoder, str) and default is not MISSING:
            try:
                return str(replace(parsed_metric, **{parameter: default})), _VECTOR_FILES.get(_stem(encoder), encoder)
            except InputError:  # other parameters only exist with that encoder, so they are not at their defaults
                return str(parsed_metric), None
    return str(parsed_metric), None


def _stem(path: str) -> str:
    file_name = Path(path).name
    for file_ending in (".gz", ".txt", ".vec", ".bin"):
        file_name = file_name.removesuffix(file_ending)
    return file_name


def _published_value(table: Mapping[str, Any], row_name: str, made_with: str | None) -> PublishedValue:
    _, at, encoder = row_name.partition("@")
    groups = {column: number for column, number in table["rows"][row_name].items() if column not in ("value", "p")}
    value, p = float(table["rows"][row_name]["value"]), table["rows"][row_name].get("p")
    mean = sum(groups.values()) / len(groups) if groups else value
    is_other_mean = abs(mean - value) >= _ROUNDING
    notes = [f"the mean of the published columns is {mean:.2f}, not {value:g}"] if is_other_mean else []
    notes += ["" if p is None else f"p {p:.3f}", table["notes"].get(row_name, "")]
    return PublishedValue(
        value,
        table["source"],
        made_with=(encoder or "not stated") if at else "",
        agrees=not at or encoder == made_with,
        groups=groups,
        note="; ".join(filter(None, notes)),
    )
