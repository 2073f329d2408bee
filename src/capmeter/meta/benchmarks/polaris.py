"""Polaris (Wada et al. 2024, Polos) and Nebula (Matsuda et al. 2024, DENEB): machine captions with mean scores (0-1).

Layout besides JSON lines: Polos' CSV (polaris_test.csv, polaris_val.csv, …) with the columns mt, refs (a list
written as Python writes it), score and imgid.
"""

from __future__ import annotations

import ast
import csv
from pathlib import Path

from capmeter.captions.files import read_text
from capmeter.errors import InputError
from capmeter.meta.benchmarks.benchmark import Benchmark, Reader, rated
from capmeter.meta.benchmarks.rows import Row
from capmeter.meta.protocol import Protocol


def _read_csv(path: Path) -> list[Row]:
    rows = []
    for number, entry in enumerate(csv.DictReader(read_text(path).splitlines(keepends=True)), 2):
        place = f"{path}, row {number}"
        try:
            references = ast.literal_eval(entry["refs"])
            fields = {
                "image_id": entry["imgid"],
                "candidate": entry["mt"],
                "references": [str(each) for each in references],
                "human": [float(entry["score"])],
            }
        except (KeyError, TypeError, ValueError, SyntaxError):
            raise InputError(f"{place}: expected the columns mt, refs (a list), score and imgid") from None
        rows.append(Row(fields, place))
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


CSV = Reader(what="Polos' CSV (mt, refs, score, imgid)", accepts=lambda path: path.suffix == ".csv", read=_read_csv)


def _one_share(row: Row) -> bool:
    return len(row.numbers("human")) == 1 and 0 <= row.numbers("human")[0] <= 1


def _benchmark(name: str, title: str, source: str, rows: int | None) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        source=source,
        rows=rows,
        fits=_one_share,
        looks="one score from 0 to 1",
        build=rated,
        readers=(CSV,),
        protocols={"polos2024": Protocol(name="polos2024", ratings="mean", statistic="tau-c", expect=rows)},
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
