"""HWCM: hand-computed chains, the released matching on given trees, properties, hostile input."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.lceval.head_chains import build_chain_table, count_chains, count_joined_chains
from capmeter_research.papers.lceval.hwcm import chain_overlap

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.text.parsing.dependency_parse import Parse

# "a small dog chases a cat": chases -> dog -> (a, small), chases -> cat -> a
PARSE = Parse(
    ("A", "small", "dog", "chases", "a", "cat", "."),
    ("DT", "JJ", "NN", "VBZ", "DT", "NN", "."),
    ("a", "small", "dog", "chase", "a", "cat", "."),
    (3, 3, 4, 0, 6, 4, 4),
    ("det", "amod", "nsubj", "root", "det", "dobj", "punct"),
)


def test_chains_are_paths_down_the_tree_without_punctuation() -> None:
    chains = count_chains(PARSE, "word")
    assert chains[("a",)] == 2  # in lower case
    assert chains[("chases", "dog", "small")] == 1
    assert chains[("chases", "cat", "a")] == 1
    assert Counter(len(chain) for chain in chains.elements()) == {1: 6, 2: 5, 3: 3}
    assert not any("." in chain for chain in chains)
    assert count_chains(PARSE, "dep")[("root", "nsubj", "det")] == 1
    assert count_chains(PARSE, "tag")[("NN", "DT")] == 2
    assert count_chains(PARSE, "lemma", 1) == Counter(
        {("a",): 2, ("small",): 1, ("dog",): 1, ("chase",): 1, ("cat",): 1}
    )


def test_released_chains_are_joined_where_texts_are_equal() -> None:
    # both nouns have the tag NN, so each NN -> DT continues each VBZ -> NN: 2 x 2 + 2 x 1
    chains = count_joined_chains(PARSE, "tag")
    assert chains[("VBZ", "NN", "DT")] == 4
    assert chains[("VBZ", "NN", "JJ")] == 2
    assert count_chains(PARSE, "tag")[("VBZ", "NN", "DT")] == 2


def _overlap(candidate: Counter[Any], references: list[Counter[Any]], pooling: Any = "max", **kind: bool) -> Any:
    names = [f"r{k}" for k in range(len(references))]
    part = CaptionSet.from_captions([Caption("0", "0", "c", tuple(names))])
    chains = dict(zip(["c", *names], [candidate, *references], strict=True))
    return chain_overlap(part, build_chain_table([chains[text] for text in part.pool.sentences]), pooling, **kind)[0]


def test_precision_of_the_candidates_chains() -> None:
    candidate = Counter({("a",): 3, ("b",): 1, ("a", "b"): 2})
    one, other = Counter({("a",): 1, ("b",): 4}), Counter({("a",): 2, ("a", "b"): 1, ("b", "c"): 5})
    assert _overlap(candidate, [one, other]).tolist() == [0.5, 0.5, 0, 0]
    assert _overlap(candidate, [one, other], "min").tolist() == [0.5, 0, 0, 0]
    assert _overlap(candidate, [one, other], "mean").tolist() == [0.5, 0.25, 0, 0]
    assert _overlap(Counter(), [one]).tolist() == [0, 0, 0, 0]


def test_matching_equals_the_released_code_on_given_trees(shared: Path) -> None:
    cases = json.loads(gzip.decompress((shared / "oracles" / "lceval_hwcm.json.gz").read_bytes()))["cases"]
    kinds = ("word", "lemma", "dep", "tag")
    compared = 0
    for case in cases:
        parses = [_first_tree(tree) for tree in (case["cand"], *case["refs"])]
        for at, kind in enumerate(kinds):
            chains = [count_joined_chains(parse, kind) for parse in parses]  # type: ignore[arg-type]
            if kind == "dep":
                lengths = Counter(len(chain) for chain in chains[0].elements())
                assert [lengths[k] for k in range(1, 5)] == case["cand_dep_chain_counts"]
            for reference, expected in zip(chains[1:], case["hwcm_per_ref"], strict=True):
                overlap = _overlap(chains[0], [reference], as_released=True)
                np.testing.assert_allclose(overlap, expected[at], rtol=0, atol=1e-12)
                compared += 4
            best = _overlap(chains[0], chains[1:], as_released=True)
            np.testing.assert_allclose(best, case["hwcm_max"][at], rtol=0, atol=1e-12)
    assert compared == 5296


def _first_tree(tree: dict[str, list[Any]]) -> Parse:
    """The words under the first root; the released code ignores the others."""
    heads = tree["head"]

    def root(k: int) -> int:
        while heads[k] >= 0:
            k = heads[k]
        return k

    first = heads.index(-1)
    indices = [k for k in range(len(heads)) if root(k) == first]
    position = {k: number for number, k in enumerate(indices, 1)}
    words, tags, lemmas = (tuple(tree[name][k] for k in indices) for name in ("text", "pos", "lemma"))
    # the released code's labels know no punctuation of ours
    labels = tuple("punctuation" if tree["dep"][k] == "punct" else tree["dep"][k] for k in indices)
    return Parse(words, tags, lemmas, tuple(position.get(heads[k], 0) for k in indices), labels)


def _score(metric: str, candidate: str, references: list[str]) -> float:
    results = capmeter.score(candidates=[candidate], references=[references], metrics=metric)
    return next(iter(results.values())).score


def test_a_caption_equal_to_a_reference_scores_one_whatever_its_case_and_full_stop() -> None:
    candidate = "a small dog chases a brown cat in the garden"
    for kind in ("word", "lemma", "tag", "dep"):
        for n in (1, 2, 3, 4):
            assert _score(f"hwcm(kind={kind},n={n})", candidate, ["two men", candidate.capitalize() + "."]) == 1


def test_references_are_pooled_in_any_order() -> None:
    one, other = "a dog runs over the grass", "the brown dog is running"
    candidate = "a dog is running over grass"
    scores = []
    for pooling in ("min", "mean", "max"):
        metric = f"hwcm(kind=word,n=1,pooling={pooling})"
        scores.append(_score(metric, candidate, [one, other]))
        assert scores[-1] == _score(metric, candidate, [other, one])
    assert scores == pytest.approx([3 / 6, 3.5 / 6, 4 / 6])  # dog is running; a dog over grass


@pytest.mark.parametrize("candidate", ["", "   ", ".", "?!", "一只狗", "\u0000", "dog " * 300, "🐕 🐕"])
def test_hostile_captions_score_between_zero_and_one(candidate: str) -> None:
    for metric in ("hwcm(kind=word,n=4)", "hwcm(n=4,as_released=true)"):
        assert 0 <= _score(metric, candidate, ["a dog runs", ""]) <= 1


def test_lengths_are_one_to_four() -> None:
    with pytest.raises(InputError, match="chains of a length n from 1 to 4, but got 5"):
        _score("hwcm(n=5)", "a", ["b"])
