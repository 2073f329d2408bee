"""The features of LCEval (Sharif et al. 2019, section 7.3.2), by name, in groups, and how they are computed.

Lexical: n-gram precision of orders 1 to 4, unigram recall, ROUGE-L, METEOR, CIDEr-D. Semantic: WMD, SPICE, MOWE.
Syntactic: head-word chains of lemmas (length 2, 3, 4) and of dependency labels (2, 3). Everything but unigram recall
comes from other metrics of the run; n-gram precision is p_k of BLEU. Unigram recall counts distinct words: the share of
a reference's that the candidate has (the paper does not say how repeated words count).

>>> select_features("syntactic+spice")
('spice', 'hwcm-lemma-2', 'hwcm-lemma-3', 'hwcm-lemma-4', 'hwcm-dep-2', 'hwcm-dep-3')
>>> find_group(select_features("sem-lex")), find_group(select_features("spice"))
('sem-lex', None)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Metric, RunContext
from capmeter.metrics.ngram.bleu import SMALL, TINY, Bleu
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.ngram.meteor import Meteor
from capmeter.metrics.ngram.rouge import RougeL
from capmeter.metrics.scene_graph.spice import Spice
from capmeter.text.ngrams import Matches, MatchTable
from capmeter.text.parsing.parsers import ParserName
from capmeter_research.common.reference_pooling import Pooling, pool_over_references
from capmeter_research.papers.lceval.hwcm import Hwcm
from capmeter_research.papers.lceval.mowe import Mowe
from capmeter_research.papers.lceval.wmd import Wmd

_PRECISION = tuple(f"precision-{k}" for k in range(1, 5))
_RECALL = "unigram-recall"
_SYNTAX = ("hwcm-lemma-2", "hwcm-lemma-3", "hwcm-lemma-4", "hwcm-dep-2", "hwcm-dep-3")
FEATURES = (*_PRECISION, _RECALL, "rouge-l", "meteor", "wmd", "spice", "cider-d", "mowe", *_SYNTAX)
"""All features, in the order of the released code."""

_LEXICAL = (*_PRECISION, _RECALL, "rouge-l", "meteor", "cider-d")
_SEMANTIC = ("wmd", "spice", "mowe")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "semantic": _SEMANTIC,
    "lexical": _LEXICAL,
    "syntactic": _SYNTAX,
    "sem-lex": (*_SEMANTIC, *_LEXICAL),
    "syn-lex": (*_SYNTAX, *_LEXICAL),
    "sem-syn": (*_SEMANTIC, *_SYNTAX),
}
"""Named groups of features, as the paper's tables name them."""

NNEVAL = (*_PRECISION, "meteor", "wmd", "spice", "cider-d")
"""NNEval's features: those of sem-lex without MOWE and unigram recall, and without ROUGE-L."""


def select_features(names: str | Iterable[str]) -> tuple[str, ...]:
    """The features of these names of features and groups, without duplicates, in the order of `FEATURES`.

    Raises:
        InputError: a name is unknown, or there is none.
    """
    selected_features: set[str] = set()
    for feature_name in names.split("+") if isinstance(names, str) else names:
        if feature_name not in GROUPS and feature_name not in FEATURES:
            similar = difflib.get_close_matches(feature_name, [*GROUPS, *FEATURES], n=1)
            hint = f"did you mean {similar[0]}?" if similar else f"expected {', '.join([*GROUPS, *FEATURES])}"
            raise InputError(f"lceval: unknown feature or group of features {feature_name!r}; {hint}")
        selected_features.update(GROUPS.get(feature_name, (feature_name,)))
    if not selected_features:
        raise InputError(f"lceval: choose at least one feature or group: {', '.join([*GROUPS, *FEATURES])}")
    return tuple(feature_name for feature_name in FEATURES if feature_name in selected_features)


def find_group(features: Sequence[str]) -> str | None:
    """The name of the group that has exactly these features; None if there is none."""
    return next(
        (group_name for group_name, group_features in GROUPS.items() if set(group_features) == set(features)), None
    )


