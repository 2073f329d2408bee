"""capmeter beside pycocoevalcap on the same captions: BLEU, ROUGE-L and CIDEr-D, and how capmeter takes a million.

    python benchmarks/classic.py speed  [--data FILE] [--system NAME] [--repeat 3]
    python benchmarks/classic.py scale  [--data FILE] [--sizes 10000,100000,1000000]
    python benchmarks/classic.py reward [--data FILE]

`speed` needs pycocoevalcap and Java. It prints ratios of whole processes (start, read, tokenise, score; Java's start is
part of the peer's): of a first run, with nothing kept on disk, and of a second on the same references, after captions
of another system were scored; and of scoring alone, on tokenised captions in one process. Peer and capmeter run in
turns and the fastest turn of each counts. It stops if any score of any caption differs. What runs is
`classic_capmeter.py` and `classic_pycocoevalcap.py`.

`scale` repeats the captions, altered, up to each size, with five references each, and scores them in parts in a
process of its own; it prints what the process took to start (with two captions), the processor time per caption after
that, its peak memory, and lines through time and memory, with what they give for ten and a hundred million.

`reward` scores batches of captions of different images with CIDEr-D against frozen references, as text and as ids.

FILE has one JSON row per image: {"references": [...], "captions": {system: caption}} or {"references", "candidate"}.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from classic_pycocoevalcap import peer_scores

HERE = Path(__file__).parent
DATA = Path(os.environ.get("CAPMETER_SHARED", "../shared")) / "data" / "coco_karpathy_test_captions.jsonl.gz"
METRICS = "bleu-4,rouge-l,cider-d"
WHOLE = METRICS + ",meteor"
Rows = list[dict[str, Any]]


def read(path: Path, system: str) -> Rows:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        {
            "id": str(k),
            "image_id": str(k),
            "candidate": row["candidate"] if "candidate" in row else row["captions"][system],
            "references": row["references"],
        }
        for k, row in enumerate(rows)
    ]


def of_process(arguments: list[str], remaining: Path | None = None) -> tuple[float, dict[str, Any]]:
    """The seconds a command took, start to end, and the JSON that it printed last; tables of references are `kept`.

    "processor" in it is the processor time of the command and all that it started, "peak" the largest process's bytes.
    """
    code = "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); used = resource.getrusage("
    code += "resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss); sys.exit(done.returncode)"
    # Compiled modules are kept, as they are where a package is installed; the first turn may have to compile them.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # of both, as the command sets it
    environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), f"capmeter-benchmark-{os.getuid()}")))
    environment["CAPMETER_REFERENCE_CACHE"] = "" if remaining is None else str(remaining)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    seconds = time.perf_counter() - start
    *_, result, used = done.stdout.splitlines()
    processor, peak = map(float, used.split())
    return seconds, {"processor": processor, "peak": peak * (1 if sys.platform == "darwin" else 1024)} | json.loads(
        result
    )


def our_scores(gts: dict[int, list[str]], res: dict[int, list[str]], metrics: str) -> dict[str, Any]:
    import capmeter

    named = [f"{name}(tokenizer=whitespace)" for name in metrics.split(",")]
    candidates, references = [res[k][0] for k in gts], list(gts.values())
    results = capmeter.score(candidates=candidates, references=references, metrics=named)
    return {name.partition("(")[0]: results[name].items.array for name in named}


def compared(own_values: dict[str, Any], theirs: dict[str, Any]) -> float:
    worst = max(float(np.abs(np.asarray(own_values[name]) - np.asarray(theirs[name])).max()) for name in theirs)
    if not worst < 1e-9:
        raise SystemExit(f"the scores differ by up to {worst}")
    return worst


def in_turns(repeat: int, *runs: Callable[[], tuple[float, Any]]) -> list[tuple[float, Any]]:
    """The fastest of `repeat` turns of each run, taken in turns so that a busy moment of the machine meets all."""
    best: list[tuple[float, Any]] = [(float("inf"), None)] * len(runs)
    for _ in range(repeat):
        for k, run in enumerate(runs):
            seconds, result = run()
            best[k] = min(best[k], (seconds, result), key=lambda pair: pair[0])
    return best


def timed(scores: Callable[..., dict[str, Any]], *arguments: Any) -> tuple[float, dict[str, Any]]:
    start = time.perf_counter()
    result = scores(*arguments)
    return time.perf_counter() - start, result


def speed(rows: Rows, other: Rows, repeat: int, metrics: str) -> None:
    from capmeter.text.tokenization.ptb import tokenise

    if shutil.which("java") is None:
        raise SystemExit("the peer needs Java, which is not on this machine")
    with tempfile.TemporaryDirectory() as folder:
        path, before = Path(folder) / "rows.jsonl", Path(folder) / "before.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        before.write_text("".join(json.dumps(row) + "\n" for row in other), encoding="utf-8")
        ours, theirs = ([sys.executable, str(HERE / f"classic_{name}.py")] for name in ("capmeter", "pycocoevalcap"))
        turn = itertools.count()
        of_process([*ours, str(before), metrics], Path(folder) / "kept")
        total = in_turns(
            repeat,
            lambda: of_process([*ours, str(path), metrics], Path(folder) / f"new{next(turn)}"),
            lambda: of_process([*theirs, str(path), metrics]),
            lambda: of_process([*ours, str(path), metrics], Path(folder) / "kept"),
        )
    gts = {k: [" ".join(tokenise(text)) for text in row["references"]] for k, row in enumerate(rows)}
    res = {k: [" ".join(tokenise(row["candidate"]))] for k, row in enumerate(rows)}
    alone = in_turns(
        repeat, lambda: timed(our_scores, gts, res, metrics), lambda: timed(peer_scores, gts, res, metrics)
    )

    sentences = sum(1 + len(row["references"]) for row in rows)
    print(f"{len(rows)} captions, {sentences - len(rows)} references, {metrics}; fastest of {repeat} turns\n")
    print(f"{'':<30}{'capmeter':>12}{'pycocoevalcap':>16}{'ratio':>9}{'largest difference':>21}")
    first, peer, second = total
    used = [(each["processor"], each) for _, each in total]
    for name, ((our_time, a), (peer_time, b)) in (
        ("first run", (first, peer)),
        ("first run, processor time", (used[0], used[1])),
        ("second run", (second, peer)),
        ("second run, processor time", (used[2], used[1])),
        ("scoring alone", alone),
    ):
        worst = compared(*({name: each[name] for name in metrics.split(",")} for each in (a, b)))
        print(f"{name:<30}{our_time:>10.2f} s{peer_time:>14.2f} s{peer_time / our_time:>8.1f}×{worst:>21.1e}")
    peaks = ", ".join(f"{each['peak'] / 2**20:.0f} MB" for _, each in total)
    print(f"\npeak memory of first run, pycocoevalcap, second run: {peaks}")


# what `scale` does


def repeated(rows: Rows, size: int) -> Iterator[dict[str, Any]]:
    """The rows again and again; from the second time on, three sentences of ten have one word exchanged."""
    draw = random.Random(0)
    words = Counter(word for row in rows for text in row["references"] for word in text.split())
    common = [word for word, _ in words.most_common(2000)]

    def altered(text: str) -> str:
        if draw.random() > 0.3:
            return text
        parts = text.split() or [""]
        parts[draw.randrange(len(parts))] = draw.choice(common)
        return " ".join(parts)

    for k in range(size):
        row = rows[k % len(rows)]
        references = (row["references"] * 5)[:5]
        if k >= len(rows):
            row, references = {**row, "candidate": altered(row["candidate"])}, [altered(text) for text in references]
        yield {"id": str(k), "image_id": str(k), "candidate": row["candidate"], "references": references}


def child_scale(path: str, metrics: str) -> dict[str, Any]:
    import capmeter

    message, output = ["A dog's ball (red), 3 of 4.", "two cats"], [["it's a dog"], ["a cat", "cats"]]
    capmeter.score(candidates=message, references=output, metrics=metrics)  # what is loaded once
    start, spent = time.perf_counter(), time.process_time()
    corpus = capmeter.score_parts(path, metrics, Path(path).with_suffix(""), intervals=False).systems[""]
    seconds, began, spent = time.perf_counter() - start, spent, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "began": began,
        "spent": spent,
        "peak": peak * (1 if sys.platform == "darwin" else 1024),
        "scores": corpus.scores,
    }


def scale(rows: Rows, sizes: list[int], metrics: str) -> None:
    print(f"{metrics}, five references each, a file in parts")
    print(f"{'captions':>10}{'start':>9}{'seconds':>10}{'processor µs/caption':>22}{'peak memory':>14}   scores")
    spent, peaks = [], []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for row in repeated(rows, size):
                    file.write(json.dumps(row) + "\n")
            _, outcome = of_process([sys.executable, __file__, "child-scale", str(path), metrics])
        spent.append(outcome["spent"])
        peaks.append(outcome["peak"] / 2**20)
        scores = ", ".join(f"{value:.4f}" for value in outcome["scores"].values())
        start, seconds, per_caption = outcome["began"], outcome["seconds"], spent[-1] / size * 1e6
        print(
            f"{size:>10,}{start:>7.2f} s{seconds:>10.1f}{per_caption:>22.1f}{peaks[-1]:>11.0f} MB   {scores}",
            flush=True,
        )
    if len(sizes) > 1:
        each, fixed = np.polyfit(sizes, spent, 1, w=1 / np.array(sizes))  # relative errors count alike
        more, least = np.polyfit(sizes, peaks, 1)
        print(f"\nprocessor: {fixed:.1f} s + {1e6 * each:.1f} µs per caption", end="")
        print(f"; memory: {least:.0f} MB + {1e6 * more:.0f} MB per million captions")
        for size in (10_000_000, 100_000_000):
            hours, gigabytes = (fixed + each * size) / 3600, (least + more * size) / 1024
            print(f"{size:>11,} captions in one process, by these lines: {hours:.1f} hours, {gigabytes:.1f} GB")


def rewards(rows: Rows) -> None:
    import capmeter

    numbers: dict[str, int] = {}

    def ids(text: str) -> list[int]:
        return [numbers.setdefault(word, len(numbers) + 1) for word in text.lower().split()]

    draw = random.Random(0)
    print(f"{'CIDEr-D as reward':<20}{'batch':>8}{'captions per second of processor time':>40}")
    for kind, convert, eos in (("text", str, None), ("token ids", ids, 0)):
        references = {row["id"]: [convert(text) for text in row["references"]] for row in rows}
        scorer = capmeter.reward("cider-d", references=references, eos=eos)
        for size in (50, 200, 300, 500, 1000):
            spent, scored = 0.0, 0
            for _ in range(max(5, 6000 // size)):
                batch = draw.sample(rows, min(size, len(rows)))
                captions, images = [convert(row["candidate"]) for row in batch], [row["id"] for row in batch]
                start = time.process_time()
                scorer(captions, images)
                spent, scored = spent + time.process_time() - start, scored + len(batch)
            print(f"{kind:<20}{size:>8}{scored / spent:>40,.0f}")


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] == "child-scale":
        print("\n" + json.dumps(child_scale(sys.argv[2], sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "scale", "reward"))
    parser.add_argument("--data", type=Path, default=DATA, help=f"captions (default {DATA})")
    parser.add_argument("--system", default="m2_transformer", help="whose captions, where a row has several systems'")
    parser.add_argument(
        "--before", default="smurf_system_3", help="whose captions were scored before the second run (speed)"
    )
    parser.add_argument("--metrics", default="", help=f"with and without meteor (default {WHOLE}, scale: {METRICS})")
    parser.add_argument("--repeat", type=int, default=3, help="turns of peer and capmeter (speed)")
    parser.add_argument("--sizes", default="10000,30000,100000,300000,1000000", help="numbers of captions (scale)")
    selection = parser.parse_args()
    if not selection.data.is_file():
        parser.error(f"{selection.data} is not there; name a file of captions with --data")
    rows = read(selection.data, selection.system)
    if selection.what == "speed":
        other = read(selection.data, selection.before) if selection.before else rows
        speed(rows, other, selection.repeat, selection.metrics or WHOLE)
    elif selection.what == "reward":
        rewards(rows)
    else:
        scale(rows, [int(size) for size in selection.sizes.split(",")], selection.metrics or METRICS)


if __name__ == "__main__":
    main()
