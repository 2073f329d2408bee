"""Tables of the reproduced studies, from the papers' folders `study_values` (format: see `capmeter.meta.published`).

>>> paper_table("lceval/main")["lceval"]
{'pearson': 0.562, 'spearman': 0.543, 'kendall': 0.418}
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from capmeter.meta.published import Tables, read_tables


@cache
def study_tables() -> Tables:
    """The tables of all papers' studies, by name: study/table."""
    folders = [paper / "study_values" for paper in files("capmeter_research.papers").iterdir() if paper.is_dir()]
    return read_tables(*(folder for folder in folders if folder.is_dir()))


def paper_table(name: str) -> Mapping[str, Mapping[str, float]]:
    """The rows of one table, named study/table: row → column → number."""
    (table,) = study_tables()[name]
    rows: Mapping[str, Mapping[str, float]] = table["rows"]
    return rows


def paper_source(name: str) -> str:
    """The paper that one table is from."""
    (table,) = study_tables()[name]
    return str(table["source"])
