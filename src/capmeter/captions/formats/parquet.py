"""Parquet: the native row as columns, `references` a list of text and `human` a list of numbers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns
from capmeter.captions.files import open_bytes
from capmeter.captions.formats.native import fields_of, native_rows
from capmeter.captions.formats.table import check_header
from capmeter.captions.rows import Row, Side
from capmeter.errors import InputError

MAGIC = b"PAR1"
_BATCH = 4096


def read(path: Path, name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    number = 0
    with open_bytes(path) as file:
        try:
            zipped = not isinstance(getattr(file, "raw", file), io.FileIO)
            table = parquet.ParquetFile(pyarrow.BufferReader(file.read()) if zipped else file)
            header: list[str] = table.schema_arrow.names
            check_header(header, name, columns)
            texts = {c for c in header if columns.field(c) == "candidate"}
            wanted = [c for c in header if c == "captions" or columns.field(c) is not None]
            columns.ignored |= set(header) - set(wanted)
            for batch in table.iter_batches(batch_size=_BATCH, columns=wanted):
                for fields in batch.to_pylist():
                    held = {column: value for column, value in fields.items() if value is not None or column in texts}
                    yield from native_rows(held, f"{name}, row {number}", side, columns)
                    number += 1
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, after row {number}: text that is not UTF-8 ({error}); write it again") from None
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise InputError(f"{name}: not a whole Parquet file: {error}; write or copy it again") from None


def write(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """These columns of the rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    text, texts, numbers = pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    kinds = {"references": texts, "human": numbers}
    schema = pyarrow.schema([(column, kinds.get(column, text)) for column in columns])
    with parquet.ParquetWriter(file, schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(fields_of(row))
            if len(batch) == _BATCH:
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
                batch.clear()
        writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
