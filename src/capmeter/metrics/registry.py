"""Names are values: `parse("cider-d(sigma=5.0)")` is the metric whose text form is `cider-d(sigma=5.0)`.

A name is looked up among the metrics of this package, then among those that other packages announce in the entry
point group `capmeter.metrics` (name = "module:Class", a `Metric`). Nothing is imported before it is asked for.

>>> str(parse("cider-d( n = 4, sigma=5 )"))
'cider-d(sigma=5.0)'
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any

from capmeter.errors import InputError
from capmeter.metrics.base import Metric

# name: (module:class, the parameters that the name itself fixes)
BUILTIN: dict[str, tuple[str, dict[str, Any]]] = {
    "bleu-1": ("capmeter.metrics.bleu:Bleu", {"n": 1}),
    "bleu-2": ("capmeter.metrics.bleu:Bleu", {"n": 2}),
    "bleu-3": ("capmeter.metrics.bleu:Bleu", {"n": 3}),
    "bleu-4": ("capmeter.metrics.bleu:Bleu", {"n": 4}),
    "rouge-l": ("capmeter.metrics.rouge:RougeL", {}),
    "cider": ("capmeter.metrics.cider:Cider", {}),
    "cider-d": ("capmeter.metrics.cider:CiderD", {}),
    "cider-r": ("capmeter.metrics.cider:CiderR", {}),
    "meteor": ("capmeter.metrics.meteor:Meteor", {}),
    "sparcs": ("capmeter.metrics.sparcs:Sparcs", {}),
    "mima": ("capmeter.metrics.mima:Mima", {}),
    "spurts": ("capmeter.metrics.mima:Spurts", {}),
    "smurf": ("capmeter.metrics.smurf:Smurf", {}),
    "mean": ("capmeter.metrics.combination:Combination", {"weights": None}),
    "combine": ("capmeter.metrics.combination:Combination", {}),
    "bertscore": ("capmeter.metrics.bertscore:BertScore", {}),
    "tbr": ("capmeter.metrics.tbr.tbr:Tbr", {}),
    "tbr-unigram": ("capmeter.metrics.tbr.unigram:TbrUnigram", {}),
    "sbert": ("capmeter.metrics.sbert:Sbert", {}),
    "wembsim": ("capmeter.metrics.mowe:WEmbSim", {}),
    "mowe": ("capmeter.metrics.mowe:Mowe", {}),
    "wmd": ("capmeter.metrics.wmd:Wmd", {}),
}

GROUP = "capmeter.metrics"
_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.+-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_PARAMETER = re.compile(r"""\s*([A-Za-z_]\w*)\s*=\s*("(?:[^"\\]|\\.)*"|[^,"()]*?)\s*(?:,|$)""")


@cache
def _announced() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}


def names() -> list[str]:
    """The names of all metrics that can be parsed, this package's first."""
    return [*BUILTIN, *sorted(set(_announced()) - set(BUILTIN))]


def metric_class(name: str) -> tuple[type[Metric], dict[str, Any]]:
    """The class behind a name, and the parameters that the name fixes; an unknown name suggests the nearest."""
    if name in BUILTIN:
        place, fixed = BUILTIN[name]
        module, _, attribute = place.partition(":")
        found = getattr(importlib.import_module(module), attribute)
    elif name in _announced():
        found, fixed = _announced()[name].load(), {}
    else:
        near = difflib.get_close_matches(name.lower(), names(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(names())}"
        raise InputError(f"unknown metric {name!r}; {hint} (`capmeter list` shows all)")
    if not (isinstance(found, type) and issubclass(found, Metric)):
        raise InputError(f"the entry point {name!r} of group {GROUP!r} gives {found!r}, expected a Metric class")
    return found, fixed


def parse(text: str | Metric) -> Metric:
    """The metric of this text form (`name` or `name(parameter=value, …)`); a metric is given back as it is."""
    if isinstance(text, Metric):
        return text
    match = _NAME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(
            f"{text!r} is not a metric; expected a name such as cider-d or bleu-4, or name(parameter=value)"
        )
    name, inside = match.group(1), match.group(2)
    cls, fixed = metric_class(name)
    known = {each.name: each for each in fields(cls)}
    given: dict[str, Any] = {}
    for key, value in _split(text, inside or ""):
        if key not in known or key in fixed:
            usable = [each for each in known if each not in fixed]
            near = difflib.get_close_matches(key, usable, n=1)
            hint = f"did you mean {near[0]}?" if near else f"its parameters are: {', '.join(usable) or 'none'}"
            raise InputError(f"{name} has no parameter {key!r}; {hint}")
        given[key] = _value(name, known[key], value)
    return cls(**fixed, **given)


def parse_list(text: str | Iterable[str | Metric]) -> list[Metric]:
    """Metrics from a comma-separated text (commas inside brackets do not separate) or a list; doubles are an error."""
    if isinstance(text, str):
        parts = [part for part in re.split(r",(?![^()]*\))", text) if part.strip()]
    else:
        parts = list(text)
    if not parts:
        raise InputError("no metric was named; expected at least one, such as bleu-4,rouge-l,cider-d")
    metrics = [parse(part) for part in parts]
    for k, metric in enumerate(metrics):
        if metric in metrics[:k]:
            raise InputError(f"the metric {metric} was named twice; name each metric once")
    return metrics


def _split(text: str, inside: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(inside) and inside[at:].strip():
        match = _PARAMETER.match(inside, at)
        if match is None:
            raise InputError(f"cannot read the parameters of {text!r} at {inside[at:]!r}; expected parameter=value")
        found.append((match.group(1), match.group(2)))
        at = match.end()
    doubled = [key for k, (key, _) in enumerate(found) if key in dict(found[:k])]
    if doubled:
        raise InputError(f"{text!r} gives the parameter {doubled[0]!r} twice")
    return found


def _value(name: str, parameter: Field[Any], text: str) -> Any:
    """A parameter's value from its text, of the type that the parameter's annotation and default say."""
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    kinds = {kind.strip() for kind in str(parameter.type).split("|")}
    if text.lower() == "none" and "None" in kinds:
        return None
    if "bool" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind, convert in (("int", int), ("float", float)):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                continue
    if kinds & {"bool", "int", "float"} and "str" not in kinds:
        default = "" if parameter.default is MISSING else f" (its default is {parameter.default})"
        raise InputError(f"{name}: {parameter.name}={text} is not {' or '.join(sorted(kinds))}{default}")
    return text
