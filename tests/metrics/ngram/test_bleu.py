from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.caption_sets import ROWS, caption_set
from support.official_scores import SETS, official

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.report.explain import explain


def bleu(rows: list[tuple[str, list[str]]], n: int = 4):
    metric = parse(f"bleu-{n}(tokenizer=whitespace)")
    return evaluate(caption_set(rows), [metric])[metric]


def test_by_hand() -> None:
    # "the the cat": the is clipped at 1, so 2 of 3 unigrams and 1 of 2 bigrams match; reference length 4
    scores = bleu([("the the cat", ["the cat is here"])], 2)
    penalty = exp(1 - 4 / 3)
    assert scores.part_items["bleu-1"]["i0"] == pytest.approx(2 / 3 * penalty, abs=1e-8)
    assert scores.items["i0"] == pytest.approx((2 / 3 * 1 / 2) ** 0.5 * penalty, abs=1e-8)


def test_clipping_lengths_sums_and_empty_candidates() -> None:
    scores = bleu([("a a a", ["a b c", "a a c"])], 1)
    assert scores.items["i0"] == pytest.approx(2 / 3, abs=1e-8)
    scores = bleu([("a b c", ["a b", "a b c d"])], 1)
    assert scores.parts["brevity-penalty"] == 1.0
    scores = bleu([("a b", ["a b"]), ("x y z", ["a y c"])], 1)
    assert scores.score == pytest.approx(3 / 5, abs=1e-8)
    assert np.mean(list(scores.items.values())) == pytest.approx((1 + 1 / 3) / 2, abs=1e-8)
    scores = bleu([("", ["a b"]), ("a", ["a"])])
    assert scores.items["i0"] == 0.0
    assert scores.notes == {"empty candidate": ["i0"], "fewer than 4 words: no 4-gram": ["i1"]}


@pytest.mark.parametrize("name", SETS)
def test_equals_the_standard_code(shared: Path, name: str) -> None:
    published = official(shared, name)
    metric = parse("bleu-4(tokenizer=whitespace)")
    ours = evaluate(published.captions, [metric])[metric]
    for k in range(1, 5):
        assert np.abs(ours.part_items[f"bleu-{k}"].array - published.items[f"bleu{k}"]).max() <= 1e-12
        assert abs(ours.parts[f"bleu-{k}"] - published.corpus["bleu"][k - 1]) <= 1e-12


@given(ROWS)
def test_lower_orders_agree_with_their_own_metric_and_all_lie_in_the_unit_interval(rows) -> None:
    results = bleu(rows)
    for k in range(1, 4):
        assert np.array_equal(bleu(rows, k).items.array, results.part_items[f"bleu-{k}"].array)
        assert (results.part_items[f"bleu-{k}"].array >= 0).all()
        assert (results.part_items[f"bleu-{k}"].array <= 1).all()


@given(ROWS)
def test_the_order_of_references_does_not_matter(rows) -> None:
    turned = [(one, many[::-1]) for one, many in rows]
    assert np.array_equal(bleu(rows).items.array, bleu(turned).items.array)


def test_only_the_four_orders_exist() -> None:
    with pytest.raises(InputError, match="did you mean bleu-"):
        parse("bleu-5")
    with pytest.raises(InputError, match="no parameter 'n'"):
        parse("bleu-4(n=3)")


def test_short_captions_have_no_four_grams_and_the_score_says_so() -> None:
    candidates, references = ["a dog", "a dog runs on grass", ""], [["a dog"], ["a dog sits on grass"], ["a dog"]]
    scores = capmeter.score(candidates=candidates, references=references, metrics="bleu-4,bleu-2")
    assert scores["bleu-4"].notes["fewer than 4 words: no 4-gram"] == ["0"]
    assert not any("fewer than" in reason for reason in scores["bleu-2"].notes)
    captions = capmeter.load(candidates, references)
    facts = [each.evidence["bleu-4"].facts for each in explain(captions, "bleu-4")]
    assert facts[0]["near 0 because"] == "2 words have no 4-gram"
    assert facts[1]["near 0 because"] == "no 4-gram matches" and facts[1]["1-grams matched"] == "4 of 5"
    assert "near 0 because" not in explain(captions, "bleu-2")[0].evidence["bleu-2"].facts
