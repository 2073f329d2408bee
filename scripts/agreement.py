"""Measure each metric's agreement with human judgments, and its cost, for docs/choosing.md. Writes docs/agreement.json.

    python scripts/agreement.py FOLDER [METRIC ...]

FOLDER holds `flickr8k_expert.jsonl.gz`, and `composite.jsonl.gz` unless that is to be left out. Each metric is run by
`capmeter meta` under the benchmark's default protocol, and by `capmeter score` on 1,000 captions, whose processor
seconds are kept (start of the program and of its encoder included; nothing that an earlier run stored on disk is used,
except METEOR's index).
Values of metrics that are not named stay as they are; `scripts/site/generate_docs.py` makes the table of them.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from capmeter import __version__

TARGET = Path(__file__).resolve().parents[1] / "docs" / "agreement.json"
BENCHMARKS = {"flickr8k-expert": "flickr8k_expert.jsonl.gz", "composite": "composite.jsonl.gz"}
CAPTIONS = 1_000
METRICS = (
    *("bleu-1", "bleu-4", "rouge-l", "cider", "cider-d", "cider-r", "tbr-unigram", "sparcs", "meteor", "hwcm"),
    *(
        "sbert",
        "sbert(encoder=minilm-captions,pooling=centroid)",
        "bertscore",
        "tbr",
        "wembsim",
        "wembsim(encoder=minilm)",
        "mowe",
        "wmd",
        "mima(encoder=minilm)",
        "spurts(encoder=minilm)",
    ),
    *("smurf(encoder=minilm)", "spice", "soft-spice", "spider", "nneval", "lceval", "leic"),
)


def main(folder: Path, names: list[str]) -> None:
    """Runs the metrics and keeps their values."""
    agreement_values: dict[str, Any] = (
        json.loads(TARGET.read_text("utf-8")) if TARGET.is_file() else {"people": {}, "metrics": {}}
    )
    names = names or list(METRICS)
    for benchmark, file in BENCHMARKS.items():
        if not (folder / file).is_file():
            continue
        output = _run("meta", "-b", benchmark, "-d", str(folder / file), "-m", ",".join(names), "--format", "json")
        for row in output["results"]:
            values = agreement_values["metrics"].setdefault(row["metric"], {})
            values["version"] = __version__
            values[benchmark] = [round(row[key], 1) for key in ("value", "low", "high")]
        human = output.get("human_level", {})
        agreement_values["people"][benchmark] = round(human["value"], 1) if "value" in human else None
        agreement_values.setdefault("protocols", {})[benchmark] = output["protocol"]
        _keep(agreement_values)
    with tempfile.TemporaryDirectory() as scratch:
        sample = Path(scratch) / "sample.jsonl"
        with gzip.open(folder / BENCHMARKS["flickr8k-expert"], "rt", encoding="utf-8") as rows:
            sample.write_text("".join(itertools.islice(rows, CAPTIONS)), encoding="utf-8")
        for name in names:
            agreement_values["metrics"][name]["seconds"] = round(_cost(name, sample), 1)
            _keep(agreement_values)


def _keep(agreement_values: dict[str, Any]) -> None:
    TARGET.write_text(json.dumps(agreement_values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _cost(name: str, sample: Path) -> float:
    """Processor seconds of scoring the sample with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        index = user_cache_path("capmeter")
        for each in index.glob("paraphrase-*") if index.is_dir() else ():
            (Path(cache) / "capmeter").mkdir(exist_ok=True)
            shutil.copy2(each, Path(cache) / "capmeter")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _run("score", str(sample), "-m", name, "--no-intervals", "--format", "json", cache=cache)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(*arguments: str, cache: str | None = None) -> Any:
    """The JSON that a command prints."""
    environment = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    done = subprocess.run(
        [sys.executable, "-c", "from capmeter.cli.main import main; main()", *arguments],
        stdout=subprocess.PIPE,
        env=environment,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
