"""The scene of each sentence of a pool: its tuples, once, and the graphs that are built of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Life
from capmeter.text.meteor_resources import english_synonyms
from capmeter.text.parsers import Parses, ParseTable
from capmeter.text.scene_graphs import SceneGraph, Synsets, no_synsets, scene_graph
from capmeter.text.scene_tuples import LONGEST, SceneTuple, scene_tuples


class Pool(Protocol):
    """Distinct sentences that remember their analyses (capmeter.captions.model.SentencePool)."""

    def analyse(self, analysis: Any) -> Any:
        """The analysis's table."""


@dataclass(frozen=True, eq=False)
class SceneTable:
    """The tuples of each caption of a pool, None for one that could not be parsed; `cut` had too long a sentence."""

    tuples: Sequence[list[SceneTuple] | None]
    cut: frozenset[int] = frozenset()

    def take(self, indices: npt.NDArray[np.int64]) -> SceneTable:
        """The sentences at these indices."""
        chosen = indices.tolist()
        cut = frozenset(row for row, k in enumerate(chosen) if k in self.cut) if self.cut else self.cut
        return SceneTable([self.tuples[k] for k in chosen], cut)

    def graph(self, sentences: Iterable[int], synsets: Synsets) -> SceneGraph:
        """One graph of all that some sentences say, in their order."""
        return scene_graph((each for k in sentences for each in self.tuples[k] or ()), synsets)


@dataclass(frozen=True)
class Scenes:
    """The analysis of a pool into scene tuples, from the parses that a parser makes."""

    parser: str

    life: ClassVar[Life] = "run"

    def run(self, pool: Pool) -> SceneTable:
        """The tuples of every sentence of the pool."""
        table: ParseTable = pool.analyse(Parses(self.parser))
        cut = (
            k for k, parse in enumerate(table.parses) if parse and any(len(one) > LONGEST for one in parse.sentences)
        )
        return SceneTable([None if parse is None else scene_tuples(parse) for parse in table.parses], frozenset(cut))


def synsets_of(synonyms: bool) -> Synsets:
    """What looks up a word's synsets: METEOR's dictionary, or nothing."""
    return _synsets() if synonyms else no_synsets


@lru_cache(maxsize=1)
def _synsets() -> Synsets:
    return lru_cache(maxsize=1 << 18)(english_synonyms().synsets)
