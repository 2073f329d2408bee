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
from typing import Annotated, Any, Literal, Protocol

from capmeter.core.caches import encode_texts
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.settings import Settings
from capmeter.text.parsing.dependency_parse import CaptionParse
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

    def parse_rows(rows: list[int]) -> list[dict[str, Any] | None]:
        return [None if parse is None else parse.to_dict() for parse in parser.parse([captions[row] for row in rows])]

    return (
        (settings or Settings())
        .result_cache()
        .results(
            f"parses/1/{parser.version}",
            encode_texts(captions),
            parse_rows,
            batch_size=parser.batch,
            decode=CaptionParse.from_dict,
            task="parses",
        )
    )


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


@dataclass(frozen=True)
class Parses:
    """Analysis: the parse of each sentence of a pool, by the parser of this name, with the caches of the settings."""

    parser: str
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentenceSource) -> ParseTable:
        """Parses every sentence of the pool."""
        return ParseTable(parse_captions(find_parser(self.parser), pool.sentences, self.settings))
