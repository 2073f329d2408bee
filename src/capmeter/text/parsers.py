"""Parsers by name, and the parses of a pool: what several metrics read, made once.

`caption` is the parser that ships with capmeter; `corenlp` is SPICE's own, through Java (`capmeter.text.corenlp`).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Life
from capmeter.errors import InputError, MissingBackend
from capmeter.progress import task
from capmeter.text.parses import CaptionParse

ParserName = Annotated[Literal["caption", "corenlp"], "what parses: the parser that ships, or the official one (Java)"]

# name: module:what makes it
PARSERS = {
    "caption": "capmeter.text.caption_parser:shipped_parser",
    "corenlp": "capmeter.text.corenlp:CoreNlp",
}

_REMEMBERED = 200_000


class Parser(Protocol):
    """What turns captions into parses."""

    @property
    def version(self) -> str:
        """What a signature says of it: name and hash of what was learned."""
        ...

    @property
    def batch(self) -> int:
        """How many captions of a long list one call should get."""
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
    """Refuses a name that is no parser's."""
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


class _Known:
    """Parses that were made before, by parser and caption; the oldest give way."""

    def __init__(self) -> None:
        self._parses: dict[tuple[str, str], CaptionParse] = {}

    def get(self, version: str, caption: str) -> CaptionParse | None:
        return self._parses.get((version, caption))

    def put(self, version: str, caption: str, parse: CaptionParse) -> None:
        self._parses[version, caption] = parse
        if len(self._parses) > _REMEMBERED:
            del self._parses[next(iter(self._parses))]


# Everything that remembers parses goes through these two calls, `get` and `put`.
known_parses = _Known()


def parse_captions(parser: Parser, captions: Sequence[str]) -> list[CaptionParse | None]:
    """The parse of each caption, looked up where it is known, else made and remembered."""
    version = parser.version
    found = [known_parses.get(version, caption) for caption in captions]
    missing = [k for k, parse in enumerate(found) if parse is None]
    with task("parsing", total=len(missing)) as advance:
        for start in range(0, len(missing), parser.batch):
            batch = missing[start : start + parser.batch]
            for k, parse in zip(batch, parser.parse([captions[k] for k in batch]), strict=True):
                found[k] = parse
                if parse is not None:
                    known_parses.put(version, captions[k], parse)
            advance(len(batch))
    return found


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

    life: ClassVar[Life] = "run"

    def run(self, pool: Pool) -> ParseTable:
        """The parse of every sentence of the pool."""
        return ParseTable(parse_captions(find_parser(self.parser), pool.sentences))
