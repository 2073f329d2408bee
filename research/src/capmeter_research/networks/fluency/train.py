"""The training of the detector: logistic regression with AdaGrad on captions and the same with an error.

Its probabilities are those among captions of which one in ten has an error (the logit is shifted by log(.1 / .9)).
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.load import load_references
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.core.ragged import Ragged
from capmeter.metrics.audio.detector import KIND, FluencyDetector, feature_indices, tag_words
from capmeter.report.tables import Table
from capmeter.stats.ratios import RocArea
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.corpus import SMALL_PERCENT, PhotoCorpus, is_held_out, read_corpus, split_source_file
from capmeter_research.common.options import (
    TrainingReport,
    epochs_option,
    exclusions_option,
    output_option,
    seed_option,
)
from capmeter_research.networks.fluency.texts import make_error, write_sound_caption

_BATCH, _RATE, _DECAY, _BLOCK = 128, 0.1, 1e-4, 8192
_ERROR_SHARE = 0.1  # of captions to be scored, roughly; half of the training captions are faulty
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FluencyOptions:
    """The captions, and the settings of the run."""

    captions: list[str] = argument(
        help="Human captions as SOURCE=FILE, or coco=pycocoevalcap.", metavar="SOURCE=FILE..."
    )
    exclusions: Path = exclusions_option()
    also: list[Path] = option(
        [], "Captions of sounds to train on too, such as AudioCaps' or Clotho's training captions; repeatable."
    )
    output: Path | None = output_option("Write the detector to this folder.", None)
    number: int = option(
        6000, "Captions of photos, as many that a grammar writes of sounds, and as many of each file.", minimum=10
    )
    size: int = option(1 << 17, "Weights of the table of features.", minimum=1 << 8, maximum=1 << 22)
    epochs: int = epochs_option(3)
    seed: int = seed_option()


def train(options: FluencyOptions) -> TrainingReport:
    """Train the detector of fluency errors, which FENSE and SPIDEr-FL penalise, on captions with errors made in them.

    Half of the captions are those of photos, half are captions of sounds that a small grammar writes; `--also` adds
    files of human captions of sounds. Takes minutes.

    **Examples**

    `capmeter train fluency coco=pycocoevalcap --exclusions training_exclusions.json.gz --output fluency/`

    `capmeter train fluency coco=pycocoevalcap --also clotho_captions_development.csv --output fluency/`
    """
    detector, scores = train_detector(options)
    table_rows = [[source_name, 100 * value] for source_name, value in scores.items()]
    return TrainingReport(
        Table("held-out captions, %", ["captions", "area under the ROC curve"], table_rows, [False, True]),
        {"detector": detector.label, "held_out": scores},
        (f"detector: {detector.label}",),
    )


def train_detector(options: FluencyOptions) -> tuple[FluencyDetector, dict[str, float]]:
    """Trains a detector, writes its checkpoint if there is a folder, and evaluates it on held-out photos.

    Returns:
        The detector, and the area under its ROC curve on captions of held-out photos, on new captions of sounds, and on
        held-out captions of each file of sounds.
    """
    exclusions = read_exclusions(options.exclusions)
    corpora = [read_corpus(*split_source_file(source_file), exclusions) for source_file in options.captions]
    sound_corpora = [SoundCorpus.read(path) for path in options.also]
    rng = random.Random(options.seed)
    fluent_texts = _sample_captions(corpora, options.number, rng, held_out=False)
    fluent_texts += [write_sound_caption(rng) for _ in range(options.number)]
    for corpus in sound_corpora:
        fluent_texts += _sample_plain(corpus.texts(held_out=False), options.number, rng)
    weights, bias = _fit_detector(
        [*fluent_texts, *(make_error(text, rng) for text in fluent_texts)], len(fluent_texts), options
    )
    bias += math.log(_ERROR_SHARE / (1 - _ERROR_SHARE))
    scores: dict[str, float] = {}
    draft_detector = FluencyDetector(weights.astype(np.float16).astype(np.float64), bias, KIND)
    test_count = max(options.number // 10, 5)
    for source_name, test_texts in (
        ("photos", _sample_captions(corpora, test_count, rng, held_out=True)),
        ("sounds", [write_sound_caption(rng) for _ in range(test_count)]),
        *((each.data.name, _sample_plain(each.texts(held_out=True), test_count, rng)) for each in sound_corpora),
    ):
        faulty_texts = [make_error(text, rng) for text in test_texts]
        probabilities = [draft_detector.probabilities(texts) for texts in (test_texts, faulty_texts)]
        labels = np.repeat([0.0, 1.0], len(test_texts))
        scores[f"auc {source_name}"] = RocArea(labels, np.concatenate(probabilities))()
    all_corpora: list[PhotoCorpus | SoundCorpus] = [*corpora, *sound_corpora]
    checkpoint = Checkpoint(
        kind=KIND,
        parameters={"bias": bias},
        weights={"weights": weights.astype(np.float16)},
        data=tuple(replace(each.data, examples=options.number, texts=()) for each in all_corpora),
        training={
            "number": options.number,
            "epochs": options.epochs,
            "seed": options.seed,
            "rate": _RATE,
            "decay": _DECAY,
            "error_share": _ERROR_SHARE,
        },
        selection="last epoch",
        scores=scores,
    )
    if options.output is not None:
        checkpoint.save(options.output)
    return FluencyDetector.from_checkpoint(checkpoint), scores


@dataclass(frozen=True)
class SoundCorpus:
    """The captions of a file by sound, a tenth of which are held out."""

    captions: dict[str, tuple[str, ...]]
    data: TrainingData

    @classmethod
    def read(cls, path: Path) -> SoundCorpus:
        """The captions of a file in any format.

        Raises:
            InputError: it cannot be read, or has too few sounds to hold some out.
        """
        captions = {sound: tuple(sound_texts) for sound, sound_texts in load_references(path).items()}
        digest = hashlib.sha256(json.dumps(list(captions.items())).encode()).hexdigest()
        file_stem = path.name.partition(".")[0]
        corpus = cls(captions, TrainingData(file_stem, digest, sum(map(len, captions.values()))))
        for held_out in (False, True):
            if not corpus.texts(held_out):
                raise InputError(f"{path}: {len(captions):,} sounds are too few to train on some and hold out others")
        return corpus

    def texts(self, held_out: bool) -> list[str]:
        """The captions of the sounds that are held out, or of the others."""
        return [
            text
            for sound, texts in self.captions.items()
            if is_held_out((self.data.name, sound), SMALL_PERCENT) is held_out
            for text in texts
        ]


def _sample_captions(corpora: Sequence[PhotoCorpus], number: int, rng: random.Random, *, held_out: bool) -> list[str]:
    """Captions of photos, plain."""
    texts = [
        text for corpus in corpora for photo in corpus.photos if photo.held_out is held_out for text in photo.captions
    ]
    return _sample_plain(texts, number, rng)


def _sample_plain(texts: Sequence[str], number: int, rng: random.Random) -> list[str]:
    """Some of these captions in lower case, without a full stop."""
    plain_texts = (text.lower().strip(" .") for text in rng.sample(texts, min(3 * number, len(texts))))
    return [text for text in plain_texts if len(text.split()) > 1][:number]


def _fit_detector(texts: Sequence[str], fluent: int, options: FluencyOptions) -> tuple[Floats, float]:
    """The weights (size,) and the bias; the first `fluent` texts are without an error."""
    feature_rows: list[npt.NDArray[np.int64]] = []
    for block_start in range(0, len(texts), _BLOCK):
        feature_rows += [
            feature_indices(words, options.size) for words in tag_words(texts[block_start : block_start + _BLOCK])
        ]
        report_progress(f"features of {len(feature_rows):,} of {len(texts):,} captions")
    feature_table = Ragged.from_rows([feature_row.tolist() for feature_row in feature_rows], np.int64)
    labels = (np.arange(len(texts)) >= fluent).astype(np.float64)
    weights, squared_gradients, bias = np.zeros(options.size), np.full(options.size, 1e-8), 0.0
    generator = np.random.default_rng(options.seed)
    for _ in range(options.epochs):
        text_order = generator.permutation(len(texts))
        for block_start in range(0, len(text_order), _BATCH):
            batch_rows = text_order[block_start : block_start + _BATCH]
            batch_features: Any = feature_table.take(batch_rows)
            logits = np.bincount(batch_features.rows, weights[batch_features.values], len(batch_rows)) + bias
            residuals = (1 / (1 + np.exp(-np.clip(logits, -30, 30))) - labels[batch_rows]) / len(batch_rows)
            gradient = (
                np.bincount(batch_features.values, residuals[batch_features.rows], options.size) + _DECAY * weights
            )
            squared_gradients += gradient**2
            weights -= _RATE * gradient / np.sqrt(squared_gradients)
            bias -= _RATE * float(residuals.sum())
    return weights, bias
