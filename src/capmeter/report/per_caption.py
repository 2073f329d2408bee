"""One row per caption: id, image, system and every score, for data frames and spreadsheets.

Beside the rows of the file that the scores are of, every row stands in its order, without a score where it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.parts import PartCaptions
from capmeter.core.output_files import write_table
from capmeter.evaluation.results import Results

_AT_ONCE = 1 << 17
_BLOCK = 1 << 14  # rows of a file at a time
Sources = Mapping[str, tuple[PartCaptions, str]]


def write_per_caption(
    systems: Mapping[str, Results],
    path: Path,
    *,
    texts: bool = False,
    sources: Sources | None = None,
    types: Mapping[str, Collection[type]] | None = None,
) -> None:
    """Writes the rows in the format of the file's ending, whole or not at all.

    Args:
        systems: the scores.
        path: the file.
        texts: whether each row has the caption and its references, too (as JSON in CSV and TSV).
        sources: of each system the captions of its file, and its name there: all rows of the file are written, those
            without a score too.
        types: with `sources`, the columns that are carried through (`join_types`).
    """
    write_table(_tables(systems, texts, sources or {}, types or {}), path)


def _tables(
    systems: Mapping[str, Results], texts: bool, sources: Sources, types: Mapping[str, Collection[type]]
) -> Iterator[Any]:
    """The rows of some captions after the other, since Python's strings take much more than what is held."""
    for system, results in systems.items():
        if sources:
            yield from _beside_source(system, results, *sources[system], types, texts=texts)
            continue
        for block_start in range(0, len(results.ids.names), _AT_ONCE):
            rows = slice(block_start, block_start + _AT_ONCE)
            yield arrow_table(results.to_columns(system, texts=texts, rows=rows), texts=texts)


def _beside_source(
    system: str,
    results: Results,
    captions: PartCaptions,
    name_in_file: str,
    types: Mapping[str, Collection[type]],
    *,
    texts: bool,
) -> Iterator[Any]:
    """All rows of a file, a block at a time, with the scores of those that were scored; the others have no references.

    Raises:
        InputError: a carried column has the name of a column of scores.
    """
    import pyarrow

    positions, _ = captions.systems[name_in_file]
    places = np.full(len(captions.rows), -1)  # among those that were scored, which are in the file's order
    places[positions] = np.arange(len(positions))
    own_rows = [k for k, row in enumerate(captions.rows) if (row.system or "") == name_in_file]
    for block_start in range(0, len(own_rows), _BLOCK):
        block = own_rows[block_start : block_start + _BLOCK]
        rows, block_places = [captions.rows[k] for k in block], places[block]
        scored = block_places[block_places >= 0].tolist() or [0, -1]
        score_columns = results.to_columns(texts=texts, rows=slice(scored[0], scored[-1] + 1))
        order = pyarrow.array(block_places - scored[0], mask=block_places < 0)
        scores = arrow_table(score_columns, texts=texts).take(order)
        columns: dict[str, Any] = {"id": [row.final_id for row in rows], "image_id": [row.image_id for row in rows]}
        columns["system"] = [system] * len(rows)
        columns |= {name: scores[name] for name in scores.column_names if name not in columns}
        if texts:
            candidates = zip(rows, scores["candidate"].to_pylist(), strict=True)
            columns["candidate"] = [row.candidate if text is None else text for row, text in candidates]
        yield arrow_table(columns | captions.columns(rows, types, columns), texts=texts)


def arrow_table(columns: Mapping[str, Any], *, texts: bool = False) -> Any:
    """Arrays of numbers, and lists of texts, as an Arrow table, whose types do not depend on the values.

    With `texts` the column `references` is a list of lists.
    """
    import pyarrow

    text_type = pyarrow.string()
    column_types = {name: pyarrow.list_(text_type) if texts and name == "references" else text_type for name in columns}
    return pyarrow.table(
        {
            name: pyarrow.array(values, column_types[name]) if isinstance(values, list) else values
            for name, values in columns.items()
        }
    )
