"""The functions of aac-metrics: its names and shapes, and the numbers of `capmeter.score` bit by bit."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter.integrations.aac_metrics.classes.cider_d import CIDErD
from capmeter.integrations.aac_metrics.utils.tokenization import preprocess_mono_sents, preprocess_mult_sents
from support.official_scores import official
from support.thousand_captions import thousand

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.integrations import aac_metrics
from capmeter.integrations.aac_metrics import functional
from capmeter.text.tokenization import ptb

NAMES = {"bleu_1": "bleu-1", "bleu_4": "bleu-4", "rouge_l": "rouge-l", "cider_d": "cider-d"}


def test_a_thousand_captions_are_scored_as_by_score() -> None:
    candidates, references, _ = thousand()
    corpus, sentences = aac_metrics.evaluate(candidates, references, metrics=list(NAMES))
    results = capmeter.score(candidates=candidates, references=references, metrics=list(NAMES.values()))
    assert corpus == {ours: results[name].score for ours, name in NAMES.items()}
    for ours, name in NAMES.items():
        assert sentences[ours].tolist() == results[name].items.array.tolist()


def test_functions_take_tokenised_sentences() -> None:
    candidates, references, _ = thousand()
    lines = [" ".join(ptb.tokenise(text)) for text in candidates]
    many = [[" ".join(ptb.tokenise(text)) for text in texts] for texts in references]
    corpus, sentences = aac_metrics.evaluate(candidates, references, metrics="cider_d")
    assert aac_metrics.cider_d(lines, many, return_all_scores=False) == corpus["cider_d"]
    own_values = aac_metrics.cider_d(lines, many)[1]["cider_d"]  # type: ignore[index]
    assert own_values.tolist() == sentences["cider_d"].tolist()
    assert list(aac_metrics.bleu(lines, many, n=2)[0]) == ["bleu_2"]  # type: ignore[index]


def test_real_captions_have_the_numbers_of_the_standard_code(shared: Path) -> None:
    table = official(shared, "karp1000_s0")
    candidates = [caption.candidate for caption in table.captions]
    references = [list(caption.references) for caption in table.captions]
    corpus, sentences = aac_metrics.evaluate(candidates, references, preprocess=False, metrics=["cider_d", "rouge_l"])
    assert corpus["rouge_l"] == pytest.approx(table.corpus["rouge"], abs=1e-12)
    assert corpus["cider_d"] == pytest.approx(table.corpus["cider"], abs=1e-12)
    assert np.abs(sentences["cider_d"] - table.items["ciderD"]).max() < 1e-12


@pytest.mark.meteor
@pytest.mark.slow
def test_the_default_set_is_complete(meteor_index: Path) -> None:
    candidates, references, _ = thousand()
    corpus, sentences = aac_metrics.evaluate(candidates[:60], references[:60])
    assert list(corpus) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider_d", "spice", "spider"]
    lines = [" ".join(ptb.tokenise(text)) for text in candidates[:60]]
    many = [[" ".join(ptb.tokenise(text)) for text in texts] for texts in references[:60]]
    results = capmeter.score(
        candidates=lines, references=many, metrics=["spice(input=raw)", "meteor(tokenizer=whitespace)"]
    )
    assert sentences["spice"].tolist() == results["spice(input=raw)"].items.array.tolist()
    assert corpus["meteor"] == results["meteor(tokenizer=whitespace)"].score
    assert sentences["spider"].tolist() == ((sentences["cider_d"] + sentences["spice"]) / 2).tolist()


def test_functions_of_ones_own_are_called() -> None:
    def words(candidates: Any, references: Any) -> Any:
        return {"words": 2.0}, {"words": np.array([len(text.split()) for text in candidates])}

    corpus, sentences = aac_metrics.evaluate(["a dog runs"], [["a dog"]], metrics=["rouge_l", words])
    assert list(corpus) == ["rouge_l", "words"] and sentences["words"].tolist() == [3]


def test_arguments_of_java_are_ignored_and_others_are_not() -> None:
    assert aac_metrics.evaluate(["a dog"], [["a dog"]], metrics="rouge_l", java_path="java", verbose=1)[0] == {
        "rouge_l": 1.0
    }
    for call in (lambda: aac_metrics.evaluate(["a"], [["a"]], metrics="rouge_l", tokens=1),
                 lambda: aac_metrics.cider_d(["a"], [["a"]], return_tfidf=True)):  # fmt: skip
        with pytest.raises(InputError, match="unknown arguments"):
            call()


@pytest.mark.neural
def test_vocab_counts_distinct_words() -> None:
    candidates, references = ["a dog barks", "a bell"], [["a dog barks", "dogs bark"], ["one bell rings"]]
    corpus, sentences = aac_metrics.vocab(candidates, references)  # type: ignore[misc]
    # own: a dog barks bell; references: a dog barks dogs bark one bell rings
    expected = {"cands": 4, "mrefs_full": 8, "ratio_full": 0.5, "precision": 1.0, "recall": 0.5, "f1": 2 / 3}
    expected |= {"jaccard": 0.5, "mrefs_avg": 5.5, "ratio_avg": 4 / 5.5}  # samples of 6 and 5 words
    assert corpus == pytest.approx({f"vocab.{name}": value for name, value in expected.items()})
    assert sentences["vocab.cands"].tolist() == [3, 2]
    assert aac_metrics.vocab(candidates, references, return_all_scores=False) == 4.0
    assert list(aac_metrics.vocab(candidates, None)[0]) == ["vocab.cands"]  # type: ignore[index]
    assert aac_metrics.evaluate(candidates, references, metrics=["rouge_l", "vocab"])[0]["vocab.mrefs_full"] == 8
    with pytest.raises(InputError):
        aac_metrics.vocab(candidates, [["a"], []])


def test_the_sets_and_names_of_aac_metrics() -> None:
    assert aac_metrics.METRICS_SETS["dcase2024"] == ("meteor", "spider_fl", "fense", "vocab")
    tokenised = ["a dog runs"], [["a dog runs"]]
    assert aac_metrics.bleu_2(*tokenised, return_all_scores=False) == pytest.approx(1.0)
    assert aac_metrics.dcase2023_evaluate.keywords == {"metrics": "dcase2023"}


@pytest.mark.parametrize(
    ("name", "sentence"), [("mace", "that capmeter does not compute"), ("cider", "unknown metric 'cider'")]
)
def test_unknown_metrics_are_named(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        aac_metrics.evaluate(["a"], [["a"]], metrics=name)


def test_arguments_stand_in_their_order() -> None:
    assert list(inspect.signature(aac_metrics.evaluate).parameters)[:4] == [
        "candidates", "mult_references", "preprocess", "metrics",
    ]  # fmt: skip
    for name in ("bleu", "rouge_l", "cider_d", "meteor", "spice", "spider"):
        parameters = list(inspect.signature(getattr(aac_metrics, name)).parameters)
        assert parameters[:3] == ["candidates", "mult_references", "return_all_scores"]


CANDIDATES = ["a man is speaking", "rain falls"]
REFERENCES = [["a man speaks.", "someone speaks.", "a man is speaking while a bird is chirping in the background"],
              ["rain is falling hard on a surface"]]  # fmt: skip


def test_the_numbers_of_the_package_s_own_page() -> None:
    """aac-metrics' README prints .4278 and .9614, and 1.3641 and .5587 for the sentences."""
    corpus, sentences = aac_metrics.evaluate(CANDIDATES, REFERENCES, metrics=["bleu_1", "cider_d"])
    assert [round(corpus[name].item(), 4) for name in ("bleu_1", "cider_d")] == [0.4278, 0.9614]
    assert sentences["cider_d"].round(4).tolist() == [1.3641, 0.5587]


