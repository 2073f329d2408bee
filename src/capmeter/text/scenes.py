"""The scene of each sentence of a pool: its tuples, once, and the graphs that are built of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor_resources import english_synonyms
from capmeter.text.parsers import Parses, ParseTable
from capmeter.text.scene_graphs import SceneGraph, Synsets, no_synsets, scene_graph
from capmeter.text.scene_tuples import SceneTuple, scene_tuples


class Pool(Protocol):
    """Distinct sentences that remember their analyses (capmeter.captions.model.SentencePool)."""

    def analyse(self, analysis: Any) -> Any:
        """The analysis's table."""


@dataclass(frozen=True, eq=False)
class SceneTable:
    """The tuples of each sentence of a pool, None for one that could not be parsed."""

    tuples: Sequence[list[SceneTuple] | None]

    def take(self, indices: npt.NDArray[np.int64]) -> SceneTable:
        """The sentences at these indices."""
        return SceneTable([self.tuples[k] for k in indices.tolist()])

    def graph(self, sentences: Iterable[int], synsets: Synsets) -> SceneGraph:
        """One graph of all that some sentences say, in their order."""
        return scene_graph((each for k in sentences for each in self.tuples[k] or ()), synsets)


@dataclass(frozen=True)
class Scenes:
    """The analysis of a pool into scene tuples, from the parses that a parser makes."""

    parser: str

    compact = True

    def run(self, pool: Pool) -> SceneTable:
        """The tuples of every sentence of the pool."""
        table: ParseTable = pool.analyse(Parses(self.parser))
        return SceneTable([None if parse is None else scene_tuples(parse) for parse in table.parses])


def synsets_of(synonyms: bool) -> Synsets:
    """What looks up a word's synsets: METEOR's dictionary, or nothing."""
    return _synsets() if synonyms else no_synsets


@lru_cache(maxsize=1)
def _synsets() -> Synsets:
    return lru_cache(maxsize=1 << 18)(english_synonyms().synsets)
