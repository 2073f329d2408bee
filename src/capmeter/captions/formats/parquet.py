"""Parquet: the native row as columns, `references` a list of text and `human` a list of numbers.

A small file can hold more than memory does: pages are compressed, and a text that is repeated is stored once. Texts are
therefore read as Parquet stores them, and their size is known before they are made: like a gzipped file, one may hold
`LARGEST_DOCUMENT` bytes, or `MOST_UNZIPPED` times its own size if that is more.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns
from capmeter.captions.files import MOST_UNZIPPED, most_unzipped, open_bytes
from capmeter.captions.formats.native import fields_of, native_rows
from capmeter.captions.formats.table import check_header
from capmeter.captions.rows import Row, Side
from capmeter.errors import InputError

MAGIC = b"PAR1"
_BATCH = 4096
_AT_ONCE = 1 << 26  # bytes of text that are made into rows at once


def read(path: Path, name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    number = 0
    with open_bytes(path) as file:
        try:
            zipped = not isinstance(getattr(file, "raw", file), io.FileIO)
            source = pyarrow.BufferReader(file.read()) if zipped else file
            whole = parquet.read_metadata(source)
            most = most_unzipped(path)
            _check_size(sum(whole.row_group(k).total_byte_size for k in range(whole.num_row_groups)), most, name)
            # pyarrow ends the process when it shows a damaged column's metadata; reading through it raises an error
            parquet.ParquetFile(source, metadata=whole).scan_contents()
            _check_size(_stored(whole), most, name)
            table = parquet.ParquetFile(source, metadata=whole, read_dictionary=_texts(whole))
            header: list[str] = table.schema_arrow.names
            check_header(header, name, columns)
            native = columns.native(header)
            texts = {c for c, own in zip(header, native, strict=True) if columns.field(own) == "candidate"}
            whole_rows = columns.layout is not None
            wanted = [c for c in header if whole_rows or c == "captions" or columns.field(c) is not None]
            columns.ignored |= set(header) - set(wanted)
            made = 0
            for batch in table.iter_batches(batch_size=_BATCH, columns=wanted):
                size = sum(map(_text_size, batch.columns))
                made += size
                _check_size(made, most, name)
                rows = max(1, batch.num_rows * _AT_ONCE // max(size, _AT_ONCE))
                for start in range(0, batch.num_rows, rows):
                    for fields in batch.slice(start, rows).to_pylist():
                        held = {
                            column: value for column, value in fields.items() if value is not None or column in texts
                        }
                        yield from native_rows(held, f"{name}, row {number}", side, columns)
                        number += 1
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, after row {number}: text that is not UTF-8 ({error}); write it again") from None
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise InputError(f"{name}: not a whole Parquet file: {error}; write or copy it again") from None


def _check_size(size: int, most: int, name: str) -> None:
    if size > most:
        raise InputError(
            f"{name}: it holds more than {most / 2**30:.1f} GiB and {MOST_UNZIPPED} times its size, which captions "
            "never do; write it as JSON lines if it is intact"
        )


def _stored(whole: Any) -> int:
    """The bytes of all columns, as the file itself says, and at least one of each value (nulls take none)."""
    groups = (whole.row_group(k) for k in range(whole.num_row_groups))
    columns = [group.column(k) for group in groups for k in range(group.num_columns)]
    return sum(max(each.total_uncompressed_size, each.num_values) for each in columns)


def _texts(whole: Any) -> list[str]:
    """The columns of text, as paths in the schema."""
    columns = [whole.schema.column(k) for k in range(whole.num_columns)]
    return [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]


def _text_size(column: Any) -> int:
    """The bytes that a column's texts take once they are made."""
    import pyarrow
    from pyarrow import compute

    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        column = column.flatten()
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.cast(compute.binary_length(column.dictionary), pyarrow.int64())
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


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
