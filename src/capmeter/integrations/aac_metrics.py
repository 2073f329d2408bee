"""The functions of `aac-metrics` (captions of sounds), without Java: change the import line, keep the rest.

    from capmeter.integrations.aac_metrics import evaluate           # was: from aac_metrics import evaluate

>>> candidates = ["a dog barks", "rain falls on a roof"]
>>> references = [["a dog is barking", "the dog barks"], ["rain is falling on a tin roof"]]
>>> corpus, sentences = evaluate(candidates, references, metrics=["cider_d", "rouge_l"])
>>> {name: round(score, 4) for name, score in corpus.items()}
{'cider_d': 2.4172, 'rouge_l': 0.6569}
>>> cider_d(candidates, references, return_all_scores=False) == corpus["cider_d"]
True

Same names, arguments and keys: a pair of dictionaries, of the corpus and of the sentences. The values are floats and
float64 arrays where aac-metrics has tensors, and what is not computed here (FENSE, `fluerr`, SPIDEr-FL and others) is
an error that says so. `evaluate` tokenises first, as there (`preprocess=True`); the functions of single metrics take
words separated by spaces. SPICE reads the parses of capmeter's parser (docs/spice.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.bleu import Bleu
from capmeter.metrics.cider import CiderD
from capmeter.metrics.evaluation import score
from capmeter.metrics.meteor import Meteor
from capmeter.metrics.rouge import RougeL
from capmeter.metrics.spice import Spice
from capmeter.text import ptb

Floats = npt.NDArray[np.float64]
Found = tuple[dict[str, float], dict[str, Floats]]
References = Sequence[Sequence[str]]

METRICS_SETS: dict[str, tuple[str, ...]] = {
    "default": ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider"),
    "dcase2020": ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider"),
}
"""The sets of aac-metrics that consist of metrics that are computed here."""
_ABSENT = {"all", "bert_score_mrefs", "clap_sim", "dcase2023", "dcase2024", "fense", "fer", "fluerr", "mace"}
_ABSENT |= {"sbert_sim", "spider_fl", "spider_max", "vocab"}


def evaluate(
    candidates: Sequence[str],
    mult_references: References,
    preprocess: bool = True,
    metrics: str | Iterable[str | Callable[..., Any]] = "default",
    **ignored: Any,
) -> Found:
    """The scores of the corpus and of each sentence, by name.

    `metrics` is a set ("default"), a name, or several names or functions. `ignored` are arguments that only the Java
    programs and networks of aac-metrics need: cache_path, java_path, tmp_path, device, verbose.
    """
    _check_arguments(ignored)
    if preprocess:
        candidates = [" ".join(ptb.tokenize(text)) for text in candidates]
        mult_references = [[" ".join(ptb.tokenize(text)) for text in texts] for texts in mult_references]
    chosen = METRICS_SETS.get(metrics, (metrics,)) if isinstance(metrics, str) else tuple(metrics)
    named = {name: metric for each in chosen if isinstance(each, str) for name, metric in _members(each).items()}
    corpus, sentences = _found(named, candidates, mult_references, "spider" in chosen) if named else ({}, {})
    for function in chosen:
        if not isinstance(function, str):
            own = function(candidates, mult_references)
            corpus, sentences = corpus | own[0], sentences | own[1]
    return corpus, sentences


def bleu(
    candidates: Sequence[str], mult_references: References, return_all_scores: bool = True, n: int = 4, **ignored: Any
) -> Found | float:
    """BLEU-n of tokenised sentences, under `bleu_n`."""
    _check_arguments(ignored)
    return _returned({f"bleu_{n}": Bleu(n=n, tokenizer="whitespace")}, candidates, mult_references, return_all_scores)


def rouge_l(
    candidates: Sequence[str],
    mult_references: References,
    return_all_scores: bool = True,
    beta: float = 1.2,
    **ignored: Any,
) -> Found | float:
    """ROUGE-L of tokenised sentences."""
    _check_arguments(ignored)
    metric = RougeL(beta=beta, tokenizer="whitespace")
    return _returned({"rouge_l": metric}, candidates, mult_references, return_all_scores)


def cider_d(
    candidates: Sequence[str],
    mult_references: References,
    return_all_scores: bool = True,
    n: int = 4,
    sigma: float = 6.0,
    **ignored: Any,
) -> Found | float:
    """CIDEr-D of tokenised sentences."""
    _check_arguments(ignored)
    metric = CiderD(n=n, sigma=sigma, tokenizer="whitespace")
    return _returned({"cider_d": metric}, candidates, mult_references, return_all_scores)


def meteor(
    candidates: Sequence[str], mult_references: References, return_all_scores: bool = True, **ignored: Any
) -> Found | float:
    """METEOR 1.5 of tokenised sentences."""
    _check_arguments(ignored)
    return _returned(_members("meteor"), candidates, mult_references, return_all_scores)


def spice(
    candidates: Sequence[str], mult_references: References, return_all_scores: bool = True, **ignored: Any
) -> Found | float:
    """SPICE."""
    _check_arguments(ignored)
    return _returned(_members("spice"), candidates, mult_references, return_all_scores)


def spider(
    candidates: Sequence[str], mult_references: References, return_all_scores: bool = True, **ignored: Any
) -> Found | float:
    """SPIDEr, the mean of CIDEr-D and SPICE, with both: under `cider_d`, `spice` and `spider`."""
    _check_arguments(ignored)
    corpus, sentences = _found(_members("spider"), candidates, mult_references, spider=True)
    return (corpus, sentences) if return_all_scores else corpus["spider"]


_BY_NAME: dict[str, tuple[Metric, ...]] = {
    **{f"bleu_{n}": (Bleu(n=n, tokenizer="whitespace"),) for n in range(1, 5)},
    "meteor": (Meteor(tokenizer="whitespace"),),
    "rouge_l": (RougeL(tokenizer="whitespace"),),
    "cider_d": (CiderD(tokenizer="whitespace"),),
    "spice": (Spice(),),
    "spider": (CiderD(tokenizer="whitespace"), Spice()),
}


def _members(name: str) -> dict[str, Metric]:
    """What is measured for this name: one metric under it, or for SPIDEr both of its members."""
    if name in _BY_NAME:
        return dict(zip(("cider_d", "spice") if name == "spider" else (name,), _BY_NAME[name], strict=True))
    known = f"computed here are {', '.join(_BY_NAME)}, and the sets {', '.join(METRICS_SETS)}"
    if name in _ABSENT:
        raise InputError(f"{name} is a metric or set of aac-metrics that capmeter does not compute; {known}")
    raise InputError(f"there is no metric {name!a}; {known}")


def _returned(
    metrics: Mapping[str, Metric], candidates: Any, references: Any, return_all_scores: bool
) -> Found | float:
    corpus, sentences = _found(metrics, candidates, references)
    return (corpus, sentences) if return_all_scores else next(iter(corpus.values()))


def _found(metrics: Mapping[str, Metric], candidates: Any, references: Any, spider: bool = False) -> Found:
    results = score(candidates=candidates, references=references, metrics=metrics.values())
    corpus = {name: results[metric].score for name, metric in metrics.items()}
    sentences = {name: results[metric].items.array for name, metric in metrics.items()}
    if spider:
        corpus["spider"] = (corpus["cider_d"] + corpus["spice"]) / 2
        sentences["spider"] = (sentences["cider_d"] + sentences["spice"]) / 2
    return corpus, sentences


def _check_arguments(ignored: dict[str, Any]) -> None:
    """Arguments that only steer Java programs, devices or messages are ignored; any other would change the numbers."""
    harmless = {"cache_path", "java_path", "java_max_memory", "tmp_path", "device", "verbose", "n_threads"}
    harmless |= {"separate_cache_dir", "timeout"}
    if unknown := ignored.keys() - harmless:
        raise InputError(f"{', '.join(sorted(unknown))}: arguments that capmeter does not know; leave them out")


__all__ = ["METRICS_SETS", "bleu", "cider_d", "evaluate", "meteor", "rouge_l", "spice", "spider"]
