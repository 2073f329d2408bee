"""Metrics made of metrics: exact per caption and for the corpus, under resamples, in parts; signature and evidence."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from support.caption_sets import ROWS, caption_set
from support.research import needs_research

import capmeter
from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.evaluation.registry import parse
from capmeter.evaluation.results import resample_scores
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.metrics.combined.combination import Combination, Moments
from capmeter.report.explain import explain, render_explanations, to_dicts

BLEU, CIDER, ROUGE, UNIGRAM = parse("bleu-4"), parse("cider-d"), parse("rouge-l"), parse("bleu-1")
DOGS = [
    ("a dog runs on the grass", ["the dog runs on grass", "a dog is running"]),
    ("two cats sleep", ["two cats are sleeping on a bed", "cats sleep"]),
    ("a man rides a red bike", ["a man is riding a bike", "a red bike and a man"]),
    ("a kite in the blue sky", ["children fly a kite in the blue sky of the park"]),
    ("", ["a bowl of soup"]),
]
pytestmark = pytest.mark.filterwarnings("ignore::capmeter.evaluation.base.CapmeterWarning")


def test_a_raw_combination_is_the_sum_of_its_members_for_captions_corpus_and_resamples() -> None:
    both = Combination(members=(BLEU, CIDER), weights=(0.3, 0.7))
    results = evaluate(caption_set(DOGS), [both, BLEU, CIDER])
    for of in ("items", "score"):
        bleu, cider, total = (
            np.asarray(getattr(results[name], of).array if of == "items" else getattr(results[name], of))
            for name in (BLEU, CIDER, both)
        )
        np.testing.assert_allclose(total, 0.3 * bleu + 0.7 * cider, rtol=0, atol=1e-15)
    assert results[both].score != pytest.approx(results[both].items.array.mean(), abs=1e-3)  # corpus BLEU, not a mean
    assert results[both].parts == {"bleu-4": results[BLEU].score, "cider-d": results[CIDER].score}
    resampled = resample_scores([results[each] for each in (both, BLEU, CIDER)], results.ids.clusters, 20, 1)
    total, bleu, cider = (each["score"] for each in resampled.values())
    np.testing.assert_allclose(total, 0.3 * bleu + 0.7 * cider, rtol=0, atol=1e-14)


def test_without_weights_it_is_the_mean_of_any_number() -> None:
    three = Combination(members=(BLEU, CIDER, ROUGE))
    results = evaluate(caption_set(DOGS), [three, BLEU, CIDER, ROUGE])
    expected = np.mean([results[each].items.array for each in (BLEU, CIDER, ROUGE)], axis=0)
    np.testing.assert_allclose(results[three].items.array, expected, rtol=0, atol=1e-15)
    assert three.name == "mean" and Combination(members=(BLEU,), weights=(1.0,)).name == "combine"


def test_a_combination_of_combinations() -> None:
    inner = Combination(members=(BLEU, ROUGE))
    outer = Combination(members=(inner, CIDER), weights=(2.0, -1.0))
    results = evaluate(caption_set(DOGS), [outer, BLEU, ROUGE, CIDER])
    expected = results[BLEU].score + results[ROUGE].score - results[CIDER].score
    assert results[outer].score == pytest.approx(expected, abs=1e-14)


def test_z_scores_by_hand_and_what_the_corpus_score_is() -> None:
    metric = Combination(members=(ROUGE, UNIGRAM), weights=(1.0, 3.0), standardised=True)
    captions = caption_set(DOGS)
    results = evaluate(captions, [metric, ROUGE, UNIGRAM])
    raw = [results[each].items.array for each in (ROUGE, UNIGRAM)]
    z = [(values - values.mean()) / values.std() for values in raw]
    np.testing.assert_allclose(results[metric].items.array, z[0] + 3 * z[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(results[metric].part_items["rouge-l"].array, z[0], rtol=0, atol=1e-12)
    assert results[metric].score == pytest.approx(0, abs=1e-12)  # the mean of z-scores over their own run
    assert "standardised:run/5 captions" in results[metric].signature
    part = evaluate(captions.select([0, 2]), [metric], corpus=captions)[metric]
    np.testing.assert_allclose(part.items.array, results[metric].items.array[[0, 2]], rtol=0, atol=1e-12)
    assert part.score == pytest.approx(part.items.array.mean(), abs=1e-15) and part.score > 0.1


def test_a_member_without_spread_is_standardised_to_nothing() -> None:
    metric = Combination(members=(BLEU, ROUGE), standardised=True)
    captions = caption_set([("a dog", ["a dog"]), ("a cat", ["a cat"]), ("a cow", ["a cow"])])
    with pytest.warns(CapmeterWarning, match="bleu-4, rouge-l gives all 3 captions the same score"):
        scores = evaluate(captions, [metric])[metric]
    assert scores.items.array.tolist() == [0, 0, 0]


@settings(max_examples=25)
@given(ROWS, st.integers(1, 4), st.booleans())
def test_split_and_merge_equals_one_set(rows: Any, size: int, standardised: bool) -> None:
    metric = Combination(members=(BLEU, CIDER, ROUGE), weights=(1.0, 2.0, 3.0), standardised=standardised)
    captions = caption_set(rows)
    expected = evaluate(captions, [metric])[metric]
    evaluation = Evaluation((metric,))
    parts = [CaptionSet.from_captions(part) for part in captions.chunks(size)]
    walks = 0
    while evaluation.pending_states:
        walks += 1
        states = evaluation.collect(parts[0])
        for part in parts[1:]:
            states = states + evaluation.collect(part)
        evaluation = evaluation.with_states(states)
    assert walks == (2 if standardised else 1)  # document frequencies, then the scores that depend on them
    items = np.concatenate([evaluation.run(part)[metric].items.array for part in parts])
    np.testing.assert_allclose(items, expected.items.array, rtol=0, atol=1e-7)


@settings(max_examples=60)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.integers(1, 19))
def test_moments_merge(values: list[float], cut: int) -> None:
    scores = np.array([values])
    moments = Moments.from_scores(scores)
    if cut < len(values):
        merged = Moments.from_scores(scores[:, :cut]) + Moments.from_scores(scores[:, cut:])
        np.testing.assert_allclose(merged.mean, moments.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(merged.squares, moments.squares, rtol=1e-7, atol=1e-6)
    assert Moments.from_scores(np.full((1, len(values)), 0.1)).deviation.tolist() == [0.0]


def test_notes_and_signature_are_the_members() -> None:
    both = Combination(members=(BLEU, CIDER))
    results = evaluate(caption_set([*DOGS, ("…", ["a cat"])]), [both, BLEU, CIDER])
    assert results[both].notes == {
        "empty candidate": ["i4"],
        "no words in candidate": ["i5"],
        "fewer than 4 words: no 4-gram": ["i1"],
    }
    signature = results[both].signature
    assert "|tokenizer:ptb-3.4.1-caption|" in signature and "|smooth:1e-15/1e-9|" in signature
    assert "|idf:run/6 documents/" in signature


def test_results_are_saved_with_what_intervals_need(tmp_path: Any) -> None:
    both = Combination(members=(BLEU, CIDER))
    saved = evaluate(caption_set(DOGS), [both]).to_dict("a")
    (entry,) = saved["systems"]["a"]["metrics"].values()
    assert len(entry["rows"]["i0"]) == len(BLEU.columns) + len(CIDER.columns)
    saved = evaluate(caption_set(DOGS), [parse("rouge-l")]).to_dict("a")
    (entry,) = saved["systems"]["a"]["metrics"].values()
    assert "rows" not in entry


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"members": ()}, "name the metrics to combine"),
        ({"members": (BLEU, BLEU)}, "duplicate member bleu-4"),
        ({"members": (BLEU, CIDER), "weights": (1.0,)}, "1 weights for 2 members"),
        ({"members": (BLEU,), "weights": (float("nan"),)}, "weights=.* is not a number"),
    ],
)
def test_wrong_combinations_get_a_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Combination(**arguments)


def test_a_member_that_needs_references_says_so() -> None:
    captions = CaptionSet.from_captions([capmeter.Caption("x", "x", "a dog")])
    with pytest.raises(
        InputError, match=r"1 caption has no reference.*bleu-4, cider-d, mean\(bleu-4,cider-d\) need references"
    ):
        evaluate(captions, [Combination(members=(BLEU, CIDER))])


@pytest.mark.parametrize(
    ("name", "members"),
    [
        (str(Combination(members=(BLEU, CIDER))), ["bleu-4", "cider-d"]),
        pytest.param(
            "smurf(encoder=minilm)", ["sparcs", "mima(encoder=minilm)", "spurts(encoder=minilm)"], marks=needs_research
        ),
    ],
)
def test_an_explanation_is_that_of_the_members(name: str, members: list[str]) -> None:
    metric = parse(name)
    if "minilm" in name:
        pytest.importorskip("torch", reason="needs the neural extra")
    captions = caption_set(DOGS)
    # all of them, as they are scored: on some processors float32 sums a sentence alone in another order
    (explanation,) = (each for each in explain(captions, [metric]) if each.caption.id == "i0")
    evidence = explanation.evidence[str(metric)]
    assert list(evidence.members) == members
    alone = explain(captions, members[:1], ids=["i0"])[0].evidence[members[0]]
    assert evidence.members[members[0]] == alone and alone.links
    assert evidence.facts["score"] == pytest.approx(explanation.scores[str(metric)], abs=1e-6)
    (encoded,) = json.loads(json.dumps(to_dicts([explanation])))
    assert list(encoded["evidence"][str(metric)]["members"]) == members
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_explanations([explanation]))
    text = console.export_text()
    assert all(member in text for member in members) and "dog" in text


def test_its_text_form_parses_back() -> None:
    plain = Combination(members=(BLEU, CIDER))
    assert str(plain) == "mean(bleu-4,cider-d)" and parse("combine(bleu-4,cider-d)") == plain
    weighted = parse("combine(bleu-4,cider-d(n=2),weights=0.3+0.7,standardised=true)")
    assert weighted == Combination(members=(BLEU, parse("cider-d(n=2)")), weights=(0.3, 0.7), standardised=True)
    assert parse(str(weighted)) == weighted
    nested = Combination(members=(plain, ROUGE), weights=(2, -1.5))
    assert str(nested) == "combine(mean(bleu-4,cider-d),rouge-l,weights=2.0+-1.5)" and parse(str(nested)) == nested
    with pytest.raises(InputError, match="weights"):
        parse("mean(bleu-4,cider-d,weights=0.3+0.7)")
