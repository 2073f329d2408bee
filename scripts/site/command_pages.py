"""One page for each command: what its help says, its options, and real runs on the example captions."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import typer
from console import transcript

from capmeter.cli.main import commands

DEMO = "capmeter-demo"
# command: what is run, in the folder of `capmeter demo`; each list is one run, the last number its exit code if not 0
RUNS: dict[str, list[tuple[list[str], int]]] = {
    "demo": [(["capmeter demo another-folder"], 0)],
    "score": [
        (["capmeter score strong.json -r references.json -m bleu-4,rouge-l,cider-d"], 0),
        (
            [
                "capmeter score human.json strong.json weak.json -r references.json -m bleu-4,cider-d,sparcs "
                "--format latex --scale 100"
            ],
            0,
        ),
        (["capmeter score weak.json -r references.json -m cider-d --minimum cider-d=0.5"], 4),
        (["capmeter score missing.json -r references.json"], 1),
    ],
    "explain": [(["capmeter explain weak.json -r references.json -m rouge-l,cider-d --worst 1"], 0)],
    "report": [(["capmeter report scores.json -o page.html", "capmeter report scores.json --format markdown"], 0)],
    "view": [(["capmeter view scores.json"], 0), (["capmeter view strong.json"], 1)],
    "list": [(["capmeter list cider-d"], 0), (["capmeter list transforms"], 0)],
    "validate": [(["capmeter validate broken.json -r references.json"], 0)],
    "convert": [
        (["capmeter convert strong.json strong.jsonl --to jsonl -r references.json", "head -1 strong.jsonl"], 0)
    ],
    "idf": [
        (
            [
                "capmeter idf references.json --output idf.npz",
                'capmeter score strong.json -r references.json -m "cider-d(idf=idf.npz)"',
            ],
            0,
        )
    ],
    "compare": [(["capmeter compare -r references.json strong=strong.json weak=weak.json"], 0)],
    "chair": [(["capmeter chair strong.json weak.json -r references.json --worst 2"], 0)],
    "robustness": [(["capmeter robustness references.json -m bleu-1,rouge-l,cider-d"], 0)],
    "meta": [
        (
            [
                "capmeter scenes made --split test --size 200 --pixels 32",
                "capmeter meta -b rated -d made/captions.jsonl -m bleu-4,rouge-l,cider-d",
            ],
            0,
        )
    ],
    "systems": [(["capmeter systems strong.json weak.json --human human.json -r references.json -e minilm"], 0)],
    "standardize": [(["capmeter standardize human.json -r references.json --encoder minilm --output mine.json"], 0)],
    "calibrate": [(["capmeter calibrate references.json --encoder minilm --pairs 200"], 0)],
    "study": [(["capmeter study --help"], 0)],
    "negatives": [(["capmeter negatives human.json -r references.json --show 1"], 0)],
    "train": [(["capmeter train --help"], 0)],
    "write": [
        (
            [
                "capmeter write demo=references.json --style coco --photos 3 --each 1 --references -o written.jsonl",
                "head -2 written.jsonl",
            ],
            0,
        )
    ],
    "caption": [(["capmeter caption --help"], 0)],
    "scenes": [(["capmeter scenes drawn --size 5", "ls drawn", "head -1 drawn/captions.jsonl"], 0)],
    "schema": [(["capmeter schema | head -20"], 0)],
    "mcp": [(["capmeter mcp --help"], 0)],
    "doctor": [(["capmeter doctor"], 0)],
}
# guides that say more
GUIDES = {
    "score": "formats.md",
    "compare": "compare.md",
    "chair": "hallucination.md",
    "meta": "benchmarks.md",
    "robustness": "robustness.md",
    "calibrate": "embedding.md",
    "write": "writer.md",
    "caption": "captioner.md",
    "scenes": "synthetic-scenes.md",
    "convert": "formats.md",
    "negatives": "umic.md",
    "view": "shell.md",
    "mcp": "agents.md",
}


def navigation() -> list[Any]:
    """The part of the navigation."""
    if set(RUNS) != set(commands()):
        raise ValueError(f"scripts/site/command_pages.py: RUNS and the commands differ: {set(RUNS) ^ set(commands())}")
    return [{"All commands": "commands/index.md"}, *({name: f"commands/{name}.md"} for name in commands())]


def pages(work: Path) -> dict[str, str]:
    """Every page by its path. Makes the demo in `work`, where the commands run."""
    started = transcript([f"capmeter demo {DEMO}"], work)
    rows = ["| command | does |", "|---|---|"]
    by_path = {}
    for name in commands():
        command = _command(name)
        rows.append(f"| [{name}]({name}.md) | {_first(command.help)} |")
        by_path[f"commands/{name}.md"] = _page(name, command, work / DEMO)
    index = [
        "# All commands",
        "Results go to standard output, progress and notes to standard error. Exit codes: 0 done, 1 the input is bad "
        "or the output cannot be written, 2 wrong usage, 3 something optional is missing, 4 a requested check failed.",
        "\n".join(rows),
        "What the pages of commands show was run when this site was built, in the folder that this makes:",
        f"```console\n{started}\n```\n",
    ]
    return {"commands/index.md": "\n\n".join(index), **by_path}


def _command(name: str) -> Any:
    return typer.main.get_command(importlib.import_module(commands()[name]).app)


def _first(help: str | None) -> str:
    return inspect.cleandoc(help or "").split("\n\n")[0].replace("\n", " ")


def _page(name: str, command: Any, demo: Path) -> str:
    parts = [f"# capmeter {name}", inspect.cleandoc(command.help or "")]
    if name in GUIDES:
        parts.append(f"More: [the guide](../{GUIDES[name]}).")
    parts.append("## Run")
    parts += [f"```console\n{transcript(lines, demo, code)}\n```{_ended(code)}" for lines, code in RUNS[name]]
    inner = getattr(command, "commands", None)
    if inner:
        for each, sub in inner.items():
            parts += [f"## capmeter {name} {each}", inspect.cleandoc(sub.help or ""), *_options(sub, f"{name} {each}")]
    else:
        parts += ["## Options", *_options(command, name)]
    return "\n\n".join(parts) + "\n"


def _ended(code: int) -> str:
    return f"\n\nExit code {code}." if code else ""


def _options(command: Any, called: str) -> list[str]:
    """Arguments and options, each with its default and meaning."""
    inner = getattr(command, "commands", None)
    if inner:
        return [f"`capmeter {called} {each}`: {_first(sub.help)}" for each, sub in inner.items()]
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for parameter in command.params:
        names = [*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ())]
        label = parameter.metavar or parameter.name if parameter.param_type_name == "argument" else ", ".join(names)
        default = parameter.default
        shown = "" if default is None or default is False or callable(default) or default in ([], "", ()) else default
        if parameter.required:
            shown = "required"
        help = (getattr(parameter, "help", None) or "").replace("|", "\\|")
        rows.append(f"| `{label}` | {str(shown).replace('|', chr(92) + '|')} | {help} |")
    return ["\n".join(rows)]
