"""The scene of each sentence of a pool: its tuples, once, and the graphs that are built of them.

Tuples come from SPICE's rules over the trees of a parser (`stanford`), or from the maker of faithful graphs, which was
trained on graphs that people wrote (`factual`). They are kept in a store on disk under the name and the hash of the
model, so that a caption is analysed once in a lifetime; the last ones, and the last graphs of lists of references, stay
in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Life
from capmeter.captions.stored import StoredAnalysis
from capmeter.errors import InputError
from capmeter.recent import Recent
from capmeter.store import Store
from capmeter.text.facts import IS, Fact
from capmeter.text.meteor_resources import english_synonyms
from capmeter.text.parsers import Parser, Pool, find_parser, knows_language, parse_captions
from capmeter.text.parses import CaptionParse
from capmeter.text.scene_graphs import SceneGraph, Synsets, no_synsets, scene_graph
from capmeter.text.scene_tuples import LONGEST, SceneTuple, scene_tuples
from capmeter.text.wordnet import Synonyms

if TYPE_CHECKING:
    from capmeter.text.fact_maker import FactMaker

GraphsName = Annotated[
    Literal["stanford", "factual"],
    "the graphs: by SPICE's rules from a parser's trees, or by the model trained on people's graphs",
]
FACTUAL = "factual"
STANFORD_RULES = "spice-1.0"  # the rules that make graphs of trees, in signatures

_FACT_RULES = 1  # raised whenever the same facts give other tuples
_NUMBERS = {str(k): word for k, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}  # noqa: SIM905
_RULES = 1  # raised whenever the same parse gives other tuples
_SCENES, _GRAPHS = 1 << 20, 1 << 14  # that stay in memory


@dataclass(frozen=True, slots=True)
class Scene:
    """What one caption says: its tuples, None for a caption that could not be parsed.

    `cut`: it has a sentence of more words than are read. `english`: it seems to be in English, which alone the parsers
    read.
    """

    tuples: tuple[SceneTuple, ...] | None
    cut: bool = False
    english: bool = True


@dataclass(frozen=True, eq=False)
class _SceneRows:
    """The analysis of captions into scenes as a store keeps them."""

    parser: Parser
    store: Store | None

    @property
    def identity(self) -> str:
        return f"scenes/{_RULES}/{self.parser.version}"

    def compute(self, sentences: Sequence[str]) -> list[list[Any] | None]:
        parses = parse_captions(self.parser, sentences, self.store)
        return [
            None if parse is None else self._row(caption, parse)
            for caption, parse in zip(sentences, parses, strict=True)
        ]

    def _row(self, caption: str, parse: CaptionParse) -> list[Any]:
        cut = any(len(sentence) > LONGEST for sentence in parse.sentences)
        return [scene_tuples(parse), cut, _latin(caption) and knows_language(parse)]


@dataclass(frozen=True, eq=False)
class _FactRows:
    """The analysis of captions into scenes by the maker of faithful graphs, as a store keeps them."""

    maker: FactMaker

    @property
    def identity(self) -> str:
        return f"scenes/{_FACT_RULES}/{self.maker.version}"

    def compute(self, sentences: Sequence[str]) -> list[list[Any] | None]:
        found = self.maker.facts(sentences)
        return [
            [fact_tuples(facts), False, _latin(caption) and self.maker.knows(caption)]
            for caption, facts in zip(sentences, found, strict=True)
        ]


def fact_tuples(facts: Iterable[Fact]) -> list[SceneTuple]:
    """Facts as tuples (object), (object, attribute), (subject, object, relation); numbers up to ten as words.

    >>> fact_tuples([("dogs", "is", "2"), ("dogs", "run on", "grass"), ("sky",)])
    [('dogs', 'two'), ('dogs', 'grass', 'run on'), ('sky',)]
    """
    tuples: list[SceneTuple] = []
    for fact in facts:
        if len(fact) == 1:
            tuples.append(fact)
        elif fact[1] == IS:
            tuples.append((fact[0], _NUMBERS.get(fact[2], fact[2])))
        else:
            tuples.append((fact[0], fact[2], fact[1]))
    return tuples


class _Rows(Protocol):
    """What makes scenes of captions."""

    @property
    def identity(self) -> str: ...

    def compute(self, sentences: Sequence[str]) -> list[list[Any] | None]: ...


def scene_source(graphs: str, parser: str) -> str:
    """Where tuples come from: `FACTUAL`, or the parser whose trees SPICE's rules read."""
    if graphs != FACTUAL:
        return parser
    if parser != "caption":
        raise InputError(f"graphs=factual reads no trees, so that parser={parser} has no effect; leave one of them out")
    return FACTUAL


