"""Scene graphs of the sentences of a pool: their tuples, extracted once, and the graphs that are built of them.

Tuples come from SPICE's rules over the trees of a parser (`stanford`), or from a model of another package: the
scene-graph parser that was trained on human-written graphs (`factual`) is part of capmeter-research. A document, a text
of several sentences, has one graph too: its sentences are split (`document_splitting`), pronouns replaced by what they
refer to (`coreference`), and what is mentioned twice merges. In documents, tuples of words for the picture ("the
image", "the background") are left out. Tuples are cached in memory and on disk under the name and the hash of the
model, and the graphs of lists of references in memory.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.registry import find_package
from capmeter.core.settings import Settings, encode_texts
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.parsing.parsers import Parser, find_parser, looks_english, parse_captions
from capmeter.text.scene_graphs.coreference import PICTURE_WORDS, replace_pronouns
from capmeter.text.scene_graphs.graph import SceneGraph, Synsets, build_scene_graph, no_synsets
from capmeter.text.scene_graphs.rules import MAX_WORDS, SceneTuple, extract_tuples
from capmeter.text.tokenization.document_splitting import document_sentences
from capmeter.text.tokenization.ptb import tokenise_sentences
from capmeter.text.tokenization.token_tables import SentenceSource

GraphsName = Annotated[
    Literal["stanford", "factual"],
    "the graphs: by SPICE's rules from a parser's trees, or by the model trained on human-written graphs",
]
InputName = Annotated[
    Literal["tokens", "raw"],
    "what the parser reads: the tokens of MS COCO's evaluation, in lower case and without punctuation, as papers "
    "report SPICE, or the captions as they are written",
]
FACTUAL = "factual"
OFFICIAL_PARSER = "corenlp"
STANFORD_RULES = "spice-1.0"  # the rules that make graphs of trees, in signatures


@dataclass(frozen=True, slots=True)
class _CaptionTuples:
    """The scene-graph tuples of one caption."""

    tuples: tuple[SceneTuple, ...] | None  # None: it could not be parsed
    truncated: bool = False  # it has a sentence with more words than are read
    english: bool = True  # it looks like English, the only language of the parsers


class SceneGraphSource(ABC):
    """A model that extracts tuples from captions, with caches.

    A package provides one through the entry point group `capmeter.scene_graphs`: "module:function", which returns it.

    Args:
        version: the model in signatures.
        batch: number of captions to pass in one call.
    """

    revision: ClassVar[int]  # raised whenever the same output of the model gives other tuples

    def __init__(self, version: str, batch: int) -> None:
        self.version, self.batch = version, batch

    @abstractmethod
    def compute(self, captions: Sequence[str], settings: Settings) -> list[list[Any] | None]:
        """Returns the fields of each caption's `_CaptionTuples` as JSON values; None if it could not be parsed."""

    def extract(self, captions: Sequence[str], settings: Settings) -> list[_CaptionTuples]:
        """Extracts the tuples of captions, as far as the caches of the settings do not have them."""
        scenes = settings.result_cache().results(
            f"scenes/{self.revision}/{self.version}",
            encode_texts(captions),
            lambda rows: self.compute([captions[row] for row in rows], settings),
            batch_size=self.batch,
            decode=_read_tuples,
            task="scenes",
        )
        return [_CaptionTuples(None) if scene is None else scene for scene in scenes]


class _RuleSource(SceneGraphSource):
    """SPICE's rules over the trees of a parser.

    Args:
        parser: the parser.
        documents: whether documents are parsed sentence by sentence; the official program reads them as one caption.
    """

    revision = 2

    def __init__(self, parser: Parser, *, documents: bool = True) -> None:
        super().__init__(parser.version, parser.batch)
        self.parser, self.documents = parser, documents

    def compute(self, captions: Sequence[str], settings: Settings) -> list[list[Any] | None]:
        """Parses captions, and documents sentence by sentence, and applies the rules."""
        documents = [document_sentences(caption) if self.documents else [] for caption in captions]
        parsed_texts = [
            text for caption, document in zip(captions, documents, strict=True) for text in document or (caption,)
        ]
        parses = iter(parse_captions(self.parser, parsed_texts, settings))
        tuple_rows: list[list[Any] | None] = []
        for caption, document in zip(captions, documents, strict=True):
            sentence_parses = list(islice(parses, max(1, len(document))))
            complete_parses = [parse for parse in sentence_parses if parse is not None]
            if len(complete_parses) < len(sentence_parses):
                tuple_rows.append(None)
            elif document:
                sentences = [sentence for parse in complete_parses for sentence in parse.sentences]
                tuple_rows.append(
                    self._apply_rules(caption, CaptionParse(tuple(replace_pronouns(sentences))), PICTURE_WORDS)
                )
            else:
                tuple_rows.append(self._apply_rules(caption, complete_parses[0]))
        return tuple_rows

    def _apply_rules(self, caption: str, parse: CaptionParse, without: Collection[str] = ()) -> list[Any]:
        is_truncated = any(len(sentence) > MAX_WORDS for sentence in parse.sentences)
        tuples = extract_tuples(parse)  # of which those stay whose objects are none of these words
        scene_tuples = [each for each in tuples if each[0] not in without and (len(each) < 3 or each[1] not in without)]
        return [scene_tuples, is_truncated, is_latin(caption) and looks_english(parse)]


