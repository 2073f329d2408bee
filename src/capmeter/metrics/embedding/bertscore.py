"""BERTScore (Zhang et al. 2020): greedy matching of contextual word pieces by cosine similarity.

    R = Σ_{r ∈ reference} w(r) max_{c ∈ candidate} cos(r, c) / Σ_r w(r)          P: the same with the roles swapped
    F1 = 2 P R / (P + R)

The vectors are the hidden states of one layer of a language model. w is 1, or with `idf` ln((N + 1) / (df + 1)) over
the N references of the run, as in the bert-score package (TBR's paper has -lg(df / N), and does not say which idf its
row of BERTScore has); begin and end tokens can be matched but have weight 0. With several references, P, R and F1
are each their maximum (`pooling="max"`, as published) or mean over the references. The score is F1, or with `score`
precision (is what the candidate says supported?) or recall; precision and recall are parts. Range -1 to 1 (precision
and recall up to rounding, 1e-6), in practice 0 to 1; 1 for a candidate that equals a reference. An empty candidate
scores 0. The corpus score is the mean.

`rescale` maps the similarity of unrelated captions to 0: (x - b) / (1 - b). The baselines b of `bert`, `roberta`,
`distilbert` and `distilroberta` at their default layers are those of the bert-score package; that of `minilm` was
measured in the same way on unrelated captions. For another encoder or layer, measure one with `capmeter calibrate` and
set `rescale=b`. Differences from the bert-score package: docs/parity.md.

>>> import capmeter
>>> results = capmeter.score(candidates=["a dog runs"], references=[["a dog runs", "cats sleep"]], metrics="bertscore")
>>> round(results["bertscore"].items["0"], 4)
1.0

Zhang, Kishore, Wu, Weinberger, Artzi: BERTScore: Evaluating Text Generation with BERT. ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import CorpusState, Floats, MeanMetric, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence, Link
from capmeter.metrics.embedding.word_pieces import (
    PieceFrequencies,
    PieceFrequencyState,
    Pieces,
    caption_blocks,
    encode_sentences,
    encoder_facts,
    note_truncated_sentences,
    vocabulary_size,
)

Flags = NDArray[np.bool_]
# The layers with the best agreement with human judgments in the bert-score package; other encoders use their last.
LAYERS = {"bert": 9, "roberta": 17, "distilbert": 5, "distilroberta": 5}
# (encoder, layer): similarity of unrelated sentences (P, R, F1).
BASELINES = {
    ("bert", 9): (0.35375935, 0.3537393, 0.35219112),
    ("roberta", 17): (0.83150584, 0.8314941, 0.83122575),
    ("distilbert", 5): (0.6666034, 0.66660464, 0.66620487),
    ("distilroberta", 5): (0.84732, 0.84759504, 0.8473319),
    ("minilm", 6): (0.186, 0.186, 0.183),
}


@dataclass(frozen=True, kw_only=True)
class BertScore(MeanMetric):
    """Greedy matching of contextual word pieces: F1, with precision and recall as parts.

    Args:
        encoder: alias, hub id or folder.
        layer: None for the encoder's default layer.
        idf: weight pieces by rarity in the run's references.
        rescale: map unrelated captions to 0, by the encoder's baseline or this one.
        pooling: over references.
        score: which of the three is the score.
    """

    NAME: ClassVar[str] = "bertscore"
    SUMMARY: ClassVar[str] = "greedy matching of contextual word pieces by cosine"
    MAX_WORDS: ClassVar[int | None] = 170  # MiniLM reads 256 word pieces
    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")

    encoder: Annotated[str, "alias, hub id or folder of the encoder"] = "minilm"
    layer: Annotated[int | None, "hidden layer; none: the encoder's default layer"] = None
    idf: Annotated[bool, "weight word pieces by rarity in the run's references"] = False
    rescale: Annotated[bool | float, "map unrelated captions to 0, by the encoder's baseline or this one"] = False
    pooling: Annotated[Literal["max", "mean"], "the score over several references"] = "max"
    score: Annotated[Literal["f1", "precision", "recall"], "which of the three is the score"] = "f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rescale, bool) and not -1 < self.rescale < 1:
            raise InputError(
                f"bertscore: expected rescale=true, false or a baseline between -1 and 1, but got {self.rescale}"
            )

    def corpus_state(self) -> CorpusState | None:
        """Frequencies of word pieces in the references, for idf."""
        return PieceFrequencyState(self.encoder) if self.idf else None

    def depth(self, settings: Settings) -> int:
        """The layer in use."""
        return load_encoder(find_encoder(self.encoder), settings).layer(self.layer, LAYERS.get(self.encoder))

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """F1, P and R of each caption."""
        encoder = find_encoder(self.encoder)
        table = encode_sentences(part, encoder, self.depth(context.settings), context.settings)
        weights = self._weights(context)
        values = np.zeros((len(part), 3))
        for rows, candidates, references in caption_blocks(part.candidates, table, part.references):
            values[rows] = pool_scores(*greedy_match(candidates, references, weights), self.pooling)
        if self.rescale is not False:
            precision, recall, f1 = self._baseline(context.settings)
            baseline = np.array([f1, precision, recall])
            values = (values - baseline) / (1 - baseline)
        values[:, 0] = values[:, ("f1", "precision", "recall").index(self.score)]
        return Measurement(values, note_truncated_sentences(part, encoder, context.settings))

    def _weights(self, context: RunContext) -> Floats:
        frequencies: PieceFrequencies | None = context.state
        if frequencies is None:
            return np.ones(vocabulary_size(find_encoder(self.encoder), context.settings))
        return frequencies.smoothed_idf()

    def _baseline(self, settings: Settings) -> tuple[float, float, float]:
        if self.rescale is not True:
            return (self.rescale,) * 3
        depth = self.depth(settings)
        baseline = BASELINES.get((self.encoder, depth))
        if baseline is None:
            raise InputError(
                f"bertscore: no baseline is known for encoder {self.encoder!r} at layer {depth}; known are "
                f"{', '.join(f'{name} ({layer})' for name, layer in BASELINES)}; measure one with `capmeter calibrate` "
                f"and set rescale=B, or leave rescale out"
            )
        return baseline

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the layer, the libraries and the source of idf."""
        state, settings = context.state, context.settings
        source = {"idf": f"run/{state.documents} references"} if isinstance(state, PieceFrequencies) else {}
        return encoder_facts(find_encoder(self.encoder), self.depth(settings), settings) | source

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """For every reference, each word piece of either side linked with its best match."""
        handle = find_encoder(self.encoder)
        encoder = load_encoder(handle, context.settings)
        table = encode_sentences(part, handle, self.depth(context.settings), context.settings)
        measured = self.measure(part, context).values
        evidence = []
        for row in range(len(part)):
            candidate, references = int(part.candidates[row]), part.references[row].tolist()
            links = []
            for index, reference in enumerate(references):
                cosine = table.unit_row(candidate)[1:-1] @ table.unit_row(reference)[1:-1].T
                if not cosine.size:
                    continue
                pairs = {(int(c), r) for r, c in enumerate(cosine.argmax(0))}
                pairs |= {(c, int(r)) for c, r in enumerate(cosine.argmax(1))}
                for c, r in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
                    links.append(Link((c, c + 1), index, (r, r + 1), "embedding", float(cosine[c, r])))
            words = [tuple(encoder.tokens(table.pieces[sentence][1:-1])) for sentence in (candidate, *references)]
            facts = dict[str, float | str](
                zip((self.score, "precision", "recall"), measured[row].tolist(), strict=True)
            )
            evidence.append(Evidence(words[0], tuple(words[1:]), tuple(links), (), facts))
        return evidence


