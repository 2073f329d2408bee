"""Tables of references that are kept on disk: who scores another system on the same test set waits for its captions.

`remember` divides the sentences of a set into its references and the rest. An analysis that knows how (`KeptAnalysis`)
finds the table of the references in a store, by what all of them say, makes the table of the rest, and joins the two;
what it gives is the same as of all sentences at once. What is absent or damaged is made again and kept. A run never
fails for its store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet, Indices, SentencePool
from capmeter.errors import AssetError
from capmeter.settings import Settings

if TYPE_CHECKING:
    from capmeter.store import Store

Table = TypeVar("Table")
Arrays = Mapping[str, npt.NDArray[Any]]
LEAST = 2000
"""Distinct references from which looking them up takes less than analysing them."""


class KeptAnalysis(Protocol[Table]):
    """An analysis of sentences whose table can be kept and joined: a hashable value, with `run` and `life`."""

    ARRAYS: ClassVar[tuple[str, ...]]

    @property
    def identity(self) -> str:
        """Everything that moves the table, as text: the analysis's name, parameters and version."""
        ...

    def arrays(self, table: Table) -> Arrays:
        """The table as arrays of numbers, named as in `ARRAYS`."""
        ...

    def table(self, arrays: Arrays) -> Table:
        """The table from its arrays."""
        ...

    def joined(self, tables: Sequence[Table], places: Sequence[Indices]) -> Table:
        """The table of all sentences from those of some: row i of `tables[k]` is row `places[k][i]`."""
        ...


class _KeptPool(SentencePool):
    """Sentences whose tables are looked up in a store by all that they say, and kept there."""

    def __init__(self, sentences: Sequence[str], store: Store) -> None:
        super().__init__(sentences)
        self._store = store
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        content = hashlib.blake2b("".join(sentences).encode("utf-8", "surrogatepass"), digest_size=32)
        content.update(lengths.tobytes())
        self._content = content.digest()

    def _run(self, analysis: Any) -> Any:
        if not hasattr(analysis, "joined"):
            return super()._run(analysis)
        keys = {name: self._content + name.encode() for name in analysis.ARRAYS}
        with suppress(AssetError, OSError):  # the folder cannot be made, or read
            found = self._store.get(analysis.identity, keys.values())
            if len(found) == len(keys):
                return analysis.table({name: found[key] for name, key in keys.items()})
        table = super()._run(analysis)
        with suppress(AssetError, OSError):
            self._store.put(analysis.identity, {keys[name]: each for name, each in analysis.arrays(table).items()})
        return table


def remember(captions: CaptionSet, settings: Settings) -> None:
    """Lets the set's pool find the tables of its references on disk, and keep them there, if there are many."""
    pool = captions.pool
    if settings.references is None or pool.divided or len(captions.references.values) < LEAST:
        return
    from capmeter.store import reference_store  # SQLite, which small sets do not need

    store = reference_store(settings)
    told = np.zeros(len(pool), bool)
    told[captions.references.values] = True
    references, others = np.flatnonzero(told), np.flatnonzero(~told)
    if len(references) >= LEAST and store is not None:
        texts = pool.sentences
        kept = _KeptPool([texts[k] for k in references.tolist()], store)
        pool.divided = (kept, references), (SentencePool([texts[k] for k in others.tolist()]), others)


def smallest(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers from 0 in the smallest type that holds them, for the store."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
