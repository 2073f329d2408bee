"""Published values of metrics on benchmarks, x 100, with their source: printed beside ours, never instead.

Only values whose protocol is known are listed; a value under another, or an unknown, protocol would mislead. A value of
BERTScore with RoBERTa says nothing about BERTScore with MiniLM: values carry the encoder or word vectors they were made
with, and are labelled where these differ from ours.

>>> published("coco2015", "yi2020", "bertscore(encoder=bert)")
Published(value=80.7, source='Yi et al. 2020', made_with='bert', agrees=True, groups={}, note='p 0.001')
>>> found = published("coco2015", "yi2020", "bertscore")
>>> found.made_with, found.agrees  # by default it runs with minilm
('bert', False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from capmeter.errors import InputError
from capmeter.meta.published.benchmarks import TABLES as BENCHMARKS
from capmeter.meta.published.papers import NOTES
from capmeter.meta.published.papers import TABLES as PAPERS
from capmeter.meta.published.studies import TABLES as STUDIES
from capmeter.meta.published.table import Value
from capmeter.metrics.registry import parse

_CHOICES = ("encoder", "vectors")
# word vectors as their authors distribute them (Sharif et al. 2019, Tables 7.1 and 8.1)
_VECTOR_FILES = {"glove.840B.300d": "glove", "GoogleNews-vectors-negative300": "word2vec", "wiki.en": "fasttext"}
_ROUNDING = 0.1  # a mean of rounded columns may differ from the rounded mean by as much


@dataclass(frozen=True)
class Published:
    """A published value and who published it.

    `made_with`: the encoder or vectors, "" where the metric has none, "not stated" where the source does not say;
    `agrees`: whether our score was made with the same. `groups`: the values of the categories.
    """

    value: float
    source: str
    made_with: str = ""
    agrees: bool = True
    groups: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def published(benchmark: str, protocol: str, metric: str) -> Published | None:
    """The published value of a metric (its text form) on a benchmark under an unchanged protocol.

    But for the encoder or vectors the metric must be at its defaults. Of several values, one made with the same
    encoder is preferred.
    """
    name, made_with = _identity(metric)
    found = []
    for tables in (BENCHMARKS, PAPERS, STUDIES):
        for source, values in tables.get((benchmark, protocol), {}).items():
            for key, value in values.items():
                if key.partition("@")[0] == name:
                    each = _published(key, value, source, made_with)
                    notes = [_mean_note(each), NOTES.get((benchmark, protocol, key), "")]
                    found.append(replace(each, note="; ".join(filter(None, notes))))
    return next((each for each in found if each.agrees), found[0] if found else None)


def _identity(metric: str) -> tuple[str, str | None]:
    """A metric's name where all but its encoder is at the defaults, and the encoder; None is unknown."""
    try:
        value: Any = parse(metric)
    except InputError:
        return metric, None
    for choice in _CHOICES:
        given = value.parameters().get(choice)
        default = next((each.default for each in fields(value) if each.name == choice), MISSING)
        if isinstance(given, str) and default is not MISSING:
            try:
                return str(replace(value, **{choice: default})), _VECTOR_FILES.get(_stem(given), given)
            except InputError:  # other parameters are of use with that encoder alone, so they are not at their defaults
                return str(value), None
    return str(value), None


def _stem(path: str) -> str:
    name = Path(path).name
    for ending in (".gz", ".txt", ".vec", ".bin"):
        name = name.removesuffix(ending)
    return name


def _published(key: str, value: Value, source: str, made_with: str | None) -> Published:
    _, at, theirs = key.partition("@")
    number, groups = value if isinstance(value, tuple) else (value, {})
    return Published(
        float(number),
        source,
        made_with=(theirs or "not stated") if at else "",
        agrees=not at or theirs == made_with,
        groups=dict(groups),
    )


def _mean_note(found: Published) -> str:
    if not found.groups:
        return ""
    mean = sum(found.groups.values()) / len(found.groups)
    if abs(mean - found.value) < _ROUNDING:
        return ""
    return f"the mean of the published columns is {mean:.2f}, not {found.value:g}"
