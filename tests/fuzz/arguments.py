"""Hostile arguments: names of metrics with parameters, and what statistics, comparisons and intervals are given.

    python tests/fuzz/arguments.py --inputs 20000 --seed 1

A call gives finite numbers, or an error of capmeter's own.
"""

from __future__ import annotations

import functools
import math
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.hostile_values import Found, main, mutated

import capmeter
from capmeter.core.errors import CapmeterError
from capmeter.evaluation.registry import parse_list
from capmeter.stats.bootstrap import bootstrap_interval, mean_statistic, percentile_interval
from capmeter.stats.correlation import Pearson, Spearman
from capmeter.stats.kendall import TauA, TauB, TauC
from capmeter.stats.permutation import association_test, williams_test
from capmeter.stats.significance import holm_correction

NAMES = (
    *("bleu-4", "rouge-l", "cider-d", "cider", "cider-r", "bleu-1(tokenizer=whitespace)", "cider-d(n=3,sigma=5.0)"),
    *("rouge-l(beta=1.2)", "mean(bleu-4,rouge-l)", "spider(n=2)", "BLEU", "ROUGE_L", "CIDEr", "coco", "Bleu_4"),
)
VALUES = (
    *("0", "-1", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "9" * 400, "1.5", "true", "none", "''", "[]", "("),
    *("x", "\0", "\ud800", "4", "/proc/self/mem", '"a"', "bleu-4", "cider-d(n=3)", "..", "/dev/null", "/", "~"),
)
PARAMETERS = ("n", "sigma", "beta", "tokenizer", "idf", "length", "smooth", "pool", "weights", "references", "x", "")
LOADED = capmeter.load(["a dog runs on grass", "a cat"], [["the dog runs"], ["a cat sleeps", "one cat"]])
OTHER = capmeter.load(["a dog on the grass", "two cats sleep"], [["the dog runs"], ["a cat sleeps", "one cat"]])
RESULTS = capmeter.score(LOADED, "bleu-4,rouge-l")
SIZES: tuple[Any, ...] = (0, 1, 2, 3, 10, -1, True, 1.5, math.nan, None, "3", np.int64(4), 10.0)
LEVELS: tuple[Any, ...] = (
    0.95,
    0,
    1,
    -1,
    2,
    math.nan,
    math.inf,
    "x",
    None,
    1e-320,
    1 - 1e-16,
    np.float32(0.9),
    10**400,
)


def name(sample: random.Random) -> str:
    """The name of one metric or of several, with odd parameters or changed letters."""
    selection = sample.choice(NAMES)
    act = sample.random()
    if act < 0.5:
        parameter = f"{sample.choice(PARAMETERS)}={sample.choice(VALUES)}"
        selection = f"{selection[:-1]},{parameter})" if selection.endswith(")") else f"{selection}({parameter})"
    elif act < 0.6:
        depth = sample.choice((3, 50, 5000))
        selection = "mean(" * depth + selection + ")" * depth
    elif act < 0.8:
        selection = mutated(selection.encode(), sample).decode("utf-8", "surrogateescape")
    return selection if sample.random() < 0.7 else f"{selection},{sample.choice(NAMES)}"


def numbers(sample: random.Random, count: int) -> Any:
    """Numbers for statistics, some of them odd, of any length or shape."""
    values = [sample.choice((0.0, 1.0, 2.0, 0.5, -1.0, sample.random())) for _ in range(count)]
    act = sample.random()
    if act < 0.2 and values:
        values[sample.randrange(len(values))] = sample.choice((math.nan, math.inf, 1e308, -1e308, 1e-320, 2.0**1023))
    if act < 0.3:
        values = values[: sample.randrange(count + 1)]
    return sample.choice((values, values, np.array(values), np.array(values)[:, None], np.array(values, np.float32)))


def is_finite(value: Any) -> bool:
    """Whether all numbers of a result are finite."""
    return bool(np.isfinite(np.asarray(value, np.float64)).all())


def check_name(text: str) -> str:
    """Parses and runs metrics; says how that ended."""
    try:
        metrics = parse_list(text)
        if len(metrics) > 20 or any(each.needs - {"references"} for each in metrics):
            return "parsed"
        results = capmeter.score(LOADED, metrics)
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        return "refused"
    assert all(is_finite(each.values) and is_finite(each.score) for each in results.values()), text
    assert [str(each) for each in parse_list([str(metric) for metric in metrics])] == list(map(str, metrics)), text
    return "scored"


def check_statistic(sample: random.Random) -> str:
    """Calls a statistic with odd values; says how that ended."""
    count = sample.choice((0, 1, 2, 3, 6, 12))
    x, y = numbers(sample, count), numbers(sample, count)
    resamples, seed = sample.choice((0, 1, 7, -1, 2.5, None)), sample.choice((0, 1, 2**40, -1, 1.5))

    def correlation() -> float:
        return sample.choice((0.5, 1, -1, 0, 0.2, math.nan, 2))

    finite = np.nan_to_num(np.asarray(x, np.float64))
    calls: tuple[Callable[[], Any], ...] = (
        lambda: sample.choice((Pearson, Spearman, TauA, TauB, TauC))(x, y)(),
        lambda: association_test(x, y, sample.choice(("pearson", "spearman", "tau", "x")), 20, seed),
        lambda: bootstrap_interval(mean_statistic(finite), range(len(finite)), resamples, seed).low,
        lambda: percentile_interval(finite, sample.choice(LEVELS)),
        lambda: holm_correction(x),
        lambda: williams_test(correlation(), correlation(), correlation(), count),
        lambda: list(RESULTS.intervals(level=sample.choice(LEVELS), resamples=sample.choice(SIZES)).values()),
        lambda: (
            capmeter.compare(
                {"a": LOADED, "b": OTHER},
                "rouge-l",
                permutations=sample.choice(SIZES),
                resamples=sample.choice(SIZES),
                level=sample.choice(LEVELS),
            ).level
        ),
    )
    try:
        value = sample.choice(calls)()
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        return "refused"
    assert is_finite(value), value
    return "computed"


def fuzz(count: int, seed: int) -> Found:
    """Runs so many calls."""
    sample, result = random.Random(seed), Found()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(count):
            if sample.random() < 0.6:
                text = name(sample)
                result.add("name", functools.partial(check_name, text), functools.partial(str, text[:300]))
            else:
                state = sample.getstate()
                result.add("statistic", functools.partial(check_statistic, sample), functools.partial(hash, state))
    return result


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__, 20_000))
