"""Rows as files give them, and the checks that every field of every format passes.

A file is read *as* candidates or *as* references: `{"7": ["a dog"]}` can be either. A `Row` says what one entry of a
file holds; `matching` joins rows of candidates with rows of references.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

from capmeter.errors import InputError

Side = Literal["candidates", "references"]

_PATH = re.compile(
    r"(?:[A-Za-z]:)?[\w.\-~/\\%]*\.(?:jsonl?|csv|tsv|txt|parquet|gz|zip|jpe?g|png|gif|webp|bmp|tiff?|npy|npz|pkl|h5)",
    re.IGNORECASE,
)


class NotCandidates(InputError):
    """Rows read as candidates have the form of references, and may be read as such."""


@dataclass(slots=True)
class Row:
    """One entry of a file: a candidate, the references of an image, or both.

    `place` is for messages; `one_of_many` says that the references are not all that the image has.
    """

    place: str
    image_id: str
    candidate: str | None = None
    references: tuple[str, ...] | None = None
    id: str | None = None
    image: str | None = None
    system: str | None = None
    human: tuple[float, ...] | None = None
    aliases: tuple[str, ...] = ()
    split: str | None = None
    one_of_many: bool = False


def caption_text(value: Any, place: str, field: str) -> str:
    """A caption: any text, the empty one too, that can be written as UTF-8."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise InputError(
            f"{place}: {field} is {described(value)}, expected a caption as text; correct or leave out the row"
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place}: {field} holds {value[error.start]!a}, half of a surrogate pair, which is not text (an emoji "
            "was split?); correct the program that wrote it, or replace it with U+FFFD"
        ) from None
    return str(value)


def image_key(value: Any, place: str, field: str = "image_id") -> str:
    """The text form of an id: text, or a whole number."""
    if type(value) is int:
        return _whole(value, place, field)
    if isinstance(value, str):
        if value.strip():
            return caption_text(value, place, field)
        raise InputError(f"{place}: {field} is empty, expected the image's id as text or number")
    if isinstance(value, Real) and is_finite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, Integral) and value is not True and value is not False:
        return _whole(int(value), place, field)
    raise InputError(f"{place}: {field} is {described(value)}, expected the id as text or a whole number")


def _whole(value: int, place: str, field: str) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        raise InputError(f"{place}: {field} is a whole number of thousands of digits, which is not an id") from None


def reference_list(value: Any, place: str, field: str) -> tuple[str, ...]:
    """The references of one image: a list of captions, each text or COCO's `{"caption": text}`."""
    if type(value) is list and set(map(type, value)) == {str} and "".join(value).isascii():
        return tuple(value)  # nearly all lists; what follows takes six times as long
    if isinstance(value, str):
        raise InputError(
            f"{place}: {field} is one text ({shortened(value)}) where a list of captions was expected; write "
            f"[{shortened(value)}]"
        )
    if isinstance(value, bytes | bytearray | memoryview | range) or not isinstance(value, Sequence):
        listed = value.tolist() if hasattr(value, "tolist") else None
        if not isinstance(listed, list):
            raise InputError(f"{place}: {field} is {described(value)}, expected a list of captions")
        value = listed
    return tuple(
        item
        if type(item) is str and item.isascii()
        else caption_text(item.get("caption") if isinstance(item, Mapping) else item, place, f"{field}[{k}]")
        for k, item in enumerate(value)
    )


def human_ratings(value: Any, place: str) -> tuple[float, ...] | None:
    """The human scores: a number or a list of numbers."""
    if value is None:
        return None
    if hasattr(value, "tolist"):  # a numpy value
        value = value.tolist()
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for rating in values:
        if not is_finite(rating):
            raise InputError(f"{place}: human holds {described(rating)}, expected a number or a list of finite numbers")
    return tuple(float(rating) for rating in values)


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether it is a number that fits a float: JSON may have NaN, Infinity, and whole numbers of any length."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def optional_text(value: Any, place: str, field: str) -> str | None:
    """An optional name."""
    return None if value is None or (isinstance(value, str) and not value) else image_key(value, place, field)


def described(value: Any) -> str:
    """A value in words, for messages."""
    if value is None:
        return "missing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    if isinstance(value, int | float):
        return f"the number {value}" if abs(value) < 10**40 else "a number of more than 40 digits"
    if isinstance(value, str):
        return f"the text {shortened(value)}"
    if isinstance(value, Mapping):
        return f"an object with the fields {named(map(_key, value), 5)}" if value else "an empty object"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"a list of {len(value)}"
    return f"a {type(value).__name__}"


def _key(value: Any) -> str:
    return value if isinstance(value, str) else described(value)


def shortened(text: str, length: int = 40) -> str:
    """The beginning of a text, quoted and printable."""
    cut = text if len(text) <= length else text[: length - 1] + "…"
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut) + '"'


def named(names: Any, most: int = 5) -> str:
    """The first names of many, and how many more there are."""
    names = list(names)
    shown = ", ".join(shortened(name)[1:-1] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def refuse_paths(captions: Sequence[str], name: str, side: Side) -> None:
    """Raises if most captions look like file names: names were passed instead of the files' contents."""
    paths = [text for text in captions if " " not in text and _PATH.fullmatch(text)]
    if paths and 2 * len(paths) > len(captions):
        raise InputError(
            f"{name}: the {side} look like file names, not captions ({named(paths, 3)}); pass the captions themselves, "
            "or one file of captions as the argument"
        )
