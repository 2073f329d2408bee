"""Commands whose options are the fields of dataclasses: declared once for Python and for the command line.

    app = Application()

    @app.command()
    def score(options: ScoreOptions) -> None: ...

Every field of `ScoreOptions` that was made with `capmeter.core.options.option` or `argument` becomes an option; a field
that is itself such a dataclass (`load: LoadOptions`) contributes its own, all or some (`option_group`).
"""

from __future__ import annotations

import inspect
import re
import textwrap
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
from capmeter.core.messages import escape_controls
from capmeter.core.options import Option, flat_options, option_fields

Function = TypeVar("Function", bound=Callable[..., Any])
_PLACEHOLDERS = {int: "N", float: "NUMBER", Path: "PATH"}
_NAMES_WIDTH = 30  # columns of an option's names in the help; longer ones have a line of their own


class Application(typer.Typer):
    """The commands of one module; each is a function of dataclasses of options."""

    def __init__(self, **details: Any) -> None:
        super().__init__(add_completion=False, rich_markup_mode=None, **details)

    def command(self, name: str | None = None, **details: Any) -> Callable[[Function], Function]:
        """A decorator that registers a function as a command, by default under its own name."""
        register = super().command(name, cls=_Command, **details)

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
    type_hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    option_groups: dict[str, type] = {}
    declared: dict[str, tuple[Any, Option]] = {}
    for parameter_name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(type_hints[parameter_name]) and isinstance(type_hints[parameter_name], type):
            option_groups[parameter_name] = type_hints[parameter_name]
            for field, type_hint, option, default in flat_options(type_hints[parameter_name]):
                parameters.append(_parameter(field, type_hint, option, default))
                declared[parameters[-1].name] = type_hint, option
        else:
            parameters.append(
                parameter.replace(annotation=type_hints[parameter_name], kind=inspect.Parameter.KEYWORD_ONLY)
            )
    option_names = [each.name for each in parameters]
    if len(set(option_names)) < len(option_names):
        raise TypeError(f"{function.__name__}: two options share a name: {sorted(option_names)}")

    @wraps(function)
    def command(**values: Any) -> None:
        assembled = {
            parameter_name: _assemble(options_class, values) for parameter_name, options_class in option_groups.items()
        }
        function(
            **assembled,
            **{parameter_name: value for parameter_name, value in values.items() if parameter_name in type_hints},
        )

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.declared = declared  # type: ignore[attr-defined]
    return command


