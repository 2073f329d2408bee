"""Benchmarks of human judgment: one module per family, one line here per benchmark."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import cache

from capmeter.errors import InputError
from capmeter.judgments.benchmark import Benchmark


@cache
def table() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    from capmeter.judgments import (
        coco2015,
        composite,
        flickr8k,
        native,
        pairs,
        pascal50s,
        polaris,
        rated_captions,
        text_only,
    )

    every = (
        flickr8k.EXPERT,
        flickr8k.CF,
        composite.COMPOSITE,
        pascal50s.PASCAL,
        pascal50s.ABSTRACT,
        rated_captions.CAPEVAL1K,
        rated_captions.THUMB,
        rated_captions.WHEREIMAGE,
        polaris.NEBULA,
        polaris.NEBULA_VAL,
        polaris.POLARIS_VAL,
        polaris.POLARIS,
        pairs.FOIL,
        pairs.FOIL_COCO,
        pairs.REFORMULATIONS,
        pairs.DISTRACTIONS,
        coco2015.COCO2015,
        text_only.WMT16,
        text_only.CONLL14,
        native.RATED,
        pairs.PAIRS,
    )
    known = {each.name: each for each in every}
    return {name: replace(each, siblings=known) for name, each in known.items()}


def benchmark(name: str) -> Benchmark:
    """The benchmark of this name, whatever separates its parts and whatever follows them (`thumb1_mscoco`).

    An unknown or ambiguous name is an error that suggests the nearest names.
    """
    asked = _plain(name)
    words = {_plain("".join(words)): len(words) for words in _openings(name)}
    exact = [known for known in table() if _plain(known) == asked]
    longer = [known for known in table() if _plain(known).startswith(asked)]
    shorter = sorted((known for known in table() if _plain(known) in words), key=lambda known: words[_plain(known)])
    for found in (exact, longer, shorter[-1:]):
        if len(found) == 1:
            return table()[found[0]]
    near = longer or difflib.get_close_matches(name.lower(), table(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(table())}"
    raise InputError(f"unknown benchmark {name!r}; {hint}")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _openings(name: str) -> list[list[str]]:
    """The first word of a name, its first two words, and so on."""
    words = re.split(r"[\W_]+", name.lower())
    return [words[:count] for count in range(1, len(words) + 1)]