def find_source(name: str) -> SceneGraphSource:
    """Returns the source of this name (see `resolve_source`), whose model is loaded once per process.

    Raises:
        MissingBackend: the package that provides it is not installed.
    """
    if name != FACTUAL:
        return _RuleSource(find_parser(name), documents=name != OFFICIAL_PARSER)
    source: SceneGraphSource = _load_factory(name)()
    return source


@cache
def _load_factory(name: str) -> Any:
    """What an installed package provides by this name in the entry point group `capmeter.scene_graphs`."""
    from importlib.metadata import entry_points  # takes longer to load than all of this module

    for entry_point in entry_points(group="capmeter.scene_graphs", name=name):
        return entry_point.load()
    raise MissingBackend(f"graphs={name}: {find_package('scene_graphs', name)}")


def resolve_source(graphs: str, parser: str) -> str:
    """Returns the source of tuples: `FACTUAL`, or the parser to whose trees SPICE's rules are applied.

    Raises:
        InputError: a parser is named that the graphs do not use.
    """
    if graphs != FACTUAL:
        return parser
    if parser != "caption":
        raise InputError(f"graphs=factual reads no trees, so that parser={parser} has no effect; leave one of them out")
    return FACTUAL


def describe_source(source: str) -> dict[str, str]:
    """Returns the signature's entries for a source: the scene-graph parser, or the parser and the rules."""
    version = find_source(source).version
    return {"parser": "none", "graphs": version} if source == FACTUAL else {"parser": version, "graphs": STANFORD_RULES}


@dataclass(frozen=True, eq=False)
class SceneTable:
    """The tuples of each sentence of a pool, from the model of this version."""

    version: str
    sentences: Sequence[str]
    scenes: Sequence[_CaptionTuples]
    settings: Settings

    def graph(self, sentence: int, synsets: Synsets) -> SceneGraph:
        """Builds the graph of one sentence."""
        return self._build((sentence,), synsets)

    def reference_graph(self, sentences: Sequence[int], synsets: Synsets) -> SceneGraph:
        """Builds one graph of several references, in their order; the same texts give the same object."""
        graph_key = self.version, synsets, tuple(self.sentences[sentence_index] for sentence_index in sentences)
        graph: SceneGraph | None = self.settings.memory.get(graph_key)
        if graph is None:
            graph = self._build(sentences, synsets)
            self.settings.memory.put(graph_key, graph)
        return graph

    def _build(self, sentences: Sequence[int], synsets: Synsets) -> SceneGraph:
        return build_scene_graph(
            (scene_tuple for k in sentences for scene_tuple in self.scenes[k].tuples or ()), synsets
        )


@dataclass(frozen=True)
class Scenes:
    """Analysis: the scene-graph tuples of each sentence, from a source (`resolve_source`), with caches.

    With `input="tokens"` the source reads the tokens of each of a text's sentences, which it parses on their own;
    documents are read as written, except by the official parser.
    """

    source: str
    settings: Settings = field(default_factory=Settings)
    input: InputName = "raw"

    def compute(self, pool: SentenceSource) -> SceneTable:
        """Extracts the tuples of every sentence of the pool."""
        source, sentences = find_source(self.source), list(pool.sentences)
        if self.input == "raw":
            return SceneTable(source.version, sentences, source.extract(sentences, self.settings), self.settings)
        text_parts = [
            [text]
            if self.source != OFFICIAL_PARSER and document_sentences(text)
            else [" ".join(tokens) for tokens in tokenise_sentences(text)] or [""]
            for text in sentences
        ]
        distinct_parts = list(dict.fromkeys(part for sentence_parts in text_parts for part in sentence_parts))
        part_tuples = dict(zip(distinct_parts, source.extract(distinct_parts, self.settings), strict=True))
        scenes = [_merge_sentences([part_tuples[part] for part in sentence_parts]) for sentence_parts in text_parts]
        return SceneTable(f"{source.version}/{self.input}", sentences, scenes, self.settings)


def _merge_sentences(sentences: Sequence[_CaptionTuples]) -> _CaptionTuples:
    """The tuples of a text from those of its sentences."""
    if len(sentences) == 1:
        return sentences[0]
    parsed = [s.tuples for s in sentences if s.tuples is not None]
    tuples = (
        tuple(scene_tuple for sentence in parsed for scene_tuple in sentence) if len(parsed) == len(sentences) else None
    )
    return _CaptionTuples(tuples, any(s.truncated for s in sentences), any(s.english for s in sentences))


def _read_tuples(tuple_row: Sequence[Any]) -> _CaptionTuples:
    tuples, truncated, english = tuple_row
    return _CaptionTuples(tuple([tuple(map(sys.intern, scene_tuple)) for scene_tuple in tuples]), truncated, english)


def is_latin(caption: str) -> bool:
    """Whether at least half of the letters are Latin."""
    if caption.isascii():
        return True
    letters = [letter for letter in caption if letter.isalpha()]
    return 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) >= len(letters)


def find_synset_lookup(synonyms: bool) -> Synsets:
    """Returns the function that looks up a word's synsets: METEOR's dictionary, or one that finds nothing."""
    return load_english_synonyms().synsets if synonyms else no_synsets
