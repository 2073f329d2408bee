"""Text and values of others (captions, names, errors of libraries) in messages: in words, shortened, printable.

`escape_controls` makes text harmless where a terminal or a table shows it.

>>> describe({"image_id": 7}), list_names(["a dog", "a cat", "two dogs"], 2)
('an object with the fields image_id', 'a dog, a cat and 1 more')
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any


def format_count(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun, in the singular for 1: "1 caption", "1,203 images".

    Args:
        number: how many.
        noun: in the singular.
        plural: by default the noun with an s.

    >>> format_count(1, "caption"), format_count(1203, "image"), format_count(2, "is", "are")
    ('1 caption', '1,203 images', '2 are')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def describe_failure(problem: Exception) -> str:
    """Why reading a value of a file failed, in words for the user: Python's exceptions name its own types.

    >>> describe_failure(KeyError("scores")), describe_failure(AttributeError("'list' object has no attribute 'items'"))
    ("'scores' is missing", 'a value of another kind than expected')
    """
    if isinstance(problem, TypeError | AttributeError | IndexError):
        return "a value of another kind than expected"
    return f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)


def describe(value: Any) -> str:
    """A value in words."""
    if value is None:
        return "missing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    if isinstance(value, int | float):
        return f"the number {value}" if abs(value) < 10**40 else "a number of more than 40 digits"
    if isinstance(value, str):
        return f"the text {shorten(value)}"
    if isinstance(value, Mapping):
        fields = (key if isinstance(key, str) else describe(key) for key in value)
        return f"an object with the fields {list_names(fields)}" if value else "an empty object"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return f"a list of {len(value)}"
    return f"a {type(value).__name__}"


def shorten(text: str, length: int = 40) -> str:
    """The beginning of a text, quoted and printable."""
    start = text if len(text) <= length else text[: length - 1] + "…"
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in start) + '"'


def describe_error(error: Exception, length: int = 120) -> str:
    """The beginning of an error of a library, printable, for a message of capmeter's own."""
    return shorten(repr(error), length)[1:-1]


def list_names(names: Iterable[str], most: int = 5, length: int = 40) -> str:
    """The first of these names, up to this length, and the number of the others.

    Args:
        names: all of them.
        most: how many are listed.
        length: characters of a name that are shown.
    """
    names = list(names)
    first_names = ", ".join(shorten(name, length)[1:-1] for name in names[:most])
    return first_names + (f" and {len(names) - most:,} more" if len(names) > most else "")


def escape_controls(text: str) -> str:
    """Text on one line that can neither steer a terminal nor turn its direction around: such characters as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def fold_line(text: str, width: int) -> str:
    """A line for a terminal of this width, broken only at blanks, after bars and, in what is longer than a line, after
    commas, so that numbers stay whole.

    >>> print(fold_line("signature: bleu-4|smooth:1e-15/1e-9|length:closest", 26))
    signature: bleu-4|
      smooth:1e-15/1e-9|
      length:closest
    >>> print(fold_line("protocol: mine(judgments=human,references=all,by=none)", 26))
    protocol:
      mine(judgments=human,
      references=all,by=none)
    """
    lines = [""]
    words = re.findall(r"[^ |]*[ |]|[^ |]+", text)
    for piece in chain.from_iterable(
        re.split(r"(?<=,)(?=\D)", word) if len(word) > width - 2 else [word] for word in words
    ):
        if lines[-1].strip() and len(lines[-1]) + len(piece.rstrip(" ")) > width:
            lines.append("  ")
        lines[-1] += piece
    return "\n".join(line.rstrip(" ") for line in lines)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal, or is to be treated as one (the environment's FORCE_COLOR, TTY_COMPATIBLE)."""
    is_forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    return bool(is_forced) or (stream is not None and stream.isatty())
