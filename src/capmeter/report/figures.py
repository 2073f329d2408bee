"""Figures in one house style: opened with `open_figure`, written with `save_figures` as PNG, SVG or PDF.

matplotlib reads its settings while it draws, so a function that draws carries the style as a decorator:

    @house_style()
    def curve_figure(study: Study) -> Any:
        figure, axes = open_figure(1, 2)
        axes[0, 0].plot(study.x, study.y, label="one", **series_style(0))
        return figure

matplotlib is used without pyplot: no window, no global state, and a saved figure has the same bytes each time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.output_files import write_atomic

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B4C9A", "#4D4D4D")
"""Okabe and Ito's colours, which remain distinct with colour-blindness (violet replaces their yellow, which is too pale
on white)."""

_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLE = Path(__file__).with_name("templates") / "plots.mplstyle"
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's settings inside the block, or in the function that it decorates."""
    try:
        import matplotlib
    except ImportError:
        raise MissingBackend("plots need matplotlib; install it with: pip install 'capmeter[report]'") from None
    with matplotlib.rc_context(fname=_STYLE):
        yield


def open_figure(
    rows: int = 1, columns: int = 1, *, width: float = 6.0, height: float = 3.8, share: str = "none"
) -> tuple[Any, Any]:
    """A new figure and its axes as an array [rows, columns]; `width` and `height` are inches for each panel.

    `share` says which axes have one scale: "none", "x", "y" or "both".

    Args:
        rows, columns: numbers of panels.
        width, height: of a panel, in inches.
        share: which axes have one scale: none, x, y or both.
    """
    with house_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(
            rows, columns, squeeze=False, sharex=share in ("x", "both"), sharey=share in ("y", "both")
        )
    return figure, axes


def series_style(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of the k-th series: the first 32 differ, the first eight also without colour."""
    dashes = _DASHES[(number + number // len(COLOURS)) % len(_DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes, "marker": _MARKERS[number % len(_MARKERS)]}


def save_figures(figure: Any, paths: Sequence[str | Path], *, dpi: int = 160) -> list[Path]:
    """Writes the figure into each of these files, whole or not at all; a wrong name is rejected before any is written.

    Args:
        figure: of matplotlib.
        paths: end in .png, .svg or .pdf.
        dpi: dots per inch of a PNG.
    """
    kinds = [image_kind(path) for path in paths]
    for path, kind in zip(paths, kinds, strict=True):
        content = io.BytesIO()
        with house_style():
            figure.savefig(content, format=kind, dpi=dpi, metadata=_METADATA[kind])
        write_atomic(path, content.getvalue())
    return list(map(Path, paths))


def image_kind(path: str | Path) -> str:
    """`png`, `svg` or `pdf`, by the file's ending; another ending is an `InputError`."""
    file_ending = Path(path).suffix.lower().removeprefix(".")
    if file_ending not in _METADATA:
        raise InputError(f"{path}: unknown picture format; end the name in .png, .svg or .pdf")
    return file_ending
