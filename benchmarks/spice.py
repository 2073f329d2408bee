"""SPICE by the official parser and by capmeter's, on the same captions, in one run.

    python benchmarks/spice.py captions.jsonl.gz [--rows 60] [--references 5] [--key NAME] [--parser-rows 2000]

The file holds capmeter's native rows, or rows with several systems' captions (`--key` names one of `captions`). Whole
processes are timed from start to end: the official program by pycocoevalcap where its models are installed; the
official parser (Java) with capmeter's rules; capmeter alone; capmeter with scenes that are in its store. Then the rate
of the parser itself on one core, once it is loaded. On a busy machine the ratios of processor seconds are the ones to
believe: they count the seconds of Java too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import capmeter
from capmeter.core.assets import package_folder
from capmeter.text.parsing.parsers import MODELS, corenlp_status, find_parser

Row = tuple[str, list[str]]


def by_parser(path: str, parser: str, store: str) -> None:
    """The whole of a process of ours: read the rows, score them, write the scores."""
    rows = json.loads(Path(path).read_text())
    settings = capmeter.Settings(cache=Path(store) if store else None)
    candidates, references = [one for one, _ in rows], [many for _, many in rows]
    name = f"spice(parser={parser})"
    result = capmeter.score(candidates=candidates, references=references, metrics=name, settings=settings)
    Path(path + ".scores").write_text(json.dumps(next(iter(result.values())).items.array.tolist()))


def program(path: str, parser: str, store: str) -> None:
    """The whole of the official program's process, as pycocoevalcap starts it."""
    from pycocoevalcap.spice.spice import Spice

    rows = json.loads(Path(path).read_text())
    scores = Spice().compute_score(
        {k: row[1] for k, row in enumerate(rows)}, {k: [row[0]] for k, row in enumerate(rows)}
    )
    Path(path + ".scores").write_text(json.dumps([each["All"]["f"] for each in scores[1]]))


def process(path: str, role: str, parser: str = "", store: str = "") -> tuple[float, float, float, list[float]]:
    """Seconds by the clock and of the processor, peak megabytes (of the largest process), and the scores of a role."""
    report = (
        "import resource as r; u = [r.getrusage(w) for w in (r.RUSAGE_SELF, r.RUSAGE_CHILDREN)]; "
        "print(sum(e.ru_utime + e.ru_stime for e in u), max(e.ru_maxrss for e in u))"
    )
    end = "from capmeter.text.parsing.parsers import find_parser; find_parser('corenlp').close(); "
    code = (
        f"import runpy; m = runpy.run_path({__file__!r}); m[{role!r}]({path!r}, {parser!r}, {store!r}); "
        f"{end if parser == 'corenlp' else ''}{report}"
    )
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    cpu, peak = map(float, done.stdout.split()[-2:])
    return time.perf_counter() - begin, cpu, peak / 1024, json.loads(Path(path + ".scores").read_text())


def read(path: str, rows: int, references: int, key: str | None) -> list[Row]:
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)  # noqa: SIM115, PTH123
    with opened as file:
        lines = [json.loads(line) for _, line in zip(range(rows), file, strict=False)]
    return [(line["captions"][key] if key else line["candidate"], line["references"][:references]) for line in lines]


def parser_rate(sentences: list[str]) -> None:
    """The rate of the parser on one core, the best of three."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    parser = find_parser("caption")
    parser.parse(sentences[:100])
    picked = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        parser.parse(sentences)
        picked.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = min(each[0] for each in picked), min(each[1] for each in picked)
    print(
        f"parser {parser.version}, loaded, one core, {len(sentences)} distinct captions: {len(sentences) / wall:.0f} "
        f"captions/s by the clock, {len(sentences) / cpu:.0f} per processor second"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("captions")
    options.add_argument("--rows", type=int, default=60)
    options.add_argument("--references", type=int, default=5)
    options.add_argument("--key", default=None, help="take candidates from this key of the row's `captions`")
    options.add_argument("--parser-rows", type=int, default=2000, help="rows whose captions time the parser alone")
    selection = options.parse_args()
    rows = read(selection.captions, selection.rows, selection.references, selection.key)
    distinct = {text for one, many in rows for text in (one, *many)}
    print(f"capmeter {capmeter.__version__}, {len(rows)} captions, {len(distinct)} distinct texts")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.json")
        Path(path).write_text(json.dumps(rows))
        picked = {}
        library = package_folder("pycocoevalcap", "spice", "lib")
        if library is not None and (library / MODELS).is_file():
            picked["official program"] = process(path, "program")
        else:
            print(f"official program: left out, pycocoevalcap has no {MODELS}")
        ready, message = corenlp_status()
        if ready:
            picked["official parser"] = process(path, "by_parser", "corenlp")
        else:
            print(f"official parser: left out, {message}")
        store = str(Path(folder) / "store")
        picked["capmeter"] = process(path, "by_parser", "caption")
        process(path, "by_parser", "caption", store)
        picked["capmeter, stored"] = process(path, "by_parser", "caption", store)
    ours = picked["capmeter"]
    for role, (wall, cpu, peak, scores) in picked.items():
        print(f"{role}: {wall:.1f} s, {cpu:.1f} processor seconds, peak {peak:.0f} MB, mean {np.mean(scores):.4f}")
        if not role.startswith("official"):
            continue
        faster = f"{wall / ours[0]:.1f} times as fast by the clock, {cpu / ours[1]:.1f} by processor seconds"
        similar = f"Pearson of the scores {np.corrcoef(scores, ours[3])[0, 1]:.4f}; " if len(set(scores)) > 1 else ""
        print(f"  capmeter against it: {similar}{faster}")
    more = read(selection.captions, selection.parser_rows, selection.references, selection.key)
    parser_rate(list(dict.fromkeys(text for one, many in more for text in (one, *many))))


if __name__ == "__main__":
    main()
