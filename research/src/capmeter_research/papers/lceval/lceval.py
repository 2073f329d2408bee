"""LCEval (Sharif et al. 2019) and NNEval (2018): a small network over the scores of other metrics.

    score = P(human | x) = e^{z_1} / (e^{z_0} + e^{z_1}),     z = W_2 max(0, W_1 x + b_1) + b_2      (Eq. 7.1 to 7.5)

x are 16 lexical, semantic and syntactic features of a caption and its references (`features.py`); the network was
trained to distinguish human captions from machine captions. Range 0 (machine) to 1 (human). Parts: the logit z_1 − z_0
and every feature. The corpus score is the mean.

`features` selects groups or single features: `lceval(features=semantic)`, `sem-lex`, `spice+cider-d`. Networks for all
groups, and of all features for `pool=mean` and `pool=min` (appendix B.2), are bundled; for other features `checkpoint`
is a folder written by `capmeter train lceval`. `learned=false` gives the plain mean of the features (Table 7.2).
NNEval is the special case of eight features and two hidden layers of 72.

Departures from the paper: METEOR and CIDEr-D are capmeter's, MOWE and WMD use `vectors` (`minilm`; the paper uses
fastText and word2vec), trees come from `parser`. CIDEr-D's document frequencies come from the run (`idf=run`), as in
`cider-d`; to score a single caption, use a file.

`as_released` follows the released code, whose network has no hidden layer, whose unigram recall is constantly 0, and
whose HWCM is a cumulative recall; `checkpoint` is then a JSON file of its weights. Its parser was spaCy's, its document
frequencies those of COCO's validation set.

>>> from capmeter.evaluation.registry import parse
>>> len(parse("lceval").inputs), parse("nneval").inputs
(16, ('precision-1', 'precision-2', 'precision-3', 'precision-4', 'meteor', 'wmd', 'spice', 'cider-d'))
>>> str(parse("lceval( features = mowe+wmd+spice )"))  # the semantic group
'lceval(features=semantic)'

N. Sharif, L. White, M. Bennamoun, W. Liu, S. A. A. Shah. LCEval: Learned Composite Metric for Caption Evaluation. IJCV
127, 2019. N. Sharif, L. White, M. Bennamoun, S. A. A. Shah. NNEval: Neural Network based Evaluation Metric for Image
Captioning. ECCV 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.assets import find_checkpoint
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext, column_means, merge_notes
from capmeter.evaluation.composite import DerivedMetric
from capmeter.evaluation.evidence import Contributions, Evidence
from capmeter.text.parsing.parsers import ParserName
from capmeter_research.common.contributions import compute_contributions
from capmeter_research.common.reference_pooling import Pooling
from capmeter_research.papers.lceval.checkpoint import TrainedNetwork, load_network
from capmeter_research.papers.lceval.features import FEATURES, NNEVAL, Features, find_group, select_features
from capmeter_research.papers.lceval.feed_forward import sigmoid


@dataclass(frozen=True, kw_only=True)
class _LearnedComposite(DerivedMetric):
    """The base of LCEval and NNEval: features, a network, an explanation."""

    EXTRA: ClassVar[str | None] = "all"
    MAX_WORDS: ClassVar[int | None] = 40  # trained on captions of one sentence
    PART_SIZE: ClassVar[int] = 2048
    is_mean: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"references"})
    can_explain: ClassVar[bool] = True
    FAMILY: ClassVar[str] = "Learned from captions"
    MISLEADS: ClassVar[str] = (
        "Learned from the machine captions of its training data; captions of newer systems differ from those."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = P(\text{human} \mid x) = \frac{e^{z_1}}{e^{z_0} + e^{z_1}}",
        r"z = W_2 \max(0, W_1 x + b_1) + b_2",
    )

    checkpoint: Annotated[str | None, "name or folder of a trained network; none: the bundled one"] = None
    learned: Annotated[bool, "false: the mean of the features, without a network"] = True
    vectors: Annotated[str, "word vectors of WMD and MOWE: minilm, or a file"] = "minilm"
    parser: ParserName = "caption"
    idf: Annotated[str, "document frequencies of CIDEr-D: run (its references), or a file"] = "run"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint is not None and not self.learned:
            raise InputError(f"{self.NAME}: learned=false has no network, so it takes no checkpoint")

    @property
    def feature_set(self) -> Features:
        """The features and how they are computed."""
        return Features(self.inputs, vectors=self.vectors, parser=self.parser, idf=self.idf)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return NNEVAL

    @property
    def bundled(self) -> str | None:
        """The name of the bundled network for these features, if any."""
        return self.NAME

    @cached_property
    def trained(self) -> TrainedNetwork:
        """The network; an `InputError` if it was trained for other features than these."""
        name, inputs, pool = self.checkpoint or self.bundled, "+".join(self.inputs), self.feature_set.pool
        if name is None:
            raise InputError(
                f"{self.NAME}: no network is bundled for pool={pool} and the features {inputs}; train one (`capmeter "
                f"train lceval --features {inputs} --pool {pool}`) and name its folder: checkpoint=FOLDER"
            )
        trained = load_network(name)
        if trained.features != self.inputs:
            raise InputError(
                f"{self.NAME}: the network {name} has the features {'+'.join(trained.features)}, but this metric has "
                f"{inputs}"
            )
        if trained.pool not in (None, pool):
            raise InputError(f"{self.NAME}: the network {name} was trained with pool={trained.pool}; give the same")
        uses_vectors = bool({"wmd", "mowe"} & set(self.inputs))
        if uses_vectors and trained.vectors not in (None, self.vectors):
            raise InputError(
                f"{self.NAME}: the network {name} was trained with vectors={trained.vectors}; give the same, or name a "
                f"network that was trained with {self.vectors}"
            )
        return trained

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, the logit of a learned one, and the features."""
        return ("score", "logit", *self.inputs) if self.learned else ("score", *self.inputs)

    def required_metrics(self) -> tuple[Metric, ...]:
        """The metrics that features come from."""
        if self.learned:
            _ = self.trained  # rejects a network for other features before anything is computed
        return tuple(dict.fromkeys(self.feature_set.metrics().values()))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean of every column."""
        return column_means(self.columns, sums, counts)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """Score, logit and features of each caption."""
        features = self.feature_set.compute(part, context)
        notes = merge_notes(context.measurements[member].notes for member in self.required_metrics())
        if not self.learned:
            return Measurement(np.column_stack([features.mean(axis=1), features]), notes)
        logit = self.trained.network.logit(features)
        return Measurement(np.column_stack([sigmoid(logit), logit, features]), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The network's hash, and the members' facts."""
        return {"network": self.trained.label if self.learned else "none", **super().signature_facts(context)}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The contribution of each feature to the logit, and the members' evidence."""
        evidence = super().explain(part, context)
        if not self.learned:
            return evidence
        features = self.feature_set.compute(part, context)
        return [
            replace(
                member_evidence,
                facts={column_name: member_evidence.facts[column_name] for column_name in self.columns[:2]},
                contributions=self._contributions(caption_features),
            )
            for member_evidence, caption_features in zip(evidence, features, strict=True)
        ]

    def _contributions(self, features: Floats) -> Contributions:
        trained = self.trained
        output_weights = trained.network.layers[-1].weights
        slopes = output_weights[:, 1] - output_weights[:, 0] if trained.network.linear else None
        baseline = trained.baseline, trained.baseline_name
        return compute_contributions(trained.network.logit, self.inputs, features, *baseline, slopes=slopes)


