"""Which captions the page explains, and their evidence in compact form.

Each word is stored once in a vocabulary, each word sequence and scene graph once in a table; links and marks are flat
lists of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import AssetError, InputError, MissingBackend
from capmeter.metrics.contributions import Contributions
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.evidence import Evidence, RegionEvidence
from capmeter.metrics.scene_evidence import SceneEvidence
from capmeter.metrics.scores import Results
from capmeter.progress import task
from capmeter.report.explain import evidence, phrase
from capmeter.text.scene_graphs import SceneGraph

LONGEST = 2000
"""Characters of a caption or reference that is explained: nobody reads every link of a longer one."""

DRAWN = 100
"""How many objects, attributes and relations of a scene graph are drawn at most."""

ATTENDED = 12
"""How many regions of a picture are drawn: those that counted most."""

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
        self.found: list[list[Any]] = []

    def add(self, metric: int, row: int, found: Evidence) -> None:
        """Adds the evidence of metric number `metric` for the caption in row `row` of the page."""
        self.found.append([metric, row, *self._record(found)])

    def _record(self, found: Evidence) -> list[Any]:
        """The sequences, links, marks and facts; where there are some, the scene, the contributions and the members."""
        links: list[float] = []
        for link in found.links:
            kind = self._kinds.setdefault(link.kind, len(self._kinds))
            links += [*link.candidate, link.reference_index, *link.reference, kind, _short(link.weight)]
        marks: list[float] = []
        for mark in found.marks:
            kind = self._marks.setdefault(mark.kind, len(self._marks))
            side = -1 if mark.side == "candidate" or mark.reference_index is None else mark.reference_index
            marks += [side, mark.start, mark.end, kind, _short(mark.weight)]
        facts = {name: value if isinstance(value, str) else _short(value) for name, value in found.facts.items()}
        sequences = [self._sequence(tokens) for tokens in (found.candidate, *found.references)]
        further: list[Any] = [None if found.scene is None else self._scene(found.scene)]
        further.append(None if found.contributions is None else _contributions(found.contributions))
        further.append([[name, self._record(each)] for name, each in found.members.items()] or None)
        further.append(None if found.regions is None else self._regions(found.regions))
        while further and further[-1] is None:
            further.pop()
        return [sequences[0], sequences[1:], links, marks, facts, *further]

    def _sequence(self, tokens: Sequence[str]) -> int:
        numbers = tuple(map(self._word, tokens))
        return self._sequences.setdefault(numbers, len(self._sequences))

    def _scene(self, scene: SceneEvidence) -> list[Any]:
        """For both sides the graph's number, which tuples the other side has (flags), and what is nearest to the rest.

        The nearest ones are pairs: a tuple's position, the number of the words.
        """
        sides = []
        for side, graph in (("candidate", scene.candidate), ("reference", scene.reference)):
            chosen = _drawn(graph)
            tuples = [each for each in scene.tuples if each.side == side]
            shown = [tuples[k] for kind in chosen for k in kind]
            nearest = [
                number
                for place, each in enumerate(shown)
                if each.nearest is not None
                for number in (place, self._word(phrase(each.nearest)))
            ]
            sides += [self._graph(graph, chosen), "".join(str(int(each.matched)) for each in shown), nearest]
        return sides

    def _regions(self, regions: RegionEvidence) -> list[Any]:
        """Of the heaviest regions: boxes in thousandths of the picture, flat; weights; the labels' words."""
        heaviest = regions.heaviest(ATTENDED)
        boxes = [round(1000 * number) for _, box, _ in heaviest for number in box]
        return [boxes, [_short(weight) for _, _, weight in heaviest], [self._word(label) for label, _, _ in heaviest]]

    def _graph(self, graph: SceneGraph, chosen: Sequence[Sequence[int]]) -> int:
        """The number of a graph: objects' words; (owner, words) flat; (subject, words, object) flat; how many more."""
        objects, attributes, relations = chosen
        first = len(graph.objects)
        second = first + len(graph.attributes)
        found: Graph = (
            tuple(self._word(str(graph.objects[k])) for k in objects),
            tuple(
                number
                for owner, words in (graph.attributes[k - first] for k in attributes)
                for number in (owner, self._word(str(words)))
            ),
            tuple(
                number
                for subject, words, thing in (graph.relations[k - second] for k in relations)
                for number in (subject, self._word(str(words)), thing)
            ),
            len(graph) - sum(map(len, chosen)),
        )
        return self._graphs.setdefault(found, len(self._graphs))

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
            "found": self.found,
        }


