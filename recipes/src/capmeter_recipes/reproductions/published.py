"""Tables of the reproduced papers, from `data/published` (their format: see `capmeter.meta.published`).

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
    """The tables of all papers, by name: study/table."""
    return read_tables(files("capmeter_recipes") / "data" / "published")


def paper_table(name: str) -> Mapping[str, Mapping[str, float]]:
    """The rows of one table: row → column → number."""
    (table,) = study_tables()[name]
    return table.rows


def paper_source(name: str) -> str:
    """The paper that one table is from."""
    (table,) = study_tables()[name]
    return table.source
