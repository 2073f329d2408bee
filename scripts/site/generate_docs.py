"""Write the parts of pages that are made from what metrics declare: parameters, extras, when each misleads, agreement.

    python scripts/site/generate_docs.py

A part stands between two comments, `<!-- made by scripts/site/generate_docs.py: NAME -->` and `<!-- end of NAME -->`.
The site makes them anew when it is built. A test compares each with what this script would write of the metrics that it
names, so that a metric can be added without touching a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from capmeter.core.errors import CapmeterError
from capmeter.core.named import Named, parameters_of
from capmeter.core.registry import Registry
from capmeter.evaluation.registry import METRICS
from capmeter.judgments.protocol import Protocol
from capmeter.transforms.degradations import TRANSFORMS

ROOT = Path(__file__).resolve().parents[2]
AGREEMENT = ROOT / "docs" / "agreement.json"
PAGES = ("docs/install.md", "docs/choosing.md", "docs/parameters.md")
BENCHMARKS = ("flickr8k-expert", "composite")
KINDS: tuple[tuple[str, Registry[Any]], ...] = (("Metrics", METRICS), ("Transforms", TRANSFORMS))
# what an extra brings beside the metrics that need it
EXTRAS = {
    "meteor": "METEOR's tables and WordNet's synonyms; no Java is run ([more](docs/spice.md))",
    "neural": "torch, and an encoder that works offline ([encoders](docs/embedding.md), "
    "[the toolkit's own metric](docs/own-metric.md))",
    "vision": "torch, and reading of images; models are yours ([more](docs/images.md))",
    "judges": "questions to a language model on a server ([more](docs/judges.md))",
    "research": "a distribution of its own (`pip install ./research`)",
}
PART = re.compile(
    r"(<!-- made by scripts/site/generate_docs.py: (\w+) -->\n\n)(.*?)(\n\n<!-- end of \2 -->)", re.DOTALL
)


def generate(page: str, folder: str) -> str:
    """The page with its parts as they should be.

    Args:
        page: its text.
        folder: where it is, for links to other pages: "docs", or "" for the project's folder.
    """
    return PART.sub(lambda match: f"{match[1]}{make_part(match[2], folder, metric_names())}{match[4]}", page)


def make_part(part: str, folder: str, names: list[str]) -> str:
    """A part of a page in this folder, about these metrics."""
    text = PARTS[part](names)
    return text.replace("](docs/", "](") if folder else text


def is_of_this_project(registry: Registry[Any], name: str) -> bool:
    """Whether the library or capmeter-research provides a name."""
    return (registry.entry(name).package or "capmeter-research").startswith("capmeter-research")


def metric_names() -> list[str]:
    """The metrics of the library and of capmeter-research."""
    return [name for name in METRICS.names() if is_of_this_project(METRICS, name)]


def list_families(names: list[str]) -> dict[str, list[str]]:
    """The names of metrics by family, in their order."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(METRICS.class_of(name).FAMILY, []).append(name)
    return families


def example_of(name: str) -> str:
    """The text form with which a metric is shown."""
    example = METRICS.class_of(name).EXAMPLE
    return f"{name}({example})" if example else name


def extras_of(name: str) -> tuple[str, ...]:
    """The extras that a metric needs, those of the metrics that it requires included."""
    try:
        return METRICS.parse(example_of(name)).extras
    except CapmeterError:  # it needs a file
        return tuple((METRICS.class_of(name).EXTRA or "").split(","))


def make_parameters(names: list[str]) -> str:
    """These metrics, and every transform and test, with their parameters."""
    return "\n\n".join(_sections(names))


def _sections(names: list[str]) -> Iterator[str]:
    for title, registry in KINDS:
        yield f"## {title}"
        for name in names if registry is METRICS else registry.available():
            if is_of_this_project(registry, name):
                yield describe_parameters(name, registry.class_of(name), registry.entry(name).implied_parameters)
    yield "## Protocols"
    yield describe_parameters("protocol", Protocol, {"name"})


