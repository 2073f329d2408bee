"""Tables of references on disk: the second system on the same references only pays for its own captions.

`enable_reference_cache` divides the sentences of a set into its references and the others. The table of an analysis
whose tables can be joined is then joined from that of the references, which is on disk if an earlier run computed it,
and that of the others; it is the same as that of all sentences at once. A run never fails because of its cache.

Such an analysis has an `identity`, everything that affects its table as text, and a `TABLE`: a dataclass of arrays,
tuples of texts, and dataclasses of these, whose class method `join(tables, places)` makes the table of all sentences
from those of some: row i of `tables[k]` becomes row `places[k][i]`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings

if TYPE_CHECKING:
    from capmeter.core.arrays import Arrays
    from capmeter.core.disk_cache import DiskCache

MIN_REFERENCES = 2000
"""Distinct references above which reading their tables takes less time than analysing them."""


class StoredPool(SentencePool):
    """Sentences whose tables are on disk, under a digest of all their texts."""

    def __init__(self, sentences: Sequence[str], cache: DiskCache) -> None:
        super().__init__(sentences)
        self._cache = cache
        text_lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        digest = hashlib.blake2b("".join(sentences).encode("utf-8", "surrogatepass"), digest_size=32)
        digest.update(text_lengths.tobytes())
        self._digest = digest.hexdigest()

    def compute(self, analysis: Any) -> Any:
        """The analysis's table; one that can be joined is from disk, where it is stored after it is computed."""
        if not hasattr(analysis, "TABLE"):
            return analysis.compute(self)
        table_name = f"{analysis.identity}/{self._digest}"
        with suppress(OSError, LookupError, ValueError, TypeError):  # a damaged file may have other arrays
            if (arrays := self._cache.get_table(table_name)) is not None:
                return _unpack_table(analysis.TABLE, arrays)
        table = analysis.compute(self)
        with suppress(AssetError):  # the folder cannot be created
            self._cache.put_table(table_name, _pack_table(table))
        return table


def enable_reference_cache(captions: CaptionSet, settings: Settings) -> None:
    """Lets the set's pool read the tables of its references from disk, and cache them there, if there are many."""
    pool = captions.pool
    if settings.references is None or pool.division or len(captions.references.values) < MIN_REFERENCES:
        return
    cache = settings.reference_cache()
    is_reference = np.zeros(len(pool), bool)
    is_reference[captions.references.values] = True
    if is_reference.sum() >= MIN_REFERENCES and cache is not None:
        # sorted by text: systems give their captions in any order, and a candidate may equal another image's reference
        references = sorted(np.flatnonzero(is_reference).tolist(), key=pool.sentences.__getitem__)
        stored_pool = StoredPool([pool.sentences[sentence_index] for sentence_index in references], cache)
        others = np.flatnonzero(~is_reference)
        pool.division = [(stored_pool, np.array(references, np.int64)), (pool.part(others), others)]


def _pack_table(table: Any, prefix: str = "") -> Arrays:
    """A dataclass of arrays, tuples of texts, and dataclasses of these, as arrays in types as small as possible."""
    arrays: Arrays = {}
    for field in fields(table):
        value, name = getattr(table, field.name), prefix + field.name
        if isinstance(value, tuple):
            arrays[f"{name} text"] = np.frombuffer("".join(value).encode("utf-8", "surrogatepass"), np.uint8)
            arrays[f"{name} lengths"] = _shrink(np.fromiter(map(len, value), np.int64, len(value)))
        elif is_dataclass(value):
            arrays |= _pack_table(value, f"{name}.")
        else:
            arrays[f"{name} {value.dtype.str}"] = _shrink(value)
    return arrays


def _unpack_table(kind: Any, arrays: Arrays, prefix: str = "") -> Any:
    """The dataclass of this kind that `_pack_table` was given."""
    values: dict[str, Any] = {}
    types, stored = get_type_hints(kind), {name.partition(" ")[0]: name for name in arrays}
    for field in fields(kind):
        name, field_type = prefix + field.name, types[field.name]
        if is_dataclass(field_type):
            values[field.name] = _unpack_table(field_type, arrays, f"{name}.")
        elif f"{name} text" in arrays:
            text = arrays[f"{name} text"].tobytes().decode("utf-8", "surrogatepass")
            ends = np.cumsum(arrays[f"{name} lengths"], dtype=np.int64).tolist()
            values[field.name] = tuple([text[begin:end] for begin, end in pairwise([0, *ends])])
        else:
            values[field.name] = arrays[stored[name]].astype(stored[name].partition(" ")[2])
    return kind(**values)


def _shrink(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers in the smallest type that holds them."""
    if array.dtype.kind not in "iu" or not len(array):
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))
