"""LCEval (Sharif et al. 2019) and NNEval (2018): a small network over the scores of other metrics.

    score = P(human | x) = e^{z_1} / (e^{z_0} + e^{z_1}),     z = W_2 max(0, W_1 x + b_1) + b_2      (Eq. 7.1 to 7.5)

x are 16 lexical, semantic and syntactic features of a caption and its references (`features.py`); the network was
trained to tell captions that people wrote from those that machines wrote. Range 0 (machine) to 1 (human). Parts: the
logit z_1 − z_0 and every feature. The corpus score is the mean.

`features` chooses groups or single features: `lceval(features=semantic)`, `sem-lex`, `spice+cider-d`. Networks for all
groups, and of all features for `pool=mean` and `pool=min` (appendix B.2), ship with capmeter; for other features
`checkpoint` names a folder that `capmeter train lceval` wrote. `learned=false` gives the plain mean of the features
(Table 7.2).
NNEval is the special case of eight features and two hidden layers of 72.

Departures from the paper: METEOR and CIDEr-D are capmeter's, MOWE and WMD take `vectors` (`minilm`, where the paper has
fastText and word2vec), trees come from `parser`. CIDEr-D's document frequencies come from the run (`idf=run`), as in
`cider-d`: a single caption has none, so give a file then.

`as_released` follows the released code, whose network has no hidden layer, whose unigram recall is constantly 0, and
whose HWCM is a cumulative recall; `checkpoint` is then a JSON file of its weights. Its parser was spaCy's, its document
frequencies those of COCO's validation set.

>>> from capmeter.metrics.registry import parse
>>> len(parse("lceval").inputs), parse("nneval").inputs
(16, ('precision-1', 'precision-2', 'precision-3', 'precision-4', 'meteor', 'wmd', 'spice', 'cider-d'))
>>> str(parse("lceval( features = mowe+wmd+spice )"))  # the semantic group, whatever it is called
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

from capmeter.assets import find_checkpoint
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Context, Floats, Measurement, Metric, column_means, merged_notes
from capmeter.metrics.composite import DerivedMetric
from capmeter.metrics.contributions import Contributions, contributions
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.lceval.checkpoint import Trained, trained
from capmeter.metrics.lceval.features import FEATURES, NNEVAL, Features, chosen, group_of
from capmeter.metrics.lceval.feed_forward import sigmoid
from capmeter.metrics.pooling import Pooling
from capmeter.text.parsers import ParserName


@dataclass(frozen=True, kw_only=True)
class _LearnedComposite(DerivedMetric):
    """What LCEval and NNEval share: features, a network, an explanation."""

    EXTRA: ClassVar[str | None] = "all"
    ROWS: ClassVar[int] = 2048
    is_mean: ClassVar[bool] = True

    checkpoint: Annotated[str | None, "name or folder of a trained network; none: the one that ships"] = None
    learned: Annotated[bool, "false: the mean of the features, without a network"] = True
    vectors: Annotated[str, "word vectors of WMD and MOWE: minilm, or a file"] = "minilm"
    parser: ParserName = "caption"
    idf: Annotated[str, "document frequencies of CIDEr-D: run (its references), or a file"] = "run"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint is not None and not self.learned:
            raise InputError(f"{self.NAME}: learned=false has no network, so it takes no checkpoint")

    @property
    def computed(self) -> Features:
        """The features and how they are computed."""
        return Features(self.inputs, vectors=self.vectors, parser=self.parser, idf=self.idf)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return NNEVAL

    @property
    def shipped(self) -> str | None:
        """The name of the network that ships for these features, if any."""
        return self.NAME

    @cached_property
    def trained(self) -> Trained:
        """The network; an `InputError` if it was trained for other features than these."""
        name = self.checkpoint or self.shipped
        if name is None:
            wanted = "+".join(self.inputs)
            raise InputError(
                f"{self.NAME}: no network ships for pool={self.computed.pool} and the features {wanted}; train one "
                f"(`capmeter train lceval --features {wanted} --pool {self.computed.pool}`) and name its folder: "
                "checkpoint=FOLDER"
            )
        found = trained(name)
        if found.features != self.inputs:
            raise InputError(
                f"{self.NAME}: the network {name} has the features {'+'.join(found.features)}, but this metric has "
                f"{'+'.join(self.inputs)}"
            )
        if found.pool not in (None, self.computed.pool):
            raise InputError(f"{self.NAME}: the network {name} was trained with pool={found.pool}; give the same")
        uses_vectors = bool({"wmd", "mowe"} & set(self.inputs))
        if uses_vectors and found.vectors not in (None, self.vectors):
            raise InputError(
                f"{self.NAME}: the network {name} was trained with vectors={found.vectors}; give the same, or name a "
                f"network that was trained with {self.vectors}"
            )
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, the logit of a learned one, and the features."""
        return ("score", "logit", *self.inputs) if self.learned else ("score", *self.inputs)

    @property
    def needs(self) -> frozenset[str]:
        """References alone; known without the network."""
        return frozenset({"references"})

    def requires(self) -> tuple[Metric, ...]:
        """The metrics that features come from."""
        if self.learned:
            _ = self.trained  # rejects a network for other features before anything is computed
        return tuple(dict.fromkeys(self.computed.metrics().values()))

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean of every column."""
        return column_means(self.columns, sums, counts)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """Score, logit and features of each caption."""
        features = self.computed.matrix(part, context)
        notes = merged_notes(context.measured[member].notes for member in self.requires())
        if not self.learned:
            return Measurement(np.column_stack([features.mean(axis=1), features]), notes)
        logit = self.trained.network.logit(features)
        return Measurement(np.column_stack([sigmoid(logit), logit, features]), notes)

    def facts(self, context: Context) -> dict[str, str]:
        """The network's hash, and the members' facts."""
        return {"network": self.trained.label if self.learned else "none", **super().facts(context)}

    @property
    def explains(self) -> bool:
        """Always."""
        return True

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """What each feature contributed to the logit, and the members' evidence."""
        found = super().explain(part, context)
        if not self.learned:
            return found
        features = self.computed.matrix(part, context)
        return [
            replace(
                each,
                facts={name: each.facts[name] for name in self.columns[:2]},
                contributions=self._contributions(row),
            )
            for each, row in zip(found, features, strict=True)
        ]

    def _contributions(self, features: Floats) -> Contributions:
        known = self.trained
        last = known.network.layers[-1].weights
        slopes = last[:, 1] - last[:, 0] if known.network.linear else None
        return contributions(known.network.logit, self.inputs, features, known.base, known.base_said, slopes=slopes)


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
        names = FEATURES if self.features is None else chosen(self.features)
        object.__setattr__(self, "_names", names)
        # one text form for one set of features, so that one number has one name
        group = group_of(names)
        told = None if names == FEATURES else (group,) if group else names
        object.__setattr__(self, "features", told)
        if self.as_released and (names != FEATURES or self.pool != "max"):
            raise InputError("lceval: as_released=true has all features and pool=max; leave out features and pool")
        if self.as_released and self.learned and self.checkpoint is None:
            raise InputError(
                "lceval: as_released=true needs the released weights, which are not capmeter's to ship: name them "
                '(checkpoint="weights.json", with out_layer/out/W_out and out_layer/out/b_out)'
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        """The chosen features, in order."""
        names: tuple[str, ...] = self._names  # type: ignore[attr-defined]
        return names

    @property
    def computed(self) -> Features:
        """The features and how they are computed."""
        return replace(super().computed, pool=self.pool, as_released=self.as_released)

    @property
    def shipped(self) -> str | None:
        """`lceval`, with `-GROUP` for a group of features and `-POOL` for another pooling; none where none ships."""
        group = "" if self.inputs == FEATURES else group_of(self.inputs)
        if group is None:
            return None
        named = "-".join(filter(None, (self.NAME, group, "" if self.pool == "max" else self.pool)))
        return named if named == self.NAME or find_checkpoint(named) is not None else None
