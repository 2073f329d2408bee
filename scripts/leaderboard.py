"""Measures the metrics of the leaderboard again: python scripts/leaderboard.py FOLDER [BENCHMARK ...].

FOLDER holds the benchmarks' files. Results go to docs/leaderboard/, one file for each benchmark, under its default
protocol, without signatures; published values are those that capmeter knows. An hour on two cores.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.csv

from capmeter.meta.published import published

TARGET = Path(__file__).resolve().parents[1] / "docs" / "leaderboard"
NGRAMS = "bleu-1,bleu-4,rouge-l,meteor,cider,cider-d"
TEXT = f"{NGRAMS},spice,bertscore,sbert,capmeter"
BENCHMARKS = {
    "flickr8k-expert": ("flickr8k_expert", TEXT),
    "flickr8k-cf": ("flickr8k_cf", f"{NGRAMS},spice"),
    "composite": ("composite", TEXT),
    "abstract50s": ("abstract50s", NGRAMS),
    "reformulations": ("reformulations", "bleu-4,rouge-l,meteor,cider-d"),
    "hat": ("hat", f"{TEXT},hallucination"),
    "nocaps-foil": ("nocaps_foil", f"{TEXT},hallucination"),
    "d-foil": ("d_foil", f"{TEXT},hallucination"),
    "audiocaps-eval": ("audiocaps_eval", f"{TEXT},fense"),
    "clotho-eval": ("clotho_eval", f"{TEXT},fense"),
    "brace": ("brace_main", f"{TEXT},fense"),
    "brace-hallu": ("brace_hallu", "bleu-4,rouge-l,meteor,cider-d,bertscore,sbert,capmeter,fense"),
    "activitynet-fact": ("activitynet_fact", TEXT),
    "youcook2-fact": ("youcook2_fact", TEXT),
}
COLUMNS = ("benchmark", "protocol", "analysis", "metric", "statistic", "value", "low", "high", "n", "subset", "source")
KEPT = {"results", "length", "human_level"}
# of which only the half is at hand on which metrics were developed
HALVES = {"hat", "nocaps-foil", "d-foil", "audiocaps-eval", "clotho-eval", "brace", "brace-hallu"}


def store(results: Path, target: Path) -> None:
    """Keeps what the leaderboard shows of a results file, and the published values of whole benchmarks."""
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
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([round(row[key], 2) if isinstance(row[key], float) else row[key] for key in COLUMNS])


def main(folder: Path, names: list[str]) -> None:
    """Measures, and keeps."""
    TARGET.mkdir(exist_ok=True)
    for name in names or BENCHMARKS:
        file, metrics = BENCHMARKS[name]
        with tempfile.TemporaryDirectory() as work:
            results = Path(work) / "results.csv"
            source = str(folder / f"{file}.jsonl.gz")
            command = ["-b", name, "-d", source, "--sample", "-m", metrics, "--output", str(results)]
            subprocess.run([sys.executable, "-m", "capmeter", "meta", *command], check=True)
            store(results, TARGET / f"{name}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