def describe_parameters(name: str, kind: type[Named], implied_parameters: Any = ()) -> str:
    """A name, its summary, and a row for each parameter."""
    rows = [
        f"| `{each.name}` | {_cell(each.expected)} | {_cell(each.to_dict()['default'])} | {_cell(each.help)} |"
        for each in parameters_of(kind).values()
        if each.name not in implied_parameters
    ]
    table = ["", "| parameter | is | default | meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {name}", "", f"{kind.SUMMARY[0].upper()}{kind.SUMMARY[1:]}.", *table])


def make_extras(names: list[str]) -> str:
    """A row for each set of extras, with the metrics that need it."""
    names_by_extra: dict[tuple[str, str], list[str]] = {}
    for name in names:
        extras = extras_of(name)
        if METRICS.entry(name).package is None:
            key = "capmeter", ",".join(extras)
        else:  # its extra `neural` brings `capmeter[neural,vision]`, and `judges` also `capmeter[judges]`
            extra = next((each for each in ("judges", "neural") if each in extras), "neural" if extras else "")
            key = "capmeter-research", "all" if {"all", "meteor"} & set(extras) else extra
        names_by_extra.setdefault(key, []).append(name)
    order = ["", *EXTRAS, "all"]
    rows = ["| install | for the metrics | which brings |", "|---|---|---|"]
    for distribution, extra in sorted(names_by_extra, key=lambda key: (key[0], *map(order.index, key[1].split(",")))):
        brought = "research" if distribution == "capmeter-research" and not extra else extra
        metrics = ", ".join(f"`{name}`" for name in names_by_extra[distribution, extra])
        rows.append(f"| `{distribution}{f'[{extra}]' if extra else ''}` | {metrics} | {EXTRAS.get(brought, '')} |")
    return "\n".join(rows)


def make_misleads(names: list[str]) -> str:
    """When each metric misleads; those that declare the same in one line."""
    names_by_text: dict[str, list[str]] = {}
    for family in list_families(names).values():
        for name in family:
            if text := METRICS.class_of(name).MISLEADS:
                names_by_text.setdefault(text, []).append(name)
    return "\n".join(f"* **{', '.join(each)}**: {link_pages(text)}" for text, each in names_by_text.items())


def link_pages(text: str) -> str:
    """The text with links where it names a page of the documentation."""
    return re.sub(r"\b(?:research/)?docs/([\w-]+)\.md\b", r"[\1](docs/\1.md)", text)


def make_agreement(_: list[str]) -> str:
    """The table of the values in docs/agreement.json, which scripts/agreement.py measures."""
    agreement_values = json.loads(AGREEMENT.read_text("utf-8"))
    lines = [
        "| metric | Flickr8k-Expert, τ_c | 95% interval | Composite, τ_c | 95% interval | seconds |",
        "|---|---|---|---|---|---|",
    ]
    by_agreement = sorted(agreement_values["metrics"].items(), key=lambda each: -each[1]["flickr8k-expert"][0])
    for name, values in by_agreement:
        cells = [
            f"{values[each][0]} | [{values[each][1]}, {values[each][2]}]" if each in values else "not run | "
            for each in BENCHMARKS
        ]
        page = name.partition("(")[0]
        lines.append(f"| [{name}](docs/metrics/{page}.md) | {' | '.join(cells)} | {values.get('seconds', 'not run')} |")
    human = agreement_values["people"]["flickr8k-expert"]
    lines.append(f"| inter-annotator agreement | {human} | | | | |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[list[str]], str]] = {
    "parameters": make_parameters,
    "extras": make_extras,
    "misleads": make_misleads,
    "agreement": make_agreement,
}


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(generate(path.read_text("utf-8"), str(Path(page).parent).removeprefix(".")), encoding="utf-8")