def source_facts(source: str) -> dict[str, str]:
    """What a signature says of the source: the graph maker with its hash, or the parser with its hash and the rules."""
    if source == FACTUAL:
        return {"parser": "none", "graphs": _maker().version}
    return {"parser": find_parser(source).version, "graphs": STANFORD_RULES}


def _maker() -> FactMaker:
    from capmeter.text.fact_maker import shipped_maker

    return shipped_maker()


_known_scenes: Recent[tuple[str, str], Scene] = Recent(_SCENES)
_known_graphs: Recent[tuple[str, Synsets, tuple[str, ...]], SceneGraph] = Recent(_GRAPHS)


@dataclass(frozen=True, eq=False)
class SceneTable:
    """The scene of each caption of a pool, found by the parser or graph maker of this version."""

    version: str
    sentences: Sequence[str]
    scenes: Sequence[Scene]

    def take(self, indices: npt.NDArray[np.int64]) -> SceneTable:
        """The sentences at these indices."""
        chosen = indices.tolist()
        return SceneTable(self.version, [self.sentences[k] for k in chosen], [self.scenes[k] for k in chosen])

    def graph(self, sentence: int, synsets: Synsets) -> SceneGraph:
        """The graph of one caption."""
        return self._built((sentence,), synsets)

    def reference_graph(self, sentences: Sequence[int], synsets: Synsets) -> SceneGraph:
        """One graph of all that some references say, in their order: the same object for the same texts."""
        key = self.version, synsets, tuple(self.sentences[k] for k in sentences)
        known = _known_graphs.get(key)
        if known is None:
            known = self._built(sentences, synsets)
            _known_graphs.put(key, known)
        return known

    def _built(self, sentences: Sequence[int], synsets: Synsets) -> SceneGraph:
        return scene_graph((each for k in sentences for each in self.scenes[k].tuples or ()), synsets)


@dataclass(frozen=True)
class Scenes:
    """The analysis of a pool into scenes from a source (`scene_source`); `store` keeps them."""

    source: str
    store: Store | None = None

    life: ClassVar[Life] = "run"

    def run(self, pool: Pool) -> SceneTable:
        """The scene of every sentence of the pool."""
        rows, batch, version = self._rows()
        sentences = list(pool.sentences)
        found = {sentence: _known_scenes.get((version, sentence)) for sentence in sentences}
        missing = [sentence for sentence, scene in found.items() if scene is None]
        values = StoredAnalysis(rows, self.store, batch).values(missing)
        for sentence, row in zip(missing, values, strict=True):
            found[sentence] = scene = _scene(row)
            _known_scenes.put((version, sentence), scene)
        return SceneTable(version, sentences, [known for each in sentences if (known := found[each]) is not None])

    def _rows(self) -> tuple[_Rows, int, str]:
        """What makes scenes, of how many captions at once, and its version."""
        if self.source == FACTUAL:
            maker = _maker()
            return _FactRows(maker), maker.batch, maker.version
        parser = find_parser(self.source)
        return _SceneRows(parser, self.store), parser.batch, parser.version


def _scene(row: list[Any] | None) -> Scene:
    if row is None:
        return Scene(None)
    tuples, cut, english = row
    return Scene(tuple([tuple(map(sys.intern, each)) for each in tuples]), cut, english)


def _latin(caption: str) -> bool:
    """Whether at least half of the letters are Latin."""
    if caption.isascii():
        return True
    letters = [letter for letter in caption if letter.isalpha()]
    return 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)


def synsets_of(synonyms: bool) -> Synsets:
    """What looks up a word's synsets: METEOR's dictionary, or nothing."""
    return _remembering(english_synonyms()) if synonyms else no_synsets


@lru_cache(maxsize=1)
def _remembering(dictionary: Synonyms) -> Synsets:
    return lru_cache(maxsize=1 << 18)(dictionary.synsets)
