"""nlg-eval's names and shapes, with the numbers of the same metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.integrations.nlg_eval import NLGEval, compute_individual_metrics, compute_metrics

HYPOTHESES = ["a dog runs on grass", "two cats"]
LISTS = [["a dog runs", "two cats sleep"], ["The dog runs.", "cats sleep"]]
OFF: dict[str, Any] = {"no_skipthoughts": True, "no_glove": True}


@pytest.mark.meteor
def test_the_scores_are_those_of_the_metrics_on_words_as_given(tmp_path: Path) -> None:
    scores = NLGEval(**OFF).compute_metrics(LISTS, HYPOTHESES)
    names = ["bleu-4", "meteor", "rouge-l", "cider-d"]
    results = capmeter.score(
        candidates=HYPOTHESES,
        references=[list(texts) for texts in zip(*LISTS, strict=True)],
        metrics=[f"{name}(tokenizer=whitespace)" for name in names],
    )
    bleu, *others = results.values()
    expected = {f"Bleu_{k}": bleu.parts[f"bleu-{k}"] for k in range(1, 5)}
    expected |= {name: each.score for name, each in zip(("METEOR", "ROUGE_L", "CIDEr"), others, strict=True)}
    assert scores == expected
    for k, lines in enumerate([HYPOTHESES, *LISTS]):
        (tmp_path / f"{k}.txt").write_text("\n".join(lines) + "\n")
    assert compute_metrics(str(tmp_path / "0.txt"), [str(tmp_path / "1.txt"), str(tmp_path / "2.txt")], **OFF) == scores
    with pytest.warns(CapmeterWarning, match="idf"):
        alone = compute_individual_metrics("a dog||<|>||the dog", "a dog", **OFF)
    assert (alone["ROUGE_L"], alone["CIDEr"]) == (1.0, 0.0)


def test_what_is_left_out_is_named() -> None:
    with pytest.warns(CapmeterWarning, match="SkipThoughtCS, EmbeddingAverageCosineSimilarity"):
        scorer = NLGEval(metrics_to_omit={"METEOR", "Bleu_3"})
    assert list(scorer.compute_metrics(LISTS, HYPOTHESES)) == ["Bleu_1", "Bleu_2", "ROUGE_L", "CIDEr"]
    assert NLGEval(no_overlap=True, **OFF).compute_metrics(LISTS, HYPOTHESES) == {}
    with pytest.raises(InputError, match="BLEU"):
        NLGEval(metrics_to_omit=["BLEU"])


@pytest.mark.parametrize(
    ("lists", "hypotheses"),
    [
        (LISTS, HYPOTHESES[:1]),
        ([], HYPOTHESES),
        (LISTS, [None, "a"]),
        ([["a", float("nan")]], HYPOTHESES),
        ("ab", "ab"),
    ],
)
def test_mistakes(lists: Any, hypotheses: Any) -> None:
    with pytest.raises(InputError):
        NLGEval(metrics_to_omit=["METEOR"], **OFF).compute_metrics(lists, hypotheses)
