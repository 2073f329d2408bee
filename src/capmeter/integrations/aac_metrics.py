"""The functions of `aac-metrics` (captions of sounds), without Java: change the import line, keep the rest.

    from capmeter.integrations.aac_metrics import evaluate           # was: from aac_metrics import evaluate

>>> candidates = ["a dog barks", "rain falls on a roof"]
>>> references = [["a dog is barking", "the dog barks"], ["rain is falling on a tin roof"]]
>>> corpus, sentences = evaluate(candidates, references, metrics=["cider_d", "rouge_l"])
>>> {name: round(score.item(), 4) for name, score in corpus.items()}
{'cider_d': 2.4172, 'rouge_l': 0.6569}
>>> bool(cider_d(candidates, references, return_all_scores=False) == corpus["cider_d"])
True

Same names, arguments and keys: a pair of dictionaries, of the corpus and of the sentences. Numbers are numpy's float64
and arrays of it where aac-metrics has tensors (`.item()`, `.tolist()` and `.mean()` work alike). The functions stand in
`functional`, the classes (`Evaluate`, `CIDErD`, `FENSE` …) in `classes`, the tokenizer in `utils.tokenization`.

Metrics that listen to the sound (`mace`, `clap_sim`) and `spider_max`, of several candidates, are an error; the set
`all` is computed without MACE, with a warning. FENSE, SPIDEr-FL and `fer` get the probabilities of fluency errors from
`errors=`: the bundled detector, a file by caption as given, or the folder of a classifier (docs/audio.md); vectors of
FENSE, SBERT-sim and BERTScore are those of `encoder=`. `evaluate` tokenises first, as in aac-metrics
(`preprocess=True`); the functions of single metrics expect words separated by spaces. SPICE reads the parses of
capmeter's parser (docs/spice.md).
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError, MissingBackend
from capmeter.evaluation.base import CapmeterWarning, Metric
from capmeter.evaluation.runner import score
from capmeter.integrations.module_paths import add_modules
from capmeter.integrations.texts import reference_lists_of, texts_of
from capmeter.metrics.audio.detector import KIND
from capmeter.metrics.audio.fluency import FluencyErrorRate
from capmeter.metrics.embedding.bertscore import BertScore
from capmeter.metrics.embedding.sbert import Sbert
from capmeter.metrics.ngram.bleu import Bleu
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.ngram.rouge import RougeL
from capmeter.metrics.scene_graph.spice import Spice
from capmeter.text.tokenization import ptb

Floats = npt.NDArray[np.float64]
BothScores = tuple[dict[str, np.float64], dict[str, Floats]]
"""The scores of the corpus, and those of the sentences (sentences), by name."""
References = Sequence[Sequence[str]]

METRICS_SETS: dict[str, tuple[str, ...]] = {
    "default": ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider"),
    "dcase2020": ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider"),
    "dcase2023": ("meteor", "spider_fl"),
    "dcase2024": ("meteor", "spider_fl", "fense", "vocab"),
    "all": ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "fense", "spider_fl", "vocab", "bert_score",
            "mace"),
}  # fmt: skip
"""The sets of aac-metrics."""
_UNAVAILABLE = {"clap_sim", "mace", "spider_max"}
_PENALTY, _THRESHOLD = 0.9, 0.9
_ARGUMENTS = "`return_all_scores=False`: the score of the corpus alone; other arguments are those of `evaluate`."


def evaluate(
    candidates: Sequence[str],
    mult_references: References,
    preprocess: bool | Callable[[list[str]], list[str]] = True,
    metrics: str | Iterable[str | Callable[..., Any]] = "default",
    errors: str = KIND,
    encoder: str = "minilm",
    **ignored: Any,
) -> BothScores:
    """The scores of the corpus and of each sentence, by name.

    Args:
        candidates: one text for each sound.
        mult_references: the references of each sound.
        preprocess: whether to tokenise first, or what turns a list of texts into tokenised ones.
        metrics: a set ("default"), a name, or several names, functions or classes.
        errors: where the probabilities of fluency errors come from: the bundled detector, a file or a folder, as in
            `fense(errors=…)`.
        encoder: of the vectors of FENSE, SBERT-sim and BERTScore.
        ignored: arguments that only the Java programs and networks of aac-metrics need: cache_path, java_path,
            tmp_path, device, verbose.

    Raises:
        InputError: a metric or set that is not available here, other arguments, lists of different lengths, values
            that are not text.
    """
    _check_arguments(ignored)
    texts, references = _read_texts(candidates, mult_references)
    tokenise = preprocess_mono_sents if preprocess is True else preprocess
    tokenised = list(tokenise(texts)) if tokenise else texts
    references = [list(tokenise(each)) for each in references] if tokenise else references
    requested_metrics = METRICS_SETS.get(metrics, (metrics,)) if isinstance(metrics, str) else tuple(metrics)
    if metrics == "all":
        warnings.warn("mace listens to the sound and is left out of the set `all`", CapmeterWarning, stacklevel=2)
        requested_metrics = tuple(name for name in requested_metrics if name != "mace")
    metric_names = [metric_name for metric_name in requested_metrics if isinstance(metric_name, str)]
    corpus_scores, sentence_scores = _score_names(
        metric_names, tokenised, references, texts, errors=errors, encoder=encoder
    )
    for metric_function in requested_metrics:
        if not isinstance(metric_function, str):
            corpus_part, sentences_part = metric_function(tokenised, references)
            corpus_scores, sentence_scores = corpus_scores | corpus_part, sentence_scores | sentences_part
    return corpus_scores, sentence_scores


def preprocess_mono_sents(sentences: Sequence[str], **ignored: Any) -> list[str]:
    """The tokenised sentences: lower case, without punctuation, words separated by spaces."""
    _check_arguments(ignored)
    return [" ".join(ptb.tokenise(text)) for text in texts_of(sentences, "sentences")]


def preprocess_mult_sents(mult_sentences: References, **ignored: Any) -> list[list[str]]:
    """The tokenised sentences of each list."""
    return [preprocess_mono_sents(sentences, **ignored) for sentences in mult_sentences]


def _function(name: str, summary: str, has_references: bool = True, **defaults: Any) -> Callable[..., Any]:
    """A function of aac-metrics: its scores, or the score of the corpus alone (`return_all_scores=False`).

    Args:
        name: of the function.
        summary: its docstring.
        has_references: whether it takes references.
        defaults: its parameters besides texts and `return_all_scores`.
    """
    kinds = inspect.Parameter
    texts = [kinds(each, kinds.POSITIONAL_OR_KEYWORD) for each in ("candidates", "mult_references")]
    values = {"return_all_scores": True, **defaults}
    options = [kinds(each, kinds.POSITIONAL_OR_KEYWORD, default=value) for each, value in values.items()]
    signature = inspect.Signature([*texts[: 1 + has_references], *options, kinds("ignored", kinds.VAR_KEYWORD)])

    def function(*arguments: Any, **named: Any) -> BothScores | np.float64:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        given = bound.arguments
        _check_arguments(given["ignored"])
        candidates = texts_of(given["candidates"], "candidates")
        references = given["mult_references"] if has_references else [[text] for text in candidates]
        parameters = {each: given[each] for each in defaults}
        scores = _score_names([name], *_read_texts(candidates, references), candidates, **parameters)
        return scores if given["return_all_scores"] else list(scores[0].values())[-1]

    function.__name__, function.__doc__ = name, f"{summary} {_ARGUMENTS}"
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


bleu = _function("bleu", "BLEU-n of tokenised sentences, under `bleu_n`.", n=4)
bleu_1, bleu_2, bleu_3, bleu_4 = (functools.partial(bleu, n=n) for n in (1, 2, 3, 4))
rouge_l = _function("rouge_l", "ROUGE-L of tokenised sentences.", beta=1.2)
cider_d = _function("cider_d", "CIDEr-D of tokenised sentences.", n=4, sigma=6.0)
meteor = _function("meteor", "METEOR 1.5 of tokenised sentences.")
spice = _function("spice", "SPICE.")
spider = _function("spider", "SPIDEr, the mean of CIDEr-D and SPICE, with both: `cider_d`, `spice` and `spider`.")
sbert_sim = _function("sbert_sim", "The mean cosine of sentence vectors over the references.", encoder="minilm")
bert_score_mrefs = _function(
    "bert_score", "Precision, recall and F1 of BERTScore, each that of the best reference.", encoder="minilm"
)
fer = _function("fer", "The share of captions with a fluency error; `errors` as in `evaluate`.", False, errors=KIND)
spider_fl = _function("spider_fl", "SPIDEr-FL, with the members of SPIDEr and `fer`.", errors=KIND)
fense = _function("fense", "FENSE, with `sbert_sim` and `fer`.", errors=KIND, encoder="minilm")
dcase2023_evaluate = functools.partial(evaluate, metrics="dcase2023")
dcase2024_evaluate = functools.partial(evaluate, metrics="dcase2024")


def vocab(
    candidates: Sequence[str],
    mult_references: References | None,
    return_all_scores: bool = True,
    *,
    seed: int = 1234,
    tokenizer: Callable[[str], Sequence[str]] = str.split,
    pop_strategy: Literal["max", "min"] | int = "max",
    **ignored: Any,
) -> BothScores | np.float64:
    """The numbers of distinct words (`vocab.cands`, and of each sentence), compared with those of the references.

    `vocab.mrefs_full` are the distinct words of all references, `vocab.mrefs_avg` those of one reference of each sound,
    sampled as in aac-metrics: the mean of as many samples as a sound has references at most (`pop_strategy`).

    Args:
        candidates, mult_references: as in `evaluate`; references may be None.
        return_all_scores: whether all numbers are returned, or `vocab.cands` of the corpus alone.
        seed: of the sampled references.
        tokenizer: from a text to its words.
        pop_strategy: the number of samples: that of the most or of the fewest references of a sound, or a number.
        ignored: as in `evaluate`.

    Raises:
        MissingBackend: references are sampled by torch, which is not installed.
    """
    _check_arguments(ignored)
    word_sets = [set(tokenizer(text)) for text in texts_of(candidates, "candidates")]
    sentence_scores = {"vocab.cands": np.array([len(word_set) for word_set in word_sets], np.float64)}
    candidate_words: set[str] = set().union(*word_sets)
    candidate_count: np.float64 = np.float64(len(candidate_words))
    corpus_scores = {"vocab.cands": candidate_count}
    if not return_all_scores:
        return candidate_count
    if mult_references is None:
        return corpus_scores, sentence_scores
    _, reference_lists = _read_texts(candidates, mult_references)
    reference_sets = [[set(tokenizer(text)) for text in reference_texts] for reference_texts in reference_lists]
    reference_words: set[str] = set().union(*(word_set for texts in reference_sets for word_set in texts))
    common_count = len(candidate_words & reference_words)
    reference_counts = [len(texts) for texts in reference_sets]
    sample_count = {"max": max(reference_counts), "min": min(reference_counts)}.get(str(pop_strategy), pop_strategy)
    mean_size = _mean_sampled_vocabulary(reference_sets, int(sample_count), seed)
    ratios = {
        "ratio_full": (len(candidate_words), len(reference_words)),
        "ratio_avg": (len(candidate_words), mean_size),
        "precision": (common_count, len(candidate_words)),
        "recall": (common_count, len(reference_words)),
        "f1": (2 * common_count, len(candidate_words) + len(reference_words)),
        "jaccard": (common_count, len(candidate_words | reference_words)),
    }
    numbers = {"mrefs_full": len(reference_words), "mrefs_avg": mean_size}
    numbers |= {name: a / b if b else 0.0 for name, (a, b) in ratios.items()}
    return corpus_scores | {f"vocab.{name}": np.float64(value) for name, value in numbers.items()}, sentence_scores


def _mean_sampled_vocabulary(reference_sets: Sequence[Sequence[set[str]]], sample_count: int, seed: int) -> float:
    """The mean number of distinct words of one reference per sound, sampled with the random numbers of aac-metrics."""
    try:
        import torch
    except ImportError:
        raise MissingBackend("vocab samples references with torch: pip install 'capmeter[neural]'") from None
    if sample_count < 1:
        raise InputError(f"vocab: pop_strategy={sample_count}: expected max, min or a number of samples of at least 1")
    generator = torch.Generator().manual_seed(seed)
    vocabulary_sizes = []
    for _ in range(sample_count):
        sampled_sets = [texts[int(torch.randint(0, len(texts), (), generator=generator))] for texts in reference_sets]
        vocabulary_sizes.append(len(set().union(*sampled_sets)))
    return sum(vocabulary_sizes) / sample_count


_METRICS: dict[str, Callable[..., Metric]] = {
    **{f"bleu_{n}": functools.partial(Bleu, n=n, tokenizer="whitespace") for n in range(1, 5)},
    "meteor": functools.partial(Meteor, tokenizer="whitespace"),
    "rouge_l": functools.partial(RougeL, tokenizer="whitespace"),
    "cider_d": functools.partial(CiderD, tokenizer="whitespace"),
    "spice": functools.partial(Spice, input="raw"),
    "sbert_sim": functools.partial(Sbert, pooling="mean"),
    **{f"bert_score.{part}": functools.partial(BertScore, score=part) for part in ("precision", "recall", "f1")},
}
_ENCODED = ("sbert_sim", "bert_score.precision", "bert_score.recall", "bert_score.f1")
_MEMBERS = {"spider": ("cider_d", "spice"), "bert_score": _ENCODED[1:], "fense": ("sbert_sim",), "fer": ()}
_MEMBERS["spider_fl"] = _MEMBERS["spider"]
_PENALISED = {"spider_fl": "spider", "fense": "sbert_sim", "fer": ""}
"""The metrics that depend on fluency errors, and what each penalises."""


def _members(name: str) -> tuple[str, ...]:
    """The names of what is measured for this one: itself, or all of its members."""
    members: tuple[str, ...] = _MEMBERS.get(name, (name,))
    if set(members) <= _METRICS.keys():
        return members
    available = f"available are {', '.join(_CLASSES)}, and the sets {', '.join(METRICS_SETS)}"
    if name in _UNAVAILABLE:
        raise InputError(f"{name} is a metric of aac-metrics that capmeter does not compute; {available}")
    raise InputError(f"unknown metric {name!a}; {available}")


def _score_names(
    names: Sequence[str],
    candidates: list[str],
    references: list[list[str]],
    texts: Sequence[str],
    *,
    errors: str = KIND,
    encoder: str = "minilm",
    **parameters: Any,
) -> BothScores:
    """The scores under these names and those of their members.

    Args:
        names: of the metrics.
        candidates, references: the texts, tokenised where the metrics expect it.
        texts: the candidates as given, whose fluency errors count.
        errors, encoder: as of `evaluate`.
        parameters: of the only metric; `n` of BLEU is part of its name.
    """
    vocabulary_scores = vocab(candidates, references) if "vocab" in names else ({}, {})
    names = [f"bleu_{parameters.pop('n', 4)}" if each == "bleu" else each for each in names if each != "vocab"]
    metrics = {
        member: _METRICS[member](**parameters, **({"encoder": encoder} if member in _ENCODED else {}))
        for member in dict.fromkeys(member for each in names for member in _members(each))
    }
    results: Any = score(candidates=candidates, references=references, metrics=metrics.values()) if metrics else {}
    corpus_scores = {name: np.float64(results[metric].score) for name, metric in metrics.items()}
    sentence_scores = {name: results[metric].items.array for name, metric in metrics.items()}
    if {"spider", "spider_fl"} & set(names):
        corpus_scores["spider"] = (corpus_scores["cider_d"] + corpus_scores["spice"]) / 2
        sentence_scores["spider"] = (sentence_scores["cider_d"] + sentence_scores["spice"]) / 2
    if penalised := [name for name in names if name in _PENALISED]:
        error_rate = FluencyErrorRate(errors=errors, threshold=_THRESHOLD)
        error_scores = score(candidates=list(texts), references=[[""]] * len(texts), metrics=[error_rate])
        sentence_scores["fer"] = error_scores[error_rate].items.array
        for name in penalised:
            if base_name := _PENALISED[name]:
                sentence_scores[name] = sentence_scores[base_name] * (1 - _PENALTY * sentence_scores["fer"])
        means = {name: np.float64(np.mean(values)) for name, values in sentence_scores.items()}
        corpus_scores = means | corpus_scores
    assert isinstance(vocabulary_scores, tuple)
    return corpus_scores | vocabulary_scores[0], sentence_scores | vocabulary_scores[1]


def _read_texts(candidates: Any, references: Any) -> tuple[list[str], list[list[str]]]:
    """Candidates and references, as many of each; an `InputError` names what is not text."""
    texts = texts_of(candidates, "candidates")
    lists = reference_lists_of(references, "mult_references")
    if len(lists) != len(texts) or not all(lists):
        raise InputError(
            f"expected a list of at least one reference for each of {len(texts):,} candidates, got {len(lists):,} "
            f"lists, of which {sum(not each for each in lists):,} are empty"
        )
    return texts, lists


def _check_arguments(ignored_arguments: dict[str, Any]) -> None:
    """Ignores arguments that only control Java programs, devices or messages; any other would change the scores."""
    harmless_arguments = {"cache_path", "java_path", "java_max_memory", "tmp_path", "device", "verbose", "n_threads"}
    harmless_arguments |= {"separate_cache_dir", "timeout"}
    if unknown_names := ignored_arguments.keys() - harmless_arguments:
        raise InputError(f"{', '.join(sorted(unknown_names))}: unknown arguments; leave them out")


class AACMetric:
    """A metric that is updated with batches and computed once; called, it computes the score of one batch.

    Args:
        arguments: those of the function of the metric.
    """

    function: Callable[..., Any]

    def __init__(self, return_all_scores: bool = True, **arguments: Any) -> None:
        self._arguments = {"return_all_scores": return_all_scores, **arguments}
        self.reset()

    def reset(self) -> None:
        """Removes all captions."""
        self._batches: tuple[list[Any], ...] = ()

    def update(self, *batch: Any) -> None:
        """Adds candidates and, where the metric has them, the references of each."""
        self._batches = tuple(
            [*all_before, *values] for all_before, values in zip(self._batches or ([], []), batch, strict=False)
        )

    def compute(self) -> Any:
        """The scores of all captions added, as the metric's function gives them."""
        return type(self).function(*self._batches, **self._arguments)

    def __call__(self, *batch: Any) -> Any:
        """The scores of one batch alone."""
        self.reset()
        self.update(*batch)
        scores = self.compute()
        self.reset()
        return scores

    forward = __call__


