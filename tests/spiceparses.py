"""The official parser's output as parses that are known already, so that `parser="corenlp"` needs no Java."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from capmeter.captions.model import Caption, CaptionSet
from capmeter.recent import Recent
from capmeter.text import parsers, scenes
from capmeter.text.parses import CaptionParse

SETS = {
    "flickr8k_expert": "flickr8k_expert",
    "coco_systems": "coco_smurf_official_scores",
    "composite_even_rows": "composite",
}


class Recorded:
    """A parser that knows a set of parses and no more."""

    version = "recorded"
    batch = 4096

    def __init__(self, parses: dict[str, CaptionParse]) -> None:
        self._parses = parses

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        return [self._parses.get(caption) for caption in captions]


def use_parser(monkeypatch: pytest.MonkeyPatch, parser: Recorded) -> None:
    """This parser, whatever parser is named, with nothing remembered of another."""
    for module in (parsers, scenes):
        monkeypatch.setattr(module, "find_parser", lambda name: parser)
    monkeypatch.setattr(parsers, "known_parses", Recent(1 << 20))
    for memory in ("_known_scenes", "_known_graphs"):
        monkeypatch.setattr(scenes, memory, Recent(1 << 20))


@lru_cache(maxsize=1)
def recorded(shared: Path) -> Recorded:
    """All official parses."""
    parses = {}
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            parses[row["caption"]] = CaptionParse.from_dict(row)
    return Recorded(parses)


def official_set(shared: Path, name: str, every: int = 1) -> tuple[CaptionSet, list[dict]]:
    """The captions of a set and the program's results, row by row."""
    with gzip.open(shared / "oracles" / f"spice_scores_{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        scores = [json.loads(line) for line in lines][::every]
    with gzip.open(shared / "data" / f"{SETS[name]}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    chosen = [(each["row"], rows[int(each["row"])]) for each in scores]
    captions = [Caption(id, id, row["candidate"], tuple(row["references"])) for id, row in chosen]
    return CaptionSet.from_captions(captions), scores
