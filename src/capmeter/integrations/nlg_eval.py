"""Drop-in replacement for nlg-eval 2.3: its overlap metrics, without Java and without downloads.

    from capmeter.integrations.nlg_eval import NLGEval               # was: from nlgeval import NLGEval

>>> scorer = NLGEval(no_skipthoughts=True, no_glove=True, metrics_to_omit=["METEOR"])
>>> references = [["a dog runs", "two cats"], ["the dog runs", "cats sleep"]]
>>> scores = scorer.compute_metrics(references, ["a dog runs", "cats"])
>>> {name: round(score, 4) for name, score in scores.items() if name in ("Bleu_1", "ROUGE_L")}
{'Bleu_1': 0.7788, 'ROUGE_L': 0.8144}

As there, `ref_list` has a list for each reference: its k-th text is a reference of the k-th hypothesis. Nothing is
tokenised: words are separated by spaces, and capitals and punctuation count. SkipThoughtCS and the cosines of GloVe's
vectors are not computed; a warning names those that were not switched off, and what is nearest here.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning, Metric
from capmeter.evaluation.runner import score
from capmeter.integrations.texts import entries_of, texts_of
from capmeter.metrics.ngram.bleu import Bleu
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.ngram.rouge import RougeL

_BLEU = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4")
_GLOVE = ("EmbeddingAverageCosineSimilarity", "VectorExtremaCosineSimilarity", "GreedyMatchingScore")
_METRICS: dict[str, Metric] = {
    "METEOR": Meteor(tokenizer="whitespace"),
    "ROUGE_L": RougeL(tokenizer="whitespace"),
    "CIDEr": CiderD(tokenizer="whitespace"),
}


class NLGEval:
    """BLEU-1 to BLEU-4, METEOR, ROUGE-L and CIDEr(-D) under nlg-eval's names.

    Args:
        no_overlap: leaves all of these out.
        no_skipthoughts: says that SkipThoughtCS, which is not computed here, is not wanted.
        no_glove: says the same of the cosines of GloVe's vectors.
        metrics_to_omit: names that are not computed; without Bleu_2, Bleu_3 and Bleu_4 are left out too.

    Raises:
        InputError: an unknown name.
    """

    valid_metrics = frozenset((*_BLEU, *_METRICS, "SPICE", "SkipThoughtCS", *_GLOVE))

    def __init__(
        self,
        no_overlap: bool = False,
        no_skipthoughts: bool = False,
        no_glove: bool = False,
        metrics_to_omit: Collection[str] | None = None,
    ) -> None:
        omitted = set(metrics_to_omit or ())
        if unknown_names := omitted - self.valid_metrics:
            raise InputError(
                f"metrics_to_omit: {', '.join(sorted(unknown_names))}: unknown; known are "
                f"{', '.join(sorted(self.valid_metrics))}"
            )
        missing = ([] if no_skipthoughts else ["SkipThoughtCS"]) + ([] if no_glove else list(_GLOVE))
        if missing := [name for name in missing if name not in omitted]:
            warnings.warn(
                f"not computed: {', '.join(missing)} (leave them out by no_skipthoughts=True and no_glove=True; "
                "the cosine of sentence vectors is capmeter's sbert, greedy matching of word vectors bertscore)",
                CapmeterWarning,
                stacklevel=2,
            )
        orders = next((k for k, name in enumerate(_BLEU) if name in omitted), len(_BLEU))
        self._metrics: dict[str, Metric] = {}
        if not no_overlap:
            if orders:
                self._metrics["Bleu"] = Bleu(n=orders, tokenizer="whitespace")
            self._metrics |= {name: metric for name, metric in _METRICS.items() if name not in omitted}

    def compute_metrics(self, ref_list: Sequence[Sequence[str]], hyp_list: Sequence[str]) -> dict[str, float]:
        """The scores of the corpus, by name.

        Args:
            ref_list: for each reference the texts of all hypotheses.
            hyp_list: the hypotheses.

        Raises:
            InputError: a list of another length, a value that is not text.
        """
        hypotheses = texts_of(hyp_list, "hyp_list")
        lists = [texts_of(texts, f"ref_list[{k}]") for k, texts in enumerate(entries_of(ref_list, "ref_list"))]
        wrong = next((k for k, texts in enumerate(lists) if len(texts) != len(hypotheses)), None)
        if not lists or not hypotheses or wrong is not None:
            raise InputError(
                f"expected in each list of ref_list a text for each of {len(hypotheses):,} hypotheses, got "
                + (f"{len(lists)} lists" if wrong is None else f"{len(lists[wrong]):,} in ref_list[{wrong}]")
            )
        candidates = [text.strip() for text in hypotheses]
        references = [[text.strip() for text in texts] for texts in zip(*lists, strict=True)]
        scores: dict[str, float] = {}
        if not self._metrics:
            return scores
        results = score(candidates=candidates, references=references, metrics=list(self._metrics.values()))
        for name, metric in self._metrics.items():
            if isinstance(metric, Bleu):
                parts = results[metric].parts
                scores |= {f"Bleu_{k}": parts[f"bleu-{k}"] for k in range(1, metric.n + 1)}
            else:
                scores[name] = results[metric].score
        return scores

    def compute_individual_metrics(self, ref: Sequence[str], hyp: str) -> dict[str, float]:
        """The scores of one hypothesis against its references, by name; CIDEr of one caption is 0, as there."""
        return self.compute_metrics([[text] for text in texts_of(ref, "ref")], [hyp])


def compute_metrics(hypothesis: str, references: Sequence[str], **options: Any) -> dict[str, float]:
    """The scores of a file of hypotheses, one in each line, against files of references; each is printed.

    Args:
        hypothesis: the path of the file.
        references: the paths of files with as many lines.
        options: those of `NLGEval`.
    """
    lines = [Path(path).read_text(encoding="utf-8").splitlines() for path in (hypothesis, *references)]
    scores = NLGEval(**options).compute_metrics(lines[1:], lines[0])
    for name, value in scores.items():
        print(f"{name}: {value:0.6f}")
    return scores


def compute_individual_metrics(ref: str | Sequence[str], hyp: str, **options: Any) -> dict[str, float]:
    """The scores of one hypothesis.

    Args:
        ref: the references; in one text they are separated by `||<|>||`.
        hyp: the hypothesis.
        options: those of `NLGEval`.
    """
    return NLGEval(**options).compute_individual_metrics(ref.split("||<|>||") if isinstance(ref, str) else ref, hyp)
