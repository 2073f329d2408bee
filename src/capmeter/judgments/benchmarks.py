"""Benchmarks of human judgment: one module per family, one line here per benchmark."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import cache

from capmeter.core.errors import InputError
from capmeter.judgments.benchmark import Benchmark


@cache
def all_benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name."""
    from capmeter.judgments import (
        audio,
        coco2015,
        composite,
        detailed,
        factuality,
        flickr8k,
        hallucination,
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
        hallucination.HAT,
        hallucination.NOCAPS_FOIL,
        hallucination.D_FOIL,
        hallucination.HAELM,
        hallucination.FAITHSCORE,
        coco2015.COCO2015,
        text_only.WMT16,
        text_only.CONLL14,
        audio.AUDIOCAPS_EVAL,
        audio.CLOTHO_EVAL,
        audio.BRACE,
        audio.BRACE_HALLU,
        audio.FLUENCY_723,
        factuality.ACTIVITYNET_FACT,
        factuality.YOUCOOK2_FACT,
        detailed.CAPARENA,
        detailed.DOCENT,
        detailed.LONGCAP_ARENA,
        detailed.DETAILCAPS,
        native.RATED,
        pairs.PAIRS,
        detailed.ARENA,
    )
    benchmarks_by_name = {benchmark.name: benchmark for benchmark in every}
    return {name: replace(benchmark, siblings=benchmarks_by_name) for name, benchmark in benchmarks_by_name.items()}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name, whatever separates its parts and whatever follows them (`thumb1_mscoco`).

    An unknown or ambiguous name is an error that suggests the nearest names.
    """
    requested_name = _plain(name)
    opening_lengths = {_plain("".join(opening_words)): len(opening_words) for opening_words in _openings(name)}
    exact_matches = [benchmark_name for benchmark_name in all_benchmarks() if _plain(benchmark_name) == requested_name]
    longer_names = [
        benchmark_name for benchmark_name in all_benchmarks() if _plain(benchmark_name).startswith(requested_name)
    ]
    shorter_names = sorted(
        (benchmark_name for benchmark_name in all_benchmarks() if _plain(benchmark_name) in opening_lengths),
        key=lambda benchmark_name: opening_lengths[_plain(benchmark_name)],
    )
    for matching_names in (exact_matches, longer_names, shorter_names[-1:]):
        if len(matching_names) == 1:
            return all_benchmarks()[matching_names[0]]
    suggestions = longer_names or difflib.get_close_matches(name.lower(), all_benchmarks(), n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else f"known are: {', '.join(all_benchmarks())}"
    raise InputError(f"unknown benchmark {name!r}; {hint}")


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _openings(benchmark_name: str) -> list[list[str]]:
    """The first word of a name, its first two words, and so on."""
    name_words = re.split(r"[\W_]+", benchmark_name.lower())
    return [name_words[:word_count] for word_count in range(1, len(name_words) + 1)]
