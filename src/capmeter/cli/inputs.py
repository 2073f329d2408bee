"""Systems as the command line names them: `FILE`, `NAME=FILE`, several systems in one file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from capmeter.errors import InputError


def name_and_path(given: str) -> tuple[str | None, str]:
    """`NAME=FILE` or `FILE`; a file whose own name contains `=` is used as it is."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and name and not Path(given).exists() else (None, given)


def label_of(name: str | None, found: str, alone: bool, known: Collection[str]) -> str:
    """The name of the system `found` in the file that was named `name`; duplicate names are an `InputError`."""
    label = found if name is None else name if alone else f"{name}/{found}"
    if label in known:
        raise InputError(f"two systems have the name {label!r}; name each one: NAME=FILE")
    return label
