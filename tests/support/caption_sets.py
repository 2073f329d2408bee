"""Caption sets for tests of metrics: small, but with everything that goes wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.parts import open_parts

WORDS = st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass", "t-shirt", "1\u00a01/2", "&", "red", "ball"])
SENTENCES = st.lists(WORDS, max_size=9).map(" ".join)
ROWS = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4)), min_size=1, max_size=12)


def caption_set(rows: list[tuple[str, list[str]]]) -> CaptionSet:
    """The set of these (candidate, references) rows, with the ids i0, i1 …"""
    return CaptionSet.from_captions(Caption(f"i{k}", f"i{k}", one, tuple(many)) for k, (one, many) in enumerate(rows))


def read_parts(path: Any, references: Any = None, *, rows: int = 1, **keywords: Any) -> list[Caption]:
    """The captions of a file of one system, which is read in parts of so many rows."""
    parts = [part.read() for part in open_parts(path, references, rows=rows, **keywords)]
    return [caption for part in parts for _, captions in part.systems.values() for caption in captions]
