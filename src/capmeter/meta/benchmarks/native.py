"""Any file of rated captions in the native form: image_id, candidate, references and `human`, a list of ratings."""

from __future__ import annotations

from capmeter.meta.benchmarks.benchmark import Benchmark, rated
from capmeter.meta.protocol import Protocol

RATED = Benchmark(
    name="rated",
    title="Any file of rated captions in the native form",
    source="your own",
    keys=("image_id", "candidate", "human"),
    build=rated,
    protocols={
        "averaged": Protocol(name="averaged", ratings="mean", statistic="tau-b"),
        "flattened": Protocol(name="flattened", ratings="flatten", statistic="tau-c"),
        "tie-calibrated": Protocol(name="tie-calibrated", ratings="mean", statistic="accuracy-eq", by="image_id"),
    },
)
