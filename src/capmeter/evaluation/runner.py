"""The only place where metrics are run on captions: part by part, corpus states first, then every metric.

An `Evaluation` holds metrics, settings, and the corpus states collected so far. It works on any part of the captions,
in this process or another, never on all at once: `collect(part)` returns the part's contribution to the pending corpus
states, `with_states` the evaluation with these states, `measure(part)` the rows of every metric.

>>> from capmeter.captions.load import load
>>> from capmeter.evaluation.registry import parse
>>> captions = load(["a dog runs", "two cats"], [["a dog is running"], ["two cats sleep"]])
>>> parts = [captions.select([0]), captions.select([1])]
>>> evaluation = Evaluation((parse("cider-d"), parse("rouge-l")))
>>> while evaluation.pending_states:
...     evaluation = evaluation.with_states(evaluation.collect(parts[0]) + evaluation.collect(parts[1]))
>>> evaluation.measure(parts[1])[parse("rouge-l")].values.shape
(1, 3)

A source of captions is a `CaptionSet`, or a list of them. Files that do not fit into memory are scored by
`capmeter.evaluation.part_scores`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.captions.reference_cache import enable_reference_cache
from capmeter.captions.text_checks import ReferenceFit, check_captions, check_texts, find_ids, is_blank
from capmeter.captions.words import is_unsegmented
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import (
    ABSENT,
    EMPTY,
    UNUSED,
    CorpusState,
    Measurement,
    Metric,
    RunContext,
    count_notes,
    merge_notes,
    note_captions,
)
from capmeter.evaluation.pools import WorkerPool, make_pool, worker_settings
from capmeter.evaluation.registry import METRICS, check_measurement, check_needs, is_needed, parse_list, with_required
from capmeter.evaluation.results import Ids, Results, Scores

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence

Source = CaptionSet | Iterable[CaptionSet]
UNSPLIT = "no blanks between words, which tokenizer=ptb does not split (tokenizer=char does; see docs/languages.md)"
"""The note on captions without spaces between words that are scored as if they were English."""
_MISMATCH = (
    "the references seem to belong to other images, to be in another order, or to be joined into one text or divided "
    "into words (`capmeter validate` says why); check which field is the image id"
)
_SAMPLE = 200  # captions that are compared with their references first


@dataclass(frozen=True, eq=False)
class CorpusStates:
    """The states of some captions; the sum of two is the states of the captions of both."""

    states: Mapping[CorpusState, Any] = field(default_factory=dict)

    def __add__(self, other: CorpusStates) -> CorpusStates:
        return CorpusStates(
            {corpus_state: state + other.states[corpus_state] for corpus_state, state in self.states.items()}
        )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics that are run on captions.

    Args:
        metrics: the metrics; those that they require are run too.
        settings: device, precision, threads and cache of the run.
        states: the corpus states collected so far.
    """

    metrics: tuple[Metric, ...]
    settings: Settings = field(default_factory=Settings)
    states: Mapping[CorpusState, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.settings, Settings):
            raise InputError(f"settings is {describe(self.settings)}, expected capmeter.Settings(device=…)")

    @cached_property
    def ordered_metrics(self) -> tuple[Metric, ...]:
        """The metrics and all those that they require, without duplicates, required metrics first."""
        return with_required(self.metrics)

    @cached_property
    def pending_states(self) -> tuple[CorpusState, ...]:
        """The corpus states to collect next: all that are missing and do not depend on others that are missing."""
        pending: dict[CorpusState, None] = {}

        def is_ready(metric: Metric) -> bool:
            """Whether no state that this metric needs is missing; those that can be collected are added."""
            ready = [is_ready(each) for each in metric.required_metrics()]  # a list: all are visited
            corpus_state = metric.corpus_state()
            if corpus_state is None or corpus_state in self.states:
                return all(ready)
            kind_ready = [is_ready(each) for each in corpus_state.required_metrics()]
            if all(kind_ready):
                pending[corpus_state] = None
            return False

        for metric in self.metrics:
            is_ready(metric)
        return tuple(pending)

    def collect(self, part: CaptionSet) -> CorpusStates:
        """Collects the pending states of one part; their sum over all parts goes to `with_states`."""
        ordered_metrics = with_required(
            [metric for corpus_state in self.pending_states for metric in corpus_state.required_metrics()]
        )
        measurements = self._measure_in_order(part, ordered_metrics)
        states = {
            each: each.collect(part, self._context(None, each.required_metrics(), measurements))
            for each in self.pending_states
        }
        return CorpusStates(states)

    def collect_all(self, source: Source, workers: int | WorkerPool = 1) -> CorpusStates:
        """Collects the pending states of a whole source."""
        states: Iterator[CorpusStates] = self._run_parts("_collect_part", source, workers, "collecting")
        return reduce(add, states)

    def with_states(self, states: CorpusStates) -> Evaluation:
        """The evaluation with these states added."""
        return replace(self, states={**self.states, **states.states})

    def with_collected_states(self, source: Source, workers: int | WorkerPool = 1) -> Evaluation:
        """The evaluation with all corpus states that its metrics need, collected from this source."""
        evaluation = self
        while evaluation.pending_states:
            evaluation = evaluation.with_states(evaluation.collect_all(source, workers))
        return evaluation

    def measure(self, part: CaptionSet) -> dict[Metric, Measurement]:
        """The rows and notes of each metric and of those that it requires; no state may be pending."""
        if self.pending_states:
            pending = ", ".join(map(str, self.pending_states))
            raise RuntimeError(f"{pending} must be collected before captions are measured")
        return self._measure_in_order(part, self.ordered_metrics)

    def explain(self, part: CaptionSet) -> dict[Metric, list[Evidence]]:
        """Each metric's evidence for every caption; an `InputError` if the captions lack what a metric needs."""
        check_needs(part, self.metrics)
        ordered_metrics = with_required([required for metric in self.metrics for required in metric.required_metrics()])
        measurements = self._measure_in_order(part, ordered_metrics)
        return {metric: metric.explain(part, self.context(metric, measurements)) for metric in self.metrics}

    def context(self, metric: Metric, measurements: Mapping[Metric, Measurement] | None = None) -> RunContext:
        """The context of this metric for a part, from the measurements of the required metrics on it."""
        corpus_state = metric.corpus_state()
        state = None if corpus_state is None or not corpus_state.AFFECTS_SCORES else self.states[corpus_state]
        return self._context(state, metric.required_metrics(), measurements)

    def signature(self, metric: Metric, adjustments: Mapping[str, str] | None = None) -> str:
        """Everything that affects the score in one line: name, parameters, facts, changed texts, plug-ins, version."""
        facts = {fact_name: text.strip('"') for fact_name, text in metric.parameter_texts().items()}
        facts |= metric.signature_facts(self.context(metric)) | dict(adjustments or {})
        packages = dict.fromkeys(METRICS.package_of(each) for each in with_required([metric]))
        if plugins := "+".join(filter(None, packages)):
            facts["plugin"] = plugins
        fact_texts = (f"{fact_name}:{fact_value}" for fact_name, fact_value in facts.items())
        return "|".join([metric.name, *fact_texts, f"capmeter:{__version__}"])

    def run(self, source: Source, workers: int | WorkerPool = 1, *, is_whole: bool = True) -> Results:
        """Scores a source; no state may be pending.

        Args:
            source: a `CaptionSet`, or a list of them.
            workers: the number of processes, or a pool.
            is_whole: whether these are all captions of the run; of some, none need have a score (of a judge).

        Raises:
            InputError: there are no captions, or they lack what a metric needs.
            MetricError: a metric returned something else than finite numbers in the declared shape.
        """
        captions = source if isinstance(source, CaptionSet) else None
        parts: list[_MeasuredPart] = list(self._run_parts("_measure_part", source, workers, "scoring"))
        ids = Ids([id for part in parts for id in part.ids], [id for part in parts for id in part.image_ids])
        sets: Any = source if captions is None else [captions]
        notes = merge_notes([*(part.notes for part in parts), getattr(source, "notes", {}), *map(_note_mismatch, sets)])
        adjustments, scores = getattr(source, "adjustments", {}), []
        for metric in self.metrics:
            measurements = [part.measurements[metric] for part in parts]
            values = np.concatenate([measurement.values for measurement in measurements])
            absent = {ABSENT: notes.get(UNUSED, [])} if metric.counts_absent else {}
            metric_notes = merge_notes([*(measurement.notes for measurement in measurements), absent])
            if 2 * len(metric_notes.get(UNSPLIT, ())) <= len(values):
                metric_notes.pop(UNSPLIT, None)
            if is_whole:
                metric.check_sums(values.sum(axis=0), len(values), count_notes(metric_notes))
            metric_scores = Scores.from_rows(metric, ids, values, metric_notes, self.signature(metric, adjustments))
            answers = {id: answer for measurement in measurements for id, answer in measurement.answers.items()}
            scores.append(replace(metric_scores, answers=answers))
        return Results(scores, ids, notes, captions=captions)

    def _measure_in_order(self, part: CaptionSet, ordered_metrics: Sequence[Metric]) -> dict[Metric, Measurement]:
        check_needs(part, ordered_metrics)
        measurements: dict[Metric, Measurement] = {}
        for metric in ordered_metrics:
            measurement = metric.measure(part, self.context(metric, measurements))
            measurements[metric] = check_measurement(metric, measurement, part.ids)
        return measurements

    def _context(
        self, state: Any, required_metrics: Sequence[Metric], measurements: Mapping[Metric, Measurement] | None
    ) -> RunContext:
        available = {} if measurements is None else {metric: measurements[metric] for metric in required_metrics}
        for each, rows in available.items():  # whose captions get scores here, part by part
            each.check_sums(rows.values.sum(axis=0), len(rows.values), count_notes(rows.notes))
        return RunContext(
            state=state,
            settings=self.settings,
            scores={each: each.from_sums(rows.values, np.ones(len(rows.values))) for each, rows in available.items()},
            measurements=available,
            required_contexts={each: self.context(each, measurements) for each in required_metrics},
        )

    def _run_parts(self, method: str, source: Source, workers: int | WorkerPool, what: str) -> Iterator[Any]:
        """What a method gives for each part of a source; an `InputError` if there is none."""
        pool, has_parts = make_pool(workers), False
        shared = replace(self, settings=worker_settings(self.settings, pool))
        with task(what, total=len(source) if isinstance(source, CaptionSet) else None) as advance:
            for part_size, outcome in pool.map(getattr(shared, method), self._parts(source, pool)):
                has_parts = True
                yield outcome
                advance(part_size)
        if not has_parts:
            raise InputError("there is no caption to score; the source is empty")

    def _collect_part(self, part: CaptionSet) -> tuple[int, CorpusStates]:
        return len(part), self.collect(part)

    def _measure_part(self, part: CaptionSet) -> tuple[int, _MeasuredPart]:
        """The number of captions; the rows and notes of the requested metrics, and the notes of the part."""
        candidates = [part.pool.sentences[k] for k in part.candidates.tolist()]
        empty_ids, unsegmented_ids = find_ids(part, is_blank), find_ids(part, is_unsegmented)
        lengths = np.array([len(text.split()) for text in candidates])
        measured = self.measure(part)
        measurements = {}
        for metric in self.metrics:
            metric_notes = {EMPTY: empty_ids, **measured[metric].notes}
            if metric.MAX_WORDS is not None:
                note = f"longer than the {metric.MAX_WORDS} words up to which {metric.name} is meaningful; for "
                note += "detailed captions use capmeter or spice"
                metric_notes |= note_captions(part, note, lengths > metric.MAX_WORDS)
            if unsegmented_ids and getattr(metric, "tokenizer", None) == "ptb":
                metric_notes[UNSPLIT] = unsegmented_ids
            measurements[metric] = replace(measured[metric], notes=metric_notes)
        text_notes = check_texts(part.ids, candidates) | check_captions(part)
        return len(part), _MeasuredPart(part.ids, part.image_ids, measurements, {**part.notes, **text_notes})

    def _parts(self, source: Source, pool: WorkerPool) -> Iterator[CaptionSet]:
        """The source in parts of the size that the metrics prefer, but at least two parts per worker."""
        pieces: Any = [source] if isinstance(source, CaptionSet) or not isinstance(source, Iterable) else source
        if iter(pieces) is pieces:
            raise InputError("captions are an iterator, which can be read only once; give a list")
        part_size = min(metric.PART_SIZE for metric in self.ordered_metrics)
        if isinstance(source, CaptionSet) and (workers := getattr(pool, "workers", 1)) > 1:
            part_size = max(1, min(part_size, -(-len(source) // (2 * workers))))
        for piece in pieces:
            if not isinstance(piece, CaptionSet):
                found = type(source).__name__ + ("" if piece is source else f" of {type(piece).__name__}")
                raise InputError(
                    f"expected caption sets, but got a {found}; read captions with capmeter.load, data frames with "
                    "capmeter.integrations.frames.read"
                )
            for part in piece.chunks(part_size) if len(piece) else ():
                if piece is source:
                    enable_reference_cache(part, self.settings)
                yield part


@dataclass(frozen=True, eq=False)
class _MeasuredPart:
    """The outcome of a run on one part."""

    ids: Sequence[str]  # (captions)
    image_ids: Sequence[str]  # (captions)
    measurements: dict[Metric, Measurement]
    notes: dict[str, list[str]]  # on the captions themselves


def _note_mismatch(captions: CaptionSet) -> dict[str, list[str]]:
    """A note with all captions, if the references cannot be theirs; a sample decides whether all are compared."""
    rows = range(0, len(captions), -(-len(captions) // _SAMPLE) or 1)
    sampled = captions if len(rows) == len(captions) else captions.select(rows)
    if not len(sampled.references.values) or ReferenceFit.measure(sampled).describe_mismatch() is None:
        return {}
    return {_MISMATCH: list(captions.ids)} if ReferenceFit.measure(captions).describe_mismatch() else {}


Systems = Mapping[str, CaptionSet] | Mapping[str, os.PathLike[str]]


@overload
def score(
    captions: Systems,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> dict[str, Results]: ...


@overload
def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ...,
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results: ...


def score(
    captions: Any = None,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    candidates: Any = None,
    references: Any = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results | dict[str, Results]:
    """Scores captions with metrics.

    Args:
        captions: a `CaptionSet` from `capmeter.load`, or a path; or several systems, as a dict name → any of these (a
            path as `pathlib.Path`, since text may be a caption).
        metrics: names or metrics, in a list or one comma-separated text.
        candidates: instead of `captions`: a list of captions, or a dict id → caption.
        references: with `candidates`: a list of lists, or a dict id → list. With a path as `captions`: their file.
        workers: number of processes; more than one pays for long runs (see `capmeter.evaluation.pools`).
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
    _refuse_text(captions, metrics)
    parsed = parse_list(metrics)
    if _is_systems(captions):
        if candidates is not None:
            raise InputError("expected captions, or candidates= with references=, and not both")
        return {
            str(system_name): score(system_captions, parsed, references=references, workers=workers, settings=settings)
            for system_name, system_captions in captions.items()
        }
    if (captions is None) == (candidates is None):
        raise InputError("expected either captions, or candidates= with references=, but not both")
    on_missing: Any = "error" if is_needed("references", parsed) else "keep"
    if captions is None:
        source: Source = load(candidates, references, on_missing=on_missing)
    elif isinstance(captions, CaptionSet) or _yields_sets(captions):
        if references is not None:
            raise InputError("these captions already have references; leave references= out, or pass it to load()")
        source = captions
    else:
        source = load(captions, references, on_missing=on_missing)
    return evaluate(source, parsed, workers=workers, settings=settings)


def _refuse_text(captions: Any, metrics: Any) -> None:
    """An `InputError` for `score("a dog", "a dog runs")`, which says how to pass captions in memory."""
    if not isinstance(captions, str) or not captions.strip() or Path(captions).exists():
        return
    if " " in captions.strip() or (isinstance(metrics, str) and " " in metrics.strip() and "(" not in metrics):
        if os.path.sep in captions or captions.endswith((".json", ".jsonl", ".csv", ".tsv", ".parquet", ".gz")):
            return  # a file that does not exist, as `load` reports
        raise InputError(
            f"{captions!r:.80} is not a file; to score captions in memory, pass lists: "
            'score(candidates=["a dog"], references=[["a dog runs", "the dog"]], metrics="cider-d")'
        )


def _yields_sets(captions: Any) -> bool:
    return not isinstance(captions, str | Sequence | Mapping) and hasattr(captions, "__iter__")


def _is_systems(captions: Any) -> bool:
    """Whether these are systems by name, and not captions by id."""
    return (
        isinstance(captions, Mapping)
        and len(captions) > 0
        and all(isinstance(each, CaptionSet | os.PathLike) or _yields_sets(each) for each in captions.values())
    )


def evaluate(
    source: Source,
    metrics: Sequence[Metric],
    *,
    corpus: Source | None = None,
    workers: int | WorkerPool = 1,
    settings: Settings | None = None,
) -> Results:
    """Runs metrics on captions.

    Args:
        source: a `CaptionSet`, or a list of them.
        metrics: the metrics.
        corpus: the captions from which corpus states (document frequencies …) are collected; by default the source.
            Captions that occur several times with the same references (perturbed captions) must not count double.
        workers: the number of processes, or a pool.
        settings: device, precision, threads, cache; None: from the environment.

    Returns:
        The scores of each metric.

    Raises:
        InputError: there are no captions, or they lack what a metric needs.
        MetricError: a metric returned something else than finite numbers in the declared shape.
    """
    evaluation = Evaluation(tuple(metrics), settings or Settings())
    if isinstance(source, CaptionSet):
        check_needs(source, evaluation.ordered_metrics)
    return evaluation.with_collected_states(source if corpus is None else corpus, workers).run(source, workers)
