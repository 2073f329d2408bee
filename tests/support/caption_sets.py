"""Caption sets for tests of metrics: small, but with everything that goes wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.parts import open_parts

WORDS = st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass", "t-shirt", "1\u00a01/2", "&", "red", "ball"])
SENTENCES = st.lists(WORDS, max_size=9).map(" ".join)
ROWS = st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=4)), min_size=1, max_size=12)

ROOM = (  # the sentences of a long caption
    "A large brown dog sits on a green sofa in a bright living room.",
    "Behind the sofa a man in a blue shirt holds a white cup.",
    "There is a small painting of a red boat on the wall.",
    "The floor of the room is wooden, and a yellow ball lies under the round table.",
    "Two windows on the left let in the light of the afternoon.",
)


def caption_set(rows: Iterable[tuple[str, Sequence[str]]]) -> CaptionSet:
    """The set of these (candidate, references) rows, with the ids i0, i1 …"""
    return CaptionSet.from_captions(Caption(f"i{k}", f"i{k}", one, tuple(many)) for k, (one, many) in enumerate(rows))


def read_parts(path: Any, references: Any = None, *, rows: int = 1, **keywords: Any) -> list[Caption]:
    """The captions of a file of one system, which is read in parts of so many rows."""
    parts = [part.read() for part in open_parts(path, references, rows=rows, **keywords)]
    return [caption for part in parts for _, captions in part.systems.values() for caption in captions]


def shuffled(content: Any, rng: random.Random) -> Any:
    """The same rows, keys and lines in another order; headings, lists of texts and of conversation turns stay."""
    if isinstance(content, str):
        lines = content.splitlines(keepends=True)
        heading = lines[: re.match(r"[^{\[].*(caption|prediction)", content) is not None]
        return "".join(heading + rng.sample(lines[len(heading) :], len(lines) - len(heading)))
    if isinstance(content, dict):
        return {key: shuffled(value, rng) for key, value in rng.sample(list(content.items()), len(content))}
    if (
        isinstance(content, list)
        and all(isinstance(item, dict) for item in content)
        and not any("from" in i for i in content)
    ):
        return [shuffled(item, rng) for item in rng.sample(content, len(content))]
    return content
