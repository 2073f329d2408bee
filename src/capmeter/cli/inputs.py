"""Systems as the command line names them: `FILE`, `NAME=FILE`, several systems in one file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from capmeter.errors import InputError
from capmeter.settings import Settings


def name_and_path(given: str) -> tuple[str | None, str]:
    """`NAME=FILE` or `FILE`; a file whose own name has a `=` is taken as it is."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and name and not Path(given).exists() else (None, given)


def label_of(name: str | None, found: str, alone: bool, known: Collection[str]) -> str:
    """What to call the system `found` in the file that was named `name`; two of one name are an `InputError`."""
    label = found if name is None else name if alone else f"{name}/{found}"
    if label in known:
        raise InputError(f"two systems are called {label!r}; name each: NAME=FILE")
    return label


def machine(device: str | None, precision: str | None = None) -> Settings:
    """`--device` and `--precision` as settings; what was not given comes from the environment."""
    given: dict[str, Any] = {"device": device, "precision": precision}
    return Settings(**{key: value for key, value in given.items() if value is not None})
