"""Text of others (captions, names, errors of libraries) made harmless where a terminal or a table shows it.

>>> escape_controls("a dog\\n\\x1b[31m runs")
'a dog\\\\n\\\\x1b[31m runs'
"""

from __future__ import annotations

import os
import re
from itertools import chain
from typing import Any


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
