"""Values of options that need no check, without what Typer loads to check them.

Typer converts every value with Pydantic, which takes longer to load than a small run. Most values need no conversion:
an option that is not given, a flag, text that stays text, a file to be written. They are taken as they are; all others
(numbers that are given, folders that must exist, what is missing or wrong) are left to Typer, which says what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

_LEFT = object()


def taken_as_they_are(command: Any) -> None:
    """Lets the parameters of this command, and of the commands in it, take values that need no check."""
    every = command.get_params
    declared = cache(partial(_declared, command.callback))

    def get_params(context: Any) -> list[Any]:
        """Those of the command, and `--help`, which it makes when it is asked."""
        parameters: list[Any] = every(context)
        for each in parameters:
            if "process_value" not in vars(each):
                each.process_value = partial(_processed, each, each.process_value, declared)
        return parameters

    command.get_params = get_params
    for each in getattr(command, "commands", {}).values():
        taken_as_they_are(each)


def _declared(function: Callable[..., Any]) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The type of each of the function's parameters, and what Typer is told of it."""
    found = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        hint: Any = hints.get(name)
        told = getattr(hint, "__metadata__", (parameter.default,))
        found[name] = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint, told
    return found


def _processed(
    parameter: Any,
    checked: Callable[..., Any],
    declared: Callable[[], dict[str, tuple[Any, tuple[Any, ...]]]],
    context: Any,
    value: Any,
) -> Any:
    """What Click's `process_value` gives: the value in its type, after the option's own check."""
    kept = _LEFT
    if value is None:
        kept = _LEFT if parameter.required or parameter.multiple or parameter.nargs != 1 else None
    elif isinstance(value, bool):
        kept = value
    elif not parameter.required or value:
        kept = _of_kind(*declared().get(parameter.name, (None, ())), value)
    if kept is _LEFT:
        return checked(context, value)
    return kept if parameter.callback is None else parameter.callback(context, parameter, kept)


def _of_kind(kind: Any, told: tuple[Any, ...], value: Any) -> Any:
    """The value in the type that its parameter is declared with, or `_LEFT` where that takes more than taking it."""
    options = [each for each in get_args(kind) if each is not type(None)]
    if get_origin(kind) is list:
        plain = options == [str] and isinstance(value, list | tuple) and all(type(each) is str for each in value)
        return value if plain else _LEFT
    if len(options) == 1:
        kind = options[0]
    if kind in (str, int) and type(value) is kind:
        return value
    if kind is float and type(value) in (int, float):  # a default
        return float(value)
    if kind is Path and type(value) is str and not any(getattr(each, "exists", False) for each in told):
        path = Path(value)
        return path if not path.exists() or os.access(path, os.R_OK) else _LEFT
    return _LEFT
