"""Tables of references that are kept on disk: who scores another system on the same test set waits for its captions.

`remember` divides the sentences of a set into its references and the rest. An analysis that knows how (`KeptAnalysis`)
finds the table of the references in a store, by what all of them say, makes the table of the rest, and joins the two;
what it gives is the same as of all sentences at once. Where nothing is found, or it is damaged, all are analysed at
once, and the rows of the references are kept. A run never fails for its store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet, Indices, Life, SentencePool
from capmeter.errors import AssetError
from capmeter.settings import Settings

if TYPE_CHECKING:
    from capmeter.store import Store

Table = TypeVar("Table")
Arrays = Mapping[str, npt.NDArray[Any]]
LEAST = 2000
"""Distinct references from which looking them up takes less than analysing them."""


class KeptAnalysis(Protocol[Table]):
    """An analysis of sentences whose table can be kept and joined: a hashable value."""

    ARRAYS: ClassVar[tuple[str, ...]]

    @property
    def life(self) -> Life:
        """As of every analysis of a pool."""
        ...

    @property
    def identity(self) -> str:
        """Everything that moves the table, as text: the analysis's name, parameters and version."""
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

    def joined(self, tables: Sequence[Table], places: Sequence[Indices]) -> Table:
        """The table of all sentences from those of some: row i of `tables[k]` is row `places[k][i]`."""
        ...


class Divided:
    """A pool in two: its references, whose tables are kept in a store by all that they say, and the other sentences."""

    def __init__(self, pool: SentencePool, references: Indices, others: Indices, store: Store) -> None:
        self._pool, self._store, self._places = pool, store, (references, others)
        sentences = pool.sentences
        self._others = SentencePool([sentences[k] for k in others.tolist()])
        texts = [sentences[k] for k in references.tolist()]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        content = hashlib.blake2b("".join(texts).encode("utf-8", "surrogatepass"), digest_size=32)
        content.update(lengths.tobytes())
        self._content = content.digest()

    def table(self, analysis: KeptAnalysis[Table]) -> Table:
        """The analysis's table of the whole pool."""
        keys = {name: self._content + name.encode() for name in analysis.ARRAYS}
        found: dict[bytes, Any] = {}
        with suppress(AssetError, OSError):  # the folder cannot be made, or read
            found = self._store.get(analysis.identity, keys.values())
        if len(found) == len(keys):
            references = analysis.table({name: found[key] for name, key in keys.items()})
            return analysis.joined([references, self._others.analyse(analysis)], self._places)
        whole = analysis.run(self._pool)
        arrays = analysis.arrays(whole, self._places[0])
        with suppress(AssetError, OSError):
            self._store.put(analysis.identity, {keys[name]: array for name, array in arrays.items()})
        return whole


def remember(captions: CaptionSet, settings: Settings) -> None:
    """Lets the set's pool find the tables of its references on disk, and keep them there, if there are many."""
    pool = captions.pool
    if settings.references is None or pool.divided or len(captions.references.values) < LEAST:
        return
    from capmeter.store import reference_store  # SQLite, which small sets do not need

    store = reference_store(settings)
    told = np.zeros(len(pool), bool)
    told[captions.references.values] = True
    if told.sum() >= LEAST and store is not None:
        # in the order of their texts: a system may give the captions in any, and say what is a reference elsewhere
        references = np.array(sorted(np.flatnonzero(told).tolist(), key=pool.sentences.__getitem__), np.int64)
        pool.divided = Divided(pool, references, np.flatnonzero(~told), store)


def smallest(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers from 0 in the smallest type that holds them, for the store."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
