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

    row_number, source_name, max_content = 0, source.name, source.max_content
    with source.open() as file:
        try:
            file_content = pyarrow.BufferReader(file.read()) if source.compression else file
            metadata = parquet.read_metadata(file_content)
            _check_size(
                sum(metadata.row_group(group_index).total_byte_size for group_index in range(metadata.num_row_groups)),
                max_content,
                source_name,
            )
            # pyarrow ends the process when it shows a damaged column's metadata; reading through it raises an error
            parquet.ParquetFile(file_content, metadata=metadata).scan_contents()
            _check_size(_stored_size(metadata), max_content, source_name)
            parquet_file = parquet.ParquetFile(file_content, metadata=metadata, read_dictionary=_text_columns(metadata))
            header: list[str] = parquet_file.schema_arrow.names
            check_header(header, source_name, columns)
            native = columns.native(header)
            candidates = {c for c, field in zip(header, native, strict=True) if columns.field(field) == "candidate"}
            has_layout = columns.layout is not None
            used_columns = [c for c in header if has_layout or c == "captions" or columns.field(c) is not None]
            columns.ignored |= set(header) - set(used_columns)
            used_columns += [c for c in columns.keep or () if c in header and c not in used_columns]
            columns.names.update(dict.fromkeys(header))
            total_size = 0
            for batch in parquet_file.iter_batches(batch_size=_BATCH, columns=used_columns):
                batch_bytes = sum(map(_text_size, batch.columns))
                total_size += batch_bytes
                _check_size(total_size, max_content, source_name)
                slice_rows = max(1, batch.num_rows * _BLOCK_BYTES // max(batch_bytes, _BLOCK_BYTES))
                for first_row in range(0, batch.num_rows, slice_rows):
                    for fields in batch.slice(first_row, slice_rows).to_pylist():
                        present = {c: value for c, value in fields.items() if value is not None or c in candidates}
                        yield from native_rows(present, f"{source_name}, row {row_number}", side, columns, row_number)
                        row_number += 1
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source_name}, after row {row_number}: text that is not UTF-8 ({error}); write it again"
            ) from None
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise InputError(f"{source_name}: not a whole Parquet file: {error}; write or copy it again") from None


def _check_size(size: int, most: int, source_name: str) -> None:
    if size > most:
        raise InputError(
            f"{source_name}: it holds more than {most / 2**30:.1f} GiB and {MAX_RATIO} times its size, which captions "
            "never do; write it as JSON lines if it is intact"
        )


def _stored_size(metadata: Any) -> int:
    """The bytes of all columns, as the file states them, and at least one for each value (nulls take none)."""
    row_groups = (metadata.row_group(k) for k in range(metadata.num_row_groups))
    column_chunks = [row_group.column(k) for row_group in row_groups for k in range(row_group.num_columns)]
    return sum(max(column_chunk.total_uncompressed_size, column_chunk.num_values) for column_chunk in column_chunks)


def _text_columns(metadata: Any) -> list[str]:
    """The columns of text, as paths in the schema."""
    schema_columns = [metadata.schema.column(k) for k in range(metadata.num_columns)]
    return [schema_column.path for schema_column in schema_columns if schema_column.physical_type == "BYTE_ARRAY"]


def _text_size(column: Any) -> int:
    """The bytes that a column's texts take once they are decoded."""
    import pyarrow
    from pyarrow import compute

    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        column = column.flatten()
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    text_lengths = compute.cast(compute.binary_length(column.dictionary), pyarrow.int64())
    return int(compute.sum(text_lengths.take(column.indices)).as_py() or 0)


def write(rows: Iterable[CaptionRow], columns: Sequence[str], file: BinaryIO) -> None:
    """These columns of the rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    text_type, texts_type, numbers = pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    column_types = {"references": texts_type, "human": numbers}
    schema = pyarrow.schema([(column, column_types.get(column, text_type)) for column in columns])
    with parquet.ParquetWriter(file, schema) as writer:
        row_batch: list[dict[str, Any]] = []
        for caption_row in rows:
            row_batch.append(row_fields(caption_row))
            if len(row_batch) == _BATCH:
                writer.write_table(pyarrow.Table.from_pylist(row_batch, schema=schema))
                row_batch.clear()
        writer.write_table(pyarrow.Table.from_pylist(row_batch, schema=schema))
