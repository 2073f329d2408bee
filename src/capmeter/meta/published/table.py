"""How a published table is written down.

    {(benchmark, protocol): {source: {metric: value}}}

A metric is its name; one that rests on an encoder or on word vectors has `@` and what they were: `bertscore@roberta`,
`wembsim@fasttext`, and nothing behind the `@` where the source does not say. A value is in hundredths; with the values
of the groups (categories) it is a list of both: [mean, {group: value}].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = float | tuple[float, Mapping[str, float]]
Tables: TypeAlias = Mapping[tuple[str, str], Mapping[str, Mapping[str, Value]]]


def columns(names: str, *numbers: float) -> tuple[float, dict[str, float]]:
    """A row of a table with a column for each group and the mean last.

    >>> columns("HC HI", 60.0, 90.0, 75.0)
    (75.0, {'HC': 60.0, 'HI': 90.0})
    """
    *groups, mean = numbers
    return mean, dict(zip(names.split(), groups, strict=True))


def sum_of(first: str, second: str) -> str:
    """The key of the sum of two standardised metrics, whichever way round they are named.

    >>> sum_of("wembsim", "bleu-4")
    'bleu-4 + wembsim'
    """
    return " + ".join(sorted((first, second)))
