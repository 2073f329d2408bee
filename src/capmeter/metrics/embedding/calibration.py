"""Calibration of an encoder's similarities on captions alone: TBR's β and BERTScore's baselines.

Captions of different images are unrelated, yet a word's best match in an unrelated caption has a cosine well above 0,
because the encoder's vectors share directions. A match is informative only if it exceeds this level. So β is the mean
greedy match between captions of different images, over words (the recall of Eq. 3 without idf and cut). The paper's two
values, set by hand, are similar: .4 for bert (layer 8) and .83 for roberta (layer 17), where the baselines that the
bert-score package measured in this way on web text are .372 and .831. No human judgments are used. BERTScore's baseline
is the mean P, R and F1 of the same pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.metrics.embedding import bertscore
from capmeter.metrics.embedding.tbr import combination, tbr
from capmeter.metrics.embedding.word_pieces import caption_blocks, encode_sentences, vocabulary_size

_BATCH = 2048


@dataclass(frozen=True)
class Calibration:
    """The result for a layer of an encoder.

    Attributes:
        encoder, layer: what was calibrated.
        pairs: number of caption pairs.
        beta, error: β for `tbr`, and its standard error.
        baseline: precision, recall and F1 for `bertscore`.
    """

    encoder: str
    layer: int
    pairs: int
    beta: float
    error: float
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

    batch_recalls, batch_scores = [], []
    for batch_start in range(0, pairs, _BATCH):
        rows = range(batch_start, min(batch_start + _BATCH, pairs))
        part = CaptionSet.from_captions(
            Caption(str(row), str(row), nonempty[left[row]][1], (nonempty[right[row]][1],)) for row in rows
        )
        state_table = encode_sentences(part, encoder_handle, depth, settings)
        weights = np.ones(vocabulary_size(encoder_handle, settings))
        for _, candidates, references in caption_blocks(part.candidates, state_table, part.references):
            comparison = combination.compare(candidates, references, weights, np.zeros(len(weights), np.bool_))
            batch_recalls.append(combination.recall(combination.reference_words(references), comparison, 0.0)[:, 0])
            precision, recall, _ = bertscore.greedy_match(candidates, references, weights)
            f1 = bertscore.harmonic_mean(precision, recall)
            batch_scores.append(np.stack([precision, recall, f1])[:, :, 0])
    pair_recalls = np.concatenate(batch_recalls)
    precision_mean, recall_mean, f1_mean = np.concatenate(batch_scores, axis=1).mean(axis=1).tolist()
    return Calibration(
        encoder=encoder,
        layer=depth,
        pairs=pairs,
        beta=float(pair_recalls.mean()),
        error=float(pair_recalls.std() / np.sqrt(pairs)),
        baseline=(precision_mean, recall_mean, f1_mean),
    )


def bundled_calibration(encoder: str, layer: int) -> tuple[float | None, ...]:
    """The bundled β and baseline P, R, F1 for an encoder's layer; None where there is none."""
    beta = tbr.BETAS.get((encoder, layer))
    return (beta, *bertscore.BASELINES.get((encoder, layer), (None, None, None)))
