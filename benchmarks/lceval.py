"""LCEval beside the metrics that its features come from, on the same captions, in one run.

    python benchmarks/lceval.py captions.jsonl.gz [--rows 5000] [--references 5] [--key NAME]

The file holds capmeter's native rows, or rows with several systems' captions (`--key` names one of `captions`). Each
feature's metric is timed alone on captions of its own, so that it shares nothing; then `lceval`; then `lceval` in a run
that has all those metrics anyway. Printed are the ratios of `lceval` to the sum of its features, and how often each
metric measured the captions. Processor seconds are the ones to believe on a busy machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from capmeter_research.papers.lceval.lceval import LcEval

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.base import Metric
from capmeter.evaluation.runner import Evaluation

Rows = list[tuple[str, list[str]]]


def read(path: Path, rows: int, references: int, key: str | None) -> Rows:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = [json.loads(line) for _, line in zip(range(rows), file, strict=False)]
    return [(line["captions"][key] if key else line["candidate"], line["references"][:references]) for line in lines]


def captions(rows: Rows) -> CaptionSet:
    """A set of its own: nothing that another metric analysed is known of it."""
    return CaptionSet.from_captions(
        Caption(str(k), str(k), candidate, tuple(references)) for k, (candidate, references) in enumerate(rows)
    )


def timed(metrics: tuple[Metric, ...], rows: Rows) -> tuple[float, float]:
    """Seconds by the clock and of the processor, in a process of its own, once models are loaded."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (metrics, rows))


def run(metrics: tuple[Metric, ...], rows: Rows) -> tuple[float, float]:
    """Seconds of a second run, whose captions the first has not seen."""
    warm = captions([("two zebras drink", ["some zebras at a pond"]), ("a train", ["a red train"])])
    Evaluation(metrics).with_collected_states(warm).run(warm)
    target, clock, processor = captions(rows), time.perf_counter(), time.process_time()
    Evaluation(metrics).with_collected_states(target).run(target)
    return time.perf_counter() - clock, time.process_time() - processor


def measured(metrics: tuple[Metric, ...], rows: Rows) -> Counter[str]:
    """How many captions each metric measured in a run of `metrics`."""
    counts: Counter[str] = Counter()
    kinds = {type(member) for metric in metrics for member in (metric, *metric.required_metrics())}
    before = {kind: kind.measure for kind in kinds}

    def counting(kind: type[Metric]) -> Any:
        def measure(self: Metric, part: CaptionSet, context: Any) -> Any:
            counts[str(self)] += len(part)
            return before[kind](self, part, context)

        return measure

    for kind in kinds:
        kind.measure = counting(kind)  # type: ignore[method-assign]
    target = captions(rows)
    Evaluation(metrics).with_collected_states(target).run(target)
    for kind, local in before.items():
        kind.measure = local  # type: ignore[method-assign]
    return counts


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("--rows", type=int, default=5000)
    options.add_argument("--references", type=int, default=5)
    options.add_argument("--key")
    arguments = options.parse_args()
    rows = read(arguments.file, arguments.rows, arguments.references, arguments.key)
    lceval = LcEval()
    members = lceval.required_metrics()
    print(f"{len(rows):,} captions, {sum(len(each) for _, each in rows) / len(rows):.1f} references each")
    print(f"{'metric':60} {'clock':>8} {'processor':>10}  seconds")
    sums = [0.0, 0.0]
    for name, metrics in {
        **{str(member): (member,) for member in members},
        "lceval": (lceval,),
        "lceval with all of these in one run": (lceval, *members),
    }.items():
        clock, processor = timed(metrics, rows)
        print(f"{name:60} {clock:8.2f} {processor:10.2f}", end="")
        if len(metrics) == 1 and metrics[0] is not lceval:
            sums = [sums[0] + clock, sums[1] + processor]
            print()
        else:
            print(f"   {clock / sums[0]:.2f} and {processor / sums[1]:.2f} of the sum of the features' own times")
    for name, count in measured((lceval, *members), rows[:200]).items():
        print(f"measured {count / len(rows[:200]):.1f} times each caption: {name}")


if __name__ == "__main__":
    main()
