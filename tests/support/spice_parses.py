"""Recorded output of the official parser, so that `parser="corenlp"` needs no Java."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.settings import shared_memory
from capmeter.text.parsing import parsers
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.scene_graphs import extraction
from support.shared_files import read_rows

SETS = {
    "flickr8k_expert": "flickr8k_expert",
    "coco_systems": "coco_smurf_official_scores",
    "composite_even_rows": "composite",
}


class Recorded:
    """A parser that looks parses up in a table."""

    version = "recorded"
    batch = 4096

    def __init__(self, parses: dict[str, CaptionParse]) -> None:
        self._parses = parses

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        return [self._parses.get(caption) for caption in captions]


def use_parser(monkeypatch: pytest.MonkeyPatch, parser: parsers.Parser) -> None:
    """Loads this parser, whatever parser is named, with empty caches in memory."""
    shared_memory.cache_clear()
    for module in (parsers, extraction):
        monkeypatch.setattr(module, "find_parser", lambda name: parser)


@lru_cache(maxsize=1)
def recorded(shared: Path) -> Recorded:
    """Reads all official parses."""
    parses = {}
    for row in read_rows(shared / "oracles" / "spice_parses.jsonl.gz"):
        parses[row["caption"]] = CaptionParse.from_dict(row)
    return Recorded(parses)


def official_set(shared: Path, name: str, every: int = 1) -> tuple[CaptionSet, list[dict]]:
    """Reads the captions of a set and the program's results, row by row."""
    scores = read_rows(shared / "oracles" / f"spice_scores_{name}.jsonl.gz")[::every]
    rows = read_rows(shared / "data" / f"{SETS[name]}.jsonl.gz")
    pairs = [(each["row"], rows[int(each["row"])]) for each in scores]
    captions = [Caption(id, id, row["candidate"], tuple(row["references"])) for id, row in pairs]
    return CaptionSet.from_captions(captions), scores
