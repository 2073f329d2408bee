"""Commands whose options are the fields of dataclasses: declared once for Python and for the command line.

    app = Application()

    @app.command()
    def score(options: ScoreOptions) -> None: ...

Every field of `ScoreOptions` that was made with `capmeter.core.options.option` or `argument` becomes an option; a field
that is itself such a dataclass (`load: LoadOptions`) contributes its own, all or some (`option_group`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, is_dataclass
from functools import wraps
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from capmeter.core.errors import InputError
from capmeter.core.options import Option, flat_options, option_fields
from capmeter.core.terminal import escape_controls, fold_line

Function = TypeVar("Function", bound=Callable[..., Any])
_PLACEHOLDER_WIDTH = 12  # letters; the widest at which Typer leaves room for the names of options at 80 columns


class Application(typer.Typer):
    """The commands of one module; each is a function of dataclasses of options."""

    def __init__(self, **details: Any) -> None:
        super().__init__(add_completion=False, rich_markup_mode="markdown", **details)

    def command(self, name: str | None = None, **details: Any) -> Callable[[Function], Function]:
        """A decorator that registers a function as a command, by default under its own name."""
        register = super().command(name, cls=Command, **details)

        def decorate(function: Function) -> Function:
            register(with_options(function))
            return function

        return decorate


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The command whose dataclass parameters are replaced by options, one for each of their fields.

    Args:
        function: a command; parameters that are annotated with a dataclass get an instance, others stay as they are.

    Returns:
        A function for `typer.Typer.command`.

    Raises:
        TypeError: two fields have the same name.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    declared: dict[str, tuple[Any, Option]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]) and isinstance(hints[name], type):
            groups[name] = hints[name]
            for field, hint, option, default in flat_options(hints[name]):
                parameters.append(_parameter(field, hint, option, default))
                declared[parameters[-1].name] = hint, option
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    names = [each.name for each in parameters]
    if len(set(names)) < len(names):
        raise TypeError(f"{function.__name__}: two options share a name: {sorted(names)}")

    @wraps(function)
    def command(**values: Any) -> None:
        assembled = {name: _assemble(kind, values) for name, kind in groups.items()}
        function(**assembled, **{name: value for name, value in values.items() if name in hints})

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.declared = declared  # type: ignore[attr-defined]
    return command


class Command(TyperCommand):
    """Converts the values of declared options itself: Typer would load Pydantic, a third of a small run's time."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fills `ctx.params` with the values of the options that are given; all others keep their defaults."""
        if ctx.resilient_parsing:  # completion
            return super().parse_args(ctx, args)
        declared: dict[str, tuple[Any, Option]] = getattr(self.callback, "declared", {})
        values, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        _refuse_repeated(order, ctx)
        for each in sorted(self.get_params(ctx), key=lambda each: not each.is_eager):
            value, source = each.consume_value(ctx, values)
            is_given = value not in (None, ()) and source.name == "COMMANDLINE"
            if is_given and each.name in declared:
                ctx.params[each.name] = _converted(*declared[each.name], value, ctx, each)
            elif is_given or each.required:
                each.handle_parse_result(ctx, values, rest)
        if rest:
            ctx.fail(f"Got unexpected extra argument{'s' * (len(rest) > 1)} ({' '.join(map(escape_controls, rest))})")
        ctx.args = rest
        return rest


def _refuse_repeated(order: Sequence[Any], ctx: Any) -> None:
    """Raises if an option that holds one value is given twice: one of the two would be ignored."""
    earlier: set[str] = set()
    for parameter in order:
        if parameter.name in earlier and not getattr(parameter, "multiple", False) and parameter.nargs == 1:
            raise typer.BadParameter("is given twice, and holds one value; give it once", ctx=ctx, param=parameter)
        earlier.add(parameter.name)


@contextmanager
def escaped_usage_errors() -> Iterator[None]:
    """Escapes control characters of the command line in messages about wrong usage."""
    try:
        yield
    except Exception as problem:  # Typer's own exception, which has no public name
        if hasattr(problem, "message") and isinstance(problem.message, str):
            problem.message = escape_controls(problem.message)
        raise


def _parameter_name(field: Field[Any], option: Option) -> str:
    """The name of a command's parameter: that of its first long flag, so that fields of one name do not collide."""
    flags = [flag for flag in option.flags or () if flag.startswith("--")]
    name = flags[0].partition("/")[0].lstrip("-").replace("-", "_") if flags else field.name
    return f"{name}_" if iskeyword(name) else name


