"""One row per caption: id, image, system and every score, for data frames and spreadsheets.

Beside the rows of the file that the scores are of, every row stands in its order, without a score where it has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from capmeter.captions.parts import SourceRows, unify_columns
from capmeter.captions.rows import CaptionRow
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
    write_table(_tables(systems, texts, sources), path)


def _tables(systems: Mapping[str, Results], texts: bool, sources: Sources) -> Iterator[Any]:
    """The rows of some captions after the other, since Python's strings take much more than what is held."""
    for system, results in systems.items():
        if sources:
            yield from _beside_source(system, results, *sources[system], texts=texts)
            continue
        for block_start in range(0, len(results.ids.names), _AT_ONCE):
            rows = slice(block_start, block_start + _AT_ONCE)
            yield arrow_table(results.to_columns(system, texts=texts, rows=rows), texts=texts)


def _beside_source(
    system: str, results: Results, source: SourceRows, source_system: str | None, *, texts: bool
) -> Iterator[Any]:
    """All rows of a file, a block at a time, with the scores of those that were scored; the others have no references.

    Raises:
        InputError: the rows are not those that were scored, or a carried column has the name of a column of scores.
    """
    import pyarrow

    caption_ids, position = results.ids.names, 0
    absent_rows = (CaptionRow("", id, "", id=id) for id in results.notes.get("scored_as_empty", ()))
    rows = chain(source.read(source_system), absent_rows)
    while batch := list(islice(rows, _BLOCK)):
        upcoming_ids, scored_count = [*caption_ids[position : position + len(batch)], None], 0
        places: list[int | None] = []  # of each row among those that were scored
        for row in batch:
            is_scored = row.id == upcoming_ids[scored_count]
            places.append(scored_count if is_scored else None)
            scored_count += is_scored
        score_columns = results.to_columns(texts=texts, rows=slice(position, position + scored_count))
        position += scored_count
        if shared_names := source.kinds.keys() & score_columns.keys():
            raise InputError(
                f"{source.name}: the scores have a column {list_names(sorted(shared_names))}, too; rename the file's"
            )
        scores = arrow_table(score_columns, texts=texts).take(pyarrow.array(places, pyarrow.int64()))
        columns: dict[str, Any] = {"id": [row.id for row in batch], "image_id": [row.image_id for row in batch]}
        columns["system"] = [system] * len(batch)
        columns |= {name: scores[name] for name in scores.column_names if name not in columns}
        if texts:
            candidates = zip(batch, scores["candidate"].to_pylist(), strict=True)
            columns["candidate"] = [row.candidate if text is None else text for row, text in candidates]
        yield arrow_table(columns | source.columns(batch), texts=texts)
    if position < len(caption_ids):
        raise InputError(f"{source.name}: it has changed since its captions were scored; score it again")


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
