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

Calibration of an encoder's similarities on captions alone (`calibrate`): TBR's β and BERTScore's baselines. Captions of
different images are unrelated, yet a word's best match in an unrelated caption has a cosine well above 0, because the
encoder's vectors share directions. A match is informative only if it exceeds this level. So β is the mean greedy match
between captions of different images, over words (the recall of Eq. 3 without idf and cut). The paper's two values, set
by hand, are similar: .4 for bert (layer 8) and .83 for roberta (layer 17), where the baselines that the bert-score
package measured in this way on web text are .372 and .831. No human judgments are used. BERTScore's baseline is the
mean P, R and F1 of the same pairs.

Zhang, Kishore, Wu, Weinberger, Artzi: BERTScore: Evaluating Text Generation with BERT. ICLR 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.registry import other_packages
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import CorpusState, Floats, MeanMetric, Measurement, Metric, RunContext
from capmeter.evaluation.evidence import Evidence, Link
from capmeter.evaluation.registry import METRICS
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.embedding.word_pieces import (
    PieceFrequencies,
    PieceFrequencyState,
    Pieces,
    caption_blocks,
    encode_sentences,
    encoder_facts,
    note_sentences,
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
    FAMILY: ClassVar[str] = "Vectors of words and sentences"
    MISLEADS: ClassVar[str] = (
        'Rates words with similar contexts as similar, including opposites and colours ("red car", "blue car"). '
        "Differences between good systems are small on its scale. Two in three long captions score higher with a third "
        "of their sentences repeated."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"R = \frac{\sum_{r} w(r) \max_{c} \cos(r, c)}{\sum_{r} w(r)}, \quad P = \frac{\sum_{c} w(c) \max_{r} "
        r"\cos(r, c)}{\sum_{c} w(c)}",
        r"F_1 = \frac{2 P R}{P + R}",
    )

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
        encoder_handle = find_encoder(self.encoder)
        state_table = encode_sentences(part, encoder_handle, self.depth(context.settings), context.settings)
        piece_weights = self._weights(context)
        caption_scores = np.zeros((len(part), 3))
        for caption_indices, candidates, references in caption_blocks(part.candidates, state_table, part.references):
            caption_scores[caption_indices] = pool_scores(
                *greedy_match(candidates, references, piece_weights), self.pooling
            )
        if self.rescale is not False:
            precision, recall, f1 = self._baseline(context.settings)
            baseline = np.array([f1, precision, recall])
            caption_scores = (caption_scores - baseline) / (1 - baseline)
        caption_scores[:, 0] = caption_scores[:, ("f1", "precision", "recall").index(self.score)]
        return Measurement(caption_scores, note_sentences(part, encoder_handle, context.settings))

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
                f"{', '.join(f'{encoder_name} ({layer})' for encoder_name, layer in BASELINES)}; "
                f"measure one with `capmeter calibrate` and set rescale=B, or leave rescale out"
            )
        return baseline

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the layer, the libraries and the source of idf."""
        state, settings = context.state, context.settings
        idf_source = {"idf": f"run/{state.documents} references"} if isinstance(state, PieceFrequencies) else {}
        return encoder_facts(find_encoder(self.encoder), self.depth(settings), settings) | idf_source

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """For every reference, each word piece of either side linked with its best match."""
        encoder_handle = find_encoder(self.encoder)
        encoder = load_encoder(encoder_handle, context.settings)
        state_table = encode_sentences(part, encoder_handle, self.depth(context.settings), context.settings)
        caption_scores = self.measure(part, context).values
        evidence = []
        for caption_index in range(len(part)):
            candidate, references = int(part.candidates[caption_index]), part.references[caption_index].tolist()
            links = []
            for reference_index, reference in enumerate(references):
                piece_cosines = state_table.unit_row(candidate)[1:-1] @ state_table.unit_row(reference)[1:-1].T
                if not piece_cosines.size:
                    continue
                matched_pairs = {(int(c), r) for r, c in enumerate(piece_cosines.argmax(0))}
                matched_pairs |= {(c, int(r)) for c, r in enumerate(piece_cosines.argmax(1))}
                for c, r in sorted(matched_pairs, key=lambda pair: (pair[1], pair[0])):
                    links.append(Link((c, c + 1), reference_index, (r, r + 1), "embedding", float(piece_cosines[c, r])))
            piece_texts = [
                tuple(encoder.tokenizer.pieces(state_table.pieces[sentence][1:-1]))
                for sentence in (candidate, *references)
            ]
            facts = dict[str, float | str](
                zip((self.score, "precision", "recall"), caption_scores[caption_index].tolist(), strict=True)
            )
            evidence.append(Evidence(piece_texts[0], tuple(piece_texts[1:]), tuple(links), (), facts))
        return evidence


def greedy_match(candidates: Pieces, references: Pieces, weights: Floats) -> tuple[Floats, Floats, Flags]:
    """P and R of each row's candidate with each of its references, and which references exist, (n, references) each.

    A piece's best match is the most similar piece of the other side, including begin and end tokens.

    Args:
        candidates, references: their word pieces.
        weights: of the vocabulary's pieces.
    """
    piece_cosines = candidates.states @ references.states.transpose(0, 2, 1)  # (n, c, t)
    reference_count = int(references.sentence.max(initial=0)) + 1
    in_reference = references.sentence_masks(reference_count)
    present: Flags = np.asarray(in_reference.any(axis=2))
    best_in_candidate = np.where(candidates.mask[:, :, None], piece_cosines, -2).max(axis=1)  # (n, t)
    word_masks = np.logical_and(in_reference, references.word_mask[:, None, :])
    reference_weights = np.where(word_masks, weights[references.ids][:, None, :], 0.0)
    recall = _weighted_mean(best_in_candidate[:, None, :], reference_weights, word_masks)
    precision = np.zeros_like(recall)
    candidate_weights = np.where(candidates.word_mask, weights[candidates.ids], 0.0)
    for reference_index in range(reference_count):
        best_in_reference = np.where(in_reference[:, reference_index, None, :], piece_cosines, -2).max(axis=2)  # (n, c)
        precision[:, reference_index] = _weighted_mean(best_in_reference, candidate_weights, candidates.word_mask)
    has_words = np.asarray(candidates.word_mask.any(axis=1))[:, None] & np.asarray(word_masks.any(axis=2))
    return np.where(has_words, precision, 0.0), np.where(has_words, recall, 0.0), present


def pool_scores(precision: Floats, recall: Floats, present: Flags, pooling: str) -> Floats:
    """F1, P and R pooled over the references that are present, each (n, references): (n, 3).

    Args:
        precision, recall: (n, references).
        present: which references exist (n, references).
        pooling: the metric's parameter.
    """
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


def _weighted_mean(values: NDArray[Any], weights: Floats, word_mask: Flags) -> Floats:
    """Weighted mean over the last axis; the unweighted mean over words if all weights are 0; 0 without words."""
    total_weight = weights.sum(axis=-1, keepdims=True)
    weights = np.where(total_weight > 0, weights, word_mask)
    total_weight = weights.sum(axis=-1)
    mean: Floats = (values.astype(np.float64) * weights).sum(axis=-1) / np.where(total_weight > 0, total_weight, 1.0)
    return mean


@dataclass(frozen=True)
class Calibration:
    """The result for a layer of an encoder.

    Attributes:
        encoder, layer: what was calibrated.
        pairs: number of caption pairs.
        beta, error: β for the metric that has a threshold, and its standard error; None where that is not installed.
        baseline: precision, recall and F1 for `bertscore`.
    """

    encoder: str
    layer: int
    pairs: int
    beta: float | None
    error: float | None
    baseline: tuple[float, float, float]


def calibrate(
    captions: Sequence[tuple[str, str]],
    encoder: str,
    layer: int | None = None,
    *,
    pairs: int = 10000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Calibration:
    """Calibrates an encoder on random pairs of captions of different images.

    Args:
        captions: (image, sentence) pairs of at least two images.
        encoder: alias, hub id or folder.
        layer: None for the last.
        pairs: number of pairs.
        seed: of the random pairs.
        settings: device, precision and threads.

    Raises:
        InputError: there are no pairs.
    """
    if pairs < 1:
        raise InputError(f"calibrate: expected at least one pair, but got {pairs}")
    settings = settings or Settings()
    encoder_handle = find_encoder(encoder)
    depth = load_encoder(encoder_handle, settings).layer(layer)
    nonempty = [(image, sentence) for image, sentence in captions if sentence.strip()]
    images = np.unique([image for image, _ in nonempty], return_inverse=True)[1] if nonempty else np.zeros(0, np.int64)
    if not len(images) or images.max() == 0:
        raise InputError("calibrate: captions of at least two images are needed to form pairs; give more captions")
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(len(nonempty), size=pairs) for _ in range(2))
    while len(same_image := np.flatnonzero(images[left] == images[right])):
        right[same_image] = rng.integers(len(nonempty), size=len(same_image))

    paired_captions = CaptionSet.from_captions(
        Caption(str(pair), str(pair), nonempty[left[pair]][1], (nonempty[right[pair]][1],)) for pair in range(pairs)
    )
    metrics: list[Metric] = [BertScore(encoder=encoder, layer=depth), *_threshold_metrics(encoder, depth)]
    results = evaluate(paired_captions, metrics, settings=settings)
    bertscore_results, *threshold_results = results.values()
    beta = error = None
    if threshold_results:
        pair_recalls = threshold_results[0].part_items["r-comb"].array
        beta, error = float(pair_recalls.mean()), float(pair_recalls.std() / np.sqrt(pairs))
    parts = bertscore_results.part_items
    precision, recall = (float(parts[part].array.mean()) for part in ("precision", "recall"))
    baseline = precision, recall, float(bertscore_results.items.array.mean())
    return Calibration(encoder, depth, pairs, beta, error, baseline)


def find_threshold_metric() -> str | None:
    """The name of the metric whose threshold is measured; None where its package is not installed."""
    names = (package["threshold_metric"] for package in other_packages().values())
    return next((name for name in names if name in METRICS), None)


def _threshold_metrics(encoder: str, layer: int) -> list[Metric]:
    """Its recall of a single reference without idf, cut and removal of stop words, where it is installed."""
    name = find_threshold_metric()
    parameters: dict[str, Any] = {"encoder": encoder, "layer": layer, "beta": 0.0, "idf": False, "remove": False}
    return [] if name is None else [METRICS.class_of(name)(**parameters)]


def bundled_calibration(encoder: str, layer: int) -> tuple[float | None, ...]:
    """The bundled β and baseline P, R, F1 for an encoder's layer; None where there is none."""
    name = find_threshold_metric()
    beta = None if name is None else METRICS.class_of(name).BETAS.get((encoder, layer))  # type: ignore[attr-defined]
    return (beta, *BASELINES.get((encoder, layer), (None, None, None)))