def _assemble(kind: type, values: dict[str, Any], names: Sequence[str] | None = None) -> Any:
    """The dataclass of these values; they are taken out of the mapping."""
    content = {}
    for field, hint, declared in option_fields(kind, names):
        if isinstance(declared, Option):
            value = values.pop(_parameter_name(field, declared))
            if declared.separator:
                value = declared.separator.join(value)
            if declared.convert is not None and value:  # here, since Typer makes lists of what it passes on
                value = declared.convert(value)
            content[field.name] = list(value) if isinstance(value, tuple) else value
        else:
            content[field.name] = _assemble(hint, values, declared)
    try:
        return kind(**content)
    except InputError as problem:  # options that exclude or need one another
        raise typer.BadParameter(str(problem)) from problem


def _parameter(field: Field[Any], hint: Any, option: Option, default: Any) -> inspect.Parameter:
    """The parameter of a command that stands for a field."""
    details: dict[str, Any] = {
        "help": option.help,
        "metavar": option.metavar if option.flags == () else _placeholder(hint, option),
        "show_default": option.default_text,
    }
    if option.choices or option.complete:
        details["autocompletion"] = option.complete or _completions(option.choices or ())
    if option.separator and default and option.default_text is None:  # a list without blanks does not fold
        details["show_default"] = default.replace(option.separator, f"{option.separator} ")
    details = {name: value for name, value in details.items() if value is not None}
    flags = option.flags
    if flags is None and default is False:  # a switch that is off needs no flag to switch it off
        flags = (f"--{field.name.replace('_', '-')}",)
    if option.separator:
        hint, default = list[str], [default] if default else []
    typed = typer.Argument(**details) if flags == () else typer.Option(*flags or (), **details)
    return inspect.Parameter(
        _parameter_name(field, option),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[hint, typed],
    )


def _placeholder(hint: Any, option: Option) -> str | None:
    """What stands for the value in the help, in short lines."""
    text = option.metavar or fold_line("|".join(option.choices or ()), _PLACEHOLDER_WIDTH)
    bounds = fold_line(_describe_bounds(option), _PLACEHOLDER_WIDTH)
    if not bounds:
        return text or None
    return f"{text or f'<{_value_kind(hint).__name__}>'}\n{bounds}"


def _value_kind(hint: Any) -> Any:
    """The type of a value that may be None."""
    return get_args(hint)[0] if type(None) in get_args(hint) else hint


def _describe_bounds(option: Option) -> str:
    """The numbers that an option allows, in words; "" if it allows any."""
    low, high = option.minimum, option.maximum
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}" if high is not None else ""


def _completions(choices: Any) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in choices if name.startswith(incomplete)]


def _converted(hint: Any, option: Option, value: Any, ctx: Any, parameter: Any) -> Any:
    """The value of an option in the type of its field; a wrong value is wrong usage of the command."""
    try:
        kind = _value_kind(hint)
        if option.separator:
            converted: Any = [option.separator.join(value)]
        elif get_origin(kind) is list:
            converted = [_from_text(get_args(kind)[0], option, each) for each in value]
        else:
            converted = value if isinstance(value, bool) else _from_text(kind, option, value)
        if option.check is not None and converted:
            option.check(converted[0] if option.separator else converted)
    except InputError as problem:
        raise typer.BadParameter(str(problem), ctx=ctx, param=parameter) from problem
    return converted


def _from_text(kind: Any, option: Option, text: str) -> Any:
    """The number, path or text; `InputError` if it is not what the option expects."""
    if option.choices and text not in option.choices:
        raise InputError(f"{text!r} is not one of {', '.join(option.choices)}")
    if kind in (int, float):
        return _number(kind, option, text)
    if kind is Path:
        path = Path(text)
        if option.path and not path.exists():
            raise InputError(f"{text!r} does not exist")
        if option.path and path.is_dir() != (option.path == "folder"):
            raise InputError(f"{text!r} is not a {option.path}")
        return path
    return text


def _number(kind: type[int] | type[float], option: Option, text: str) -> float:
    low, high = option.minimum, option.maximum
    expected = "a whole number" if kind is int else "a number"
    if bounds := _describe_bounds(option):
        expected += f" of {bounds}" if bounds.startswith("at") else f" from {bounds}"
    try:
        number = kind(text)
    except ValueError:
        raise InputError(f"expected {expected}, but got {text!r}") from None
    inside = (low is None or number >= low) and (high is None or number <= high)
    if not inside:
        raise InputError(f"expected {expected}, but got {text}")
    return number
