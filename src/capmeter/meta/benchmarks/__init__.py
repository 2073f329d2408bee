"""Benchmarks of human judgment: one module per family, one line here per benchmark."""

from __future__ import annotations

import difflib
from functools import cache

from capmeter.errors import InputError
from capmeter.meta.benchmarks.benchmark import Benchmark


@cache
def table() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    from capmeter.meta.benchmarks import (
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
    return {each.name: each for each in every}


def benchmark(name: str) -> Benchmark:
    """The benchmark of this name; an unknown name suggests the nearest."""
    found = table().get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), table(), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(table())}"
        raise InputError(f"unknown benchmark {name!r}; {hint}")
    return found
