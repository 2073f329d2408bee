"""The result files of the official SPICE program: read, and written in the same layout.

A file is a JSON list with an object per image: `image_id`, `scores` (by kind of tuple: f, pr, re, tp, fp, fn,
numImages; null where the references have no such tuple) and, if the program ran with `-detailed`, `test_tuples` and
`ref_tuples`, each `{"tuple": [words, …], "truth_value": matched}` with merged words joined by "/".

>>> from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets
>>> graph = build_scene_graph([("dog", "cat", "chase")], no_synsets)
>>> (row,) = [_detailed_row("7", graph, build_scene_graph([("dog",)], no_synsets))]
>>> row["scores"]["All"]["pr"], row["scores"]["Color"]["f"], row["test_tuples"][0]
(0.3333333333333333, None, {'tuple': ['dog'], 'truth_value': True})
>>> back = read_rows([row])[0]
>>> back.image_id, back.counts["all"], str(back.candidate)
('7', Counts(true=1, candidate=3, reference=1), 'dog\\ncat\\ndog -- chase --> cat')
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe_failure
from capmeter.core.output_files import write_atomic
from capmeter.text.meteor.sentence_features import java_hashes
from capmeter.text.scene_graphs.graph import (
    KINDS,
    Concept,
    ConceptTuple,
    Counts,
    SceneGraph,
    Synsets,
    graph_from_concepts,
    match,
    no_synsets,
)

_NAMES = {kind: "All" if kind == "all" else kind.capitalize() for kind in KINDS}


@dataclass(frozen=True)
class _SpiceRow:
    """One image of a result file: counts by kind of tuple, and the graphs if the file has them."""

    image_id: str
    counts: dict[str, Counts]
    candidate: SceneGraph | None = None
    reference: SceneGraph | None = None


def is_spice(value: Any) -> bool:
    """Whether JSON has the layout of the program's results."""
    first_row = value[0] if isinstance(value, list) and value else None
    return isinstance(first_row, dict) and isinstance(first_row.get("scores"), dict) and "All" in first_row["scores"]


def read_spice(path: str | Path, synsets: Synsets = no_synsets) -> list[_SpiceRow]:
    """The rows of a result file; `synsets` look up the words of its graphs, so that they can be matched again."""
    file_content = decode_json(CaptionSource.resolve(path).read_text(), str(path))
    if not is_spice(file_content):
        raise InputError(f"{path}: expected a list of objects with image_id and scores, as the SPICE program writes")
    return read_rows(file_content, synsets, str(path))


def read_rows(rows: Sequence[Any], synsets: Synsets = no_synsets, where: str = "SPICE results") -> list[_SpiceRow]:
    """The rows of a result file's JSON.

    Args:
        rows: JSON objects, one per caption.
        synsets: looks up a word's synsets.
        where: the file, for messages.
    """
    spice_rows = []
    for number, row in enumerate(rows):
        try:
            counts = {
                tuple_kind: _counts(row["scores"][name]) for tuple_kind, name in _NAMES.items() if name in row["scores"]
            }
            graphs = [
                graph_from_concepts([_tuple(tuple_entry["tuple"], synsets) for tuple_entry in row[graph_key]])
                if graph_key in row
                else None
                for graph_key in ("test_tuples", "ref_tuples")
            ]
            spice_rows.append(_SpiceRow(str(row["image_id"]), counts, *graphs))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InputError(
                f"{where}, item {number}: not a row of SPICE results ({describe_failure(problem)}); expected "
                "image_id and scores, each with tp, fp and fn"
            ) from problem
    return spice_rows


def write_spice(path: str | Path, rows: Iterable[tuple[str, SceneGraph, SceneGraph]]) -> None:
    """Writes (image id, candidate's graph, references' graph) as the program's detailed results."""
    write_atomic(path, json.dumps([_detailed_row(*row) for row in rows], indent=2) + "\n")


