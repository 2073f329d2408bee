"""The LCEval study: the paper's tables, parts run on small files, networks of a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.common.study_table import part_table, part_to_dict
from capmeter_research.papers.lceval.checkpoint import build_checkpoint
from capmeter_research.papers.lceval.experiments.study import (
    COEFFICIENTS,
    PARTS,
    Networks,
    Study,
    coefficients,
    paper_table,
    run_part,
)
from capmeter_research.papers.lceval.features import FEATURES, select_features
from capmeter_research.papers.lceval.feed_forward import DenseLayer, FeedForwardNetwork
from capmeter_research.papers.lceval.lceval import LcEval
from support.shared_files import read_rows

from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Metric
from capmeter.judgments.prepared import JudgedPairs, Points


def test_the_papers_means_are_those_of_its_columns() -> None:
    for table, tolerance in (("pascal50s", 0.16), ("abstract50s", 0.16), ("wmt16", 0.0052)):
        for name, row in paper_table(f"lceval/{table}").items():
            columns = [value for column, value in row.items() if column != "mean"]
            if (name, row["mean"]) != ("lceval-sem-syn", 0.300):  # .282 by its columns, as printed
                assert row["mean"] == pytest.approx(np.mean(columns), abs=tolerance), name
    main, groups = paper_table("lceval/main"), paper_table("lceval/groups")
    architectures = paper_table("lceval/architectures")
    assert main["lceval"]["kendall"] == groups["lceval"]["kendall"] == architectures["lceval"]["2"]
    assert len(paper_table("lceval/distractions")) == len(paper_table("lceval/pascal50s")) == 16


def network(folder: Path, name: str, features: tuple[str, ...], *, pool: str = "max") -> None:
    """A linear network that adds its features."""
    weights = np.stack([-np.ones(len(features)), np.ones(len(features))], axis=1)
    made = FeedForwardNetwork((DenseLayer(weights, np.zeros(2)),)).to_weights()
    build_checkpoint(made, features, pool=pool, vectors="minilm", baseline=np.zeros(len(features))).save(folder / name)


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    nouns, rows = ["dog", "cat", "bird", "horse"], []
    for k in range(24):
        noun, other = nouns[k % 4], nouns[(k + 1) % 4]
        references = [f"a {noun} runs in the park {k}", f"the brown {noun} is running", f"a {noun} on grass"]
        for index, (message, score) in enumerate(
            ((references[0], 5), (f"a {noun} in the park", 3 + k % 2), (f"two {other}s on a table", 1 + k % 2))
        ):
            rows.append(
                {
                    "image_id": f"{k}.jpg",
                    "candidate": message,
                    "references": references,
                    "human": [score],
                    "candidate_index": index,
                    "candidate_in_references": index == 0,
                }
            )
    path = tmp_path / "composite.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def rows_of(part: Any) -> dict[str, dict[str, float]]:
    return {row.name: dict(row.found) for row in part.rows}


def test_hwcm_by_kind_and_length(rated: Path) -> None:
    part = run_part("hwcm", Study(rated, sample=True))
    result = rows_of(part)
    assert list(result) == ["1", "2", "3", "4"] and all(
        set(row) == {"word", "lemma", "tag", "dep"} for row in result.values()
    )
    assert result["1"]["word"] > 0.5
    table = part_table(part)
    assert "(0.292)" in table.rows[0][4] and "Sharif et al. 2019" in table.note
    assert part_to_dict(part)["rows"][0]["published"] == {"dep": 0.292}


def test_coefficients_of_a_metric_that_says_nothing_are_zero(rated: Path) -> None:
    points = Study(rated, sample=True).points("composite", "machines")
    assert coefficients(points, np.ones(len(points.captions))) == dict.fromkeys(COEFFICIENTS, 0.0)
    exact = coefficients(points, points.human)
    assert exact == pytest.approx(dict.fromkeys(COEFFICIENTS, 1.0))


def test_networks_come_from_a_folder_or_are_reported_missing(tmp_path: Path) -> None:
    names = select_features("lexical")
    network(tmp_path, "lceval-lexical", names)
    network(tmp_path, "lceval-against-mrnn", FEATURES)
    networks = Networks(tmp_path)
    metric = networks.metric("lceval-lexical")
    assert metric == LcEval(features=names, checkpoint=str(tmp_path / "lceval-lexical"))
    assert networks.against() == ["lceval-against-mrnn"]
    result, notes = networks.metrics(["rouge-l", "lceval-lexical", "lceval-against-nobody"])
    assert list(result) == ["rouge-l", "lceval-lexical"]
    assert notes == ("not trained: lceval-against-nobody (capmeter train lceval --network study)",)


def test_a_pair_part_has_every_category(tmp_path: Path) -> None:
    pairs = tmp_path / "pascal.jsonl"
    rows = [
        {
            "image_id": f"{k}.jpg",
            "category": ("HC", "HI", "HM", "MM")[k % 4],
            "candidate_a": "a dog runs in the park",
            "candidate_b": f"a cat sleeps {k}",
            "references": ["a dog is running in a park", "the dog runs", "a brown dog", "dogs run", "the park"],
            "consensus_winner": "a",
            "human": [1] * 11,
        }
        for k in range(16)
    ]
    pairs.write_text("\n".join(map(json.dumps, rows)))
    network(tmp_path, "lceval-syntactic", select_features("syntactic"))
    study = Study(pairs, Networks(tmp_path), sample=True)
    ratings = study.pairs("pascal50s", "pascal-consensus", "draw-1")
    assert set(ratings.captions.references.lengths.tolist()) == {1}
    metrics, _ = study.networks.metrics(["rouge-l", "lceval-syntactic"])
    scores = study.scores(ratings, metrics)
    assert all(len(values) == 32 for values in scores.values())
    assert (scores["rouge-l"][::2] > scores["rouge-l"][1::2]).sum() >= 12  # the others were given "the park"


@pytest.mark.parametrize("part", ["pascal", "references", "machines-pairs"])
def test_the_direct_votes_judge_pascal_pairs(shared: Path, part: str) -> None:
    """Where votes and consensus label disagree, the votes decide: scores that say what the votes say are all right."""
    data = shared / "data" / "samples" / "pascal50s.jsonl.gz"
    rows = read_rows(data)
    votes = np.sign([sum(row["human"]) for row in rows])
    assert (votes != [{"a": 1, "b": -1}[row["consensus_winner"]] for row in rows]).sum() > 10

    class VotingStudy(Study):
        """Every metric's score of a caption is 1 if the votes prefer it, else 0."""

        def scores(self, judgments: Points | JudgedPairs, metrics: Mapping[str, Metric]) -> dict[str, Floats]:
            preferred = np.stack([votes > 0, votes < 0], axis=1).ravel().astype(float)
            return dict.fromkeys(metrics, preferred)

    result = rows_of(PARTS[part](VotingStudy(data, sample=True)))
    assert result and all(value == 100 for columns in result.values() for value in columns.values())


def test_a_wrong_file_is_named(rated: Path) -> None:
    with pytest.raises(InputError):
        PARTS["pascal"](Study(rated))
