"""`spice(parser=corenlp)` from captions to scores beside the official program, on every row of the oracles.

    CAPMETER_CORENLP=FOLDER python benchmarks/spice_parity.py SHARED [--parser caption] [--input tokens]

SHARED: the folder with `oracles/spice_scores_*.jsonl.gz` (of captions as written) and `spice_token_scores_*.jsonl.gz`
(of tokens), and `data/`. The official parser reads each caption once:
with `CAPMETER_VECTOR_CACHE=FOLDER` an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import capmeter
from capmeter.core.progress import show_progress

FILES = {"raw": "spice_scores", "tokens": "spice_token_scores"}
SETS = {
    "flickr8k_expert": "flickr8k_expert",
    "coco_systems": "coco_smurf_official_scores",
    "composite_even_rows": "composite",
}


def lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def compared(shared: Path, name: str, parser: str, input: str) -> tuple[str, ...]:
    """Rows, rows with the official score, the largest difference, and both means."""
    expected = lines(shared / "oracles" / f"{FILES[input]}_{name}.jsonl.gz")
    rows = lines(shared / "data" / f"{SETS[name]}.jsonl.gz")
    selection = [rows[int(each["row"])] for each in expected]
    started = time.perf_counter()
    (scores,) = capmeter.score(
        candidates=[row["candidate"] for row in selection],
        references=[row["references"] for row in selection],
        metrics=f"spice(parser={parser},input={input})",
    ).values()
    seconds = time.perf_counter() - started
    official = np.array([row["f"] for row in expected])
    result = scores.items.array
    away = np.abs(result - official)
    equal = f"{(away < 1e-9).sum()} ({100 * (away < 1e-9).mean():.2f} %)"
    means = f"{result.mean():.6f}", f"{official.mean():.6f}"
    return name, str(len(official)), equal, f"{away.max():.4f}", *means, f"{seconds:.0f}"


def main() -> None:
    """Prints the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("shared", type=Path)
    options.add_argument("--parser", default="corenlp", choices=["corenlp", "caption"])
    options.add_argument("--input", default="raw", choices=list(FILES))
    options.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    selection = options.parse_args()
    table = Table("captions", "rows", "official score", "furthest", "mean", "official mean", "seconds")
    with show_progress():
        for name in selection.sets:
            table.add_row(*compared(selection.shared, name, selection.parser, selection.input))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
