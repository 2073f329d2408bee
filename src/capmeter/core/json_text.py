"""JSON as captions need it: duplicate keys are rejected, and every error gives line and column; bundled JSON files."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError


class _DuplicateKey(Exception):
    """A duplicate key in one object."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        earlier_keys: set[str] = set()
        for key, _ in pairs:
            if key in earlier_keys:
                raise _DuplicateKey(key)
            earlier_keys.add(key)
    return fields


_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys)
_BEGUN_VALUE = re.compile(r"[-+.\\\w]{0,8}\s*")  # what is left at the end of a text that ends in a number, true or null


def decode_json(text: str, name: str, line: int | None = None) -> Any:
    """The value of a JSON text.

    Args:
        text: the JSON.
        name: the file or cell, for messages.
        line: the text's line in the file, if it is one line of many.

    Raises:
        InputError: it is not valid JSON, has a duplicate key, or is nested too deeply.
    """
    try:
        return _decoder.decode(text)
    except _DuplicateKey as error:
        raise InputError(f"{_location(name, line)}: duplicate key {error.args[0]!a} in one object; keep one") from None
    except json.JSONDecodeError as error:
        is_truncated = error.msg != "Extra data" and _BEGUN_VALUE.fullmatch(text, error.pos) is not None
        is_truncated = is_truncated or error.msg.startswith("Unterminated string")
        reason = error.msg
        if is_truncated:
            reason = "the file ends in the middle (truncated while it was written or copied?)"
        if is_truncated and line is not None:
            reason = "the line ends in the middle of its object; one JSON object per line was expected"
        raise InputError(
            f"{name}, line {line or error.lineno}, column {error.colno}: not valid JSON: {reason}; repair the file or "
            "write it again"
        ) from None
    except RecursionError:
        raise InputError(f"{_location(name, line)}: the JSON is nested too deeply") from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        location = _location(name, line)
        raise InputError(f"{location}: holds a whole number of thousands of digits; write an id as text") from None


@cache
def read_bundled_json(name: str) -> Any:
    """The content of a JSON file of this name in `capmeter/data`, which nobody changes; read once per process."""
    return json.loads((Path(__file__).parents[1] / "data" / name).read_text("utf-8"))


def _location(name: str, line: int | None) -> str:
    return name if line is None else f"{name}, line {line}"