class _Command(TyperCommand):
    """Converts the values of declared options itself: Typer would load Pydantic, a third of a small run's time."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """The docstring as plain text: commands in it have no marks."""
        with formatter.indentation():
            for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
                formatter.write_paragraph()
                formatter.write_text(re.sub(r"\*\*(Examples?)\*\*", r"\1:", paragraph).replace("`", ""))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options; rare options are only named, by what they are about, unless all are asked for."""
        sections: dict[str, list[tuple[str, str]]] = {}
        declared_options: dict[str, tuple[Any, Option]] = getattr(self.callback, "declared", {})
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                _, option = declared_options.get(parameter.name, (None, Option(help="")))
                title = "Arguments" if parameter.param_type_name == "argument" else option.group or "Options"
                names = record[0].partition(" <")[0] if title == "Arguments" else record[0]
                sections.setdefault(title, []).append((names, record[1].replace("`", "")))
        rare_names = {title: records for title, records in sections.items() if title not in ("Arguments", "Options")}
        for title, records in sections.items():
            if title not in rare_names or ctx.params.get("help_all"):
                with formatter.section(title[0].upper() + title[1:]):
                    formatter.write_dl(records, col_max=_NAMES_WIDTH)
        if rare_names and not ctx.params.get("help_all"):
            formatter.write("\nMore options, which --help-all describes:\n")
            for title, records in rare_names.items():
                flags = ", ".join(re.findall(r"--[\w-]+", " ".join(record[0] for record in records)))
                indents: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "    "}
                line = textwrap.fill(f"{title}: {flags}", formatter.width, break_on_hyphens=False, **indents)
                formatter.write(f"{line}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fills `ctx.params` with the values of the options that are given; all others keep their defaults."""
        if ctx.resilient_parsing:  # completion
            return super().parse_args(ctx, args)
        if "--help-all" in args:
            ctx.params["help_all"] = True
            typer.echo(self.get_help(ctx))
            ctx.exit()
        declared_options: dict[str, tuple[Any, Option]] = getattr(self.callback, "declared", {})
        given_values, rest, given_order = self.make_parser(ctx).parse_args(args=list(args))
        _refuse_repeated(given_order, ctx)
        for command_parameter in sorted(
            self.get_params(ctx), key=lambda command_parameter: not command_parameter.is_eager
        ):
            value, source = command_parameter.consume_value(ctx, given_values)
            is_given = value not in (None, ()) and source.name == "COMMANDLINE"
            if is_given and command_parameter.name in declared_options:
                ctx.params[command_parameter.name] = _converted(
                    *declared_options[command_parameter.name], value, ctx, command_parameter
                )
            elif is_given or command_parameter.required:
                command_parameter.handle_parse_result(ctx, given_values, rest)
        if rest:
            ctx.fail(f"Got unexpected extra argument{'s' * (len(rest) > 1)} ({' '.join(map(escape_controls, rest))})")
        ctx.args = rest
        return rest


def _refuse_repeated(given_order: Sequence[Any], ctx: Any) -> None:
    """Raises if an option that holds one value is given twice: one of the two would be ignored."""
    earlier_names: set[str] = set()
    for parameter in given_order:
        if parameter.name in earlier_names and not getattr(parameter, "multiple", False) and parameter.nargs == 1:
            raise typer.BadParameter("is given twice, and holds one value; give it once", ctx=ctx, param=parameter)
        earlier_names.add(parameter.name)


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
    long_flags = [flag for flag in option.flags or () if flag.startswith("--")]
    parameter_name = long_flags[0].partition("/")[0].lstrip("-").replace("-", "_") if long_flags else field.name
    return f"{parameter_name}_" if iskeyword(parameter_name) else parameter_name


def _assemble(options_class: type, values: dict[str, Any], names: Sequence[str] | None = None) -> Any:
    """The dataclass of these values; they are taken out of the mapping."""
    field_values = {}
    for field, type_hint, declared_option in option_fields(options_class, names):
        if isinstance(declared_option, Option):
            value = values.pop(_parameter_name(field, declared_option))
            if declared_option.separator:
                value = declared_option.separator.join(value)
            if declared_option.convert is not None and value:  # here, since Typer makes lists of what it passes on
                value = declared_option.convert(value)
            field_values[field.name] = list(value) if isinstance(value, tuple) else value
        else:
            field_values[field.name] = _assemble(type_hint, values, declared_option)
    try:
        return options_class(**field_values)
    except InputError as problem:  # options that exclude or need one another
        raise typer.BadParameter(str(problem)) from problem


def _parameter(field: Field[Any], type_hint: Any, option: Option, default: Any) -> inspect.Parameter:
    """The parameter of a command that stands for a field."""
    item_type = _value_kind(type_hint)
    item_type = get_args(item_type)[0] if get_origin(item_type) is list else item_type
    choices = option.choices or ()
    placeholder = option.metavar or "|".join(choices) or _PLACEHOLDERS.get(item_type, "TEXT")
    details: dict[str, Any] = {
        "help": " ".join(filter(None, (option.help, _describe_bounds(option) and f"({_describe_bounds(option)})"))),
        "metavar": option.metavar if option.flags == () else placeholder,
        "show_default": option.default_text,
    }
    if choices or option.complete:
        details["autocompletion"] = option.complete or (
            lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]
        )
    if option.separator and default and option.default_text is None:  # a list without blanks does not fold
        details["show_default"] = default.replace(option.separator, f"{option.separator} ")
    details = {detail_name: value for detail_name, value in details.items() if value is not None}
    flags = option.flags
    if flags is None and default is False:  # a switch that is off needs no flag to switch it off
        flags = (f"--{field.name.replace('_', '-')}",)
    if option.separator:
        type_hint, default = list[str], [default] if default else []
    typer_parameter = typer.Argument(**details) if flags == () else typer.Option(*flags or (), **details)
    return inspect.Parameter(
        _parameter_name(field, option),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is ... else default,
        annotation=Annotated[type_hint, typer_parameter],
    )


def _value_kind(type_hint: Any) -> Any:
    """The type of a value that may be None."""
    return get_args(type_hint)[0] if type(None) in get_args(type_hint) else type_hint


def _describe_bounds(option: Option) -> str:
    """The numbers that an option allows, in words; "" if it allows any."""
    low, high = option.minimum, option.maximum
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}" if high is not None else ""


def _converted(type_hint: Any, option: Option, value: Any, ctx: Any, parameter: Any) -> Any:
    """The value of an option in the type of its field; a wrong value is wrong usage of the command."""
    try:
        value_type = _value_kind(type_hint)
        if option.separator:
            converted_value: Any = [option.separator.join(value)]
        elif get_origin(value_type) is list:
            converted_value = [_from_text(get_args(value_type)[0], option, given_text) for given_text in value]
        else:
            converted_value = value if isinstance(value, bool) else _from_text(value_type, option, value)
        if option.check is not None and converted_value:
            option.check(converted_value[0] if option.separator else converted_value)
    except InputError as problem:
        raise typer.BadParameter(str(problem), ctx=ctx, param=parameter) from problem
    return converted_value


def _from_text(value_type: Any, option: Option, text: str) -> Any:
    """The number, path or text; `InputError` if it is not what the option expects."""
    if option.choices and text not in option.choices:
        raise InputError(f"{text!r} is not one of {', '.join(option.choices)}")
    if value_type in (int, float):
        return _number(value_type, option, text)
    if value_type is Path:
        file_path = Path(text)
        if option.path and not file_path.exists():
            raise InputError(f"{text!r} does not exist")
        if option.path and file_path.is_dir() != (option.path == "folder"):
            raise InputError(f"{text!r} is not a {option.path}")
        return file_path
    return text


def _number(number_type: type[int] | type[float], option: Option, text: str) -> float:
    low, high = option.minimum, option.maximum
    expected = "a whole number" if number_type is int else "a number"
    if bounds_text := _describe_bounds(option):
        expected += f" of {bounds_text}" if bounds_text.startswith("at") else f" from {bounds_text}"
    try:
        number = number_type(text)
    except ValueError:
        raise InputError(f"expected {expected}, but got {text!r}") from None
    is_inside = (low is None or number >= low) and (high is None or number <= high)
    if not is_inside:
        raise InputError(f"expected {expected}, but got {text}")
    return number