def _drawn(graph: SceneGraph) -> tuple[list[int], list[int], list[int]]:
    """The tuples of a graph that are drawn, by kind: the first `DRAWN` of each."""
    objects = list(range(min(len(graph.objects), DRAWN)))
    first = len(graph.objects)
    attributes = [first + k for k, (owner, _) in enumerate(graph.attributes) if owner < DRAWN][:DRAWN]
    first += len(graph.attributes)
    relations = [first + k for k, (a, _, b) in enumerate(graph.relations) if max(a, b) < DRAWN][:DRAWN]
    return objects, attributes, relations


def _contributions(found: Contributions) -> list[Any]:
    """The base in words, its logit, the caption's logit, then name, value, the base's value, contribution of each."""
    inputs = [[name, *map(_short, numbers)] for name, *numbers in found.inputs]
    return [found.base, _short(found.start), _short(found.logit), inputs]


def _short(value: float) -> float:
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def extremes(systems: Mapping[str, Results], most: int) -> list[Row]:
    """At most `most` captions to explain: the worst and the best by each metric in each system, the most extreme
    of all of them before the second most extreme. Captions that are not `explainable` are skipped.
    """
    fit = {system: explainable(results) for system, results in systems.items()}
    orders = [
        (system, order[fit[system][order]])
        for system, results in systems.items()
        for scores in results.values()
        for order in _both_ends(scores.items.array)
    ]

    def turns() -> Iterator[Row]:
        for k in count():
            turn = [(system, int(order[k])) for system, order in orders if k < len(order)]
            if not turn:
                return
            yield from turn

    return list(islice(dict.fromkeys(islice(turns(), 50 * most)), most)) if orders else []


def explainable(results: Results) -> npt.NDArray[np.bool_]:
    """For each caption whether it and its references are short enough to be explained on a page."""
    captions = results.captions
    if captions is None:
        return np.ones(len(results.ids.names), np.bool_)
    short = np.array([len(sentence) <= LONGEST for sentence in captions.pool.sentences], np.bool_)
    references = [bool(short[captions.references[row]].all()) for row in range(len(captions))]
    own: npt.NDArray[np.bool_] = short[captions.candidates]
    return own & np.array(references, np.bool_)


def _both_ends(values: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    up = np.argsort(values, kind="stable")
    yield up
    yield up[::-1]


def gather(
    systems: Mapping[str, Results], rows: Sequence[Row], metrics: Sequence[str]
) -> tuple[dict[Row, list[tuple[int, Evidence]]], list[str]]:
    """The evidence for these captions from each metric that has some; and a sentence for each metric without."""
    found: dict[Row, list[tuple[int, Evidence]]] = {row: [] for row in rows}
    silent: dict[str, None] = {}
    with task("explaining", total=len(systems) * len(metrics)) as advance:
        for system, results in systems.items():
            mine = [row for name, row in rows if name == system]
            known = Evaluation(())
            for number, name in enumerate(metrics):
                advance(1)
                if not mine or results.captions is None or name not in set(results):
                    continue
                metric = results[name].metric
                if metric is None or not metric.explains:
                    silent[f"{name} has no explanations."] = None
                    continue
                try:
                    known = replace(known, metrics=(metric,)).collected(results.captions)
                    each = evidence(results.captions, metric, mine, known)
                except (MissingBackend, AssetError, InputError) as problem:
                    silent[f"{name} could not be explained: {problem}"] = None
                    continue
                for row, one in zip(mine, each, strict=True):
                    found[system, row].append((number, one))
    return found, list(silent)


def flatten(found: Mapping[Row, Sequence[tuple[int, Evidence]]]) -> Iterator[tuple[Row, int, Evidence]]:
    """The evidence one by one, in the order of the captions."""
    return chain.from_iterable(((row, number, one) for number, one in each) for row, each in found.items())
