"""ViLBERTScore (Lee et al. 2020): BERTScore over the states of a vision-and-language encoder.

    states(c), states(r): the last hidden states of the words of candidate and reference, each read with the picture
    R = mean_{r} max_{c} cos(r, c),   P = mean_{c} max_{r} cos(r, c),   F1 = 2 P R / (P + R)

The same greedy matching as `bertscore`: begin and end tokens can be matched and have weight 0. With several references
P, R and F1 are each their maximum (`pooling="max"`, as BERTScore) or mean. The score is F1. Range -1 to 1; 1 for a
candidate that equals a reference. An empty candidate scores 0.

The authors use ViLBERT; here `checkpoint` is any UNITER (see `capmeter.metrics.umic.umic`), whose states of words have
seen the regions in every layer.

Lee, Yoon, Dernoncourt, Kim, Bui, Jung: ViLBERTScore: Evaluating Image Caption Using Vision-and-Language BERT. Eval4NLP
2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders.analyses import StateTable
from capmeter.encoders.pairs import PairStates, load_pair_encoder
from capmeter.images.regions import BoxRule
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.bertscore import greedy_match, harmonic_mean
from capmeter.metrics.regions import Pairs, encoder_facts
from capmeter.metrics.umic.umic import ADVICE
from capmeter.metrics.word_pieces import blocks
from capmeter.ragged import Ragged


@dataclass(frozen=True, kw_only=True)
class ViLBertScore(MeanMetric):
    """Greedy matching of words that have seen the picture: F1, with precision and recall as parts."""

    NAME: ClassVar[str] = "vilbertscore"
    SUMMARY: ClassVar[str] = "greedy matching of words in a vision-and-language encoder's states"
    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 256

    checkpoint: Annotated[str, "name or folder of the trained weights"] = "umic"
    conf_th: Annotated[float, "use boxes with a confidence above this"] = 0.2
    min_boxes: Annotated[int, "but at least so many"] = 10
    max_boxes: Annotated[int, "and at most so many"] = 100
    pooling: Annotated[Literal["max", "mean"], "the score over several references"] = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rule  # noqa: B018  checks the numbers of boxes

    @property
    def rule(self) -> BoxRule:
        """Which boxes are used."""
        return BoxRule(self.conf_th, self.min_boxes, self.max_boxes)

    @property
    def needs(self) -> frozenset[str]:
        """References and regions."""
        return frozenset({"references", "regions"})

    @property
    def columns(self) -> tuple[str, ...]:
        """F1, precision, recall."""
        return "score", "precision", "recall"

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """F1, P and R of each caption."""
        encoder = load_pair_encoder(self.checkpoint, context.settings, ADVICE)
        pairs = Pairs.of(part, encoder, self.rule, references=True)
        made = pairs.run(_words, context.settings)
        table = StateTable(pairs.pieces.take(pairs.sentence), np.concatenate(made))
        references = Ragged(pairs.of_references, part.references.offsets)
        weights, values = np.ones(encoder.shape.vocabulary), np.zeros((len(part), 3))
        for rows, candidates, others in blocks(pairs.of_candidates, table, references):
            precision, recall, present = greedy_match(candidates, others, weights)
            scores = np.stack([harmonic_mean(precision, recall), precision, recall], axis=-1)
            if self.pooling == "max":
                values[rows] = np.where(present[..., None], scores, -np.inf).max(axis=1)
            else:
                values[rows] = (scores * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None]
        return Measurement(values, pairs.truncated(part))

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the choice of boxes, the libraries."""
        encoder = load_pair_encoder(self.checkpoint, context.settings, ADVICE)
        return encoder_facts(encoder, self.rule, context.settings)


def _words(batch: PairStates) -> list[NDArray[Any]]:
    """The states of each pair's words."""
    states = batch.states.float().cpu().numpy()
    return [states[row, :words].copy() for row, words in enumerate(batch.words.tolist())]
