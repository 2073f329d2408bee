"""Names are values: a frozen value with a name and typed parameters has a text form that parses back.

    value    = name [ "(" argument { "," argument } ")" ]       cider-d(n=4,sigma=5.0)
    argument = parameter "=" item { "+" item }                  leave_out=own-captions+invalid, weights=0.3+0.7
             | value                                            mean(bleu-4,cider-d): members need no parameter name
    item     = word | quoted text | value                       idf="my captions.json"

A `Named` value is a frozen dataclass; its fields are its parameters, and their annotations say how text is read:
`bool`, `int`, `float` (finite), `str`, a `Literal`, `tuple[item, ...]`, another named value, and `… | None`. The text
form contains only the parameters that differ from their defaults; text is quoted where it would be read as something
else; an empty tuple is `none`. `Annotated[int, "longest n-gram"]` gives a parameter its help text.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin
from typing import get_type_hints as type_hints

from capmeter.core.errors import InputError
from capmeter.core.messages import describe, shorten

_CALL = re.compile(r"\s*([A-Za-z][\w.@-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_KEYWORD = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.DOTALL)
_LARGEST = sys.float_info.max  # not NaN, infinite, or a whole number of hundreds of digits
_MAX_DEPTH = 8  # of brackets; each level doubles the time that a metric takes
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_TYPE_WORDS = {
    type(None): ["none"],
    bool: ["true", "false"],
    int: ["a whole number"],
    float: ["a number"],
    str: ["text"],
}


@dataclass(frozen=True, kw_only=True)
class Named:
    """The base class: a subclass is a frozen, keyword-only dataclass with a `name`, whose fields are its parameters.

    Values are checked against their annotations on construction (a subclass's `__post_init__` begins with
    `super().__post_init__()`). An integer becomes a float, and a list a tuple, where the annotation says so, so that
    equal values have the same text form.

    Attributes:
        NAME: the class's name.
        SUMMARY: what it is, in one line.
    """

    NAME: ClassVar[str]
    SUMMARY: ClassVar[str]

    @cached_property  # which a protocol's field of this name may replace
    def name(self) -> str:
        """The name without parameters."""
        return self.NAME

    def __post_init__(self) -> None:
        for key, parameter in parameters_of(type(self)).items():
            value = getattr(self, key)
            try:
                converted = _convert(parameter.hint, value)
            except ValueError:
                text = value if isinstance(value, str) else repr(value)
                raise InputError(f"{self.name}: {key}={text} is not {parameter.expected}") from None
            object.__setattr__(self, key, converted)

    @property
    def implied_parameters(self) -> frozenset[str]:
        """Parameters that the name implies, and that the text form therefore omits."""
        return frozenset()

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its value, in order of declaration."""
        return {key: getattr(self, key) for key in parameters_of(type(self)) if key not in self.implied_parameters}

    def parameter_texts(self) -> dict[str, str]:
        """Every parameter with its value as text."""
        declared = parameters_of(type(self))
        return {key: declared[key].text(value) for key, value in self.parameters().items()}

    def non_default_parameters(self) -> Iterable[str]:
        """The parameters that the text form contains: those that differ from their defaults."""
        declared = parameters_of(type(self))
        return [key for key, value in self.parameters().items() if value != declared[key].default]

    def __str__(self) -> str:
        """The text form, which can be parsed back."""
        declared, texts = parameters_of(type(self)), self.parameter_texts()
        member_texts: list[str] = []
        for key in _positional(type(self)):
            value = getattr(self, key)
            member_texts.extend(
                map(str, value if isinstance(value, tuple) else (value,)) if value != () else [f"{key}=none"]
            )
        keywords = [f"{key}={texts[key]}" for key in self.non_default_parameters() if not declared[key].positional]
        argument_text = ",".join(member_texts + keywords)
        return f"{self.name}({argument_text})" if argument_text else self.name


@dataclass(frozen=True)
class Parameter:
    """A parameter as declared by its dataclass field.

    Attributes:
        name: its name.
        hint: its annotation.
        default: `MISSING` where a value is required.
        help: one sentence.
    """

    name: str
    hint: Any
    default: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words, where the annotation is or contains a `Literal`."""
        item_types = [item_type for option in _options(self.hint) for item_type in _options(_item(option))]
        return tuple(map(str, _literals(item_types)))

    @property
    def expected(self) -> str:
        """The expected kind of value, in words: `a number or none`."""
        type_words = [word for option in _options(self.hint) for word in _type_words(option)]
        return " or ".join(filter(None, [", ".join(type_words[:-1]), type_words[-1]]))

    @property
    def positional(self) -> bool:
        """Whether its name is omitted in the text form: a required member or tuple of members."""
        return self.default is MISSING and _is_named(_item(self.hint))

    def text(self, value: Any) -> str:
        """A value of this parameter as text, from which the value can be read back."""
        return _text(self.hint, value)

    def to_dict(self) -> dict[str, Any]:
        """The parameter's description; a default that is None or absent is None."""
        default = None if self.default is MISSING else self.text(self.default)
        return {"type": self.expected, "choices": list(self.choices), "default": default, "help": self.help}


