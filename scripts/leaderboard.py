"""Measures what the leaderboard still lacks: python scripts/leaderboard.py FOLDER [BENCHMARK ...].

FOLDER holds the benchmarks' files. Results go to docs/leaderboard/, one file for each benchmark, under its default
protocol, without signatures; published values are those that capmeter knows. Metrics that a file has are not measured
again: remove it first to measure all. Two hours on two cores.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.csv

from capmeter.evaluation.registry import parse_list
from capmeter.meta.published import published

TARGET = Path(__file__).resolve().parents[1] / "docs" / "leaderboard"
NGRAMS = "bleu-1,bleu-4,rouge-l,meteor,cider,cider-d"
TEXT = f"{NGRAMS},spice,bertscore,sbert,capmeter"
PAPERS = "tbr-unigram,tbr,sparcs,smurf(encoder=minilm),lceval,nneval,wmd,wembsim,leic,soft-spice"
IMAGES = f"{TEXT},{PAPERS}"
SOUNDS = f"{TEXT},fense,sparcs,soft-spice"
BENCHMARKS = {
    "flickr8k-expert": ("flickr8k_expert", IMAGES),
    "flickr8k-cf": ("flickr8k_cf", IMAGES),
    "composite": ("composite", IMAGES),
    "abstract50s": ("abstract50s", f"{NGRAMS},sparcs,tbr-unigram"),
    "reformulations": ("reformulations", IMAGES),
    "hat": ("hat", f"{TEXT},hallucination,aloha,sparcs,soft-spice"),
    "haelm": ("haelm", f"{TEXT},hallucination,aloha,capture,soft-spice"),
    "nocaps-foil": ("nocaps_foil", f"{TEXT},hallucination,aloha,sparcs,soft-spice"),
    "d-foil": ("d_foil", f"{TEXT},hallucination,aloha,capture,soft-spice"),
    "audiocaps-eval": ("audiocaps_eval", SOUNDS),
    "clotho-eval": ("clotho_eval", SOUNDS),
    "brace": ("brace_main", SOUNDS),
    "brace-hallu": ("brace_hallu", SOUNDS),
    "activitynet-fact": ("activitynet_fact", TEXT),
    "youcook2-fact": ("youcook2_fact", TEXT),
}
COLUMNS = ("benchmark", "protocol", "analysis", "metric", "statistic", "value", "low", "high", "n", "subset", "source")
KEPT = {"results", "length", "human_level"}
# of which only the half is at hand on which metrics were developed
HALVES = {
    *("hat", "haelm", "nocaps-foil", "d-foil", "audiocaps-eval", "clotho-eval", "brace", "brace-hallu"),
    *("activitynet-fact", "youcook2-fact"),
}


def store(results: Path, target: Path) -> None:
    """Adds what the leaderboard shows of a results file to the benchmark's, and the published values of whole
    benchmarks."""
    table = pyarrow.csv.read_csv(results).select(list(COLUMNS))
    rows = [row for row in table.to_pylist() if row["analysis"] in KEPT and row["subset"] == "all"]
    if target.stem not in HALVES:
        for row in [row for row in rows if row["analysis"] == "results"]:
            found = published(row["benchmark"], row["protocol"].partition("(")[0], row["metric"])
            if found is not None and found.agrees:
                rows.append(
                    {
                        **dict.fromkeys(COLUMNS),
                        **{key: row[key] for key in ("benchmark", "protocol", "metric")},
                        "analysis": "published",
                        "value": found.value,
                        "subset": "all",
                        "source": found.source,
                    }
                )
    kept = read_rows(target)
    known = {(row["analysis"], row["metric"]) for row in kept}
    kept += [row for row in rows if (row["analysis"], row["metric"]) not in known]
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in kept:
            writer.writerow([round(row[key], 2) if isinstance(row[key], float) else row[key] for key in COLUMNS])


def read_rows(target: Path) -> list[dict[str, Any]]:
    """The rows of a benchmark's file; none without it."""
    return pyarrow.csv.read_csv(target).to_pylist() if target.exists() else []


def main(folder: Path, names: list[str]) -> None:
    """Measures, and keeps."""
    TARGET.mkdir(exist_ok=True)
    for name in names or BENCHMARKS:
        file, metrics = BENCHMARKS[name]
        target = TARGET / f"{name}.csv"
        measured = {row["metric"] for row in read_rows(target) if row["analysis"] == "results"}
        lacking = ",".join(str(metric) for metric in parse_list(metrics) if str(metric) not in measured)
        if not lacking:
            continue
        with tempfile.TemporaryDirectory() as work:
            results = Path(work) / "results.csv"
            source = str(folder / f"{file}.jsonl.gz")
            is_sample = ["--sample"] if name in HALVES else []  # whose protocol expects no number of judgments
            command = ["-b", name, "-d", source, *is_sample, "-m", lacking, "--output", str(results)]
            subprocess.run([sys.executable, "-m", "capmeter", "meta", *command], check=True)
            store(results, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
