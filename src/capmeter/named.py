"""Names are values: the text form of a frozen value is its identity."""

from __future__ import annotations

from typing import Any


def value_text(value: Any) -> str:
    """A parameter's value as it stands in a metric's name."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    text = str(value)
    if (
        isinstance(value, str)
        and not text.replace("-", "").replace("_", "").replace(".", "").replace("/", "").isalnum()
    ):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text
