"""Any file of rated captions in the native form: image_id, candidate, references and `human`, a list of ratings.

JSON lines are read as they are; CSV, TSV, Parquet and JSON as `capmeter.load` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_rated
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow

_HEADING = "rating"
TABLES = (".csv", ".tsv", ".parquet", ".json")


def _loaded(path: Path, columns: Mapping[str, str] | None = None) -> list[JudgmentRow]:
    columns, rows = dict(columns or {}), []
    captions = load(path, on_missing="keep", columns=columns)
    if all(caption.human is None for caption in captions) and "human" not in columns.values():
        with suppress(InputError):  # a sheet may call them so
            captions = load(path, on_missing="keep", columns=columns | {_HEADING: "human"})
    for caption in captions:
        if caption.human is None:
            raise InputError(
                f"{path}: the caption {caption.id!r} has no human rating; expected a column `human` or `{_HEADING}`, "
                "or --column human=NAME"
            )
        row_fields = {
            "id": caption.id,
            "image_id": caption.image_id,
            "candidate": caption.candidate,
            "references": list(caption.references),
            "human": list(caption.human),
            "system": caption.system or "",
        }
        rows.append(JudgmentRow(row_fields, f"{path}, caption {caption.id!r}"))
    return rows


RATED = Benchmark(
    name="rated",
    title="Any file of rated captions in the native form",
    source="your own",
    keys=("image_id", "candidate", "human"),
    build=build_rated,
    readers=(
        LayoutReader(
            what="a table of captions with human ratings (CSV, TSV, Parquet, JSON)",
            accepts=lambda path: path.is_file() and bool(set(path.suffixes[-2:]) & set(TABLES)),
            read=_loaded,
            table=_loaded,
        ),
    ),
    protocols={
        "averaged": Protocol(name="averaged", ratings="mean", statistic="tau-b"),
        "flattened": Protocol(name="flattened", ratings="flatten", statistic="tau-c"),
        "tie-calibrated": Protocol(name="tie-calibrated", ratings="mean", statistic="accuracy-eq", by="image_id"),
    },
)