@dataclass(frozen=True, kw_only=True)
class NnEval(_LearnedComposite):
    """The first learned composite metric: eight features, two hidden layers."""

    NAME: ClassVar[str] = "nneval"
    SUMMARY: ClassVar[str] = "a network over n-gram precision, METEOR, CIDEr-D, SPICE and WMD (NNEval)"


@dataclass(frozen=True, kw_only=True)
class LcEval(_LearnedComposite):
    """A network over lexical, semantic and syntactic features."""

    NAME: ClassVar[str] = "lceval"
    SUMMARY: ClassVar[str] = "a network over lexical, semantic and syntactic features (LCEval)"

    features: Annotated[tuple[str, ...] | None, "features or groups of them, joined by +; none: all 16"] = None
    pool: Annotated[Pooling, "how n-gram precision, unigram recall, MOWE and HWCM are pooled over references"] = "max"
    as_released: Annotated[bool, "the features of the released code; checkpoint: a JSON file of its weights"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        feature_names = FEATURES if self.features is None else select_features(self.features)
        object.__setattr__(self, "_names", feature_names)
        # one text form for one set of features, so that one number has one name
        group_name = find_group(feature_names)
        canonical_features = None if feature_names == FEATURES else (group_name,) if group_name else feature_names
        object.__setattr__(self, "features", canonical_features)
        if self.as_released and (feature_names != FEATURES or self.pool != "max"):
            raise InputError("lceval: as_released=true has all features and pool=max; leave out features and pool")
        if self.as_released and self.learned and self.checkpoint is None:
            raise InputError(
                "lceval: as_released=true needs the released weights, which are not bundled: name them "
                '(checkpoint="weights.json", with out_layer/out/W_out and out_layer/out/b_out)'
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The selected features, in order."""
        names: tuple[str, ...] = self._names  # type: ignore[attr-defined]
        return names

    @property
    def feature_set(self) -> Features:
        """The features and how they are computed."""
        return replace(super().feature_set, pool=self.pool, as_released=self.as_released)

    @property
    def bundled(self) -> str | None:
        """`lceval`, with `-GROUP` for a group of features and `-POOL` for another pooling; None if there is none."""
        group_name = "" if self.inputs == FEATURES else find_group(self.inputs)
        if group_name is None:
            return None
        network_name = "-".join(filter(None, (self.NAME, group_name, "" if self.pool == "max" else self.pool)))
        return network_name if network_name == self.NAME or find_checkpoint(network_name) is not None else None
