"""One row per caption: id, image, system and every score, for data frames and spreadsheets.

Beside the rows of the file that the scores are of, every row stands in its order, without a score where it has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.rows import CaptionRow
from capmeter.captions.source_rows import SourceRows, unify_columns
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.output_files import write_table
from capmeter.evaluation.results import Results

_AT_ONCE = 1 << 17
_BLOCK = 1 << 14  # rows of a file at a time
Sources = Mapping[str, tuple[SourceRows, str | None]] | None


def write_per_caption(
    systems: Mapping[str, Results],
    path: Path,
    *,
    texts: bool = False,
    sources: Sources = None,
) -> None:
    """Writes the rows in the format of the file's ending, whole or not at all.

    Args:
        systems: the scores.
        path: the file.
        texts: whether each row has the caption and its references, too (as JSON in CSV and TSV).
        sources: of each system the rows of its file, and its name there (None: the only one): all of these rows are
            written with their columns, those without a score too.
    """
    unify_columns([source for source, _ in (sources or {}).values()])
    write_table((arrow_table(columns, texts=texts) for columns in _blocks(systems, texts, sources)), path)


def _blocks(systems: Mapping[str, Results], texts: bool, sources: Sources) -> Iterator[dict[str, Any]]:
    """The columns of some captions after the other, since Python's strings take much more than what is held."""
    for system, results in systems.items():
        if sources:
            source, source_system = sources[system]
            columns = functools.partial(_columns_of, results, texts)
            for block in _beside_source(results, source, columns, system=source_system):
                id_columns = {"id": block.pop("id"), "image_id": block.pop("image_id")}
                yield {**id_columns, "system": [system] * len(id_columns["id"]), **block}
            continue
        for block_start in range(0, len(results.ids.names), _AT_ONCE):
            yield results.to_columns(system, texts=texts, rows=slice(block_start, block_start + _AT_ONCE))


def _columns_of(results: Results, texts: bool, rows: slice) -> dict[str, Any]:
    return results.to_columns(texts=texts, rows=rows)


def _beside_source(
    results: Results,
    source: SourceRows,
    columns: Callable[[slice], Mapping[str, Any]],
    *,
    system: str | None = None,
) -> Iterator[dict[str, Any]]:
    """The columns of one block of rows after the other.

    Args:
        results: the scores.
        source: the rows of the file; those that were not scored have no references.
        columns: gives the columns of a slice of the scored captions: arrays of numbers, or lists.
        system: the system of the file (None: its only one).

    Raises:
        InputError: the rows are not those that were scored, or a carried column has the name of a column of scores.
    """
    caption_ids, position = results.ids.names, 0
    absent_rows = (CaptionRow("", id, "", id=id) for id in results.notes.get("scored_as_empty", ()))
    rows = chain(source.read(system), absent_rows)
    while batch := list(islice(rows, _BLOCK)):
        upcoming_ids = [*caption_ids[position : position + len(batch)], None]
        scored_rows: list[int] = []
        for row_index, row in enumerate(batch):
            if row.id == upcoming_ids[len(scored_rows)]:
                scored_rows.append(row_index)
        score_columns = columns(slice(position, position + len(scored_rows)))
        position += len(scored_rows)
        if shared_names := source.kinds.keys() & score_columns.keys():
            raise InputError(
                f"{source.name}: the scores have a column {list_names(sorted(shared_names))}, too; rename the file's"
            )
        block = {name: _spread(values, scored_rows, len(batch)) for name, values in score_columns.items()}
        block |= {"id": [row.id for row in batch], "image_id": [row.image_id for row in batch]}
        if "candidate" in block and len(scored_rows) < len(batch):
            block["candidate"] = [
                row.candidate if text is None else text for row, text in zip(batch, block["candidate"], strict=True)
            ]
        yield block | source.columns(batch)
    if position < len(caption_ids):
        raise InputError(f"{source.name}: it has changed since its captions were scored; score it again")


def arrow_table(columns: Mapping[str, Any], *, texts: bool = False) -> Any:
    """Arrays of numbers and lists of texts as an Arrow table, whose types do not depend on the values.

    With `texts` the column `references` is a list of lists.
    """
    import pyarrow

    text_type = pyarrow.string()
    column_types = {name: pyarrow.list_(text_type) if texts and name == "references" else text_type for name in columns}
    return pyarrow.table(
        {
            name: pyarrow.array(values, column_types[name]) if isinstance(values, list) else pyarrow.array(values)
            for name, values in columns.items()
        }
    )


def _spread(values: Any, positions: list[int], length: int) -> Any:
    """The values at these positions of a longer column, which has none at the others."""
    if len(positions) == length:
        return values
    if isinstance(values, list):
        full_column: list[Any] = [None] * length
        for position, value in zip(positions, values, strict=True):
            full_column[position] = value
        return full_column
    numbers, is_absent = np.zeros(length, values.dtype), np.ones(length, bool)
    numbers[positions], is_absent[positions] = values, False
    return np.ma.MaskedArray(numbers, is_absent)