@dataclass(frozen=True)
class Features:
    """Features, and the metrics that they are computed from.

    Attributes:
        names: of the features, in order.
        pool: how n-gram precision, unigram recall, MOWE and HWCM are pooled over references (appendix B.2). With `max`
            the matches of an n-gram are clipped at its largest count in any reference, as in BLEU; with `mean` and
            `min` the precision with each single reference is pooled.
        vectors, parser, idf: of WMD and MOWE, of SPICE and HWCM, and of CIDEr-D.
        as_released: HWCM as in the released code, unigram recall always 0.
    """

    names: tuple[str, ...] = FEATURES
    pool: Pooling = "max"
    vectors: str = "minilm"
    parser: ParserName = "caption"
    idf: str = "run"
    as_released: bool = False

    def metrics(self) -> dict[str, Metric]:
        """For each feature that is the score (or a part of the score) of a metric, that metric."""
        lemma_metric = Hwcm(kind="lemma", n=4, pooling=self.pool, parser=self.parser, as_released=self.as_released)
        dependency_metric = Hwcm(kind="dep", n=3, pooling=self.pool, parser=self.parser, as_released=self.as_released)
        metrics: dict[str, Metric] = {
            "rouge-l": RougeL(),
            "meteor": Meteor(),
            "wmd": Wmd(vectors=self.vectors),
            "spice": Spice(parser=self.parser),
            "cider-d": CiderD(idf=self.idf),
            "mowe": Mowe(vectors=self.vectors, pooling=self.pool),
            **{
                feature_name: lemma_metric if "lemma" in feature_name else dependency_metric for feature_name in _SYNTAX
            },
        }
        if self.pool == "max":
            metrics |= dict.fromkeys(_PRECISION, Bleu(n=4))
        return {feature_name: metrics[feature_name] for feature_name in self.names if feature_name in metrics}

    def compute(self, part: CaptionSet, context: RunContext) -> Floats:
        """The features (captions, features), from a context with the scores of `metrics()`."""
        return np.stack([self._feature(feature_name, part, context) for feature_name in self.names], axis=1)

    def _feature(self, name: str, part: CaptionSet, context: RunContext) -> Floats:
        if name == _RECALL:
            return np.zeros(len(part)) if self.as_released else unigram_recall(part, self.pool)
        order = int(name[-1]) if name[-1].isdigit() else 0
        if name in _PRECISION and self.pool != "max":
            return _pooled_precision(part, order, self.pool)
        metric = self.metrics()[name]
        if name in _PRECISION:
            bleu_counts = context.measurements[metric].values
            matches, ngrams = (
                bleu_counts[:, metric.columns.index(f"{name}-{order}")] for name in ("matches", "ngrams")
            )
            precision: Floats = (matches + TINY) / (ngrams + SMALL)
            return precision
        return context.scores[metric][f"hwcm-{order}" if name in _SYNTAX else "score"]


def unigram_recall(part: CaptionSet, pool: Pooling) -> Floats:
    """The share of a reference's distinct words that the candidate has, pooled over references."""
    matches: MatchTable = part.analyse(Matches(4))
    grams = matches.grams
    is_unigram = grams.order[grams.entries.values] == 1
    distinct_counts = np.bincount(grams.entries.rows[is_unigram], minlength=len(grams.entries))[part.references.values]
    matched_counts = np.bincount(matches.pair[is_unigram[matches.reference_entry]], minlength=len(distinct_counts))
    return pool_over_references(matched_counts / np.maximum(distinct_counts, 1), part, pool)


def _pooled_precision(part: CaptionSet, order: int, pool: Pooling) -> Floats:
    """The clipped n-gram precision with each single reference, pooled over references."""
    matches: MatchTable = part.analyse(Matches(4))
    grams = matches.grams
    candidate_entries = matches.slots.values[matches.slot]  # of the candidate
    of_order = grams.order[grams.entries.values[candidate_entries]] == order
    clipped_counts = np.minimum(grams.counts[candidate_entries], grams.counts[matches.reference_entry])[of_order]
    matched_counts = np.bincount(matches.pair[of_order], clipped_counts, minlength=len(part.references.values))
    ngram_totals = np.maximum(grams.lengths[part.candidates] - order + 1, 0)[part.references.rows]
    return pool_over_references((matched_counts + TINY) / (ngram_totals + SMALL), part, pool)
