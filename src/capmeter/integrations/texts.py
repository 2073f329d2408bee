"""Texts as other libraries hand them over: in a list, a tuple, an array, a tensor or a series."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from capmeter.captions.rows import caption_text, reference_list
from capmeter.core.errors import InputError
from capmeter.core.messages import describe


def entries_of(values: Any, name: str) -> list[Any]:
    """The entries of anything with an order and a length.

    Raises:
        InputError: one text, or a value without an order, such as a generator or a dict.
    """
    is_refused = isinstance(values, str | bytes | bytearray | memoryview | Mapping | Set)
    if is_refused or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise InputError(f"{name}: expected a list with an entry for each caption, got {describe(values)}")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def texts_of(values: Any, name: str) -> list[str]:
    """The texts of a list; an `InputError` names the entry that is none."""
    return [
        caption_text(value, f"{name}[{index}]", "the caption") for index, value in enumerate(entries_of(values, name))
    ]


def reference_lists_of(values: Any, name: str) -> list[list[str]]:
    """The references of each caption, each a list of texts or one text."""
    return [
        list(reference_list(value, f"{name}[{index}]", "the list"))
        for index, value in enumerate(entries_of(values, name))
    ]
