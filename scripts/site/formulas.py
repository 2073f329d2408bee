"""A metric's formula, declared as LaTeX, as MathML on its page: browsers draw it without a script or a font.

Symbols: c the candidate, R or S its references, r one of them, v the picture. Docstrings say the same in plain text.
"""

from __future__ import annotations

from collections.abc import Sequence


def formula(name: str, equations: Sequence[str]) -> str:
    """The formula of a metric as MathML, a line for each equation."""
    from latex2mathml.converter import convert

    lines = "\n".join(convert(equation, display="block") for equation in equations)
    return f'<div class="formula" role="group" aria-label="Formula of {name}">\n{lines}\n</div>'
