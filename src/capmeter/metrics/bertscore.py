"""BERTScore (Zhang et al. 2020): greedy matching of contextual word pieces by cosine similarity.

    R = Σ_{r ∈ reference} w(r) max_{c ∈ candidate} cos(r, c) / Σ_r w(r)          P: the same with the roles swapped
    F1 = 2 P R / (P + R)

The vectors are the hidden states of one layer of a language model. w is 1, or with `idf` ln((N + 1) / (df + 1)) over
the N references of the run; begin and end tokens can be matched but have weight 0. With several references, P, R and F1
are each their maximum (`pooling="max"`, as published) or mean over the references. The score is F1; precision and
recall are parts. Range -1 to 1 (precision and recall up to rounding, 1e-6), in practice 0 to 1; 1 for a candidate that
equals a reference. An empty candidate scores 0.

`rescale` maps the similarity of unrelated captions to 0: (x - b) / (1 - b). The baselines b of `bert`, `roberta`,
`distilbert` and `distilroberta` at their default layers are those of the bert-score package; the baseline of `minilm`
was measured in the same way from unrelated captions. For another encoder or layer, measure one with `capmeter
calibrate` and set `rescale=b`.

Differences from the bert-score package: docs/parity.md.

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

from capmeter.captions.model import CaptionSet
from capmeter.encoders import load_encoder
from capmeter.errors import InputError
from capmeter.metrics.base import Context, Corpus, Floats, MeanMetric, Measurement
from capmeter.metrics.evidence import Evidence, Link
from capmeter.metrics.word_pieces import (
    PieceDocuments,
    PieceFrequencies,
    Pieces,
    blocks,
    encoder_facts,
    hidden_states,
    truncation_note,
    vocabulary_size,
)
from capmeter.settings import Settings

# The layers with the best agreement with people in the bert-score package; other encoders use their last.
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

    encoder: alias, hub id or folder. layer: None means the encoder's default layer. idf: weight pieces by rarity in the
    run's references. rescale: map unrelated captions to 0, by the known baseline or the given one. pooling: over
    references.
    """

    NAME: ClassVar[str] = "bertscore"
    SUMMARY: ClassVar[str] = "greedy matching of contextual word pieces by cosine"
    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 2048

    encoder: Annotated[str, "alias, hub id or folder of the encoder"] = "minilm"
    layer: Annotated[int | None, "hidden layer; none: the encoder's default layer"] = None
    idf: Annotated[bool, "weight word pieces by rarity in the run's references"] = False
    rescale: Annotated[bool | float, "map unrelated captions to 0, by the known baseline or the given one"] = False
    pooling: Annotated[Literal["max", "mean"], "the score over several references"] = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rescale, bool) and not -1 < self.rescale < 1:
            raise InputError(
                f"bertscore: expected rescale=true, false or a baseline between -1 and 1, but got {self.rescale}"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """F1, precision, recall."""
        return "score", "precision", "recall"

    def corpus(self) -> Corpus | None:
        """Frequencies of word pieces in the references, for idf."""
        return PieceDocuments(self.encoder) if self.idf else None

    def depth(self, settings: Settings) -> int:
        """The layer in use."""
        return load_encoder(self.encoder, settings).layer(self.layer, LAYERS.get(self.encoder))

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """F1, P and R of each caption."""
        table = hidden_states(part, self.encoder, self.depth(context.settings), context.settings)
        weights = self._weights(context)
        values = np.zeros((len(part), 3))
        for rows, candidates, references in blocks(part.candidates, table, part.references):
            precision, recall, present = greedy_match(candidates, references, weights)
            f1 = harmonic_mean(precision, recall)
            scores = np.stack([f1, precision, recall], axis=-1)  # [rows, references, 3]
            if self.pooling == "max":
                values[rows] = np.where(present[..., None], scores, -np.inf).max(axis=1)
            else:
                values[rows] = (scores * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None]
        if self.rescale is not False:
            precision_0, recall_0, f1_0 = self._baseline(context.settings)
            base = np.array([f1_0, precision_0, recall_0])
            values = (values - base) / (1 - base)
        return Measurement(values, truncation_note(part, self.encoder, context.settings))

    def _weights(self, context: Context) -> Floats:
        found: PieceFrequencies | None = context.state
        return np.ones(vocabulary_size(self.encoder, context.settings)) if found is None else found.smoothed()

    def _baseline(self, settings: Settings) -> tuple[float, float, float]:
        if self.rescale is not True:
            return (self.rescale,) * 3
        depth = self.depth(settings)
        found = BASELINES.get((self.encoder, depth))
        if found is None:
            raise InputError(
                f"bertscore: no baseline is known for encoder {self.encoder!r} at layer {depth}; known are "
                f"{', '.join(f'{name} ({layer})' for name, layer in BASELINES)}; measure one with `capmeter calibrate` "
                f"and set rescale=B, or leave rescale out"
            )
        return found

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the layer, the libraries and where idf comes from."""
        state, settings = context.state, context.settings
        source = {"idf": f"run/{state.documents} references"} if isinstance(state, PieceFrequencies) else {}
        return encoder_facts(self.encoder, self.depth(settings), settings) | source

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """For every reference, each of its word pieces with its best match, then the candidate's unlinked pieces."""
        encoder = load_encoder(self.encoder, context.settings)
        table = hidden_states(part, self.encoder, self.depth(context.settings), context.settings)
        measured = self.measure(part, context).values
        evidence = []
        for row in range(len(part)):
            candidate = int(part.candidates[row])
            links = []
            for number, reference in enumerate(part.references[row]):
                similar = table.unit_row(candidate)[1:-1] @ table.unit_row(int(reference))[1:-1].T
                if not similar.size:
                    continue
                pairs = {(int(c), r) for r, c in enumerate(similar.argmax(0))}
                pairs |= {(c, int(r)) for c, r in enumerate(similar.argmax(1))}
                for c, r in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
                    links.append(Link((c, c + 1), number, (r, r + 1), "embedding", float(similar[c, r])))
            words = [
                tuple(encoder.tokens(table.pieces[int(s)][1:-1])) for s in (candidate, *part.references[row].tolist())
            ]
            facts: dict[str, float | str] = dict(
                zip(("f1", "precision", "recall"), measured[row].tolist(), strict=True)
            )
            evidence.append(Evidence(words[0], tuple(words[1:]), tuple(links), (), facts))
        return evidence


def greedy_match(candidates: Pieces, references: Pieces, weights: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """P and R of each row's candidate with each of its references, and which references exist.

    All three have the shape [rows, references]. The best match of a piece is sought among all real (not padding) pieces
    of the other side, begin and end tokens included.
    """
    similar = candidates.states @ references.states.transpose(0, 2, 1)  # [n, c, t]
    number = int(references.owner.max(initial=0)) + 1
    owned: NDArray[np.bool_] = references.owned(number)
    present: NDArray[np.bool_] = np.asarray(owned.any(axis=2))
    best_of_reference = np.where(candidates.real[:, :, None], similar, -2).max(axis=1)  # [n, t]
    words = np.logical_and(owned, references.word[:, None, :])
    recall = _weighted(best_of_reference[:, None, :], np.where(words, weights[references.ids][:, None, :], 0.0), words)
    precision = np.zeros_like(recall)
    candidate_weight = np.where(candidates.word, weights[candidates.ids], 0.0)
    for b in range(number):
        best_of_candidate = np.where(owned[:, b, None, :], similar, -2).max(axis=2)  # [n, c]
        precision[:, b] = _weighted(best_of_candidate, candidate_weight, candidates.word)
    spoken = np.asarray(candidates.word.any(axis=1))[:, None] & np.asarray(words.any(axis=2))
    return np.where(spoken, precision, 0.0), np.where(spoken, recall, 0.0), present


def harmonic_mean(precision: Floats, recall: Floats) -> Floats:
    """F1 of P and R, clipped to [-1, 1]: the formula is unbounded near P = -R."""
    total = precision + recall
    quotient = 2 * precision * recall / np.where(total == 0, 1.0, total)
    f1: Floats = np.clip(np.where(total == 0, 0.0, quotient), -1, 1)
    return f1


def _weighted(values: NDArray[Any], weights: Floats, words: NDArray[np.bool_]) -> Floats:
    """Weighted mean over the last axis; the unweighted mean over words if all weights are 0; 0 without words."""
    total = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, weights, words)
    total = weights.sum(axis=-1)
    mean: Floats = (values.astype(np.float64) * weights).sum(axis=-1) / np.where(total > 0, total, 1.0)
    return mean