def greedy_match(candidates: Pieces, references: Pieces, weights: Floats) -> tuple[Floats, Floats, Flags]:
    """P and R of each row's candidate with each of its references, and which references exist, (n, references) each.

    A piece's best match is the most similar piece of the other side, including begin and end tokens.
    """
    cosine = candidates.states @ references.states.transpose(0, 2, 1)  # (n, c, t)
    count = int(references.sentence.max(initial=0)) + 1
    in_reference = references.sentence_masks(count)
    present: Flags = np.asarray(in_reference.any(axis=2))
    best_in_candidate = np.where(candidates.mask[:, :, None], cosine, -2).max(axis=1)  # (n, t)
    words = np.logical_and(in_reference, references.word_mask[:, None, :])
    reference_weights = np.where(words, weights[references.ids][:, None, :], 0.0)
    recall = _weighted_mean(best_in_candidate[:, None, :], reference_weights, words)
    precision = np.zeros_like(recall)
    candidate_weights = np.where(candidates.word_mask, weights[candidates.ids], 0.0)
    for k in range(count):
        best_in_reference = np.where(in_reference[:, k, None, :], cosine, -2).max(axis=2)  # (n, c)
        precision[:, k] = _weighted_mean(best_in_reference, candidate_weights, candidates.word_mask)
    nonempty = np.asarray(candidates.word_mask.any(axis=1))[:, None] & np.asarray(words.any(axis=2))
    return np.where(nonempty, precision, 0.0), np.where(nonempty, recall, 0.0), present


def pool_scores(precision: Floats, recall: Floats, present: Flags, pooling: str) -> Floats:
    """F1, P and R pooled over the references that are present, each (n, references): (n, 3)."""
    scores = np.stack([harmonic_mean(precision, recall), precision, recall], axis=-1)
    if pooling == "max":
        return np.asarray(np.where(present[..., None], scores, -np.inf).max(axis=1))
    return np.asarray((scores * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None])


def harmonic_mean(precision: Floats, recall: Floats) -> Floats:
    """F1 of P and R, clipped to [-1, 1]: the formula is unbounded near P = -R."""
    total = precision + recall
    quotient = 2 * precision * recall / np.where(total == 0, 1.0, total)
    f1: Floats = np.clip(np.where(total == 0, 0.0, quotient), -1, 1)
    return f1


def _weighted_mean(values: NDArray[Any], weights: Floats, words: Flags) -> Floats:
    """Weighted mean over the last axis; the unweighted mean over words if all weights are 0; 0 without words."""
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, weights, words)
    total = weights.sum(axis=-1)
    mean: Floats = (values.astype(np.float64) * weights).sum(axis=-1) / np.where(total > 0, total, 1.0)
    return mean
