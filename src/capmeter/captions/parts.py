"""Captions that do not fit in memory: files in parts, each of which is read at once and by any process.

A part is a range of the records of a file: row groups of Parquet, lines of JSON lines, CSV and TSV. Every other file is
one part. Ids are those of all files read as one by `load`: a row without an id of its own has that of its image, or
`image#k` where the image has several candidates, for which `number_captions` counts the images of all parts.

>>> number_captions([hash_images(["7", "8"]), hash_images(["9", "7"])])
[array([ 0, -1]), array([-1,  1])]
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers.container import ROWS, WHOLE, Span
from capmeter.captions.load import match_systems
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.matching import (
    ReferenceTable,
    find_matches,
    find_unused_references,
    open_candidates,
    read_candidates,
    read_references,
)
from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

Numbers = npt.NDArray[np.int64]
_SAMPLE = 100


@dataclass(frozen=True, eq=False)
class PartCaptions:
    """The captions of a part.

    rows: all of its rows, in the file's order.
    systems: of each system ("" where rows name none) the rows that are scored, as positions in `rows`, and their set.
    """

    rows: Sequence[CaptionRow]
    systems: dict[str, tuple[Numbers, CaptionSet]]


@dataclass(frozen=True, eq=False)
class Part:
    """Some records of a file.

    source: the file.
    options: how it is read.
    span: which of its records.
    reader: what reads them, if the file is divided; else it is opened when the part is read.
    keep: the columns whose values the rows carry.
    has_ids: whether the file's rows have ids of their own, as far as a sample shows.
    numbers: int64[rows without an id]: the number of each among the candidates of its image, -1 where it is the only
        one; None: the part has all of them.
    """

    source: CaptionSource
    options: LoadOptions
    span: Span = WHOLE
    reader: RowReader | None = None
    keep: tuple[str, ...] | None = None
    has_ids: bool = True
    numbers: Numbers | None = None

    @property
    def name(self) -> str:
        """The name of the file, and the number of the part's first record."""
        return f"{self.source.label}-{self.span.start:09}"

    def read(self) -> PartCaptions:
        """The captions.

        Raises:
            InputError: they are not as expected; the message says where and how to correct them.
        """
        reader = self.reader or open_candidates(self.source, self.options, self.keep)
        rows = read_candidates(reader, self.options, self.span)
        numbers = iter(() if self.numbers is None else self.numbers.tolist())
        for row in rows if self.numbers is not None else ():
            if row.id is None:
                number = next(numbers)
                row.id = row.image_id if number < 0 else f"{row.image_id}#{number}"
        positions = {id(row): position for position, row in enumerate(rows)}
        is_part, table = self.span != WHOLE, _references_of(self.options)
        systems = match_systems(rows, reader, table, self.options, "", is_part=is_part) if rows else {}
        return PartCaptions(
            rows,
            {
                system: (np.array([positions[id(row)] for row in kept_rows], np.int64), captions)
                for system, (kept_rows, captions) in systems.items()
            },
        )

    def find_unused(self, image_ids: Collection[str]) -> list[str]:
        """The images with references, in the splits of these images, but without a candidate among them."""
        table = _references_of(self.options)
        return [] if table is None else find_unused_references(find_matches(image_ids, table.rows), table)


def open_parts(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    references: Any = None,
    *,
    options: LoadOptions | None = None,
    rows: int = ROWS,
    keep: Sequence[str] | None = None,
    **keywords: Unpack[LoadKeywords],
) -> list[Part]:
    """Divides files of captions into parts; `part.read()` gives the captions of one.

    Args:
        source: a file, a pattern such as `captions/*.parquet`, or a list of files.
        references: their files, as of `load`.
        options: how the files are read.
        **keywords: fields of `options` that are replaced.
        rows: the number of records of a part, except where row groups of Parquet are larger or do not add up to it.
        keep: the columns whose values the rows carry, beside their numbers in the file; None: neither.

    Raises:
        InputError: no file matches, a file cannot be read, or `rows` is below 1.
    """
    options = LoadOptions.from_keywords(options, keywords, references)
    if rows < 1:
        raise InputError(f"rows is {rows}, expected a number of captions from 1")
    if options.on_absent == "empty":
        raise InputError("on_absent=empty needs all captions at once: score them without parts")
    if options.references is not None:
        if not options.reference_files:
            raise InputError(
                "references in memory do not reach the parts' processes: write them to a file, and name it"
            )
        # other processes may start in another folder
        options = replace(options, references=[Path(os.fspath(each)).absolute() for each in options.reference_files])
    carried = None if keep is None else tuple(dict.fromkeys(keep))
    return [part for path in _find_files(source) for part in _divide(path, options, rows, carried)]


def number_captions(image_hashes: Sequence[Numbers]) -> list[Numbers]:
    """For the images of rows of each part, as hashes: the number of each among its equals in all parts, -1 if alone."""
    hashes = np.concatenate(image_hashes)
    _, image_indices, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    order = np.argsort(image_indices, kind="stable")
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers[counts[image_indices] == 1] = -1
    return np.split(numbers, np.cumsum([len(part_hashes) for part_hashes in image_hashes])[:-1])


def hash_images(names: Iterable[str]) -> Numbers:
    """64 bits of BLAKE2 of each name, which are the same in every process."""
    encoded = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.frombuffer(b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in encoded), np.int64)


def _find_files(source: Any) -> list[CaptionSource]:
    if isinstance(source, list | tuple):
        return [CaptionSource.resolve(path) for path in source]
    if isinstance(source, CaptionSource) or not has_magic(os.fspath(source)) or Path(source).exists():
        return [source if isinstance(source, CaptionSource) else CaptionSource.resolve(source)]
    paths = sorted(path for path in glob(os.fspath(source), recursive=True) if Path(path).is_file())  # noqa: PTH207
    if not paths:
        raise InputError(f"no file matches {source}; expected a pattern such as 'captions/*.parquet', in quotes")
    repeated = [name for name, count in Counter(Path(path).name for path in paths).items() if count > 1]
    if repeated:
        raise InputError(f"two of the files are called {repeated[0]}, as their scores would be; rename one")
    return list(map(CaptionSource.resolve, paths))


def _divide(source: CaptionSource, options: LoadOptions, rows: int, keep: tuple[str, ...] | None) -> Iterator[Part]:
    source = replace(source, path=source.path.absolute())
    reader = open_candidates(source, options, keep)
    sample = list(islice(reader.rows("candidates"), _SAMPLE)) if reader.container else []
    part = Part(source, options, keep=keep, has_ids=bool(sample) and all(row.id is not None for row in sample))
    is_divided = reader.container is not None and not any(row.single_event for row in sample)
    spans = reader.container.spans(rows) if reader.container is not None and is_divided else [WHOLE]
    if len(spans) < 2:
        yield part
        return
    for span in spans:
        yield replace(part, span=span, reader=reader)


_tables: dict[Any, ReferenceTable | None] = {}  # this process's last references, which are the same for all parts


def _references_of(options: LoadOptions) -> ReferenceTable | None:
    files = [CaptionSource.resolve(path).path.stat() for path in options.reference_files]
    key = repr(options), *((status.st_size, status.st_mtime_ns) for status in files)
    if key not in _tables:
        _tables.clear()
        _tables[key] = read_references(options)
    return _tables[key]
