"""Rows as files hold them, and the checks that every field of every format passes.

A file is read *as* candidates or *as* references: `{"7": ["a dog"]}` can be either. A `CaptionRow` is one entry of a
file; `matching` joins rows of candidates with rows of references.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

from capmeter.captions.events import Events
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

Side = Literal["candidates", "references"]


class NotCandidates(InputError):
    """Rows read as candidates have the form of references, and may be read as such."""


@dataclass(slots=True)
class CaptionRow:
    """One entry of a file: a candidate, the references of an image, or both.

    location: the file and the entry's position in it, for messages.
    aliases: other names of the image.
    one_of_many: the image has more references, in other rows.
    events: the events that the candidate, or in a row of references the one reference, describes.
    reference_events: the same of the references, in a row that also has a candidate.
    single_event: the row is one of several events of its video, which `annotator` describes.
    number, kept: the row's number in its file, and its values of the columns that are carried through
        (`Columns.keep`), if there are any.
    cleaned: the candidate was freed of leftovers of chat models.
    """

    location: str
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
    events: Events | None = None
    reference_events: tuple[Events, ...] = ()
    single_event: bool = False
    annotator: str | None = None
    number: int | None = None
    kept: tuple[Any, ...] = ()
    cleaned: bool = False


def caption_text(value: Any, location: str, field: str) -> str:
    """A caption: any text, the empty one too, that can be written as UTF-8."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise InputError(
            f"{location}: {field} is {describe(value)}, expected a caption as text; correct or leave out the row"
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{location}: {field} holds {value[error.start]!a}, half of a surrogate pair, which is not text (an emoji "
            "was split?); correct the program that wrote it, or replace it with U+FFFD"
        ) from None
    return str(value)


def candidate_text(value: Any, location: str, field: str) -> str:
    """A candidate: a caption, also as the only item of a list, as decoders of batches write it."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise InputError(
                f"{location}: {field} is a list of {len(value)}, expected one caption; several candidates of an image "
                "come in a row each"
            )
        value = value[0]
    return caption_text(value, location, field)


def image_key(value: Any, location: str, field: str = "image_id") -> str:
    """The text form of an id: text, or a whole number."""
    if type(value) is int:
        return _whole_number(value, location, field)
    if isinstance(value, str):
        if value.strip():
            return caption_text(value, location, field)
        raise InputError(f"{location}: {field} is empty, expected the image's id as text or number")
    if isinstance(value, Real) and is_finite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, Integral) and value is not True and value is not False:
        return _whole_number(int(value), location, field)
    raise InputError(f"{location}: {field} is {describe(value)}, expected the id as text or a whole number")


def _whole_number(value: int, location: str, field: str) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        raise InputError(f"{location}: {field} is a whole number of thousands of digits, which is not an id") from None


def reference_list(value: Any, location: str, field: str) -> tuple[str, ...]:
    """The references of one image: a list of captions, each text or COCO's `{"caption": text}`; or one text."""
    if type(value) is list and set(map(type, value)) == {str} and "".join(value).isascii():
        return tuple(value)  # nearly all lists; the general case takes six times as long
    if isinstance(value, str):
        return (caption_text(value, location, field),)
    if isinstance(value, bytes | bytearray | memoryview | range) or not isinstance(value, Sequence):
        items = value.tolist() if hasattr(value, "tolist") else None
        if not isinstance(items, list):
            raise InputError(f"{location}: {field} is {describe(value)}, expected a list of captions")
        value = items
    return tuple(
        item
        if type(item) is str and item.isascii()
        else caption_text(
            item["caption"] if isinstance(item, Mapping) and "caption" in item else item,
            location,
            f"{field}[{item_index}]",
        )
        for item_index, item in enumerate(value)
    )


def human_ratings(value: Any, location: str) -> tuple[float, ...] | None:
    """The human scores: a number or a list of numbers."""
    if value is None:
        return None
    if hasattr(value, "tolist"):  # a numpy value
        value = value.tolist()
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for rating in values:
        if not is_finite(rating):
            raise InputError(
                f"{location}: human holds {describe(rating)}, expected a number or a list of finite numbers"
            )
    return tuple(float(rating) for rating in values)


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether this is a finite number that fits a float: JSON may have NaN, Infinity and integers of any length."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


def optional_text(value: Any, location: str, field: str) -> str | None:
    """An optional name."""
    return None if value is None or (isinstance(value, str) and not value) else image_key(value, location, field)
