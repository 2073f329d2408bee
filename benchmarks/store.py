"""The store of analyses: entries put and got per second, small JSON values and vectors, in batches of 4,096.

python benchmarks/store.py [--entries 100000] [--vectors 20000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.disk_cache import DiskCache

BATCH = 4096


def parse(number: int) -> dict[str, Any]:
    return {
        "heads": [(number + k) % 12 for k in range(12)],
        "labels": ["det", "nsubj", "root", "case", "obl", "amod"] * 2,
        "words": [f"word{(number * k) % 997}" for k in range(12)],
    }


def measure(name: str, values: list[Any]) -> None:
    names = [f"a caption of a photograph, number {k}".encode() for k in range(len(values))]
    order = np.random.default_rng(0).permutation(len(names)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        store = DiskCache(Path(folder), 1 << 40)
        begin, used = time.perf_counter(), time.process_time()
        for start in range(0, len(names), BATCH):
            store.put(name, dict(zip(names[start : start + BATCH], values[start : start + BATCH], strict=True)))
        put, put_used = time.perf_counter() - begin, time.process_time() - used
        begin, used = time.perf_counter(), time.process_time()
        result = 0
        for start in range(0, len(names), BATCH):
            result += len(store.get(name, [names[k] for k in order[start : start + BATCH]]))
        got, got_used = time.perf_counter() - begin, time.process_time() - used
        size = sum(path.stat().st_size for path in store.path.rglob("*.*"))
    if result != len(names):
        raise SystemExit(f"{len(names) - result} entries were not found again")
    n = len(names)
    print(
        f"{name}: {n:,} entries, {size / 1e6:.0f} MB; put {n / put:,.0f}/s (processor {n / put_used:,.0f}/s), "
        f"get {n / got:,.0f}/s (processor {n / got_used:,.0f}/s)"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--entries", type=int, default=100_000)
    options.add_argument("--vectors", type=int, default=20_000, help="hidden states of 12 word pieces, 384 wide")
    selection = options.parse_args()
    measure("parses", [parse(k) for k in range(selection.entries)])
    states = np.random.default_rng(0).standard_normal((12, 384)).astype(np.float32)
    measure("states", [states] * selection.vectors)


if __name__ == "__main__":
    main()
