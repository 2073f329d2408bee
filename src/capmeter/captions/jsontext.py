"""JSON as captions need it: duplicate keys are rejected, and every error gives line and column."""

from __future__ import annotations

import json
from typing import Any

from capmeter.errors import InputError


class _Twice(Exception):
    """A duplicate key in one object."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return built


_decoder = json.JSONDecoder(object_pairs_hook=_object)


def decode_json(text: str, name: str, line: int | None = None) -> Any:
    """The value of this JSON text; `line` is its line in the file if the text is one line of many."""

    def place() -> str:
        return name if line is None else f"{name}, line {line}"

    try:
        return _decoder.decode(text)
    except _Twice as error:
        raise InputError(f"{place()}: duplicate key {error.args[0]!a} in one object; keep one") from None
    except json.JSONDecodeError as error:
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        why = "the file ends in the middle (cut off while it was written or copied?)" if cut else error.msg
        if cut and line is not None:
            why = "the line ends in the middle of its object; one JSON object per line was expected"
        raise InputError(
            f"{name}, line {line or error.lineno}, column {error.colno}: not valid JSON: {why}; repair the "
            "file or write it again"
        ) from None
    except RecursionError:
        raise InputError(f"{place()}: the JSON is nested too deeply to be captions") from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise InputError(f"{place()}: holds a whole number of thousands of digits; write an id as text") from None