class Evaluate(AACMetric):
    """The metrics of a set, or several metrics, as `evaluate` computes them.

    Args:
        preprocess, metrics: as in `evaluate`.
        arguments: the others of `evaluate`.
    """

    function = staticmethod(evaluate)

    def __init__(self, preprocess: Any = True, metrics: Any = "default", **arguments: Any) -> None:
        self._arguments = {"preprocess": preprocess, "metrics": metrics, **arguments}
        self.reset()


class DCASE2023Evaluate(Evaluate):
    """The metrics of the DCASE challenge of 2023."""

    def __init__(self, preprocess: Any = True, **arguments: Any) -> None:
        super().__init__(preprocess, "dcase2023", **arguments)


class DCASE2024Evaluate(Evaluate):
    """The metrics of the DCASE challenge of 2024."""

    def __init__(self, preprocess: Any = True, **arguments: Any) -> None:
        super().__init__(preprocess, "dcase2024", **arguments)


def _metric_class(name: str, function: Callable[..., Any]) -> type[AACMetric]:
    return type(name, (AACMetric,), {"function": staticmethod(function), "__module__": __name__})


_CLASSES = {name: _metric_class(class_name, function) for name, class_name, function in (
    ("bert_score", "BERTScoreMRefs", bert_score_mrefs), ("bleu", "BLEU", bleu), ("bleu_1", "BLEU1", bleu_1),
    ("bleu_2", "BLEU2", bleu_2), ("bleu_3", "BLEU3", bleu_3), ("bleu_4", "BLEU4", bleu_4),
    ("cider_d", "CIDErD", cider_d), ("fer", "FER", fer), ("fense", "FENSE", fense), ("meteor", "METEOR", meteor),
    ("rouge_l", "ROUGEL", rouge_l), ("sbert_sim", "SBERTSim", sbert_sim), ("spice", "SPICE", spice),
    ("spider", "SPIDEr", spider), ("spider_fl", "SPIDErFL", spider_fl), ("vocab", "Vocab", vocab),
)}  # fmt: skip
(
    BERTScoreMRefs, BLEU, BLEU1, BLEU2, BLEU3, BLEU4, CIDErD, FER, FENSE, METEOR, ROUGEL, SBERTSim, SPICE, SPIDEr,
    SPIDErFL, Vocab,
) = _CLASSES.values()  # fmt: skip
_FUNCTIONS = (
    "bert_score_mrefs", "bleu", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "cider_d", "dcase2023_evaluate",
    "dcase2024_evaluate", "evaluate", "fense", "fer", "meteor", "rouge_l", "sbert_sim", "spice", "spider", "spider_fl",
    "vocab",
)  # fmt: skip


def list_metrics_available() -> list[str]:
    """The names of the metrics."""
    return list(_CLASSES)


def load_metric(name: str, **arguments: Any) -> AACMetric:
    """The metric of this name.

    Raises:
        InputError: there is no such metric here.
    """
    if name not in _CLASSES:
        _members(name)  # says which are available
    return _CLASSES[name](**arguments)


_class_names = [each.__name__ for each in (*_CLASSES.values(), Evaluate, DCASE2023Evaluate, DCASE2024Evaluate)]
add_modules(
    __name__,
    {
        "functional": _FUNCTIONS,
        "classes": _class_names,
        "utils.tokenization": ("preprocess_mono_sents", "preprocess_mult_sents"),
        **{f"functional.{name}": (name,) for name in _FUNCTIONS},
        **{f"classes.{name}": (each.__name__,) for name, each in _CLASSES.items()},
        "classes.evaluate": ("Evaluate", "DCASE2023Evaluate", "DCASE2024Evaluate"),
    },
)
__all__ = ["METRICS_SETS", "AACMetric", "list_metrics_available", "load_metric", *_FUNCTIONS, *_class_names]
