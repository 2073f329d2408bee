"""Benchmarks of human judgment: the source of the judgments, file layouts, and the protocols that have been used.

Each is a file of `data/benchmarks`, such as

    {"title": "Flickr8k-Expert: 5,822 captions, three experts each (1-4)",
     "source": "Hodosh et al. 2013, Flickr8k_text.zip: ExpertAnnotations.txt",
     "rows": 5822, "kind": "ratings",
     "fields": ["image_id", "candidate", "references", "human"],
     "fits": {"human": {"count": [3, 3], "range": [1, 4]}}, "looks": "three ratings from 1 to 4",
     "layouts": ["flickr8k_experts", "clipscore_json"],
     "protocols": {"clipscore2021": "leave_out=own-captions, statistic=tau-c, expect=16992"},
     "notes": {"cui2018": "a remark on a protocol"}}

* `kind` is one of `builders.BUILDERS`; the first protocol is the default.
* `fields`: what each row must have, as a list; or field → the row's own name of it, a list of names (their values make
  one list), or a pattern (`"{lang_pair}-{segment}"`). With `values`, values of a field are translated.
* `layouts`: files and folders that a function reads (`layouts.FILES`); or other rows, as an object with `what`, and
  `fields` with `values`, or `marks`, the fields by which it is recognised, with `convert` (`layouts.CONVERTERS`).
* `fits` distinguishes rows from those of another benchmark with the same fields: a regular expression of a text, null
  for a field that is not there, or the `count` of a list with the `range` or `values` of its numbers.
* `judgments`, `votes`, `corpus`, `drop_candidates`: see `builders.JudgmentFields`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError, ProtocolError
from capmeter.core.named import split_name
from capmeter.core.settings import home_path
from capmeter.judgments.builders import BUILDERS, JudgmentFields
from capmeter.judgments.layouts import CONVERTERS, FILES, FileLayout, JudgmentRow, read_records, rename_columns
from capmeter.judgments.prepared import PreparedJudgments
from capmeter.judgments.protocol import Protocol, change_protocol

FieldNames = str | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _FieldLayout:
    """Rows by their fields: our field → the row's name of it, several of them, or a pattern of names in braces."""

    fields: Mapping[str, FieldNames]
    what: str = ""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    marks: Sequence[str] = ()
    convert: str = ""

    @property
    def keys(self) -> list[str]:
        """The fields that a row of this layout has."""
        names = [*self.marks]
        for source in self.fields.values():
            names += (re.findall(r"{(\w+)}", source) or [source]) if isinstance(source, str) else source
        return names

    def missing_keys(self, row: JudgmentRow) -> list[str]:
        """The fields of this layout that the row lacks."""
        return [key for key in self.keys if key not in row]

    def convert_row(self, row: JudgmentRow) -> Iterable[JudgmentRow]:
        """The row, or rows, with our fields, then its others."""
        if self.convert:
            return [JudgmentRow(row_fields, row.place) for row_fields in CONVERTERS[self.convert](row)]
        row_fields = dict(row.fields)
        for name, source in self.fields.items():
            if not isinstance(source, str):
                row_fields[name] = [row.text(each) for each in source]
            elif "{" in source:
                row_fields.setdefault(name, re.sub(r"{(\w+)}", lambda key: str(row.fields[key[1]]), source))
            else:
                row_fields[name] = self._translate(row, name, source)
        renamed = {name: source for name, source in self.fields.items() if isinstance(source, str) and source != name}
        return [JudgmentRow(row_fields, row.place, renamed)]

    def _translate(self, row: JudgmentRow, name: str, source: str) -> Any:
        value, translations = row.fields[source], self.values.get(name)
        if translations is None:
            return value
        if str(value) not in translations:
            raise row.error_at(source, f"one of {', '.join(translations)}")
        return translations[str(value)]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark. Its file is JSON lines, a JSON list, CSV, Excel or Parquet of rows in one of `layouts`, the first
    its own one, or one of `file_layouts`.

    `rows` is the number of the whole set.
    """

    name: str
    title: str
    source: str
    kind: str
    protocols: Mapping[str, Protocol]
    notes: Mapping[str, str]
    rows: int | None
    layouts: Sequence[_FieldLayout]
    file_layouts: Sequence[FileLayout]
    fits: Mapping[str, Any]
    looks: str
    judgments: JudgmentFields

    @classmethod
    def from_dict(cls, name: str, entry: Mapping[str, Any]) -> Benchmark:
        """The benchmark that a file of `data/benchmarks` describes."""
        protocols = {
            protocol_name: change_protocol(Protocol(name=protocol_name), text)
            for protocol_name, text in entry["protocols"].items()
        }
        fields = entry["fields"]
        own_layout = _FieldLayout(
            fields={key: key for key in fields} if isinstance(fields, list) else fields, values=entry.get("values", {})
        )
        others = [each for each in entry.get("layouts", ()) if not isinstance(each, str)]
        return cls(
            name=name,
            title=entry["title"],
            source=entry["source"],
            kind=entry["kind"],
            protocols=protocols,
            notes=entry.get("notes", {}),
            rows=entry.get("rows"),
            layouts=[own_layout, *(_FieldLayout(**{"fields": {}, **each}) for each in others)],
            file_layouts=[FILES[each] for each in entry.get("layouts", ()) if isinstance(each, str)],
            fits=entry.get("fits", {}),
            looks=entry.get("looks", ""),
            judgments=JudgmentFields(
                fields=entry.get("judgments", {}),
                votes=entry.get("votes", ""),
                corpus=entry.get("corpus", ""),
                drop_candidates=entry.get("drop_candidates", False),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """What `capmeter meta --list` says of it as JSON."""
        protocols = {name: str(protocol) for name, protocol in self.protocols.items()}
        about = {"title": self.title, "rows": self.rows, "source": self.source, "protocols": protocols}
        return about | ({"notes": dict(self.notes)} if self.notes else {})

    def protocol(self, text: str | Protocol | None = None) -> Protocol:
        """A protocol by name, with changes in parentheses: `clipscore2021(statistic=tau-b)`; None is the default."""
        if isinstance(text, Protocol):
            return text
        if text is None:
            return next(iter(self.protocols.values()))
        protocol_name, changes = split_name(text, "protocol")
        if protocol_name not in self.protocols:
            raise ProtocolError(
                f"{self.name} has no protocol {protocol_name!r}; expected one of {', '.join(self.protocols)} "
                "(to change a field: name(statistic=tau-b))"
            )
        return change_protocol(self.protocols[protocol_name], changes)

    def load(
        self,
        path: str | Path,
        protocol: str | Protocol | None = None,
        *,
        sample: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> PreparedJudgments:
        """The judgments of this file under a protocol; `sample` accepts a subset and drops `expect`.

        `columns` maps other column names to fields, as in `capmeter.load`.

        Args:
            path: the file, or the folder of the original distribution.
            protocol: a name with changes, or a value; None: the default.
            sample: whether a subset is accepted.
            columns: column → field.
        """
        parsed_protocol = self.protocol(protocol)
        if sample:
            parsed_protocol = change_protocol(parsed_protocol, "expect=none")
        rows = self.read(home_path(path), columns)
        # the protocol checks the number of judgments; a wrong file is recognised earlier, by its rows
        if parsed_protocol.expect is not None and self.rows is not None and len(rows) != self.rows:
            raise ProtocolError(
                f"{path} has {len(rows):,} rows, but {self.name} has {self.rows:,}; is it a subset, or another set? "
                "To use it anyway, drop the check (--sample, or expect=none), and do not compare the value with "
                "published ones"
            )
        return BUILDERS[self.kind](self.name, rows, parsed_protocol, self.judgments)

    def read(self, path: Path, columns: Mapping[str, str] | None = None) -> list[JudgmentRow]:
        """The file's rows, checked to be this benchmark's."""
        for layout in self.file_layouts:
            if layout.accepts(path):
                if columns and not layout.names_columns:
                    raise InputError(f"{path} is {layout.what}, where no column can be chosen; omit --column")
                return list(layout.read(path, columns) if columns else layout.read(path))
        if path.is_dir():
            whats = [each.what for each in self.file_layouts] + [each.what for each in self.layouts if each.what]
            layouts_text = f" or {'; '.join(whats)}" if whats else ""
            raise InputError(f"{path} is a folder; {self.name} is a file of JSON lines{layouts_text}")
        try:
            return [
                converted
                for row in rename_columns(read_records(path), columns or {}, path)
                for converted in self._convert_row(row)
            ]
        except InputError:
            with suppress(InputError, StopIteration):  # a table may call the fields otherwise
                return list(next(each for each in self.file_layouts if each.names_columns).read(path, columns))
            raise

    def matches(self, row: JudgmentRow) -> bool:
        """Whether this can be a row of this benchmark."""
        try:
            return any(
                not layout.missing_keys(row) and all(_fits_rules(each, self.fits) for each in layout.convert_row(row))
                for layout in self.layouts
            )
        except InputError:
            return False

    def _convert_row(self, row: JudgmentRow) -> Iterable[JudgmentRow]:
        nearest = min(self.layouts, key=lambda layout: len(layout.missing_keys(row)))
        converted_rows = [] if nearest.missing_keys(row) else list(nearest.convert_row(row))
        if not converted_rows or not all(_fits_rules(each, self.fits) for each in converted_rows):
            self._refuse(row, nearest.missing_keys(row))
        return converted_rows

    def _refuse(self, row: JudgmentRow, missing_keys: list[str]) -> None:
        others = [each for each in all_benchmarks().values() if each is not self and each.rows and each.matches(row)]
        fitting = [each.name for each in sorted(others, key=lambda each: -len(each.layouts[0].keys))]
        hint = f"it looks like {' or '.join(fitting)}" if fitting else "see `capmeter meta --list` for the benchmarks"
        other_names = [f"--column {key}=NAME" for key in missing_keys if key in ("candidate", "references", "human")]
        if other_names and not fitting:
            hint += f", or say which column holds it: {' '.join(other_names)}"
        rejection_reason = f"it has no {', '.join(missing_keys)}" if missing_keys else f"expected {self.looks}"
        raise InputError(f"{row.place} is not a valid row of {self.name}: {rejection_reason}; {hint}")


def _fits_rules(row: JudgmentRow, rules: Mapping[str, Any]) -> bool:
    """Whether a row fits all rules: of each field a pattern, None for none, or a count, range and values of a list."""
    for name, rule in rules.items():
        if rule is None:
            if name in row:
                return False
        elif isinstance(rule, str):
            if not re.fullmatch(rule, str(row.fields.get(name, ""))):
                return False
        else:
            values = row.numbers(name) if "range" in rule or "values" in rule else row.fields[name]
            fewest, most = rule["count"]
            low, high = rule.get("range", (-float("inf"), float("inf")))
            if not fewest <= len(values) <= (len(values) if most is None else most):
                return False
            if "range" in rule and not all(low <= value <= high for value in values):
                return False
            if "values" in rule and not set(values) <= set(rule["values"]):
                return False
    return True


@cache
def all_benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    folder = files("capmeter") / "data" / "benchmarks"
    entries = {each.name.removesuffix(".json"): each for each in folder.iterdir() if each.name.endswith(".json")}
    return {name: Benchmark.from_dict(name, json.loads(entries[name].read_text("utf-8"))) for name in sorted(entries)}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name, whatever separates its parts.

    Raises:
        InputError: an unknown name; the error suggests the nearest ones.
    """
    for benchmark_name, benchmark in all_benchmarks().items():
        if _plain(benchmark_name) == _plain(name):
            return benchmark
    begin_alike = [known for known in all_benchmarks() if _plain(known).startswith(_plain(name))]
    suggestions = begin_alike or difflib.get_close_matches(str(name).lower(), all_benchmarks(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else f"known are: {', '.join(all_benchmarks())}"
    raise InputError(f"unknown benchmark {name!r}; {hint}")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", str(name).lower())
