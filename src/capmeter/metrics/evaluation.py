"""The running of metrics over captions: part by part, what depends on the corpus first, then every metric.

A source of captions is a `CaptionSet`, or anything that gives the same caption sets each time it is iterated (a stream
of a file that does not fit memory). It is walked twice where a metric needs to know the whole corpus, else once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.io import load
from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import CaptionStream
from capmeter.errors import InputError
from capmeter.metrics.base import Corpus, Floats, Metric
from capmeter.metrics.registry import parse_list
from capmeter.metrics.scores import Ids, Results, Scores
from capmeter.metrics.workers import mapped
from capmeter.named import value_text
from capmeter.progress import task

Source = CaptionSet | Iterable[CaptionSet]


def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int = 1,
) -> Results:
    """Scores captions with metrics.

    Args:
        captions: a `CaptionSet` from `capmeter.load`, a stream of them from `capmeter.stream`, or a path.
        metrics: names or metrics, in a list or one comma-separated text.
        candidates: instead of `captions`: a list of captions, or a dict id → caption.
        references: with `candidates`: a list of lists, or a dict id → list. With a path as `captions`: their file.
        workers: processes that share the work (see `capmeter.metrics.workers`); worth it for long runs.

    Returns:
        `Results`, by metric name: `results["cider-d"].score`, `.items[id]`, `.parts`, `.notes`, `.signature`.

    Raises:
        InputError: captions without references (the first five ids are named), unknown metrics, wrong shapes.

    >>> results = score(candidates=["a dog runs"], references=[["a dog runs", "a dog is running"]], metrics="rouge-l")
    >>> results["rouge-l"].score, results["rouge-l"].items["0"]
    (1.0, 1.0)
    """
    chosen = parse_list(metrics)
    if (captions is None) == (candidates is None):
        raise InputError("expected captions, or candidates= with references=, and not both")
    if captions is None:
        return evaluate(load(candidates, references), chosen, workers=workers)
    if isinstance(captions, CaptionSet) or _is_stream(captions):
        if references is not None:
            raise InputError(
                "these captions hold their references already; leave references= out, or give it to load()"
            )
        return evaluate(captions, chosen, workers=workers)
    return evaluate(load(captions, references), chosen, workers=workers)


def _is_stream(captions: Any) -> bool:
    return not isinstance(captions, str | Sequence | Mapping) and hasattr(captions, "__iter__")


def evaluate(source: Source, metrics: Sequence[Metric], *, corpus: Source | None = None, workers: int = 1) -> Results:
    """The scores of these metrics on this source.

    What depends on the corpus (document frequencies …) is collected from `corpus`, where that is given, else from the
    source itself: captions that repeat their references (in a study of what becomes of them) must not weigh double.
    `workers` is the number of processes that share the parts.
    """
    order = _with_required(metrics)
    corpora = {metric: metric.corpus() for metric in order}
    asked = tuple(dict.fromkeys(each for each in corpora.values() if each is not None))
    states = _collect(source if corpus is None else corpus, _rows(source, order, workers), asked, workers)
    state = {metric: None if each is None else states[each] for metric, each in corpora.items()}

    measured: list[_Measured] = []
    with task("scoring", total=_length(source)) as advance:
        parts = _parts(source, _rows(source, order, workers))
        for one in mapped(_measure, (order, frozenset(metrics), state), parts, workers):
            measured.append(one)
            advance(len(one.ids))
    if not measured:
        raise InputError("there is no caption to score; the source is empty")
    ids = Ids(_joined(one.ids for one in measured), _joined(one.image_ids for one in measured))
    scores = []
    for metric in metrics:
        values = np.concatenate([one.values[metric] for one in measured])
        notes = _merged(one.notes[metric] for one in measured)
        scores.append(Scores.of(metric, ids, values, notes, signature(metric, state[metric])))
    loading = _merged([*(one.loading for one in measured), getattr(source, "notes", {})])
    return Results(scores, ids, loading, captions=source if isinstance(source, CaptionSet) else None)


@dataclass(frozen=True)
class _Measured:
    """What the metrics found in one part: rows and notes of each, and notes on the captions themselves."""

    ids: Sequence[str]
    image_ids: Sequence[str]
    values: dict[Metric, Floats]
    notes: dict[Metric, dict[str, list[str]]]
    loading: dict[str, list[str]]


def _measure(task: tuple[Sequence[Metric], frozenset[Metric], Mapping[Metric, Any]], part: CaptionSet) -> _Measured:
    order, wanted, state = task
    _check_references(part, order)
    blank = [id for id, at in zip(part.ids, part.candidates.tolist(), strict=True) if not part.pool[at].strip()]
    own = part.references.values == part.candidates[part.references.rows]
    copies = [part.ids[k] for k in np.unique(part.references.rows[own]).tolist()]
    loading = {**part.notes, "candidate is one of its own references": copies}
    found = _Measured(part.ids, part.image_ids, {}, {}, loading)
    given: dict[Metric, Mapping[str, Floats]] = {}
    for metric in order:
        measured = metric.measure(part, state[metric], {each: given[each] for each in metric.requires()})
        given[metric] = metric.finish(measured.values, np.ones(len(part)))
        if metric in wanted:
            found.values[metric] = measured.values
            found.notes[metric] = {"empty candidate": blank, **measured.notes}
    return found


def _joined(lists: Iterable[Sequence[str]]) -> list[str]:
    return [each for one in lists for each in one]


def _merged(notes: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """The notes of all parts: for each reason the ids, each once."""
    merged: dict[str, dict[str, None]] = {}
    for each in notes:
        for reason, ids in each.items():
            if ids:
                merged.setdefault(reason, {}).update(dict.fromkeys(ids))
    return {reason: list(ids) for reason, ids in merged.items()}


def signature(metric: Metric, state: Any) -> str:
    """Everything that moves the number, as one line: name, parameters, facts, version."""
    facts = {key: value_text(value).strip('"') for key, value in metric.parameters().items()} | metric.facts(state)
    return "|".join([metric.name, *(f"{key}:{value}" for key, value in facts.items()), f"capmeter:{__version__}"])


def collect(source: Source, metric: Metric) -> Any:
    """What a metric must know of the whole corpus, collected from this source (None where it needs nothing)."""
    corpus = metric.corpus()
    return None if corpus is None else _collect(source, metric.ROWS, (corpus,), 1)[corpus]


def _collect(source: Source, rows: int, corpora: tuple[Corpus, ...], workers: int) -> dict[Corpus, Any]:
    if not corpora:
        return {}
    states: list[Any] = []
    with task("collecting", total=_length(source)) as advance:
        for size, found in mapped(_collect_part, corpora, _parts(source, rows), workers):
            states = [old + new for old, new in zip(states, found, strict=True)] if states else found
            advance(size)
    if not states:
        raise InputError("there is no caption to score; the source is empty")
    return dict(zip(corpora, states, strict=True))


def _collect_part(corpora: tuple[Corpus, ...], part: CaptionSet) -> tuple[int, list[Any]]:
    return len(part), [corpus.collect(part) for corpus in corpora]


def _rows(source: Source, metrics: Sequence[Metric], workers: int) -> int:
    """How many captions make a part: what the metrics want, but no fewer than two parts for each worker."""
    rows, length = min(metric.ROWS for metric in metrics), _length(source)
    return rows if workers == 1 or length is None else max(1, min(rows, -(-length // max(2 * workers, 1))))


def _length(source: Source) -> int | None:
    """The number of captions, where the source knows it."""
    return len(source) if isinstance(source, CaptionSet | CaptionStream) else None


def _parts(source: Source, rows: int) -> Iterator[CaptionSet]:
    if iter(source) is source:
        raise InputError("captions came as an iterator, which can be walked once only; give a list or a stream")
    for piece in [source] if isinstance(source, CaptionSet) else source:
        if not isinstance(piece, CaptionSet):
            raise InputError(f"expected caption sets, but got {type(piece).__name__}; read captions with capmeter.load")
        if len(piece):
            yield from piece.chunks(rows)


def _with_required(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics and all that they require, each once, what is required first."""
    order: list[Metric] = []

    def visit(metric: Metric) -> None:
        if metric not in order:
            for each in metric.requires():
                visit(each)
            order.append(metric)

    for metric in metrics:
        visit(metric)
    return order


def _check_references(part: CaptionSet, metrics: Sequence[Metric]) -> None:
    needing = [str(metric) for metric in metrics if metric.REFERENCES]
    without = np.flatnonzero(part.references.lengths == 0)
    if needing and len(without):
        first = ", ".join(part.ids[k] for k in without[:5])
        raise InputError(
            f"{len(without)} captions have no reference (the first: {first}), but {', '.join(needing)} compare with "
            'references; give them, drop these captions (on_missing="skip"), or choose metrics that need none'
        )
