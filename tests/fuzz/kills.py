"""Kills commands at random moments: every file that they write must be whole, the earlier one or the new one.

    python tests/fuzz/kills.py --kills 300 --captions 1000 --seed 0

Each command first runs to its end twice, which says what its files hold then. Then it is begun again and again over
files of an earlier run, and killed (SIGKILL): half of the times at a moment drawn from its whole duration, half of the
times within milliseconds after a temporary file appeared, so that writing itself is hit. At the end it runs once more:
the right files are there, and no temporary file of a killed run is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

COMMANDS = {
    "score": "score a.json -r r.json -m rouge-l,bleu-4 --no-intervals -o out/scores.json --per-caption out/r.parquet",
    "score to csv": "score a.json b.json -r r.json -m rouge-l --no-intervals -o out/s.json --per-caption out/r.csv.gz",
    "score in parts": "score rated.jsonl -m rouge-l,bleu-4 --no-intervals --parts out --rows 15",
    "report": "report s.json -o out/page.html --resamples 10 --explain 50 --images none",
    "convert": "convert a.json out/rows.jsonl.gz --to jsonl -r r.json",
    "convert apart": "convert a.json out/results.json --to coco -r r.json --references-out out/references.json",
    "meta": "meta -b rated -d rated.jsonl -m rouge-l --resamples 10 --per-caption out/items.csv --plot out/meta.png",
    "compare": (
        "compare a.json b.json -r r.json -m rouge-l --permutations 100 --resamples 10 -o out/c.json --plot out/c.png"
    ),
    "robustness": "robustness r.json -m rouge-l --images 40 --resamples 10 -o out/curves.json --plot out/curves.png",
}
WORDS = (
    "a the dog cat man woman runs sits on in grass sofa red two small plays with ball near street".split()  # noqa: SIM905
)
EARLIER = b"what an earlier run wrote\n"


@dataclass
class Found:
    """How the runs ended, and what was wrong."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def make_inputs(folder: Path, captions: int, seed: int) -> None:
    """Captions of two systems with references, rated rows, and saved results of them."""
    sample = random.Random(seed)

    def sentence() -> str:
        return " ".join(sample.choice(WORDS) for _ in range(sample.randint(4, 12)))

    references = {str(k): [sentence() for _ in range(3)] for k in range(captions)}
    (folder / "r.json").write_text(json.dumps(references))
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps({key: [sentence()] for key in references}))
    rows = [
        {"image_id": key, "candidate": sentence(), "references": texts, "human": [sample.randint(1, 5)]}
        for key, texts in references.items()
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(folder, "score a.json -r r.json -m rouge-l,bleu-4 --no-intervals -o s.json")


def begin(folder: Path, command: str) -> int:
    """Begins a command in a forked process, for which everything is imported already; gives its id."""
    process = os.fork()
    if process:
        return process
    try:
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.argv = ["capmeter", *command.split()]
        from capmeter.cli.main import main

        main()
    except SystemExit as leaving:
        os._exit(leaving.code if isinstance(leaving.code, int) else 0)
    finally:
        os._exit(70)


def run(folder: Path, command: str) -> float:
    """Runs a command to its end; gives the seconds that it took."""
    start = time.monotonic()
    _, status = os.waitpid(begin(folder, command), 0)
    if status:
        raise RuntimeError(f"capmeter {command}: ended with status {status}")
    return time.monotonic() - start


def killed(folder: Path, command: str, seconds: float, sample: random.Random, writing: bool) -> bool:
    """Begins a command and kills it; whether it had not ended by itself."""
    process = begin(folder, command)
    if writing:
        limit = time.monotonic() + 3 * seconds + 5
        while not list((folder / "out").glob(".*.part")) and time.monotonic() < limit:
            if os.waitpid(process, os.WNOHANG)[0]:
                return False
        time.sleep(sample.random() * 0.004)
    else:
        time.sleep(sample.random() * seconds * 1.05)
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder that are not temporary."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".part")}


def fuzz(kills: int, captions: int, seed: int, commands: dict[str, str] = COMMANDS) -> Found:
    """So many kills, spread evenly over the commands."""
    found, sample = Found(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        make_inputs(folder, captions, seed)
        for location, (title, command) in enumerate(commands.items()):
            seconds = run(folder, command)
            new = contents(out)
            run(folder, command)
            if contents(out) != new:
                found.faults.append(f"{title}: two runs wrote different files")
            for number in range(kills // len(commands) + (location < kills % len(commands))):
                earlier = sample.random() < 0.7  # else there is no file of an earlier run
                for path in list(out.iterdir()):
                    if not path.name.endswith(".part"):
                        path.unlink()
                for file in new if earlier else ():
                    (out / file).write_bytes(EARLIER)
                cut = killed(folder, command, seconds, sample, writing=number % 2 == 0)
                after = contents(out)
                for file, data in after.items():
                    if file not in new or data not in (new[file], EARLIER):
                        found.faults.append(f"{title}: kill {number} left {file} with {len(data)} bytes: {data[:60]!r}")
                if earlier and len(after) < len(new):
                    found.faults.append(f"{title}: kill {number} lost {sorted(set(new) - set(after))}")
                text = sum(after.get(file) == data for file, data in new.items())
                part = any(path.name.endswith(".part") for path in out.iterdir())
                state = "all written" if text == len(new) else "some written" if text else "none written"
                found.ends[f"{'killed' if cut else 'ended'}, {state}{', while writing' if part and cut else ''}"] += 1
            run(folder, command)
            if contents(out) != new:
                found.faults.append(f"{title}: the run after the kills wrote other files")
            found.faults += [f"{title}: {path.name} is left" for path in out.iterdir() if path.name.endswith(".part")]
            for path in out.iterdir():
                path.unlink()
    return found


def main() -> None:
    """Prints how the runs ended; leaves with 1 where something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--captions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", default="", help="some of the commands, separated by commas")
    inputs = parser.parse_args()
    selection = {title: COMMANDS[title] for title in filter(None, inputs.commands.split(","))} or COMMANDS
    import importlib

    from capmeter.cli.main import commands as command_modules

    for command in selection.values():
        importlib.import_module(command_modules()[command.split()[0]])
    # what a fresh process would spend its time on
    import matplotlib.backends.backend_agg  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    found = fuzz(inputs.kills, inputs.captions, inputs.seed, selection)
    print(json.dumps({"kills": inputs.kills, "ends": dict(found.ends), "faults": found.faults}, indent=1))
    sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
