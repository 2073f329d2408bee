"""Systems as the command line names them: `FILE`, `NAME=FILE`, several systems in one file, stored results."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load_systems
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.sources import CaptionSource
from capmeter.cli.main import echo
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.options import flat_options
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import is_needed, parse, parse_list
from capmeter.evaluation.results import Results, read_all

System = TypeVar("System")


def name_and_path(given: str) -> tuple[str | None, str]:
    """`NAME=FILE` or `FILE`; a file whose own name contains `=` is used as it is."""
    name, equals, path = given.partition("=")
    if not given or (equals and not path and not Path(given).exists()):
        raise InputError(f"{given!a}: no file is named; expected FILE or NAME=FILE")
    return (name, path) if equals and name and not Path(given).exists() else (None, given)


def input_files(files: Iterable[str], options: LoadOptions) -> list[str | os.PathLike[str]]:
    """The paths of these files, `FILE` or `NAME=FILE`, and of the references."""
    return [*(name_and_path(named_file)[1] for named_file in files), *options.reference_files]


def name_system(name: str | None, found: str, alone: bool, known: Collection[str]) -> str:
    """The name of the system `found` in the file that was named `name`; duplicate names are an `InputError`.

    Args:
        name: as given on the command line, if it was.
        found: the name in the file.
        alone: whether the file has no other system.
        known: the names of systems read before.
    """
    label = found if name is None else name if alone else f"{name}/{found}"
    if label in known:
        raise InputError(f"two systems have the name {label!r}; name each one: NAME=FILE")
    return label


def open_systems(files: Iterable[str], read: Callable[[str], Mapping[str, System]]) -> dict[str, System]:
    """The systems of these files, `FILE` or `NAME=FILE`, by name.

    Args:
        files: as given on the command line.
        read: gives the systems of a file.
    """
    systems: dict[str, System] = {}
    for given_name, path in map(name_and_path, files):
        loaded = read(path)
        for name, system in loaded.items():
            systems[name_system(given_name, name, len(loaded) == 1, systems)] = system
    return systems


def read_stored(path: str) -> dict[str, Results] | None:
    """The systems of a file that `score --output` wrote; None for any other file."""
    file_start = b"".join(CaptionSource.resolve(path).first_lines())[:40].replace(b" ", b"")
    return read_all(path) if file_start.startswith(b'{"capmeter":') else None


def refuse_unused(options: LoadOptions, stored: Collection[str], *, are_all: bool = True) -> None:
    """Raises for options of reading captions if all files are stored results; notes them if some are.

    Args:
        options: of reading captions.
        stored: the files of stored results.
        are_all: whether there are no other files.
    """
    defaults = LoadOptions()
    option_names = [
        (declared.flags or (f"--{each.name.replace('_', '-')}",))[0]
        for each, _, declared, _ in flat_options(LoadOptions)
        if getattr(options, each.name) not in (getattr(defaults, each.name), "keep")  # commands choose "keep" too
    ]
    if option_names and stored:
        message = f"{list_names(option_names, 12)}: not for stored results, whose captions stay as they were scored"
        if are_all:
            raise InputError(f"{message} ({list_names(stored)}); leave it out, or name the files of captions")
        echo(f"note: {message}: {list_names(stored)}")


def choose_metrics(names: str, stored: Sequence[Results], default: str) -> tuple[Metric, ...]:
    """The metrics that are named; without any those that all stored results have, and without results the default.

    Args:
        names: as given, separated by commas; may be empty.
        stored: results that were read.
        default: names, separated by commas.
    """
    if names or not stored:
        return tuple(parse_list(names or default))
    shared_names = [metric_name for metric_name in stored[0] if all(metric_name in set(each) for each in stored)]
    if not shared_names:
        raise InputError("the stored results have no metric in common; name metrics with --metrics")
    return tuple(parse(metric_name) for metric_name in shared_names)


def for_metrics(options: LoadOptions, metrics: Iterable[Metric]) -> LoadOptions:
    """How captions are read for these metrics: without references, if none of them needs any."""
    return options if is_needed("references", metrics) else replace(options, on_missing="keep")


def open_named_systems(files: Sequence[str], options: LoadOptions) -> dict[str, CaptionSet | Results]:
    """The systems of these files of captions or results, `FILE` or `NAME=FILE`, by name."""
    paths = dict.fromkeys(name_and_path(named_file)[1] for named_file in files)
    stored = {path: results for path in paths if (results := read_stored(path)) is not None}
    refuse_unused(options, stored, are_all=len(stored) == len(paths))
    return open_systems(files, lambda path: stored.get(path) or load_systems(path, options=options))


def load_named_systems(files: Sequence[str], options: LoadOptions) -> dict[str, CaptionSet]:
    """The captions of the systems of these files of captions or results, `FILE` or `NAME=FILE`, by name."""
    from capmeter.meta.comparison import load_system  # which the command `score` does not need

    return {name: load_system(name, system, None) for name, system in open_named_systems(files, options).items()}