_parameters: dict[type[Named], dict[str, Parameter]] = {}


def parameters_of(kind: type[Named]) -> dict[str, Parameter]:
    """The parameters of a class of named values, in order of declaration.

    Raises:
        InputError: annotations cannot be read, or one is not a field.
    """
    if kind not in _parameters:
        _parameters[kind] = _declared_parameters(kind)
    return _parameters[kind]


def _declared_parameters(kind: type[Named]) -> dict[str, Parameter]:
    try:
        hints = type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise InputError(f"the annotations of {kind.__qualname__} cannot be read: {error}") from None
    dataclass_fields = {field.name: field for field in fields(kind)}
    for key, type_hint in hints.items():
        if key not in dataclass_fields and ClassVar not in (type_hint, get_origin(type_hint)):
            raise InputError(
                f"{kind.__qualname__}.{key} is not a field; decorate the class with @dataclass(frozen=True)"
            )
    parameters = {}
    for key, field in dataclass_fields.items():
        if field.init:
            type_hint, *metadata = get_args(hints[key]) if get_origin(hints[key]) is Annotated else (hints[key],)
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            help = next((text for text in metadata if isinstance(text, str)), "")
            parameters[key] = Parameter(key, type_hint, default, help)
    return parameters


def split_name(text: str, what: str = "value") -> tuple[str, str]:
    """Split a text form into the name and the text inside its brackets.

    Raises:
        InputError: the text is not a name with or without brackets; `what` is what errors call the value.
    """
    match = _CALL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{describe(text)} is not a {what}; expected a name, or name(parameter=value,…)")
    return match.group(1), match.group(2) or ""


