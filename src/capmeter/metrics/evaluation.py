"""The running of metrics over captions: part by part, what depends on the corpus first, then every metric.

A source of captions is a `CaptionSet`, or anything that gives the same caption sets each time it is iterated (a stream
of a file that does not fit memory). It is walked twice where a metric needs to know the whole corpus, else once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import capmeter
from capmeter.captions.io import load
from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import CaptionStream
from capmeter.errors import InputError
from capmeter.metrics.base import Corpus, Floats, Metric, value_text
from capmeter.metrics.registry import parse_list
from capmeter.metrics.scores import Ids, Results, Scores
from capmeter.progress import task

Source = CaptionSet | Iterable[CaptionSet]


def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    candidates: Any = None,
    references: Any = None,
) -> Results:
    """Scores captions with metrics.

    Args:
        captions: a `CaptionSet` from `capmeter.load`, a stream of them from `capmeter.stream`, or a path.
        metrics: names or metrics, in a list or one comma-separated text.
        candidates: instead of `captions`: a list of captions, or a dict id → caption.
        references: with `candidates`: a list of lists, or a dict id → list. With a path as `captions`: their file.

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
        return evaluate(load(candidates, references), chosen)
    if isinstance(captions, CaptionSet) or _is_stream(captions):
        if references is not None:
            raise InputError(
                "these captions hold their references already; leave references= out, or give it to load()"
            )
        return evaluate(captions, chosen)
    return evaluate(load(captions, references), chosen)


def _is_stream(captions: Any) -> bool:
    return not isinstance(captions, str | Sequence | Mapping) and hasattr(captions, "__iter__")


def evaluate(source: Source, metrics: Sequence[Metric], *, corpus: Source | None = None) -> Results:
    """The scores of these metrics on this source.

    What depends on the corpus (document frequencies …) is collected from `corpus`, where that is given, else from the
    source itself: captions that repeat their references (in a study of what becomes of them) must not weigh double.
    """
    order = _with_required(metrics)
    rows = min(metric.ROWS for metric in order)
    corpora = {metric: metric.corpus() for metric in order}
    asked = {each for each in corpora.values() if each is not None}
    states = _collect(source if corpus is None else corpus, rows, asked)
    state = {metric: None if each is None else states[each] for metric, each in corpora.items()}

    names: list[str] = []
    images: list[str] = []
    values: dict[Metric, list[Floats]] = defaultdict(list)
    notes: dict[Metric, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    loading: dict[str, list[str]] = {}
    copies: list[str] = []
    with task("scoring", total=_length(source)) as advance:
        for part in _parts(source, rows):
            _check_references(part, order)
            names.extend(part.ids)
            images.extend(part.image_ids)
            loading.update(part.notes)
            own = part.references.values == part.candidates[part.references.rows]
            copies.extend(part.ids[k] for k in np.unique(part.references.rows[own]).tolist())
            blank = [id for id, at in zip(part.ids, part.candidates.tolist(), strict=True) if not part.pool[at].strip()]
            given: dict[Metric, Mapping[str, Floats]] = {}
            for metric in order:
                measured = metric.measure(part, state[metric], {each: given[each] for each in metric.requires()})
                given[metric] = metric.finish(measured.values, np.ones(len(part)))
                if metric in metrics:
                    values[metric].append(measured.values)
                    for reason, noted in {"empty candidate": blank, **measured.notes}.items():
                        if noted:
                            notes[metric][reason].extend(noted)
            advance(len(part))
    if not names:
        raise InputError("there is no caption to score; the source is empty")
    loading.update(getattr(source, "notes", {}))
    if copies:
        loading["candidate is one of its own references"] = copies
    ids = Ids(names, images)
    scores = [
        Scores.of(metric, ids, np.concatenate(values[metric]), dict(notes[metric]), signature(metric, state[metric]))
        for metric in metrics
    ]
    return Results(scores, ids, loading, captions=source if isinstance(source, CaptionSet) else None)


def signature(metric: Metric, state: Any) -> str:
    """Everything that moves the number, as one line: name, parameters, facts, version."""
    facts = {key: value_text(value).strip('"') for key, value in metric.parameters().items()} | metric.facts(state)
    return "|".join(
        [metric.name, *(f"{key}:{value}" for key, value in facts.items()), f"capmeter:{capmeter.__version__}"]
    )


def collect(source: Source, metric: Metric) -> Any:
    """What a metric must know of the whole corpus, collected from this source (None where it needs nothing)."""
    corpus = metric.corpus()
    return None if corpus is None else _collect(source, metric.ROWS, {corpus})[corpus]


def _collect(source: Source, rows: int, corpora: set[Corpus]) -> dict[Corpus, Any]:
    states: dict[Corpus, Any] = {}
    if not corpora:
        return states
    with task("collecting", total=_length(source)) as advance:
        for part in _parts(source, rows):
            for corpus in corpora:
                found = corpus.collect(part)
                states[corpus] = states[corpus] + found if corpus in states else found
            advance(len(part))
    if not states:
        raise InputError("there is no caption to score; the source is empty")
    return states


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