@pytest.mark.meteor
@pytest.mark.neural
def test_every_set_and_metric_works_without_further_arguments() -> None:
    keys = {}
    for name in ("dcase2020", "dcase2023", "dcase2024", "all", *aac_metrics.list_metrics_available()):
        with pytest.warns(CapmeterWarning, match="mace") if name == "all" else contextlib.nullcontext():
            corpus, sentences = aac_metrics.evaluate(CANDIDATES, REFERENCES, metrics=name)
        keys[name] = list(corpus)
        assert all(np.isfinite(value.item()) for value in corpus.values()) and sentences
    assert keys["dcase2023"] == ["meteor", "cider_d", "spice", "spider", "fer", "spider_fl"]
    assert {"fense", "sbert_sim", "vocab.cands"} < set(keys["dcase2024"]) < set(keys["all"])
    assert keys["bert_score"] == ["bert_score.precision", "bert_score.recall", "bert_score.f1"]


@pytest.mark.meteor
@pytest.mark.neural
def test_classes_collect_batches() -> None:
    tokenised = preprocess_mono_sents(CANDIDATES), preprocess_mult_sents(REFERENCES)
    for name in aac_metrics.list_metrics_available():
        metric = aac_metrics.load_metric(name)
        for k in range(2):
            metric.update(*([tokenised[0][k : k + 1]] if name == "fer" else [part[k : k + 1] for part in tokenised]))
        function = {"bert_score": "bert_score_mrefs"}.get(name, name)
        expected = getattr(functional, function)(*(tokenised[:1] if name == "fer" else tokenised))
        assert metric.compute()[0] == pytest.approx(expected[0], abs=1e-6)
    assert CIDErD(return_all_scores=False)(*tokenised) == pytest.approx(0.9614, abs=1e-4)
    evaluator = aac_metrics.DCASE2023Evaluate()
    evaluator.update(CANDIDATES, REFERENCES)
    assert evaluator.compute()[0] == aac_metrics.dcase2023_evaluate(CANDIDATES, REFERENCES)[0]
    with pytest.raises(InputError, match="mace"):
        aac_metrics.load_metric("mace")