def read_parameters(
    kind: type[Named],
    inside: str,
    label: str,
    *,
    implied: Collection[str] = (),
    member: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Read the parameter values in a name's brackets.

    Args:
        kind: the class.
        inside: the text in brackets.
        label: what errors call the value.
        implied: parameters that may not be given.
        member: parses the text form of a nested value.

    Raises:
        InputError: an unknown or duplicate parameter, or a value of another type.
    """
    declared = {key: parameter for key, parameter in parameters_of(kind).items() if key not in implied}
    parameter_values: dict[str, Any] = {}
    member_texts: list[str] = []
    for part in split_text(inside, ","):
        keyword_match = _KEYWORD.fullmatch(part)
        if keyword_match is None and _positional(kind) and member is not None:
            member_texts.append(part)
            continue
        if keyword_match is None or not keyword_match.group(2).strip():
            raise InputError(f"cannot read {part.strip()!r} in the brackets of {label}; expected parameter=value")
        key, text = keyword_match.group(1), keyword_match.group(2).strip()
        if key not in declared:
            import difflib  # needed for mistakes only

            similar = difflib.get_close_matches(key, declared, n=1)
            hint = f"did you mean {similar[0]}?" if similar else f"its parameters are: {', '.join(declared) or 'none'}"
            raise InputError(f"{label} has no parameter {key!r}; {hint}")
        if key in parameter_values:
            raise InputError(f"{label}: duplicate parameter {key!r}; give it once")
        parameter_values[key] = _read_parameter(declared[key], text, label, member)
    for key in _positional(kind) if member_texts else ():
        if key in parameter_values:
            raise InputError(f"{label}: duplicate parameter {key!r}; give it once")
        member_count = 1 if _is_named(declared[key].hint) else len(member_texts)
        parameter_values[key] = _read_parameter(declared[key], "+".join(member_texts[:member_count]), label, member)
        member_texts = member_texts[member_count:]
    if member_texts:
        raise InputError(f"{label} takes no unnamed value {member_texts[0].strip()!r}; expected parameter=value")
    return parameter_values


def _read_parameter(parameter: Parameter, value: str, label: str, member: Callable[[str], Any] | None) -> Any:
    try:
        return _read(parameter.hint, value, member)
    except ValueError:
        default = "" if parameter.default is MISSING else f" (its default is {parameter.text(parameter.default)})"
        raise InputError(f"{label}: {parameter.name}={value} is not {parameter.expected}{default}") from None


def _read(type_hint: Any, text: str, member: Callable[[str], Any] | None = None) -> Any:
    """The value of this type that the text represents; a `ValueError` if there is none."""
    options, text = _options(type_hint), text.strip()
    quoted_match = _QUOTED.fullmatch(text)
    word = re.sub(r"\\(.)", r"\1", quoted_match.group(1), flags=re.DOTALL) if quoted_match else text
    if not quoted_match:
        if type(None) in options and text.lower() == "none":
            return None
        if bool in options and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for number_type in (int, float):
            if number_type in options and re.match(r"[-+.\d]", text):
                try:
                    return _convert(number_type, number_type(text))
                except ValueError:
                    continue
    for literal in _literals(options):
        if word == str(literal):
            return literal
    for option in options:
        item_type = _item(option)
        if item_type is not option:
            item_texts = [] if text.lower() in ("none", "()") else split_text(text, "+", strict=True)
            return tuple(_read(item_type, item_text, member) for item_text in item_texts)
        if _is_named(option) and member is not None and not quoted_match:
            return _convert(option, member(text))
    if str in options and text and (quoted_match or not text.startswith('"')):
        return word
    raise ValueError(text)


def _text(type_hint: Any, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        item_type = next((_item(option) for option in _options(type_hint) if _item(option) is not option), Any)
        if not value:
            return "()" if type(None) in _options(type_hint) else "none"
        parts = []
        for element in value:
            part = _text(item_type, element)
            parts.append(part.replace("e+", "e") if isinstance(element, float) else part)  # 1e+16 would be two numbers
        return _quoted(value[0]) if parts == ["none"] and value != (None,) else "+".join(parts)
    text = str(value)
    return text if isinstance(value, Named | Real) or _is_bare(type_hint, text) else _quoted(text)


def _is_bare(type_hint: Any, text: str) -> bool:
    """Whether the text needs no quotation marks: it is a plain word that is not read as a number, none …"""
    try:
        return re.sub("[-_./]", "", text).isalnum() and isinstance(_read(type_hint, text), str)
    except ValueError:
        return True  # the text of a value that cannot be parsed in any case


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _convert(type_hint: Any, value: Any) -> Any:
    """The value as the annotated type; a `ValueError` if it is of another type."""
    for option in _options(type_hint):
        item_type = _item(option)
        if item_type is not option:
            if isinstance(value, tuple | list):
                return tuple(_convert(item_type, element) for element in value)
        elif get_origin(option) is Literal:
            if any(type(value) is type(literal) and value == literal for literal in get_args(option)):
                return value
        elif option in (int, float):
            number_class: Any = Integral if option is int else Real
            if type(value) is not bool and isinstance(value, number_class) and abs(value) <= _LARGEST:
                return option(value)
        elif option is Any or isinstance(value, get_origin(option) or option):
            return value
    raise ValueError(value)


def _options(type_hint: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation, including those inside `Annotated` and nested unions."""
    if get_origin(type_hint) is Annotated:
        return _options(get_args(type_hint)[0])
    if get_origin(type_hint) in (Union, types.UnionType):
        return tuple(option for part in get_args(type_hint) for option in _options(part))
    return (type_hint,)


def _item(option: Any) -> Any:
    """X of `tuple[X, ...]`; anything else unchanged."""
    arguments = get_args(option)
    return arguments[0] if get_origin(option) is tuple and arguments[1:] == (...,) else option


def _literals(options: Iterable[Any]) -> list[Any]:
    return [literal for option in options if get_origin(option) is Literal for literal in get_args(option)]


def _is_named(option: Any) -> bool:
    return get_origin(option) is None and isinstance(option, type) and issubclass(option, Named)


def _positional(kind: type[Named]) -> list[str]:
    return [key for key, parameter in parameters_of(kind).items() if parameter.positional]


def _type_words(option: Any) -> list[str]:
    """What values of this type are called in messages."""
    item_type = _item(option)
    if item_type is not option and _is_named(item_type):
        return [f"{item_type.__name__.lower()}s"]
    if item_type is not option:
        words = [word for part in _options(item_type) for word in _type_words(part)]
        return [f"{' or '.join(words) if len(words) < 3 else ', '.join(words)} (several joined by +)"]
    if get_origin(option) is Literal:
        return list(map(str, get_args(option)))
    if _is_named(option):
        return [f"a {option.__name__.lower()}"]
    return _TYPE_WORDS.get(option, ["an object"])


def split_text(text: str, separator: str, *, strict: bool = False) -> list[str]:
    """The text split at separators outside brackets and quotation marks; blank parts are kept only if `strict`.

    Args:
        text: to split.
        separator: one character.
        strict: whether blank parts are kept.
    """
    parts, bracket_depth, in_quotes, is_escaped = [""], 0, False, False
    for letter in text:
        if in_quotes:
            in_quotes, is_escaped = is_escaped or letter != '"', letter == "\\" and not is_escaped
        else:
            in_quotes = letter == '"'
            bracket_depth += (letter == "(") - (letter == ")")
            if bracket_depth < 0:
                break
            if bracket_depth > _MAX_DEPTH:
                raise InputError(
                    f"{shorten(text.strip())} is nested too deeply: expected at most {_MAX_DEPTH} brackets"
                )
        if letter == separator and bracket_depth == 0 and not in_quotes:
            parts.append("")
        else:
            parts[-1] += letter
    if bracket_depth or in_quotes:
        raise InputError(f"{text.strip()!r} has brackets or quotation marks that do not match")
    return [part for part in parts if strict or part.strip()]
