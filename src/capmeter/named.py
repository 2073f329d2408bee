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

import math
import re
import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args, get_origin
from typing import get_type_hints as type_hints

from capmeter.errors import InputError

_CALL = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_KEYWORD = re.compile(r"\s*([A-Za-z_]\w*)\s*=(.*)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_IN_WORDS = {type(None): ["none"], bool: ["true", "false"], int: ["a whole number"], float: ["a number"], str: ["text"]}


@dataclass(frozen=True, kw_only=True)
class Named:
    """The base class: a subclass is a frozen, keyword-only dataclass with a `name`, whose fields are its parameters.

    Class attributes: `NAME`, its name, and `SUMMARY`, one line. Values are checked against their annotations on
    construction (a subclass's `__post_init__` begins with `super().__post_init__()`). An integer becomes a float, and a
    list a tuple, where the annotation says so, so that equal values have the same text form.
    """

    NAME: ClassVar[str]
    SUMMARY: ClassVar[str]

    if TYPE_CHECKING:  # a property for most; a protocol has a field of this name, which a property here would forbid

        @property
        def name(self) -> str:
            """The name without parameters."""

    def __post_init__(self) -> None:
        for key, parameter in parameters_of(type(self)).items():
            value = getattr(self, key)
            try:
                checked = _checked(parameter.hint, value)
            except ValueError:
                shown = value if isinstance(value, str) else repr(value)
                raise InputError(f"{self.name}: {key}={shown} is not {parameter.expected}") from None
            object.__setattr__(self, key, checked)

    @property
    def fixed(self) -> frozenset[str]:
        """Parameters that the name already implies, and that the text form therefore omits."""
        return frozenset()

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its value, in order of declaration."""
        return {key: getattr(self, key) for key in parameters_of(type(self)) if key not in self.fixed}

    def texts(self) -> dict[str, str]:
        """Every parameter with its value as text."""
        known = parameters_of(type(self))
        return {key: known[key].text(value) for key, value in self.parameters().items()}

    def shown(self) -> Iterable[str]:
        """The parameters that the text form contains: those that differ from their defaults."""
        known = parameters_of(type(self))
        return [key for key, value in self.parameters().items() if value != known[key].default]

    def __str__(self) -> str:
        """The text form, which can be parsed back."""
        known, texts = parameters_of(type(self)), self.texts()
        members: list[str] = []
        for key in _positional(type(self)):
            value = getattr(self, key)
            members.extend(
                map(str, value if isinstance(value, tuple) else (value,)) if value != () else [f"{key}=none"]
            )
        keywords = [f"{key}={texts[key]}" for key in self.shown() if not known[key].positional]
        inner = ",".join(members + keywords)
        return f"{self.name}({inner})" if inner else self.name


@dataclass(frozen=True)
class Parameter:
    """A parameter as declared by its dataclass field. `default` is `MISSING` where a value is required."""

    name: str
    hint: Any
    default: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words, where the annotation is or contains a `Literal`."""
        options = [option for each in _options(self.hint) for option in _options(_item(each))]
        return tuple(str(each) for each in _literals(options))

    @property
    def expected(self) -> str:
        """The expected kind of value, in words: `a number or none`."""
        return _either([word for option in _options(self.hint) for word in _in_words(option)])

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


def parameters_of(kind: type[Named]) -> dict[str, Parameter]:
    """The parameters of a class of named values, in order of declaration."""
    if kind not in _parameters:
        _parameters[kind] = _declared(kind)
    return _parameters[kind]


_parameters: dict[type[Named], dict[str, Parameter]] = {}


def _declared(kind: type[Named]) -> dict[str, Parameter]:
    try:
        hints = type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError) as problem:
        raise InputError(f"the annotations of {kind.__qualname__} cannot be read: {problem}") from None
    known = {each.name: each for each in fields(kind)}
    for key, hint in hints.items():
        if key not in known and ClassVar not in (hint, get_origin(hint)):
            raise InputError(
                f"{kind.__qualname__}.{key} is not a field; decorate the class with @dataclass(frozen=True)"
            )
    found = {}
    for key, each in known.items():
        if not each.init:
            continue
        hint, *notes = get_args(hints[key]) if get_origin(hints[key]) is Annotated else (hints[key],)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        help = next((note for note in notes if isinstance(note, str)), "")
        found[key] = Parameter(key, hint, default, help)
    return found


def split_name(text: str, what: str = "value") -> tuple[str, str]:
    """The name in a text form, and the text inside its brackets."""
    match = _CALL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{text!r} is not a {what}; expected a name, or name(parameter=value,…)")
    return match.group(1), match.group(2) or ""


