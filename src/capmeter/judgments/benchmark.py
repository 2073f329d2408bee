"""A benchmark: the source of its judgments, its file layouts, and the protocols under which it has been used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capmeter.core.errors import InputError, ProtocolError
from capmeter.core.named import split_name
from capmeter.judgments.prepared import (
    Points,
    PreparedJudgments,
    RatedCaption,
    RatedPair,
    prepare_pairs,
    prepare_points,
)
from capmeter.judgments.protocol import Protocol, change_protocol
from capmeter.judgments.rows import JudgmentRow, read_jsonl, rename_columns, row_ids


@dataclass(frozen=True, kw_only=True)
class LayoutReader:
    """A layout other than JSON lines, as distributed by the benchmark's authors or later users.

    `table` reads it where it has columns that a user may name (column → field).
    """

    what: str
    accepts: Callable[[Path], bool]
    read: Callable[[Path], list[JudgmentRow]]
    table: Callable[[Path, Mapping[str, str]], list[JudgmentRow]] | None = None


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark. Its file is JSON lines of rows with `keys`, or one of `readers`' layouts.

    `rows` is the number of the whole set; `fits` distinguishes its rows from those of another benchmark with the
    same keys; `build` turns rows into judgments; `protocols` are by name, the first is the default; `siblings` are the
    benchmarks that a wrong file may belong to.
    """

    name: str
    title: str
    source: str
    build: Callable[[str, list[JudgmentRow], Protocol], PreparedJudgments]
    protocols: Mapping[str, Protocol]
    rows: int | None = None
    keys: tuple[str, ...] = ("image_id", "candidate", "references", "human")
    fits: Callable[[JudgmentRow], bool] = field(default=lambda row: True)
    looks: str = ""
    readers: tuple[LayoutReader, ...] = ()
    siblings: Mapping[str, Benchmark] = field(default_factory=dict, repr=False, compare=False)

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
        """
        parsed_protocol = self.protocol(protocol)
        if sample:
            parsed_protocol = change_protocol(parsed_protocol, "expect=none")
        rows = self.read(Path(path), columns)
        # the protocol checks the number of judgments; a wrong file is recognised earlier, by its rows
        if parsed_protocol.expect is not None and self.rows is not None and len(rows) != self.rows:
            raise ProtocolError(
                f"{path} has {len(rows):,} rows, but {self.name} has {self.rows:,}; is it a subset, or another set? "
                "To use it anyway, drop the check (--sample, or expect=none), and do not compare the value with "
                "published ones"
            )
        return self.build(self.name, rows, parsed_protocol)

    def read(self, path: Path, columns: Mapping[str, str] | None = None) -> list[JudgmentRow]:
        """The file's rows, checked to be this benchmark's."""
        for reader in self.readers:
            if reader.accepts(path) and not columns:
                return reader.read(path)
            if reader.accepts(path) and columns:
                if reader.table is None:
                    raise InputError(f"{path} is {reader.what}, where no column can be chosen; omit --column")
                return reader.table(path, columns)
        if path.is_dir():
            layouts = "; ".join(reader.what for reader in self.readers)
            raise InputError(
                f"{path} is a folder; {self.name} is a file of JSON lines{' or ' + layouts if layouts else ''}"
            )
        rows = rename_columns(read_jsonl(path), columns or {}, path)
        for row in rows:
            missing_keys = [key for key in self.keys if key not in row]
            if missing_keys or not self.fits(row):
                self._refuse(row, missing_keys)
        return rows

    def _refuse(self, row: JudgmentRow, missing_keys: list[str]) -> None:
        fitting = [
            benchmark_name
            for benchmark_name, other_benchmark in self.siblings.items()
            if other_benchmark.name != self.name
            and other_benchmark.rows
            and not [key for key in other_benchmark.keys if key not in row]
            and other_benchmark.fits(row)
        ]
        hint = f"it looks like {' or '.join(fitting)}" if fitting else "see `capmeter meta --list` for the benchmarks"
        other_names = [f"--column {key}=NAME" for key in missing_keys if key in ("candidate", "references", "human")]
        if other_names and not fitting:
            hint += f", or say which column holds it: {' '.join(other_names)}"
        rejection_reason = f"it has no {', '.join(missing_keys)}" if missing_keys else f"expected {self.looks}"
        raise InputError(f"{row.place} is not a valid row of {self.name}: {rejection_reason}; {hint}")


def build_rated(name: str, rows: list[JudgmentRow], protocol: Protocol) -> Points:
    """Points from rows of one rated caption each, in the native form."""
    by_image = row_ids(rows)
    return prepare_points(name, [_rated(id, row, protocol) for id, row in zip(by_image, rows, strict=True)], protocol)


def _rated(caption_id: str, row: JudgmentRow, protocol: Protocol) -> RatedCaption:
    by_person = row.fields.get("candidate_index") == 0 or str(row.fields.get("system")).lower() == "human"
    groups = {field_name: str(value) for field_name, value in row.fields.items() if isinstance(value, str | int)}
    references = row.texts("references") if "references" in row else ()
    ratings = row.numbers(protocol.judgments)
    image, candidate = row.text("image_id"), row.text("candidate")
    own = row.flag("candidate_in_references", candidate in references)
    picture = row.text("image") if "image" in row else None
    return RatedCaption(caption_id, image, candidate, references, ratings, own, by_person, groups=groups, image=picture)


def build_pairs(
    better: Callable[[JudgmentRow, Protocol], float],
    votes: Callable[[JudgmentRow, Protocol], tuple[tuple[float, ...], bool]] | None = None,
    graded: bool = False,
) -> Callable[[str, list[JudgmentRow], Protocol], PreparedJudgments]:
    """Pairs of rows with `candidate_a` and `candidate_b`; `better` is positive for a, negative for b.

    `graded`: its size says how much better, for correlations.
    """

    def build(name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
        pairs = []
        for pair_id, row in zip(row_ids(rows), rows, strict=True):
            signed_preference = better(row, protocol)
            groups = {key: str(value) for key, value in row.fields.items() if isinstance(value, str | int)}
            a, b = row.text("candidate_a"), row.text("candidate_b")
            raw_votes, by_votes = votes(row, protocol) if votes is not None else ((), False)
            system_names = (row.text("system_a"), row.text("system_b")) if "system_a" in row else None
            pairs.append(
                RatedPair(
                    id=pair_id,
                    image_id=row.text("image_id"),
                    candidates=(a, b),
                    references=row.texts("references") if "references" in row else (),
                    better=signed_preference if graded else (signed_preference > 0) - (signed_preference < 0),
                    valid=row.flag("valid", True),
                    identical=row.flag("identical", a.lower() == b.lower()),
                    groups=groups,
                    votes=raw_votes,
                    by_votes=by_votes,
                    by_machine=row.fields.get("category") in ("HM", "MM"),
                    image=row.text("image") if "image" in row else None,
                    by_person=system_names is not None and "human" in map(str.lower, system_names),
                    systems=system_names,
                )
            )
        return prepare_pairs(name, pairs, protocol)

    return build


def read_winner(row: JudgmentRow, key: str) -> int:
    """A field that says "a" or "b", as 1 or -1 ("tie" is 0)."""
    side_values = {"a": 1, "b": -1, "tie": 0}
    field_value = row.fields.get(key)
    if not isinstance(field_value, str) or field_value not in side_values:
        raise row.error_at(key, "a, b or tie")
    return side_values[field_value]
