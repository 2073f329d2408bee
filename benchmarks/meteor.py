"""METEOR here and in pycocoevalcap (Java), on the same tokenised captions, in one run.

    python benchmarks/meteor.py captions.jsonl.gz [--rows 5000] [--references 4]

The file holds capmeter's native rows. Whole processes are timed from start to end (the index of the paraphrase table
is built before), then the rate once everything is loaded, on one core and as two processes of half the captions each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.text.tokenization import ptb

METRIC = Meteor(tokenizer="whitespace")
Rows = list[tuple[str, list[str]]]


def caption_set(rows: Rows) -> CaptionSet:
    return CaptionSet.from_captions(Caption(str(k), str(k), one, tuple(many)) for k, (one, many) in enumerate(rows))


def ours(path: str) -> None:
    """The whole of our process: read the rows, score them, write the scores."""
    rows = json.loads(Path(path).read_text())
    scores = evaluate(caption_set(rows), [METRIC])[METRIC]
    Path(path + ".ours").write_text(json.dumps([scores.score, scores.items.array.tolist()]))


def peer(path: str) -> None:
    """The whole of the peer's process."""
    from pycocoevalcap.meteor.meteor import Meteor as Peer

    rows = json.loads(Path(path).read_text())
    scorer = Peer()
    score = scorer.compute_score({k: many for k, (_, many) in enumerate(rows)}, {k: [r[0]] for k, r in enumerate(rows)})
    Path(path + ".peer").write_text(json.dumps([float(score[0]), [float(x) for x in score[1]]]))
    scorer.meteor_p.stdin.close()
    scorer.meteor_p.wait()


def process(role: str, path: str) -> tuple[float, float]:
    """Seconds and peak megabytes (the larger of the process and its children) of one role's process."""
    report = "import resource as r; print(max(r.getrusage(w).ru_maxrss for w in (r.RUSAGE_SELF, r.RUSAGE_CHILDREN)))"
    code = f"import runpy; m = runpy.run_path({__file__!r}); m[{role!r}]({path!r}); {report}"
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, int(done.stdout.split()[-1]) / 1024


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def score_rows(rows: Rows) -> float:
    """Scores the rows; gives the processor seconds that it took."""
    return timed(lambda: evaluate(caption_set(rows), [METRIC]))[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("captions")
    options.add_argument("--rows", type=int, default=5000)
    options.add_argument("--references", type=int, default=4)
    options.add_argument("--candidate", default=None, help="take candidates from this key of the row's `captions`")
    selection = options.parse_args()
    rows = read(selection.captions, selection.rows, selection.references, selection.candidate)
    evaluate(caption_set(rows[:2]), [METRIC])
    print(f"capmeter {capmeter.__version__}, {len(rows)} captions, {sum(len(r[1]) for r in rows)} references")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.json")
        Path(path).write_text(json.dumps(rows))
        picked = {role: [process(role, path) for _ in range(2)] for role in ("peer", "ours")}
        results = {role: json.loads(Path(f"{path}.{role}").read_text()) for role in picked}
    best = {role: min(each) for role, each in picked.items()}
    for role, (seconds, peak) in best.items():
        print(f"whole process, {role}: {seconds:.2f} s, peak {peak:.0f} MB")
    print(f"times faster: {best['peer'][0] / best['ours'][0]:.2f}")
    separate = np.abs(np.array(results["peer"][1]) - np.array(results["ours"][1])).max()
    print(f"largest difference: captions {separate}, corpus {abs(results['peer'][0] - results['ours'][0])}")

    if hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
    wall, cpu = min(timed(lambda: score_rows(rows)) for _ in range(3))
    print(
        f"loaded, one core: {len(rows) / wall:.0f} captions/s by the clock, {len(rows) / cpu:.0f} per processor second"
    )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    with multiprocessing.get_context("spawn").Pool(2, initializer=score_rows, initargs=(rows[:50],)) as pool:
        halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        slowest: list[float] = []
        both = min(timed(lambda: slowest.append(max(pool.map(score_rows, halves, chunksize=1))))[0] for _ in range(3))
    print(
        f"loaded, two processes: {len(rows) / both:.0f} captions/s by the clock, {wall / both:.2f} times one core; "
        f"{len(rows) / min(slowest):.0f} per processor second of the slower, {cpu / min(slowest):.2f} times one"
    )
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def read(path: str, rows: int, references: int, candidate: str | None) -> Rows:
    import gzip

    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)  # noqa: SIM115, PTH123
    with opened as file:
        lines = [json.loads(line) for _, line in zip(range(rows), file, strict=False)]
    texts = [line["captions"][candidate] if candidate else line["candidate"] for line in lines]
    tokens = [" ".join(each) for each in ptb.tokenise_all(texts)]
    many = [[" ".join(each) for each in ptb.tokenise_all(line["references"][:references])] for line in lines]
    return list(zip(tokens, many, strict=True))


if __name__ == "__main__":
    main()
