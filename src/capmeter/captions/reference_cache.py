"""Tables of references on disk: the second system on the same references only pays for its own captions.

`enable_reference_cache` divides the sentences of a set into its references and the others. A `MergeableAnalysis` reads
the table of the references from the cache, keyed by all their texts, computes the table of the others, and merges the
two; the result is the same as that of all sentences at once. If nothing is cached, or it is damaged, all sentences are
analysed, and the rows of the references are cached. A run never fails because of its cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CacheScope, CaptionSet, Indices, SentencePool
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache

Table = TypeVar("Table")
Arrays = Mapping[str, npt.NDArray[Any]]
MIN_REFERENCES = 2000
"""Distinct references above which reading their tables takes less time than analysing them."""


class MergeableAnalysis(Protocol[Table]):
    """An analysis of sentences whose tables can be stored as arrays and merged: a hashable value."""

    ARRAYS: ClassVar[tuple[str, ...]]

    @property
    def cache_scope(self) -> CacheScope:
        """As of every analysis of a pool."""
        ...

    @property
    def identity(self) -> str:
        """Everything that affects the table, as text: the analysis's name, parameters and version."""
        ...

    def run(self, pool: Any) -> Table:
        """The table of this pool's sentences."""
        ...

    def arrays(self, table: Table, rows: Indices) -> Arrays:
        """These rows of the table as arrays of whole numbers, named as in `ARRAYS`."""
        ...

    def table(self, arrays: Arrays) -> Table:
        """The table of these arrays."""
        ...

    def merge_tables(self, tables: Sequence[Table], places: Sequence[Indices]) -> Table:
        """The table of all sentences from those of some: row i of `tables[k]` becomes row `places[k][i]`."""
        ...


class CachedReferencePool:
    """A pool in two: its references, whose tables are cached under all their texts, and the other sentences.

    Args:
        pool: all sentences.
        references, others: the indices of the two parts in the pool.
        cache: where the tables of the references are.
    """

    def __init__(self, pool: SentencePool, references: Indices, others: Indices, cache: DiskCache) -> None:
        self._pool, self._cache, self._indices = pool, cache, (references, others)
        self._others = SentencePool([pool.sentences[sentence_index] for sentence_index in others.tolist()])
        reference_texts = [pool.sentences[sentence_index] for sentence_index in references.tolist()]
        text_lengths = np.fromiter(map(len, reference_texts), np.int64, len(reference_texts))
        digest = hashlib.blake2b("".join(reference_texts).encode("utf-8", "surrogatepass"), digest_size=32)
        digest.update(text_lengths.tobytes())
        self._digest = digest.digest()

    def table(self, analysis: MergeableAnalysis[Table]) -> Table:
        """The analysis's table of the whole pool."""
        cache_keys = {array_name: self._digest + array_name.encode() for array_name in analysis.ARRAYS}
        cached_arrays: dict[bytes, Any] = {}
        with suppress(AssetError, OSError):  # the folder cannot be created or read
            cached_arrays = self._cache.get(analysis.identity, cache_keys.values())
        if len(cached_arrays) == len(cache_keys):
            reference_table = analysis.table(
                {array_name: cached_arrays[cache_key] for array_name, cache_key in cache_keys.items()}
            )
            return analysis.merge_tables([reference_table, self._others.analyse(analysis)], self._indices)
        table = analysis.run(self._pool)
        arrays = analysis.arrays(table, self._indices[0])
        with suppress(AssetError, OSError):
            self._cache.put(analysis.identity, {cache_keys[array_name]: array for array_name, array in arrays.items()})
        return table


def enable_reference_cache(captions: CaptionSet, settings: Settings) -> None:
    """Lets the set's pool read the tables of its references from disk, and cache them there, if there are many."""
    pool = captions.pool
    if settings.references is None or pool.cached_references or len(captions.references.values) < MIN_REFERENCES:
        return
    cache = settings.reference_cache()
    is_reference = np.zeros(len(pool), bool)
    is_reference[captions.references.values] = True
    if is_reference.sum() >= MIN_REFERENCES and cache is not None:
        # sorted by text: systems give their captions in any order, and a candidate may equal another image's reference
        reference_indices = sorted(np.flatnonzero(is_reference).tolist(), key=pool.sentences.__getitem__)
        other_indices = np.flatnonzero(~is_reference)
        pool.cached_references = CachedReferencePool(pool, np.array(reference_indices, np.int64), other_indices, cache)


def compact_integers(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers from 0 in the smallest type that holds them, for the cache."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
