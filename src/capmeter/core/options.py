"""Options of functions and commands, declared once: fields of a frozen dataclass that say what they mean.

A function takes the dataclass; `capmeter.cli.command.with_options` makes a command's options of the same fields.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, kw_only=True)
... class Sampling:
...     seed: int = option(0, "Seed of all random numbers.", minimum=0)
>>> [(each.name, declared.help) for each, _, declared in option_fields(Sampling)]
[('seed', 'Seed of all random numbers.')]

A field that is itself such a dataclass contributes its options; `option_group` limits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, get_type_hints

_OPTION, _NAMES, _DEFAULTS = "capmeter.option", "capmeter.option_names", "capmeter.option_defaults"


@dataclass(frozen=True, kw_only=True)
class Option:
    """What a command line needs to know of a field.

    Args:
        help: one sentence.
        flags: names on the command line, such as ("--metrics", "-m"); by default the field's name. For a switch,
            "--intervals/--no-intervals". Empty for an argument without a flag.
        choices: the values that are allowed; None: any.
        metavar: the placeholder of the value in the help.
        minimum, maximum: bounds of a number, both allowed.
        check: raises `InputError` for a wrong value; called before the command runs.
        complete: the completions of the beginning of a value.
        path: what a path must be: "file", "folder" (both must exist) or "" (anything).
        value_type: the type of the value on the command line, if it is not the field's.
        convert: what turns the command line's value into the field's; raises `InputError` for a wrong value.
        default_text: what the help shows as the default, if not the default itself.
        separator: a text that may be given several times is joined with this, as in a list separated by commas.
        group: what rare options are about ("judges"): `--help` only names them, `--help-all` describes them.
    """

    help: str
    flags: tuple[str, ...] | None = None
    choices: Sequence[str] | None = None
    metavar: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    check: Callable[[Any], object] | None = None
    complete: Callable[[str], list[str]] | None = None
    path: str = ""
    value_type: Any = None
    convert: Callable[[Any], Any] | None = None
    default_text: str | None = None
    separator: str = ""
    group: str = ""


def option(default: Any = ..., help: str = "", *flags: str, **details: Any) -> Any:
    """A dataclass field that is also an option of commands.

    Args:
        default: the field's default; a list stands for a new list each time; `...`: the option is required.
        help: one sentence for `--help`.
        flags: names on the command line; by default the field's name.
        details: other fields of `Option`.

    Returns:
        The field.
    """
    return _field(default, Option(help=help, flags=flags or None, **details))


def argument(default: Any = ..., help: str = "", **details: Any) -> Any:
    """A dataclass field that is an argument of commands, given without a flag.

    Args:
        default, help, details: as in `option`.
    """
    return _field(default, Option(help=help, flags=(), **details))


def option_group(kind: type, *only: str, without: Sequence[str] = (), **defaults: Any) -> Any:
    """A field that holds another dataclass of options, of which commands offer only some, or with other defaults.

    Args:
        kind: the dataclass.
        only: names of the fields that are options; by default all.
        without: names of the fields that are not.
        defaults: fields whose default differs here.

    Returns:
        The field; its default is `kind(**defaults)`.
    """
    option_names = [each.name for each in fields(kind) if each.name not in without and (not only or each.name in only)]
    return field(default_factory=partial(kind, **defaults), metadata={_NAMES: option_names, _DEFAULTS: defaults})


def option_fields(kind: type, names: Sequence[str] | None = None) -> Iterator[tuple[Field[Any], Any, Any]]:
    """Each field of a dataclass that is an option or a group of options.

    Yields:
        The field, its type, and its `Option`; for a group the names of the fields in it that are options (None: all).
    """
    type_hints = get_type_hints(kind)
    for option_field in fields(kind):
        if names is not None and option_field.name not in names:
            continue
        if _OPTION in option_field.metadata:
            yield option_field, type_hints[option_field.name], option_field.metadata[_OPTION]
        elif is_dataclass(type_hints[option_field.name]):
            yield option_field, type_hints[option_field.name], option_field.metadata.get(_NAMES)


def flat_options(kind: type, group: Field[Any] | None = None) -> Iterator[tuple[Field[Any], Any, Option, Any]]:
    """The fields of a dataclass, and of the dataclasses in it, that are options.

    Args:
        kind: the dataclass.
        group: the field that holds it, if it is in another.

    Yields:
        The field, its type on the command line, its option, and its default (`...` if it is required).
    """
    option_names = None if group is None else group.metadata.get(_NAMES)
    defaults: dict[str, Any] = {}
    if group is not None:
        defaults = vars(group.default) if group.default is not MISSING else group.metadata.get(_DEFAULTS, {})
    for option_field, type_hint, declared_option in option_fields(kind, option_names):
        if isinstance(declared_option, Option):
            default = defaults[option_field.name] if option_field.name in defaults else default_of(option_field)
            yield option_field, declared_option.value_type or type_hint, declared_option, default
        else:
            yield from flat_options(type_hint, option_field)


def default_of(each: Field[Any]) -> Any:
    """The default of a field; `...` if it has none."""
    if each.default_factory is not MISSING:
        return each.default_factory()
    return ... if each.default is MISSING else each.default


def _field(default: Any, declared_option: Option) -> Any:
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={_OPTION: declared_option})
    return field(default=MISSING if default is ... else default, metadata={_OPTION: declared_option})