def _detailed_row(image_id: str, candidate: SceneGraph, reference: SceneGraph) -> dict[str, Any]:
    """One image's object. A reference tuple is true if it is the first, in sorted order, to match a candidate tuple."""
    kind_counts = match(candidate, reference).counts
    candidate_tuples, reference_tuples = (sorted(graph.tuples(), key=_order) for graph in (candidate, reference))
    first_matches = [_first(candidate_tuple, reference_tuples) for candidate_tuple in candidate_tuples]
    return {
        "image_id": image_id,
        "scores": scores_by_kind(kind_counts),
        "test_tuples": _list_tuples(
            candidate_tuples, {k for k, first in enumerate(first_matches) if first is not None}
        ),
        "ref_tuples": _list_tuples(reference_tuples, {first for first in first_matches if first is not None}),
    }


def scores_by_kind(counts: Mapping[str, Counts]) -> dict[str, dict[str, Any]]:
    """Counts by kind in the program's layout; None if the references have no tuple of a kind."""
    return {
        kind_name: _scores(counts[tuple_kind], always=tuple_kind == "all") for tuple_kind, kind_name in _NAMES.items()
    }


def _counts(score: Any) -> Counts:
    true_positives, false_positives, false_negatives = (score[count_name] for count_name in ("tp", "fp", "fn"))
    if any(type(each) is not int for each in (true_positives, false_positives, false_negatives)):
        raise ValueError(
            f"tp, fp and fn are integers, not {true_positives!r}, {false_positives!r}, {false_negatives!r}"
        )
    return Counts(true_positives, true_positives + false_positives, true_positives + false_negatives)


def _scores(counts: Counts, *, always: bool) -> dict[str, Any]:
    is_defined = always or counts.reference > 0
    return {
        "pr": counts.precision if is_defined else None,
        "re": counts.recall if is_defined else None,
        "f": counts.f if is_defined else None,
        "fn": counts.reference - counts.true,
        "numImages": 1,
        "fp": counts.candidate - counts.true,
        "tp": counts.true,
    }


def _tuple(element_texts: Any, synsets: Synsets) -> ConceptTuple:
    if (
        not isinstance(element_texts, list)
        or not 1 <= len(element_texts) <= 3
        or not all(isinstance(element_text, str) for element_text in element_texts)
    ):
        raise ValueError(f"a tuple is a list of one to three texts, not {element_texts!r:.80}")
    return tuple(Concept.from_words(element_text.split("/"), synsets) for element_text in element_texts)


def _first(candidate_tuple: ConceptTuple, reference_tuples: Sequence[ConceptTuple]) -> int | None:
    """The index of the first tuple that is similar in every element."""
    for reference_index, reference_tuple in enumerate(reference_tuples):
        if len(reference_tuple) == len(candidate_tuple) and all(
            a.similar(b) for a, b in zip(candidate_tuple, reference_tuple, strict=True)
        ):
            return reference_index
    return None


def _list_tuples(tuples: Sequence[ConceptTuple], true: set[int]) -> list[dict[str, Any]]:
    """The tuples as the program lists them: true ones first."""
    tuple_order = sorted(range(len(tuples)), key=lambda k: k not in true)
    return [
        {"tuple": ["/".join(_java_order(c.words)) for c in tuples[k]], "truth_value": k in true} for k in tuple_order
    ]


def _order(concept_tuple: ConceptTuple) -> list[tuple[list[str], list[int]]]:
    return [(_java_order(concept.words), sorted(concept.synsets)) for concept in concept_tuple]


def _java_order(words: Sequence[str]) -> list[str]:
    """Words in the order of Java's hash sets, as in the program's files."""
    if len(words) == 1:
        return list(words)
    table_size = 16
    while len(words) > 0.75 * table_size:
        table_size *= 2
    hash_codes = java_hashes(words)
    return [words[k] for k in np.argsort((hash_codes ^ hash_codes >> 16) % table_size, kind="stable")]
