"""Polaris (Wada et al. 2024, Polos) and Nebula (Matsuda et al. 2024, DENEB): machine captions with mean scores (0-1).

Layouts besides JSON lines, with the fields mt, refs, score and imgid:
* Polos' CSV (yuwd/Polaris: polaris_test.csv …), where refs is a Python list literal;
* EXPERT's JSON (annotations/nebula_test.json), a list of objects.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capmeter.captions.sources import read_text
from capmeter.core.csv_text import csv_lines
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_rated
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow


def _row(caption_entry: Mapping[str, Any], references: Any, location: str) -> JudgmentRow:
    try:
        row_fields = {
            "image_id": str(caption_entry["imgid"]),
            "candidate": str(caption_entry["mt"]),
            "references": [str(reference_text) for reference_text in references],
            "human": [float(caption_entry["score"])],
        }
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{location}: expected mt, refs (a list), score and imgid") from None
    return JudgmentRow(row_fields, location)


def _read_csv(path: Path) -> list[JudgmentRow]:
    rows = []
    for row_number, caption_entry in enumerate(csv.DictReader(csv_lines(read_text(path))), 2):
        location = f"{path}, row {row_number}"
        try:
            references = ast.literal_eval(caption_entry.get("refs") or "")
        except (ValueError, SyntaxError):
            raise InputError(f"{location}: expected mt, refs (a list), score and imgid") from None
        rows.append(_row(caption_entry, references, location))
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def _read_json(path: Path) -> list[JudgmentRow]:
    caption_entries = decode_json(read_text(path), str(path))
    if not isinstance(caption_entries, list) or not all(isinstance(entry, dict) for entry in caption_entries):
        raise InputError(f"{path}: expected a list of objects with mt, refs, score and imgid")
    return [_row(entry, entry.get("refs", ()), f"{path}, item {k}") for k, entry in enumerate(caption_entries)]


READERS = (
    LayoutReader(what="Polos' CSV", accepts=lambda path: path.suffix == ".csv", read=_read_csv),
    LayoutReader(what="EXPERT's JSON", accepts=lambda path: path.suffix == ".json", read=_read_json),
)


def _one_share(row: JudgmentRow) -> bool:
    return len(row.numbers("human")) == 1 and 0 <= row.numbers("human")[0] <= 1


def _benchmark(benchmark_name: str, title: str, source: str, row_count: int | None) -> Benchmark:
    return Benchmark(
        name=benchmark_name,
        title=title,
        source=source,
        rows=row_count,
        fits=_one_share,
        looks="one score from 0 to 1",
        build=build_rated,
        readers=READERS,
        protocols={"polos2024": Protocol(name="polos2024", ratings="mean", statistic="tau-c", expect=row_count)},
    )


NEBULA = _benchmark(
    "nebula-test", "Nebula, test: 3,298 captions (0-1)", "Matsuda et al. 2024; EXPERT: nebula_test.json", 3298
)
NEBULA_VAL = _benchmark(
    "nebula-val",
    "Nebula, validation: 2,901 captions (0-1), without references",
    "EXPERT: exp_datasets/nebula_exp_val.json",
    2901,
)
POLARIS_VAL = _benchmark(
    "polaris-val",
    "Polaris, validation: 4,237 captions (0-1), without references",
    "EXPERT: exp_datasets/polaris_exp_val.json",
    4237,
)
POLARIS = _benchmark(
    "polaris", "Polaris, any split in Polos' layout (0-1)", "Wada et al. 2024, yuwd/Polaris: polaris_test.csv", None
)
