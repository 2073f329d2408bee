"""Text of others (captions, names, errors of libraries) made harmless where a terminal or a table shows it.

>>> printable("a dog\\n\\x1b[31m runs")
'a dog\\\\n\\\\x1b[31m runs'
"""

from __future__ import annotations

import os
from typing import Any


def printable(text: str) -> str:
    """Text on one line that can neither steer a terminal nor turn its direction around: such characters as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal, or is to be treated as one (the environment's FORCE_COLOR, TTY_COMPATIBLE)."""
    asked = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    return bool(asked) or (stream is not None and stream.isatty())
