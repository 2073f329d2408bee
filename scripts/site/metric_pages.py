"""One page for each metric: what its docstring says, its parameters, agreement with people, and a real run."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from console import transcript
from formulas import formula
from generate_docs import describe_parameters, example_of, extras_of, list_families, metric_names

from capmeter.core.assets import install_command, missing_install_command
from capmeter.core.errors import CapmeterError
from capmeter.evaluation.registry import METRICS

ROOT = Path(__file__).resolve().parents[2]

_DOCUMENT = re.compile(r"\b(?:research/)?docs/([\w-]+)\.md\b")
_CODE = re.compile(r"(`[^`]+`)")


def navigation() -> list[Any]:
    """The part of the navigation."""
    groups = [
        {title: [{name: f"metrics/{name}.md"} for name in group]}
        for title, group in list_families(metric_names()).items()
    ]
    return [{"All metrics": "metrics/index.md"}, *groups]


def pages(work: Path) -> dict[str, str]:
    """Every page by its path; commands run in `work`, which has the demo."""
    judgments = json.loads((ROOT / "docs" / "agreement.json").read_text("utf-8"))
    result = {"metrics/index.md": _index()}
    return result | {f"metrics/{name}.md": _page(name, judgments, work / "capmeter-demo") for name in metric_names()}


def _index() -> str:
    parts = [
        "# All metrics",
        "[Choosing a metric](../choosing.md) compares them. Install names what a metric needs beside "
        "`pip install capmeter`.",
    ]
    for title, group in list_families(metric_names()).items():
        rows = ["| metric | measures | needs | install |", "|---|---|---|---|"]
        for name in group:
            needs, extra = _needs(name)
            rows.append(f"| [{name}]({name}.md) | {METRICS.class_of(name).SUMMARY} | {needs} | {extra} |")
        parts += [f"## {title}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _needs(name: str) -> tuple[str, str]:
    """What captions must have, and the extra to install."""
    try:
        needs = METRICS.parse(example_of(name)).needs
    except CapmeterError:  # it needs a file
        needs = frozenset({"image"})
    extras = ",".join(extras_of(name))
    extras = "all" if "all" in extras.split(",") else extras
    return ", ".join(sorted(needs)) or "captions alone", f"`{install_command(extras)}`" if extras else ""


def _page(name: str, judgments: dict[str, Any], demo: Path) -> str:
    kind = METRICS.class_of(name)
    needs, install = _needs(name)
    facts = [f"* **Needs**: {needs}"]
    if install:
        facts.append(f"* **Install**: {install}")
    if METRICS.entry(name).package is not None:
        facts.append("* **Distribution**: capmeter-research (`pip install ./research` in a clone)")
    facts += _agreement(name, judgments)
    source = inspect.getmodule(kind)
    assert source is not None and source.__doc__ is not None
    section = describe_parameters(name, kind, METRICS.entry(name).implied_parameters).split("\n\n", 2)[2:]
    return "\n\n".join(
        [
            f"# {name}",
            f"{kind.SUMMARY[0].upper()}{kind.SUMMARY[1:]}.",
            "\n".join(facts),
            *(["## Formula", formula(name, kind.FORMULA)] if kind.FORMULA else []),
            "## What it measures",
            as_markdown(source.__doc__),
            *(["## When it misleads", _text(kind.MISLEADS)] if kind.MISLEADS else []),
            "## Parameters",
            *(section or ["None."]),
            "## A run",
            _run(name, demo),
            f"Source: `{source.__name__}`.\n",
        ]
    )


def _agreement(name: str, judgments: dict[str, Any]) -> list[str]:
    result = judgments["metrics"].get(example_of(name))
    if result is None:
        return []
    value, low, high = result["flickr8k-expert"]
    people = judgments["people"]["flickr8k-expert"]
    lines = [
        f"* **Agreement with people**: τ_c {value} [{low}, {high}] on Flickr8k-Expert; people among themselves "
        f"{people} ([more](../choosing.md))"
    ]
    if "seconds" in result:
        lines.append(f"* **Cost**: {result['seconds']} processor seconds for 1,000 captions with five references")
    return lines


def _run(name: str, demo: Path) -> str:
    """A run on the example captions, with the explanation of one score."""
    if guide := METRICS.class_of(name).GUIDE:
        page = guide.removeprefix("docs/")
        return f"The example captions have no pictures, and no server answers here: [how to run it](../{page})."
    metric = METRICS.parse(example_of(name))
    missing = missing_install_command(",".join(metric.extras) or None)
    if missing is not None:
        return f"Not run when this page was made: `{missing}` was missing."
    text = str(metric)
    quoted = f'"{text}"' if "(" in text else text
    commands = [f"capmeter score strong.json weak.json -r references.json -m {quoted}"]
    if type(metric).explain is not METRICS.family.explain:
        commands.append(f"capmeter explain weak.json -r references.json -m {quoted} --worst 1")
    return f"In the folder of `capmeter demo`:\n\n```console\n{transcript(commands, demo)}\n```"


def as_markdown(docstring: str) -> str:
    """A module's docstring: formulas and examples as code, text with its symbols."""
    blocks = re.split(r"\n\s*\n", textwrap.dedent(inspect.cleandoc(docstring)))
    output: list[str] = []
    for block in blocks:
        lines = block.splitlines()
        if block.startswith(">>>"):
            display = re.sub(r"\s*# doctest: \+\w+", "", block)
            output.append(f"```pycon\n{display}\n```")
        elif all(line.startswith("    ") for line in lines):
            output.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            output.append(_text(block))
    return "\n\n".join(output)


def _text(block: str) -> str:
    """A paragraph; lines that are indented below text are a code block of their own."""
    lines = block.splitlines()
    formula = next((k for k, line in enumerate(lines) if k and line.startswith("    ")), None)
    if formula is not None and all(line.startswith("    ") for line in lines[formula:]) and lines[0][:2] not in ("* ",):
        if re.match(r"\w+: ", lines[0]):  # a parameter and its meaning
            lines = ["* " + lines[0], *lines[1:]]
        else:
            code = textwrap.dedent("\n".join(lines[formula:]))
            return f"{_text(chr(10).join(lines[:formula]))}\n\n```text\n{code}\n```"
    parts = _CODE.split("\n".join(lines))
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"(?<!^)(?<!\n)([*_<])", r"\\\1", parts[k])
        parts[k] = re.sub(r"(?m)^([<_])", r"\\\1", parts[k])
        parts[k] = _DOCUMENT.sub(r"[\1](../\1.md)", parts[k])
    return "".join(parts)