def read_parameters(
    kind: type[Named], inside: str, label: str, *, fixed: Iterable[str] = (), member: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """The parameter values given by the text in a name's brackets.

    `label` is what errors call the value; `fixed` are parameters that may not be given; `member` parses the text form
    of a nested value.
    """
    known = {key: each for key, each in parameters_of(kind).items() if key not in set(fixed)}
    given: dict[str, Any] = {}
    members: list[str] = []
    for part in split_text(inside, ","):
        match = _KEYWORD.fullmatch(part)
        if match is None and _positional(kind) and member is not None:
            members.append(part)
            continue
        if match is None or not match.group(2).strip():
            raise InputError(f"cannot read {part.strip()!r} in the brackets of {label}; expected parameter=value")
        key, value = match.group(1), match.group(2).strip()
        if key not in known:
            import difflib  # which only mistakes need

            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"its parameters are: {', '.join(known) or 'none'}"
            raise InputError(f"{label} has no parameter {key!r}; {hint}")
        if key in given:
            raise InputError(f"{label}: duplicate parameter {key!r}; give it once")
        given[key] = _parameter(known[key], value, label, member)
    for key in _positional(kind) if members else ():
        if key in given:
            raise InputError(f"{label}: duplicate parameter {key!r}; give it once")
        one = _is_named(known[key].hint)
        taken, members = (members[:1], members[1:]) if one else (members, [])
        given[key] = _parameter(known[key], "+".join(taken), label, member)
    if members:
        raise InputError(f"{label} takes no unnamed value {members[0].strip()!r}; expected parameter=value")
    return given


def _parameter(parameter: Parameter, value: str, label: str, member: Callable[[str], Any] | None) -> Any:
    try:
        return _read(parameter.hint, value, member)
    except ValueError:
        default = "" if parameter.default is MISSING else f" (its default is {parameter.text(parameter.default)})"
        raise InputError(f"{label}: {parameter.name}={value} is not {parameter.expected}{default}") from None


def _read(hint: Any, text: str, member: Callable[[str], Any] | None = None) -> Any:
    """The value of this type that the text represents; a `ValueError` if there is none."""
    options, text = _options(hint), text.strip()
    quoted = _QUOTED.fullmatch(text)
    word = re.sub(r"\\(.)", r"\1", quoted.group(1), flags=re.DOTALL) if quoted else text
    if not quoted:
        if type(None) in options and text.lower() == "none":
            return None
        if bool in options and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for number in (int, float):
            if number in options and re.match(r"[-+.\d]", text):
                try:
                    return _checked(number, number(text))
                except ValueError:
                    continue
    for each in _literals(options):
        if word == str(each):
            return each
    for option in options:
        item = _item(option)
        if item is not option:
            parts = [] if text.lower() in ("none", "()") else split_text(text, "+", strict=True)
            return tuple(_read(item, part, member) for part in parts)
        if _is_named(option) and member is not None and not quoted:
            return _checked(option, member(text))
    if str in options and text and (quoted or not text.startswith('"')):
        return word
    raise ValueError(text)


def _text(hint: Any, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        item = next((_item(option) for option in _options(hint) if _item(option) is not option), Any)
        if not value:
            return "()" if type(None) in _options(hint) else "none"
        parts = []
        for each in value:
            part = _text(item, each)
            parts.append(part.replace("e+", "e") if isinstance(each, float) else part)  # 1e+16 would be two numbers
        return _quoted(value[0]) if parts == ["none"] and value != (None,) else "+".join(parts)
    text = str(value)
    return text if isinstance(value, Named | Real) or _is_bare(hint, text) else _quoted(text)


def _is_bare(hint: Any, text: str) -> bool:
    """Whether the text needs no quotation marks: it is a plain word that is not read as a number, none …"""
    try:
        return re.sub("[-_./]", "", text).isalnum() and isinstance(_read(hint, text), str)
    except ValueError:
        return True  # the text of a value that cannot be parsed in any case


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(hint: Any, value: Any) -> Any:
    """The value converted to the annotated type; a `ValueError` if it is of another type."""
    for option in _options(hint):
        item = _item(option)
        if item is not option:
            if isinstance(value, tuple | list):
                return tuple(_checked(item, each) for each in value)
        elif get_origin(option) is Literal:
            if any(type(value) is type(each) and value == each for each in get_args(option)):
                return value
        elif option in (int, float):
            kind = Integral if option is int else Real
            if type(value) is not bool and isinstance(value, kind) and math.isfinite(value):
                return option(value)
        elif option is Any or isinstance(value, get_origin(option) or option):
            return value
    raise ValueError(value)


def _options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of an annotation, including those inside `Annotated` and nested unions."""
    if get_origin(hint) is Annotated:
        return _options(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(option for each in get_args(hint) for option in _options(each))
    return (hint,)


def _item(option: Any) -> Any:
    """X of `tuple[X, ...]`; anything else unchanged."""
    arguments = get_args(option)
    return arguments[0] if get_origin(option) is tuple and arguments[1:] == (...,) else option


def _literals(options: Iterable[Any]) -> list[Any]:
    return [each for option in options if get_origin(option) is Literal for each in get_args(option)]


def _is_named(option: Any) -> bool:
    return get_origin(option) is None and isinstance(option, type) and issubclass(option, Named)


def _positional(kind: type[Named]) -> list[str]:
    return [key for key, each in parameters_of(kind).items() if each.positional]


def _in_words(option: Any) -> list[str]:
    item = _item(option)
    if item is not option and _is_named(item):
        return [f"{item.__name__.lower()}s"]
    if item is not option:
        words = [word for each in _options(item) for word in _in_words(each)]
        return [f"{' or '.join(words) if len(words) < 3 else ', '.join(words)} (several joined by +)"]
    if get_origin(option) is Literal:
        return [str(each) for each in get_args(option)]
    if _is_named(option):
        return [f"a {option.__name__.lower()}"]
    return _IN_WORDS.get(option, ["an object"])


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def split_text(text: str, separator: str, *, strict: bool = False) -> list[str]:
    """The text split at separators outside brackets and quotation marks; blank parts are kept only if `strict`."""
    parts, depth, quoted, escaped = [""], 0, False, False
    for letter in text:
        if quoted:
            quoted, escaped = escaped or letter != '"', letter == "\\" and not escaped
        else:
            quoted = letter == '"'
            depth += (letter == "(") - (letter == ")")
            if depth < 0:
                break
        if letter == separator and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or quoted:
        raise InputError(f"{text.strip()!r} has brackets or quotation marks that do not match")
    return [part for part in parts if strict or part.strip()]
