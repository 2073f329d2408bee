"""Parquet: the native row as columns, `references` a list of text and `human` a list of numbers.

A small file can hold more than memory does: pages are compressed, and a repeated text is stored once. Texts are
therefore read as Parquet stores them, and their size is computed before they are decoded: like a gzipped file, one may
hold `LARGEST_DOCUMENT` bytes, or `MAX_RATIO` times its own size if that is more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns
from capmeter.captions.formats.native import native_rows, row_fields
from capmeter.captions.formats.table import check_header
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.sources import MAX_RATIO, CaptionSource
from capmeter.core.errors import InputError

_BATCH = 4096
_BLOCK_BYTES = 1 << 26  # of text that is decoded into rows at a time


def is_parquet(start: bytes) -> bool:
    """Whether a file that begins so is a Parquet file."""
    return start.startswith(b"PAR1")


def read(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    number, name, most = 0, source.name, source.max_content
    with source.open() as file:
        try:
            content = pyarrow.BufferReader(file.read()) if source.compression else file
            metadata = parquet.read_metadata(content)
            _check_size(sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)), most, name)
            # pyarrow ends the process when it shows a damaged column's metadata; reading through it raises an error
            parquet.ParquetFile(content, metadata=metadata).scan_contents()
            _check_size(_stored_size(metadata), most, name)
            table = parquet.ParquetFile(content, metadata=metadata, read_dictionary=_text_columns(metadata))
            header: list[str] = table.schema_arrow.names
            check_header(header, name, columns)
            native = columns.native(header)
            candidates = {c for c, field in zip(header, native, strict=True) if columns.field(field) == "candidate"}
            has_layout = columns.layout is not None
            used = [c for c in header if has_layout or c == "captions" or columns.field(c) is not None]
            columns.ignored |= set(header) - set(used)
            used += [c for c in columns.keep or () if c in header and c not in used]
            columns.names.update(dict.fromkeys(header))
            total_size = 0
            for batch in table.iter_batches(batch_size=_BATCH, columns=used):
                size = sum(map(_text_size, batch.columns))
                total_size += size
                _check_size(total_size, most, name)
                rows = max(1, batch.num_rows * _BLOCK_BYTES // max(size, _BLOCK_BYTES))
                for start in range(0, batch.num_rows, rows):
                    for fields in batch.slice(start, rows).to_pylist():
                        present = {c: value for c, value in fields.items() if value is not None or c in candidates}
                        yield from native_rows(present, f"{name}, row {number}", side, columns, number)
                        number += 1
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, after row {number}: text that is not UTF-8 ({error}); write it again") from None
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise InputError(f"{name}: not a whole Parquet file: {error}; write or copy it again") from None


def _check_size(size: int, most: int, name: str) -> None:
    if size > most:
        raise InputError(
            f"{name}: it holds more than {most / 2**30:.1f} GiB and {MAX_RATIO} times its size, which captions "
            "never do; write it as JSON lines if it is intact"
        )


def _stored_size(metadata: Any) -> int:
    """The bytes of all columns, as the file states them, and at least one for each value (nulls take none)."""
    groups = (metadata.row_group(k) for k in range(metadata.num_row_groups))
    columns = [group.column(k) for group in groups for k in range(group.num_columns)]
    return sum(max(each.total_uncompressed_size, each.num_values) for each in columns)


def _text_columns(metadata: Any) -> list[str]:
    """The columns of text, as paths in the schema."""
    columns = [metadata.schema.column(k) for k in range(metadata.num_columns)]
    return [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]


def _text_size(column: Any) -> int:
    """The bytes that a column's texts take once they are decoded."""
    import pyarrow
    from pyarrow import compute

    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        column = column.flatten()
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.cast(compute.binary_length(column.dictionary), pyarrow.int64())
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


def write(rows: Iterable[CaptionRow], columns: Sequence[str], file: BinaryIO) -> None:
    """These columns of the rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    text, texts, numbers = pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    kinds = {"references": texts, "human": numbers}
    schema = pyarrow.schema([(column, kinds.get(column, text)) for column in columns])
    with parquet.ParquetWriter(file, schema) as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row_fields(row))
            if len(batch) == _BATCH:
                writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
                batch.clear()
        writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
