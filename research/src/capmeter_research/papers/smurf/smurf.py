"""SMURF: semantics (SPARCS), style (SPURTS) and grammar (MIMA) in one score, on the scale of human captions.

With each component standardised by the mean and deviation of human captions (′) and T = −1.96 (Eq. 12):

    G = min(MIMA' − T, 0)          the grammatical outlier penalty
    D = max(SPURTS' − T, 0)        the style reward
    SMURF = SPARCS' + G            if SPARCS' < T
            SPARCS' + D + G        otherwise: style only counts for a caption that says the right thing

Unbounded; human captions score 0 to 4, higher is better, and an empty caption is far below 0. The corpus score is the
mean. Parts: G, D and the standardised components. `encoder` is the encoder of MIMA and SPURTS, or both joined by `+`
(the paper's: `distilbert+distilroberta`; offline: `minilm`). `standard` names the normalisation constants (bundled, or
a file written by `capmeter standardize`; None: those bundled for the encoder). Constants for another encoder are
rejected. `as_released=True` gives the scores of the authors' code, which averages terms: docs/parity.md.

>>> standard = read_constants("paper")
>>> components = [np.array([0.4, 0.05]), np.array([0.5, 0.5]), np.array([0.4, 0.6])]  # SPARCS, MIMA, SPURTS
>>> fuse(*components, standard)[:, 0].round(3).tolist()
[1.908, -2.042]

J. Feinglass and Y. Yang. SMURF: SeMantic and linguistic UndeRstanding Fusion for Caption Evaluation via Typicality
Analysis. ACL 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Metric, RunContext
from capmeter.evaluation.composite import CompositeMetric, MemberScores
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.normalisation import (
    NormalisationConstants,
    find_constants,
    read_constants,
    require_encoders,
)
from capmeter_research.papers.smurf.sparcs import Sparcs

THRESHOLD = -1.96  # the left end of the 95% interval of human captions


def fuse(
    sparcs: Floats, mima: Floats, spurts: Floats, standard: NormalisationConstants, *, as_released: bool = False
) -> Floats:
    """SMURF from the components' raw scores.

    Args:
        sparcs, mima, spurts: of the captions, (…).
        standard: the scale of each.
        as_released: divides the sum by the number of its terms, as the released code does.

    Returns:
        The score, G, D and the standardised components, (…, 6).
    """
    semantics, grammar, style = standard.sparcs.apply(sparcs), standard.mima.apply(mima), standard.spurts.apply(spurts)
    grammar_penalty = np.minimum(grammar - THRESHOLD, 0)
    style_reward = np.maximum(style - THRESHOLD, 0)
    is_correct = semantics >= THRESHOLD
    score = semantics + grammar_penalty + np.where(is_correct, style_reward, 0)
    if as_released:
        score = score / np.where(is_correct, 3, 2)
    return np.stack([score, grammar_penalty, style_reward, semantics, grammar, style], axis=-1)


@dataclass(frozen=True, kw_only=True)
class Smurf(CompositeMetric):
    """Semantics, style and grammar combined on the scale of human captions."""

    NAME: ClassVar[str] = "smurf"
    SUMMARY: ClassVar[str] = "semantics, style and grammar on the scale of human captions"
    EXTRA: ClassVar[str | None] = "neural"
    combined_columns: ClassVar[tuple[str, ...]] = ("score", "G", "D", "sparcs", "mima", "spurts")
    is_mean: ClassVar[bool] = True  # as published
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        "Depends on its normalisation constants: compare only scores with the same encoder and constants."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"G = \min(\text{MIMA}' - T, 0), \quad D = \max(\text{SPURTS}' - T, 0), \quad T = -1.96",
        r"\text{SMURF} = \begin{cases} \text{SPARCS}' + G & \text{if } \text{SPARCS}' < T \\ \text{SPARCS}' + D + "
        r"G & \text{otherwise} \end{cases}",
    )
    EXAMPLE: ClassVar[str] = "encoder=minilm"

    encoder: Annotated[str, "MIMA's and SPURTS' encoder, joined by +, or one for both"] = "distilbert+distilroberta"
    standard: Annotated[str | None, "normalisation constants: paper, minilm, or a file of capmeter standardize"] = None
    as_released: Annotated[bool, "the released code's numbers"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(self._encoders):
            raise InputError(f"encoder={self.encoder!r}: expected one encoder, or MIMA's and SPURTS' joined by +")

    @property
    def _encoders(self) -> tuple[str, str]:
        mima_encoder, plus, spurts_encoder = self.encoder.partition("+")
        return mima_encoder.strip(), spurts_encoder.strip() if plus else mima_encoder.strip()

    @cached_property
    def constants(self) -> NormalisationConstants:
        """The normalisation constants; an `InputError` if they belong to another encoder."""
        if self.standard is None:
            return find_constants(*self._encoders)
        constants = read_constants(self.standard)
        require_encoders(constants, *self._encoders)
        return constants

    def required_metrics(self) -> tuple[Metric, ...]:
        """SPARCS, MIMA and SPURTS, with this metric's encoders."""
        _ = self.constants  # rejects mismatched constants before anything is encoded
        mima_encoder, spurts_encoder = self._encoders
        return Sparcs(), Mima(encoder=mima_encoder), Spurts(encoder=spurts_encoder)

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """Score, G, D and the standardised components."""
        sparcs, mima, spurts = (scores[metric]["score"] for metric in self.required_metrics())
        fused_scores = fuse(sparcs, mima, spurts, self.constants, as_released=self.as_released)
        return {column: fused_scores[..., k] for k, column in enumerate(self.columns)}

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The constants and the components' facts: how concepts are extracted, the encoders' weights."""
        return {"constants": self.constants.label, **super().signature_facts(context)}
