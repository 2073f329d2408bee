"""The study of the captioner as tables beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from capmeter.learning.captioner.study import Length, Segmented
from capmeter.meta.published.subicap import LENGTHS, SCORES, SIZES, SOURCE
from capmeter.report.tables import Table

_BESIDE = f"in parentheses: {SOURCE}"


def length_table(rows: Sequence[Length]) -> Table:
    """Table A.1, and the lengths of Table A.2."""
    cells = []
    for row in rows:
        paper = next((each for each in LENGTHS if each[0] == row.segmentation and _near(each, row)), None)
        said = (f" ({paper[1]:,})", f" ({LENGTHS[paper]})") if paper else ("", "")
        cells.append([row.segmentation, f"{row.entries:,}{said[0]}", f"{row.longest}{said[1]}"])
    return Table("tokens that leave 99 % of the captions whole", list(_LENGTHS), cells, [False, True, True], _BESIDE)


def _near(paper: tuple[str, int], row: Length) -> bool:
    """Whether this is the row of the paper's vocabulary; the number of words follows from the captions."""
    return row.segmentation == "word" or paper[1] == row.entries


_LENGTHS = ("segmentation", "entries", "tokens")


def length_to_dict(rows: Sequence[Length]) -> dict[str, Any]:
    """The same as JSON values."""
    published = [{"segmentation": kind, "entries": size, "longest": value} for (kind, size), value in LENGTHS.items()]
    return {"source": SOURCE, "rows": [asdict(row) for row in rows], "published": published}


def segmentation_table(rows: Mapping[str, Segmented]) -> Table:
    """Tables A.2 and A.3: a row per segmentation."""
    metrics = list(next(iter(rows.values())).scores)
    cells = []
    for name, row in rows.items():
        entries, longest, millions, distinct = SIZES.get(name, (None,) * 4)
        cells.append(
            [
                name,
                _beside(f"{row.entries:,}", entries, ","),
                _beside(f"{row.longest}", longest),
                _beside(f"{row.parameters / 1e6:.2f}", millions),
                _beside(f"{100 * row.distinct:.1f}", distinct),
                f"{row.words:.1f}",
                *(
                    _beside(f"{100 * value:.1f}", SCORES.get(name, {}).get(metric), ".1f")
                    for metric, value in row.scores.items()
                ),
            ]
        )
    columns = ["segmentation", "entries", "tokens", "millions", "distinct %", "words", *metrics]
    note = f"scores x 100; {_BESIDE}, on photographs"
    return Table("captions by segmentation", columns, cells, [False, *(True for _ in columns[1:])], note)


def _beside(found: str, paper: float | None, form: str = "") -> str:
    return found if paper is None else f"{found} ({paper:{form}})"


def segmentation_to_dict(rows: Mapping[str, Segmented]) -> dict[str, Any]:
    """The same as JSON values."""
    published = {
        name: {"entries": size[0], "longest": size[1], "millions": size[2], "distinct": size[3], "scores": SCORES[name]}
        for name, size in SIZES.items()
    }
    return {"source": SOURCE, "rows": {name: asdict(row) for name, row in rows.items()}, "published": published}
