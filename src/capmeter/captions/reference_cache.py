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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings

if TYPE_CHECKING:
    from capmeter.core.disk_cache import DiskCache

MIN_REFERENCES = 2000
"""Distinct references above which reading their tables takes less time than analysing them."""


class StoredPool(SentencePool):
    """Sentences whose tables are on disk, under a digest of all their texts."""

    def __init__(self, sentences: Sequence[str], cache: DiskCache) -> None:
        super().__init__(sentences)
        self._cache = cache
        content = np.array([*map(len, sentences)]).tobytes() + "".join(sentences).encode("utf-8", "surrogatepass")
        self._digest = hashlib.blake2b(content, digest_size=32).hexdigest()

    def compute(self, analysis: Any) -> Any:
        """The analysis's table; one that can be joined is from disk, where it is stored after it is computed."""
        if not hasattr(analysis, "TABLE"):
            return analysis.compute(self)
        table_name = f"{analysis.identity}/{self._digest}"
        # a damaged file may have other arrays
        with suppress(OSError, LookupError, ValueError, TypeError, AttributeError):
            if (stored := self._cache.get_table(table_name)) is not None:
                arrays, facts = stored
                texts = {name: tuple(value) for name, value in facts["texts"].items()}
                types = {name: np.dtype(type_name) for name, type_name in facts["types"].items()}
                return _make_table(analysis.TABLE, {name: arrays[name].astype(types[name]) for name in types} | texts)
        table = analysis.compute(self)
        content = _flatten_table(table)
        texts = {name: value for name, value in content.items() if isinstance(value, tuple)}
        arrays = {name: value for name, value in content.items() if name not in texts}
        facts = {"texts": texts, "types": {name: array.dtype.str for name, array in arrays.items()}}
        with suppress(AssetError):  # the folder cannot be created
            self._cache.put_table(table_name, ({name: _shrink(array) for name, array in arrays.items()}, facts))
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


def _flatten_table(table: Any, prefix: str = "") -> dict[str, Any]:
    """The arrays and tuples of texts of a dataclass and of its dataclasses, by name: `FIELD` or `FIELD.FIELD`."""
    content: dict[str, Any] = {}
    for field in fields(table):
        value, name = getattr(table, field.name), prefix + field.name
        content |= _flatten_table(value, f"{name}.") if is_dataclass(value) else {name: value}
    return content


def _make_table(kind: Any, content: Mapping[str, Any], prefix: str = "") -> Any:
    """The dataclass of this kind that `_flatten_table` was given."""
    kinds, names = get_type_hints(kind), {field.name: prefix + field.name for field in fields(kind)}
    return kind(
        **{
            field: _make_table(kinds[field], content, f"{name}.") if is_dataclass(kinds[field]) else content[name]
            for field, name in names.items()
        }
    )


def _shrink(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers in the smallest type that holds them."""
    if array.dtype.kind not in "iu" or not len(array):
        return array
    return array.astype(np.result_type(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))
