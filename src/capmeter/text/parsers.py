"""Parsers by name, and the parses of captions, shared by several metrics.

`caption` is the parser that ships with capmeter; `corenlp` is SPICE's own, through Java (`capmeter.text.corenlp`).
Parses are kept in a store on disk under the parser's name and its model's hash; the last ones stay in memory.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Life
from capmeter.captions.stored import StoredAnalysis
from capmeter.errors import AssetError, InputError, MissingBackend
from capmeter.recent import Recent
from capmeter.store import Store
from capmeter.text.parses import CaptionParse

ParserName = Annotated[Literal["caption", "corenlp"], "the parser: the one that ships, or the official one (Java)"]

# name: module:factory
PARSERS = {
    "caption": "capmeter.text.caption_parser:shipped_parser",
    "corenlp": "capmeter.text.corenlp:CoreNlp",
}

_REMEMBERED = 1 << 15  # some 100 MB


class Parser(Protocol):
    """Turns captions into parses."""

    @property
    def version(self) -> str:
        """The parser in signatures: its name and the hash of its model."""
        ...

    @property
    def batch(self) -> int:
        """How many captions to pass in one call."""
        ...

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption; None for one that could not be parsed in reasonable time."""
        ...


class Pool(Protocol):
    """Distinct sentences (capmeter.captions.model.SentencePool)."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""


def check_parser(name: str) -> None:
    """Rejects an unknown parser."""
    if name not in PARSERS:
        raise InputError(f"there is no parser {name!r}; expected one of {', '.join(PARSERS)}")


@lru_cache(maxsize=4)
def find_parser(name: str) -> Parser:
    """The parser of this name, made once and kept for the run."""
    check_parser(name)
    module, _, attribute = PARSERS[name].partition(":")
    if importlib.util.find_spec(module) is None:
        raise MissingBackend(f"this build of capmeter has no parser {name!r}; use another: {', '.join(PARSERS)}")
    made: Parser = getattr(importlib.import_module(module), attribute)()
    return made


def parser_state(name: str) -> tuple[bool, str]:
    """Whether a parser can run here, and a sentence that says where it is or what is missing."""
    if name == "corenlp":
        from capmeter.text.corenlp import corenlp_state  # the only parser that needs more than its model

        return corenlp_state()
    try:
        return True, find_parser(name).version
    except (MissingBackend, AssetError) as problem:
        return False, str(problem)


@dataclass(frozen=True, eq=False)
class _ParseRows:
    """The analysis of captions into parses as a store keeps them."""

    parser: Parser

    @property
    def identity(self) -> str:
        return f"parses/1/{self.parser.version}"

    def compute(self, sentences: Sequence[str]) -> list[dict[str, Any] | None]:
        return [None if parse is None else parse.to_dict() for parse in self.parser.parse(sentences)]


known_parses: Recent[tuple[str, str], CaptionParse] = Recent(_REMEMBERED)


def parse_captions(parser: Parser, captions: Sequence[str], store: Store | None = None) -> list[CaptionParse | None]:
    """The parse of each caption: from memory or from the store, else made and kept in both."""
    version = parser.version
    found = {caption: known_parses.get((version, caption)) for caption in captions}
    missing = [caption for caption, parse in found.items() if parse is None]
    rows = StoredAnalysis(_ParseRows(parser), store, parser.batch).values(missing)
    for caption, row in zip(missing, rows, strict=True):
        if row is not None:
            found[caption] = parse = CaptionParse.from_dict(row)
            known_parses.put((version, caption), parse)
    return [found[caption] for caption in captions]


def knows_language(parse: CaptionParse | None) -> bool:
    """Whether a caption looks English, by the words that the parser that ships was trained on."""
    from capmeter.text.caption_parser import shipped_parser

    if parse is None:
        return True
    return shipped_parser().knows(word for sentence in parse.sentences for word in sentence.words)


@dataclass(frozen=True, eq=False)
class ParseTable:
    """The parse of each sentence of a pool, None for one that could not be parsed."""

    parses: Sequence[CaptionParse | None]

    def take(self, indices: npt.NDArray[np.int64]) -> ParseTable:
        """The sentences at these indices."""
        return ParseTable([self.parses[k] for k in indices.tolist()])


@dataclass(frozen=True)
class Parses:
    """The analysis of a pool into parses."""

    parser: str
    store: Store | None = None

    life: ClassVar[Life] = "run"

    def run(self, pool: Pool) -> ParseTable:
        """The parse of every sentence of the pool."""
        return ParseTable(parse_captions(find_parser(self.parser), pool.sentences, self.store))
