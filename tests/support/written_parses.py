"""Parses for tests in a compact notation, one line per sentence: word/TAG/lemma/head/label …"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capmeter.text.parsing.dependency_parse import CaptionParse, Parse


def parse(line: str) -> Parse:
    """Reads the parse of "Dogs/NNS/dog/2/nsubj run/VBP/run/0/root"."""
    fields = [word.rsplit("/", 4) for word in line.split()]
    words, tags, lemmas, heads, labels = zip(*fields, strict=True)
    return Parse(words, tags, lemmas, tuple(map(int, heads)), labels)


def caption(*lines: str) -> CaptionParse:
    """Reads the parse of a caption, a line for each sentence."""
    return CaptionParse(tuple(map(parse, lines)))


def official_rows(shared: Path, every: int = 1) -> Iterator[dict[str, Any]]:
    """Yields each `every`-th caption of the official parser's output: parses, collapsed graphs and tuples."""
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % every == 0:
                yield json.loads(line)
