"""Calibration of an encoder's similarities from captions alone: TBR's β and BERTScore's baselines.

Captions of different images are unrelated, and yet the best match of a word of one among the words of the other has a
cosine well above 0, because the encoder's vectors share directions. A match is informative only if it exceeds what
unrelated captions reach. So β is the mean greedy match between captions of different images, over words (the recall of
Eq. 3 without idf and cut). The paper's two values, chosen by hand, are similar: .4 for bert (layer 8) and .83 for
roberta (layer 17), where the baselines that the bert-score package measured in this way on web text are .372 and .831.
No human judgment is used. BERTScore's baseline is the mean P, R and F1 of the same pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.model import Caption, CaptionSet
from capmeter.encoders import load_encoder
from capmeter.errors import InputError
from capmeter.metrics import bertscore
from capmeter.metrics.tbr import combination, tbr
from capmeter.metrics.word_pieces import blocks, hidden_states, vocabulary_size
from capmeter.settings import Settings

_PAIRS_AT_ONCE = 2048


@dataclass(frozen=True)
class Calibration:
    """β for `tbr` and the baseline (precision, recall, F1) for `bertscore`, and the number of caption pairs used.

    `error` is the standard error of β.
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
    """Measures an encoder on random pairs of captions of different images.

    `captions` are (image, sentence) pairs; at least two images are needed. `layer`: None means the last layer.
    """
    if pairs < 1:
        raise InputError(f"calibrate: expected at least one pair, but got {pairs}")
    settings = settings or Settings()
    depth = load_encoder(encoder, settings).layer(layer)
    spoken = [(image, sentence) for image, sentence in captions if sentence.strip()]
    images = np.unique([image for image, _ in spoken], return_inverse=True)[1] if spoken else np.zeros(0, np.int64)
    if not len(images) or images.max() == 0:
        raise InputError("calibrate: captions of at least two images are needed to form pairs; give more captions")
    generator = np.random.default_rng(seed)
    left = generator.integers(len(spoken), size=pairs)
    right = generator.integers(len(spoken), size=pairs)
    while len(same := np.flatnonzero(images[left] == images[right])):
        right[same] = generator.integers(len(spoken), size=len(same))

    recalls, scores = [], []
    for start in range(0, pairs, _PAIRS_AT_ONCE):
        rows = range(start, min(start + _PAIRS_AT_ONCE, pairs))
        part = CaptionSet.from_captions(
            Caption(str(row), str(row), spoken[left[row]][1], (spoken[right[row]][1],)) for row in rows
        )
        table = hidden_states(part, encoder, depth, settings)
        weights = np.ones(vocabulary_size(encoder, settings))
        for _, candidates, references in blocks(part.candidates, table, part.references):
            compared = combination.compare(candidates, references, weights, np.zeros(len(weights), np.bool_))
            recalls.append(combination.recall(combination.own_words(references), compared, 0.0)[:, 0])
            precision, recall, _ = bertscore.greedy_match(candidates, references, weights)
            f1 = bertscore.harmonic_mean(precision, recall)
            scores.append(np.stack([precision, recall, f1])[:, :, 0])
    found = np.concatenate(recalls)
    precision_mean, recall_mean, f1_mean = np.concatenate(scores, axis=1).mean(axis=1).tolist()
    return Calibration(
        encoder=encoder,
        layer=depth,
        pairs=pairs,
        beta=float(found.mean()),
        error=float(found.std() / np.sqrt(pairs)),
        baseline=(precision_mean, recall_mean, f1_mean),
    )


def shipped(encoder: str, layer: int) -> tuple[float | None, ...]:
    """The shipped β and baseline P, R, F1 for an encoder's layer; None where there is none."""
    beta = tbr.BETAS.get((encoder, layer))
    return (beta, *bertscore.BASELINES.get((encoder, layer), (None, None, None)))
