"""Parsers by name, and the parses of captions, shared by several metrics.

`caption` is the bundled parser; `corenlp` is SPICE's own, through Java (`capmeter.text.parsing.corenlp`). Parses are
cached in memory and on disk under the parser's name and its model's hash.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CacheScope
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.lru import LRUCache
from capmeter.core.settings import Settings
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.stored_values import stored_values
from capmeter.text.tokenization.token_tables import SentenceSource

ParserName = Annotated[Literal["caption", "corenlp"], "the parser: the bundled one, or the official one (Java)"]

# name: module:factory
PARSERS = {
    "caption": "capmeter.text.parsing.caption_parser:bundled_caption_parser",
    "corenlp": "capmeter.text.parsing.corenlp:CoreNlp",
}


class Parser(Protocol):
    """Parses captions."""

    @property
    def version(self) -> str:
        """The parser in signatures: its name and the hash of its model."""
        ...

    @property
    def batch(self) -> int:
        """Number of captions to pass in one call."""
        ...

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """Returns the parse of each caption; None for one that could not be parsed in reasonable time."""
        ...


def check_parser(name: str) -> None:
    """Raises an `InputError` if there is no parser of this name."""
    if name not in PARSERS:
        raise InputError(f"unknown parser {name!r}; expected one of {', '.join(PARSERS)}")


@lru_cache(maxsize=4)
def find_parser(name: str) -> Parser:
    """Returns the parser of this name, loaded once per process.

    Raises:
        InputError: the name is unknown.
        MissingBackend, AssetError: what the parser needs is missing or damaged.
    """
    check_parser(name)
    module_name, _, attribute_name = PARSERS[name].partition(":")
    if importlib.util.find_spec(module_name) is None:
        raise MissingBackend(f"this build of capmeter has no parser {name!r}; use another: {', '.join(PARSERS)}")
    parser: Parser = getattr(importlib.import_module(module_name), attribute_name)()
    return parser


def parser_status(name: str) -> tuple[bool, str]:
    """Checks whether a parser can run; returns this and a sentence that says where it is or what is missing."""
    if name == "corenlp":
        from capmeter.text.parsing.corenlp import corenlp_status  # the only parser that needs more than its model

        return corenlp_status()
    try:
        return True, find_parser(name).version
    except (MissingBackend, AssetError) as problem:
        return False, str(problem)


@dataclass(frozen=True)
class _ParseRows:
    """Parses as JSON values, for the disk cache."""

    parser: Parser

    @property
    def identity(self) -> str:
        return f"parses/1/{self.parser.version}"

    def compute(self, sentences: Sequence[str]) -> list[dict[str, Any] | None]:
        return [None if parse is None else parse.to_dict() for parse in self.parser.parse(sentences)]


def parse_captions(
    parser: Parser, captions: Sequence[str], settings: Settings | None = None
) -> list[CaptionParse | None]:
    """Parses captions, as far as the caches of the settings do not have their parses.

    Args:
        parser: the parser.
        captions: the captions.
        settings: the caches; None: those of the environment.

    Returns:
        The parse of each caption; None for one that could not be parsed in reasonable time.
    """
    settings, parser_version = settings or Settings(), parser.version
    memory_cache: LRUCache[tuple[str, str], CaptionParse] = settings.memory.of("parses")
    parses = {caption: memory_cache.get((parser_version, caption)) for caption in captions}
    missing_captions = [caption for caption, parse in parses.items() if parse is None]
    parse_rows = stored_values(_ParseRows(parser), missing_captions, settings.disk_cache(), parser.batch)
    for caption, parse_row in zip(missing_captions, parse_rows, strict=True):
        if parse_row is not None:
            parses[caption] = parse = CaptionParse.from_dict(parse_row)
            memory_cache.put((parser_version, caption), parse)
    return [parses[caption] for caption in captions]


def looks_english(parse: CaptionParse | None) -> bool:
    """Whether a caption looks English, by the vocabulary of the bundled parser."""
    from capmeter.text.parsing.caption_parser import bundled_caption_parser

    if parse is None:
        return True
    return bundled_caption_parser().looks_english(word for sentence in parse.sentences for word in sentence.words)


@dataclass(frozen=True, eq=False)
class ParseTable:
    """The parse of each sentence of a pool, None for one that could not be parsed."""

    parses: Sequence[CaptionParse | None]

    def take(self, indices: npt.NDArray[np.int64]) -> ParseTable:
        """Selects sentences."""
        return ParseTable([self.parses[sentence_index] for sentence_index in indices.tolist()])


@dataclass(frozen=True)
class Parses:
    """Analysis: the parse of each sentence of a pool, by the parser of this name, with the caches of the settings."""

    parser: str
    settings: Settings = field(default_factory=Settings)

    cache_scope: ClassVar[CacheScope] = "run"

    def run(self, pool: SentenceSource) -> ParseTable:
        """Parses every sentence of the pool."""
        return ParseTable(parse_captions(find_parser(self.parser), pool.sentences, self.settings))
