"""Which captions the page explains, and their evidence in compact form.

Each word is stored once in a vocabulary, each word sequence and scene graph once in a table; links and marks are flat
lists of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.progress import task
from capmeter.evaluation.evidence import Contributions, Evidence, RegionEvidence, SentenceVerdict
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import Evaluation
from capmeter.report.explain import explain_rows, format_tuple
from capmeter.text.scene_graphs.graph import SceneEvidence, SceneGraph

MAX_CHARACTERS = 4000
"""Characters of a caption or reference that is explained: nobody reads every link of a longer one."""

MAX_TUPLES = 100
"""Number of objects, of attributes and of relations of a scene graph that are shown at most."""

MAX_REGIONS = 12
"""Number of regions of an image that are shown at most: those with the largest weights."""

Graph = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
Row = tuple[str, int]
"""A system and the position of one of its captions."""


class EvidenceTable:
    """Evidence in the form that the page's script reads."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._sequences: dict[tuple[int, ...], int] = {}
        self._kinds: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._graphs: dict[Graph, int] = {}
        self._records: list[list[Any]] = []

    def add(self, metric: int, row: int, evidence: Evidence) -> None:
        """Adds the evidence of metric number `metric` for the caption in row `row` of the page."""
        self._records.append([metric, row, *self._record(evidence)])

    def _record(self, evidence: Evidence) -> list[Any]:
        """The sequences, links, marks and facts; where there are some, the scene, the contributions, the members, the
        regions and the sentences.
        """
        links: list[float] = []
        for link in evidence.links:
            kind_index = self._kinds.setdefault(link.kind, len(self._kinds))
            links += [*link.candidate, link.reference_index, *link.reference, kind_index, _short(link.weight)]
        marks: list[float] = []
        for mark in evidence.marks:
            kind_index = self._marks.setdefault(mark.kind, len(self._marks))
            side_index = -1 if mark.side == "candidate" or mark.reference_index is None else mark.reference_index
            marks += [side_index, mark.start, mark.end, kind_index, _short(mark.weight)]
        facts = {name: value if isinstance(value, str) else _short(value) for name, value in evidence.facts.items()}
        sequences = [self._sequence(tokens) for tokens in (evidence.candidate, *evidence.references)]
        optional_parts: list[Any] = [None if evidence.scene is None else self._scene(evidence.scene)]
        optional_parts.append(None if evidence.contributions is None else _contributions(evidence.contributions))
        optional_parts.append([[name, self._record(each)] for name, each in evidence.members.items()] or None)
        optional_parts.append(None if evidence.regions is None else self._regions(evidence.regions))
        optional_parts.append([self._sentence(each) for each in evidence.sentences] or None)
        while optional_parts and optional_parts[-1] is None:
            optional_parts.pop()
        return [sequences[0], sequences[1:], links, marks, facts, *optional_parts]

    def _sequence(self, tokens: Sequence[str]) -> int:
        word_numbers = tuple(map(self._word, tokens))
        return self._sequences.setdefault(word_numbers, len(self._sequences))

    def _scene(self, scene: SceneEvidence) -> list[Any]:
        """For both sides the graph's number, which tuples the other side has (flags), and what is nearest to the rest.

        The nearest ones are pairs: a tuple's position, the number of the words.
        """
        sides = []
        for side, graph in (("candidate", scene.candidate), ("reference", scene.reference)):
            selected = _select_tuples(graph)
            tuples = [each for each in scene.tuples if each.side == side]
            shown_tuples = [tuples[k] for kind in selected for k in kind]
            nearest = [
                number
                for position, each in enumerate(shown_tuples)
                if each.nearest is not None
                for number in (position, self._word(format_tuple(each.nearest)))
            ]
            sides += [self._graph(graph, selected), "".join(str(int(each.matched)) for each in shown_tuples), nearest]
        return sides

    def _sentence(self, sentence: SentenceVerdict) -> list[Any]:
        """Side (as of marks), place, verdict, score; then side and place of each sentence that judged it."""
        judged_by = [
            number for index, *place in sentence.judged_by for number in (-1 if index is None else index, *place)
        ]
        side_index = -1 if sentence.reference_index is None else sentence.reference_index
        verdict_index = self._marks.setdefault(sentence.verdict, len(self._marks))
        return [side_index, sentence.start, sentence.end, verdict_index, _short(sentence.score), judged_by]

    def _regions(self, regions: RegionEvidence) -> list[Any]:
        """Of the heaviest regions: boxes in thousandths of the image, flat; weights; the labels' words."""
        heaviest = regions.heaviest(MAX_REGIONS)
        boxes = [round(1000 * number) for _, box, _ in heaviest for number in box]
        return [boxes, [_short(weight) for _, _, weight in heaviest], [self._word(label) for label, _, _ in heaviest]]

    def _graph(self, graph: SceneGraph, selected: Sequence[Sequence[int]]) -> int:
        """The number of a graph: objects' words; (owner, words) flat; (subject, words, object) flat; omitted tuples."""
        objects, attributes, relations = selected
        first_attribute = len(graph.objects)
        first_relation = first_attribute + len(graph.attributes)
        graph_entry: Graph = (
            tuple(self._word(str(graph.objects[k])) for k in objects),
            tuple(
                number
                for owner, words in (graph.attributes[k - first_attribute] for k in attributes)
                for number in (owner, self._word(str(words)))
            ),
            tuple(
                number
                for subject, words, other in (graph.relations[k - first_relation] for k in relations)
                for number in (subject, self._word(str(words)), other)
            ),
            len(graph) - sum(map(len, selected)),
        )
        return self._graphs.setdefault(graph_entry, len(self._graphs))

    def _word(self, word: str) -> int:
        return self._words.setdefault(word, len(self._words))

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "words": list(self._words),
            "sequences": [list(numbers) for numbers in self._sequences],
            "graphs": [list(graph) for graph in self._graphs],
            "kinds": list(self._kinds),
            "marks": list(self._marks),
            "records": self._records,
        }


