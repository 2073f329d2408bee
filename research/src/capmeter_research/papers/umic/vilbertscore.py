"""ViLBERTScore (Lee et al. 2020): BERTScore over the states of a vision-and-language encoder.

    states(c), states(r): the last hidden states of the words of candidate and reference, each encoded with the image
    R = mean_{r} max_{c} cos(r, c),   P = mean_{c} max_{r} cos(r, c),   F1 = 2 P R / (P + R)

The same greedy matching as `bertscore`: begin and end tokens can be matched and have weight 0. With several references
P, R and F1 are each their maximum (`pooling="max"`, as BERTScore) or mean. The score is F1. Range -1 to 1; 1 for a
candidate that equals a reference. An empty candidate scores 0; the corpus score is the mean.

The authors use ViLBERT; here `checkpoint` is any UNITER (see `papers.umic.umic`), in which words attend to
the regions in every layer.

>>> str(ViLBertScore(pooling="mean"))
'vilbertscore(pooling=mean)'

Lee, Yoon, Dernoncourt, Kim, Bui, Jung: ViLBERTScore: Evaluating Image Caption Using Vision-and-Language BERT. Eval4NLP
2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.ragged import Ragged
from capmeter.encoders.text.encoder import StateTable
from capmeter.evaluation.base import Measurement, RunContext
from capmeter.metrics.embedding.bertscore import greedy_match, pool_scores
from capmeter.metrics.embedding.word_pieces import caption_blocks
from capmeter_research.papers.umic.pairs import PairStates
from capmeter_research.papers.umic.regions import CaptionRegionPairs, RegionPairMetric


@dataclass(frozen=True, kw_only=True)
class ViLBertScore(RegionPairMetric):
    """Greedy matching of words that attend to the image: F1, with precision and recall as parts.

    Args:
        checkpoint: name or folder of a UNITER.
        conf_th, min_boxes, max_boxes: which boxes are used.
        pooling: over references.
    """

    NAME: ClassVar[str] = "vilbertscore"
    SUMMARY: ClassVar[str] = "greedy matching of words in a vision-and-language encoder's states"
    PART_SIZE: ClassVar[int] = 256
    needs: ClassVar[frozenset[str]] = frozenset({"references", "regions"})
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"R = \frac{1}{|r|} \sum_{r} \max_{c} \cos(r, c), \quad P = \frac{1}{|c|} \sum_{c} \max_{r} \cos(r, c)",
        r"F_1 = \frac{2 P R}{P + R}",
    )

    pooling: Annotated[Literal["max", "mean"], "the score over several references"] = "max"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """F1, P and R of each caption."""
        encoder = self.load_encoder(context.settings)
        pairs = CaptionRegionPairs.from_captions(part, encoder, self.rule, references=True)
        word_states = np.concatenate(pairs.run_pairs(_word_states, context.settings))
        state_table = StateTable(pairs.pieces.take(pairs.sentence), word_states)
        references = Ragged(pairs.of_references, part.references.offsets)
        piece_weights, caption_scores = np.ones(encoder.shape.vocabulary), np.zeros((len(part), 3))
        for caption_indices, candidate_pieces, reference_pieces in caption_blocks(
            pairs.of_candidates, state_table, references
        ):
            caption_scores[caption_indices] = pool_scores(
                *greedy_match(candidate_pieces, reference_pieces, piece_weights), self.pooling
            )
        return Measurement(caption_scores, pairs.note_truncated(part))


def _word_states(batch: PairStates) -> list[NDArray[Any]]:
    """The states of each pair's words, (words, width) each."""
    states = batch.states.float().cpu().numpy()
    return [states[row, :words].copy() for row, words in enumerate(batch.words.tolist())]
