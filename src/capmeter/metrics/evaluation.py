"""The one place where metrics are run on captions: part by part, corpus states first, then every metric.

An `Evaluation` holds metrics, settings, and the corpus states collected so far. It works on any part of the captions,
here or in another process, never on the whole: `collect(part)` returns the part's contribution to the pending corpus
states, `knowing` is the evaluation with these states, `measure(part)` returns the rows of every metric.

>>> from capmeter.metrics.registry import parse
>>> captions = load(["a dog runs", "two cats"], [["a dog is running"], ["two cats sleep"]])
>>> parts = [captions.select([0]), captions.select([1])]
>>> evaluation = Evaluation((parse("cider-d"), parse("rouge-l")))
>>> while evaluation.pending:
...     evaluation = evaluation.knowing(evaluation.collect(parts[0]) + evaluation.collect(parts[1]))
>>> evaluation.measure(parts[1])[parse("rouge-l")].values.shape
(1, 3)

A source of captions is a `CaptionSet`, or anything that yields the same caption sets each time it is iterated (a stream
of a file that does not fit into memory). It is read once, and once more if a metric depends on the whole corpus.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from capmeter._version import __version__
from capmeter.captions import reference_digests
from capmeter.captions.io import load
from capmeter.captions.kept import remember
from capmeter.captions.model import CaptionSet
from capmeter.captions.scripts import unspaced
from capmeter.captions.streaming import CaptionStream
from capmeter.errors import InputError
from capmeter.metrics.base import Context, Corpus, Measurement, Metric, merged_notes
from capmeter.metrics.checks import checked
from capmeter.metrics.held import Rows, Texts
from capmeter.metrics.needs import check_needs, needed, with_required
from capmeter.metrics.registry import METRICS, parse_list
from capmeter.metrics.scores import Ids, Results, Scores
from capmeter.metrics.workers import Executor, executor
from capmeter.progress import task
from capmeter.ragged import distinct
from capmeter.settings import Settings

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence

Source = CaptionSet | Iterable[CaptionSet]
Systems = Mapping[str, CaptionSet] | Mapping[str, CaptionStream] | Mapping[str, os.PathLike[str]]
UNSPLIT = "no blanks between words, which tokenizer=ptb does not split (tokenizer=char does; see docs/languages.md)"
"""The note on captions in Chinese or Japanese that are scored as if they were English."""


@dataclass(frozen=True, eq=False)
class States:
    """The states of each corpus on some captions; sums of states are the states on all of them."""

    found: Mapping[Corpus, Any] = field(default_factory=dict)

    def __add__(self, other: States) -> States:
        return States({corpus: mine + other.found[corpus] for corpus, mine in self.found.items()})


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics to be run, with the metrics they require, the known corpus states, and the settings of the run."""

    metrics: tuple[Metric, ...]
    settings: Settings = field(default_factory=Settings)
    states: Mapping[Corpus, Any] = field(default_factory=dict)

    @cached_property
    def order(self) -> tuple[Metric, ...]:
        """The metrics and everything they require, without duplicates, required metrics first."""
        return with_required(self.metrics)

    @cached_property
    def pending(self) -> tuple[Corpus, ...]:
        """The corpora to collect next: not yet known, and with required metrics that depend on known corpora only."""
        found: dict[Corpus, None] = {}

        def visit(metric: Metric) -> bool:
            """Whether everything that this metric needs is known."""
            ready = [visit(each) for each in metric.requires()]  # a list: all are visited
            corpus = metric.corpus()
            if corpus is None or corpus in self.states:
                return all(ready)
            known = [visit(each) for each in corpus.requires()]
            if all(known):
                found[corpus] = None
            return False

        for metric in self.metrics:
            visit(metric)
        return tuple(found)

    def collect(self, part: CaptionSet) -> States:
        """This part's states of everything that is `pending`; pass their sum over all parts to `knowing`."""
        needed = with_required([metric for corpus in self.pending for metric in corpus.requires()])
        measured = self._measured(part, needed)
        return States(
            {corpus: corpus.collect(part, self._context(None, corpus.requires(), measured)) for corpus in self.pending}
        )

    def knowing(self, states: States) -> Evaluation:
        """The evaluation with these states added."""
        return replace(self, states={**self.states, **states.found})

    def measure(self, part: CaptionSet) -> dict[Metric, Measurement]:
        """The rows and notes of each metric and of everything required; nothing may be pending."""
        if self.pending:
            raise RuntimeError(f"{', '.join(map(str, self.pending))} must be collected before captions are measured")
        return self._measured(part, self.order)

    def explain(self, part: CaptionSet) -> dict[Metric, list[Evidence]]:
        """Each metric's evidence for every caption of the part; an `InputError` if a metric has none."""
        needed = with_required([each for metric in self.metrics for each in metric.requires()])
        measured = self._measured(part, needed)
        return {metric: metric.explain(part, self.context(metric, measured)) for metric in self.metrics}

    def context(self, metric: Metric, measured: Mapping[Metric, Measurement] | None = None) -> Context:
        """The context of this metric for a part, given what the required metrics `measured` on it."""
        corpus = metric.corpus()
        state = None if corpus is None else self.states[corpus]
        return self._context(state, metric.requires(), measured)

    def signature(self, metric: Metric) -> str:
        """Everything that affects the score, in one line: name, parameters, facts, plug-ins' packages, version."""
        facts = {key: text.strip('"') for key, text in metric.texts().items()} | metric.facts(self.context(metric))
        packages = dict.fromkeys(METRICS.package(each) for each in with_required([metric]))
        if any(packages):
            facts["plugin"] = "+".join(filter(None, packages))
        return "|".join([metric.name, *(f"{key}:{value}" for key, value in facts.items()), f"capmeter:{__version__}"])

    def collected(self, source: Source, workers: int | Executor = 1) -> Evaluation:
        """The evaluation with all corpus states that its metrics need, collected from this source."""
        executing, knowing = executor(workers), self
        knowing = replace(knowing, settings=executing.share(self.settings))
        while knowing.pending:
            states: States | None = None
            with task("collecting", total=_length(source)) as advance:
                parts = self._parts(source, knowing._rows(source, executing))
                for size, found in executing.map(knowing._collect_part, parts):
                    states = found if states is None else states + found
                    advance(size)
            if states is None:
                raise InputError("there is no caption to score; the source is empty")
            knowing = knowing.knowing(states)
        return replace(knowing, settings=self.settings)

    def run(self, source: Source, workers: int | Executor = 1) -> Results:
        """The scores on this source; everything needed must have been `collected`."""
        executing = executor(workers)
        shared = replace(self, settings=executing.share(self.settings))
        measure = partial(shared._measure_part, digests=not isinstance(source, CaptionSet))
        seen = _Seen(self.metrics)
        with task("scoring", total=_length(source)) as advance:
            for one in executing.map(measure, self._parts(source, self._rows(source, executing))):
                seen.add(one)
                advance(len(one.ids))
        if not len(seen.names):
            raise InputError("there is no caption to score; the source is empty")
        ids = Ids(source.ids, source.image_ids) if isinstance(source, CaptionSet) else Ids(seen.names, seen.images)
        scores = []
        for metric in self.metrics:
            notes = merged_notes(seen.notes[metric])
            scores.append(Scores.of(metric, ids, seen.rows[metric], notes, self.signature(metric)))
        loading = merged_notes([*seen.loading, getattr(source, "notes", {})])
        if isinstance(source, CaptionSet):
            return Results(scores, ids, loading, captions=source)
        return Results(scores, ids, loading, references=np.concatenate(seen.references))

    def _measured(self, part: CaptionSet, order: Sequence[Metric]) -> dict[Metric, Measurement]:
        check_needs(part, order)
        measured: dict[Metric, Measurement] = {}
        for metric in order:
            found = metric.measure(part, self.context(metric, measured))
            measured[metric] = checked(metric, found, part.ids)
        return measured

    def _context(
        self, state: Any, required: Sequence[Metric], measured: Mapping[Metric, Measurement] | None
    ) -> Context:
        found = {} if measured is None else {each: measured[each] for each in required}
        return Context(
            state=state,
            settings=self.settings,
            scores={each: each.finish(rows.values, np.ones(len(rows.values))) for each, rows in found.items()},
            measured=found,
            required={each: self.context(each, measured) for each in required},
        )

    def _collect_part(self, part: CaptionSet) -> tuple[int, States]:
        return len(part), self.collect(part)

    def _measure_part(self, part: CaptionSet, digests: bool) -> _Part:
        """The rows and notes of the requested metrics (not of those only required), and the part's notes."""
        said = [part.pool.sentences[at] for at in part.candidates.tolist()]
        blank = [id for id, text in zip(part.ids, said, strict=True) if not text.strip()]
        own = part.references.values == part.candidates[part.references.rows]
        copies = [part.ids[k] for k in distinct(part.references.rows[own]).tolist()]
        found = self.measure(part)
        unsplit = [id for id, text in zip(part.ids, said, strict=True) if unspaced(text)]
        measured = {}
        for metric in self.metrics:
            notes = {"empty candidate": blank, **found[metric].notes}
            if 2 * len(unsplit) > len(part) and getattr(metric, "tokenizer", None) == "ptb":
                notes[UNSPLIT] = unsplit
            measured[metric] = replace(found[metric], notes=notes)
        loading = {**part.notes, "candidate is one of its own references": copies}
        references = reference_digests.of_captions(part) if digests else reference_digests.NONE
        return _Part(part.ids, part.image_ids, measured, loading, references)

    def _parts(self, source: Source, rows: int) -> Iterator[CaptionSet]:
        if iter(source) is source:
            raise InputError("captions are an iterator, which can be read only once; give a list or a stream")
        for piece in [source] if isinstance(source, CaptionSet) else source:
            if not isinstance(piece, CaptionSet):
                raise InputError(
                    f"expected caption sets, but got {type(piece).__name__}; read captions with capmeter.load"
                )
            for part in piece.chunks(rows) if len(piece) else ():
                if piece is source:  # a stream is large: its references are not kept for the next run
                    remember(part, self.settings)
                yield part

    def _rows(self, source: Source, executing: Executor) -> int:
        """The number of captions per part: as the metrics prefer, but with at least two parts per worker."""
        rows, length = min(metric.ROWS for metric in self.order), _length(source)
        if executing.workers == 1 or length is None:
            return rows
        return max(1, min(rows, -(-length // max(2 * executing.workers, 1))))


@dataclass(frozen=True, eq=False)
class _Part:
    """What is found in a part: the metrics' measurements, notes on the captions, and digests of the references."""

    ids: Sequence[str]
    image_ids: Sequence[str]
    measured: dict[Metric, Measurement]
    loading: dict[str, list[str]]
    references: reference_digests.Digests


class _Seen:
    """What a run keeps of all parts, in few bytes per caption."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.names, self.images = Texts(), Texts()
        self.rows: dict[Metric, Rows] = {metric: Rows() for metric in metrics}
        self.notes: dict[Metric, list[dict[str, list[str]]]] = {metric: [] for metric in metrics}
        self.loading: list[dict[str, list[str]]] = []
        self.references: list[reference_digests.Digests] = []

    def add(self, part: _Part) -> None:
        """Keeps a part."""
        self.names.add(part.ids)
        self.images.add(part.image_ids)
        for metric, found in part.measured.items():
            self.rows[metric].add(found.values)
            self.notes[metric].append(found.notes)
        self.loading.append(part.loading)
        self.references.append(part.references)


@overload
def score(
    captions: Systems,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    references: Any = None,
    workers: int | Executor = 1,
    settings: Settings | None = None,
) -> dict[str, Results]: ...


@overload
def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | Executor = 1,
    settings: Settings | None = None,
) -> Results: ...


def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | Executor = 1,
    settings: Settings | None = None,
) -> Results | dict[str, Results]:
    """Scores captions with metrics.

    Args:
        captions: a `CaptionSet` from `capmeter.load`, a stream of them from `capmeter.stream`, or a path; or several
            systems, as a dict name → any of these (a path as `pathlib.Path`, since text may be a caption).
        metrics: names or metrics, in a list or one comma-separated text.
        candidates: instead of `captions`: a list of captions, or a dict id → caption.
        references: with `candidates`: a list of lists, or a dict id → list. With a path as `captions`: their file.
        workers: number of processes (see `capmeter.metrics.workers`); worthwhile for long runs.
        settings: device, precision, threads, cache: `capmeter.Settings(device="cuda")`; None: from the environment.

    Returns:
        `Results`, by metric name: `results["cider-d"].score`, `.items[id]`, `.parts`, `.notes`, `.signature`; of
        several systems a dict of them by name.

    Raises:
        InputError: captions without references (the first five ids are named), unknown metrics, wrong shapes.

    >>> results = score(candidates=["a dog runs"], references=[["a dog runs", "a dog is running"]], metrics="rouge-l")
    >>> results["rouge-l"].score, results["rouge-l"].items["0"]
    (1.0, 1.0)
    """
    _check_no_texts(captions, metrics)
    chosen = parse_list(metrics)
    if _is_systems(captions):
        if candidates is not None:
            raise InputError("expected captions, or candidates= with references=, and not both")
        return {
            str(name): score(each, chosen, references=references, workers=workers, settings=settings)
            for name, each in captions.items()
        }
    if (captions is None) == (candidates is None):
        raise InputError("expected either captions, or candidates= with references=, but not both")
    on_missing: Any = "error" if needed("references", chosen) else "keep"
    if captions is None:
        source: Source = load(candidates, references, on_missing=on_missing)
    elif isinstance(captions, CaptionSet) or _is_stream(captions):
        if references is not None:
            raise InputError("these captions already have references; leave references= out, or pass it to load()")
        source = captions
    else:
        source = load(captions, references, on_missing=on_missing)
    return evaluate(source, chosen, workers=workers, settings=settings)


def _check_no_texts(captions: Any, metrics: Any) -> None:
    """An `InputError` for `score("a dog", "a dog runs")`, which says how captions at hand are given."""
    if not isinstance(captions, str) or not captions.strip() or Path(captions).exists():
        return
    if " " in captions.strip() or (isinstance(metrics, str) and " " in metrics.strip() and "(" not in metrics):
        if os.path.sep in captions or captions.endswith((".json", ".jsonl", ".csv", ".tsv", ".parquet", ".gz")):
            return  # a file that is not there, and is told so
        raise InputError(
            f"{captions!r:.80} is no file; to score captions at hand, give lists: "
            'score(candidates=["a dog"], references=[["a dog runs", "the dog"]], metrics="cider-d")'
        )


def _is_systems(captions: Any) -> bool:
    """Whether these are systems by name, and not captions by id."""
    return (
        isinstance(captions, Mapping)
        and len(captions) > 0
        and all(isinstance(each, CaptionSet | os.PathLike) or _is_stream(each) for each in captions.values())
    )


def _is_stream(captions: Any) -> bool:
    return not isinstance(captions, str | Sequence | Mapping) and hasattr(captions, "__iter__")


def evaluate(
    source: Source,
    metrics: Sequence[Metric],
    *,
    corpus: Source | None = None,
    workers: int | Executor = 1,
    settings: Settings | None = None,
) -> Results:
    """The scores of these metrics on this source.

    Corpus states (document frequencies …) are collected from `corpus` if given, else from the source itself: captions
    that occur several times with the same references (in a study of perturbed captions) must not count double.
    `workers` is the number of processes, or an executor.
    """
    evaluation = Evaluation(tuple(metrics), settings or Settings())
    if isinstance(source, CaptionSet | CaptionStream):
        check_needs(source, evaluation.order)
    return evaluation.collected(source if corpus is None else corpus, workers).run(source, workers)


def _length(source: Source) -> int | None:
    """The number of captions, if the source knows it."""
    return len(source) if isinstance(source, CaptionSet | CaptionStream) else None