def _select_tuples(graph: SceneGraph) -> tuple[list[int], list[int], list[int]]:
    """The tuples of a graph that are shown, by kind: the first `MAX_TUPLES` of each."""
    objects = list(range(min(len(graph.objects), MAX_TUPLES)))
    first = len(graph.objects)
    attributes = [first + k for k, (owner, _) in enumerate(graph.attributes) if owner < MAX_TUPLES][:MAX_TUPLES]
    first += len(graph.attributes)
    relations = [first + k for k, (a, _, b) in enumerate(graph.relations) if max(a, b) < MAX_TUPLES][:MAX_TUPLES]
    return objects, attributes, relations


def _contributions(contributions: Contributions) -> list[Any]:
    """The base in words, its logit, the caption's logit, then name, value, the base's value, contribution of each."""
    inputs = [[input_name, *map(_short, input_numbers)] for input_name, *input_numbers in contributions.inputs]
    return [contributions.base, _short(contributions.start), _short(contributions.logit), inputs]


def _short(value: float) -> float:
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def extremes(systems: Mapping[str, Results], most: int) -> list[Row]:
    """At most `most` captions to explain: the worst and the best by each metric in each system, the most extreme
    of all of them before the second most extreme. Captions that are not `is_explainable` are skipped.
    """
    is_eligible = {system: is_explainable(results) for system, results in systems.items()}
    caption_orders = [
        (system, caption_order[is_eligible[system][caption_order]])
        for system, results in systems.items()
        for scores in results.values()
        for caption_order in _both_ends(scores.items.array)
    ]

    def turns() -> Iterator[Row]:
        for k in count():
            turn = [
                (system, int(caption_order[k])) for system, caption_order in caption_orders if k < len(caption_order)
            ]
            if not turn:
                return
            yield from turn

    return list(islice(dict.fromkeys(islice(turns(), 50 * most)), most)) if caption_orders else []


def is_explainable(results: Results) -> npt.NDArray[np.bool_]:
    """For each caption whether it and its references are short enough to be explained on a page."""
    captions = results.captions
    if captions is None:
        return np.ones(len(results.ids.names), np.bool_)
    is_short = np.array([len(sentence) <= MAX_CHARACTERS for sentence in captions.pool.sentences], np.bool_)
    references = [bool(is_short[captions.references[row]].all()) for row in range(len(captions))]
    candidates: npt.NDArray[np.bool_] = is_short[captions.candidates]
    return candidates & np.array(references, np.bool_)


def _both_ends(values: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    ascending_order = np.argsort(values, kind="stable")
    yield ascending_order
    yield ascending_order[::-1]


def collect_evidence(
    systems: Mapping[str, Results], rows: Sequence[Row], metrics: Sequence[str]
) -> tuple[dict[Row, list[tuple[int, Evidence]]], list[str]]:
    """The evidence for these captions with its metric's number, and a sentence for each metric without evidence."""
    evidence: dict[Row, list[tuple[int, Evidence]]] = {row: [] for row in rows}
    notes: dict[str, None] = {}
    with task("explaining", total=len(systems) * len(metrics)) as advance:
        for system, results in systems.items():
            positions = [position for name, position in rows if name == system]
            evaluation = Evaluation(())
            for metric_index, name in enumerate(metrics):
                advance(1)
                if not positions or results.captions is None or name not in set(results):
                    continue
                metric = results[name].metric
                if metric is None or not metric.can_explain:
                    notes[f"{name} has no explanations."] = None
                    continue
                try:
                    evaluation = replace(evaluation, metrics=(metric,)).with_collected_states(results.captions)
                    metric_evidence = explain_rows(results.captions, metric, positions, evaluation, results[name])
                except (MissingBackend, AssetError, InputError) as problem:
                    notes[f"{name} could not be explained: {problem}"] = None
                    continue
                for position, caption_evidence in zip(positions, metric_evidence, strict=True):
                    evidence[system, position].append((metric_index, caption_evidence))
    return evidence, list(notes)
