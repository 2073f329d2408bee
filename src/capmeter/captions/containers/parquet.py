"""Parquet, read in batches of the columns that are needed.

A small file can hold more than memory does: pages are compressed, and a repeated text is stored once. Texts are
therefore read as Parquet stores them, and their size is computed before they are decoded: like a gzipped file, one may
hold `LARGEST_DOCUMENT` bytes, or `MAX_RATIO` times its own size if that is more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

from capmeter.captions.containers.container import WHOLE, Container, Records, Span
from capmeter.captions.containers.table import refuse_repeated
from capmeter.captions.sources import MAX_RATIO, CaptionSource
from capmeter.core.errors import InputError

_BATCH = 4096
_BLOCK_BYTES = 1 << 26  # of text that is decoded into rows at a time


def is_parquet(start: bytes) -> bool:
    """Whether a file that begins so is a Parquet file."""
    return start.startswith(b"PAR1")


class ParquetRows(Container):
    """The rows of a Parquet file, whose row groups can be read each by itself."""

    kind = "parquet"

    def __init__(self, source: CaptionSource) -> None:
        super().__init__(source)
        with self._open() as file:
            self.header = file.schema_arrow.names
            group_rows = (file.metadata.row_group(k).num_rows for k in range(file.num_row_groups))
            self._group_bounds = list(accumulate(group_rows, initial=0))
        refuse_repeated(self.header, source.name)

    def spans(self, rows: int) -> list[Span]:
        """Spans of as many whole row groups as have at most so many rows; a larger one is divided."""
        bounds, row_count = [0], self._group_bounds[-1]
        while bounds[-1] < row_count:
            last_row = bounds[-1] + rows
            whole_groups = [bound for bound in self._group_bounds if bounds[-1] < bound <= last_row]
            bounds.append(whole_groups[-1] if whole_groups else min(last_row, row_count))
        return [Span(start, stop) for start, stop in pairwise(bounds)] or [WHOLE]

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows, a few thousand in memory at a time."""
        total_size = 0
        last_row = self._group_bounds[-1] if span.stop is None else span.stop
        with self._open() as file:
            columns = None if names is None else [name for name in self.header or () if name in names]
            for row_group, (row_number, group_stop) in enumerate(pairwise(self._group_bounds)):
                if row_number >= last_row or group_stop <= span.start:
                    continue
                # one group at a time: pyarrow joins no lists of two
                for batch in file.iter_batches(batch_size=_BATCH, columns=columns, row_groups=[row_group]):
                    batch_bytes = sum(map(_text_size, batch.columns))
                    total_size += batch_bytes
                    self._refuse_size(total_size)
                    slice_rows = max(1, batch.num_rows * _BLOCK_BYTES // max(batch_bytes, _BLOCK_BYTES))
                    for first_row in range(0, batch.num_rows, slice_rows):
                        for record in batch.slice(first_row, slice_rows).to_pylist():
                            if span.start <= row_number < last_row:
                                yield f"{self.source.name}, row {row_number}", record
                            row_number += 1

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The file, whose metadata are checked."""
        import pyarrow
        from pyarrow import parquet

        source = self.source
        with source.open() as file:
            try:
                content = pyarrow.BufferReader(file.read()) if source.compression else file
                metadata = parquet.read_metadata(content)
                groups = range(metadata.num_row_groups)
                self._refuse_size(sum(metadata.row_group(k).total_byte_size for k in groups))
                if self.header is None:
                    # pyarrow ends the process when it shows a damaged column's metadata; reading through it is an error
                    parquet.ParquetFile(content, metadata=metadata).scan_contents()
                    self._refuse_size(_stored_size(metadata))
                yield parquet.ParquetFile(content, metadata=metadata, read_dictionary=_text_columns(metadata))
            except UnicodeDecodeError as error:
                raise InputError(f"{source.name}: text that is not UTF-8 ({error}); write it again") from None
            except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
                raise InputError(f"{source.name}: not a whole Parquet file: {error}; write or copy it again") from None

    def _refuse_size(self, size: int) -> None:
        if size > self.source.max_content:
            raise InputError(
                f"{self.source.name}: it holds more than {self.source.max_content / 2**30:.1f} GiB and {MAX_RATIO} "
                "times its size, which captions never do; write it as JSON lines if it is intact"
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
