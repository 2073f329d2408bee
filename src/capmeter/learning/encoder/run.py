"""A whole run: from photos with captions to the checkpoint of an adapted encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.captions.model import SentencePool
from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.encoders import SentenceVectors, load_encoder
from capmeter.encoders.adaptation import KIND
from capmeter.encoders.bert import Bert
from capmeter.errors import AssetError
from capmeter.learning.capmeter.examples import CAPTIONS
from capmeter.learning.corpus import Photo
from capmeter.learning.encoder.network import AdaptedBert
from capmeter.learning.encoder.recipe import EncoderRecipe
from capmeter.learning.encoder.training import EncoderLearner
from capmeter.learning.loop import Run, seeded
from capmeter.metrics.capmeter.inputs import plain
from capmeter.settings import Settings

_SENTENCES_AT_ONCE = 8192


def train_encoder(
    trained: Sequence[Photo],
    held_out: Sequence[Photo],
    recipe: EncoderRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    encoder: str = "minilm",
    device: str = "cpu",
) -> Checkpoint:
    """Trains an adaptation of an encoder and writes its checkpoint into the folder.

    An interrupted run is resumed from `run` there.

    Args:
        trained, held_out: photos with five captions each or more.
        recipe: settings.
        folder: the output folder.
        data: the sources of the captions.
        encoder: the name of the encoder that is adapted.
        device: a torch device.

    Raises:
        AssetError: the encoder is not of the BERT kind, or is adapted already.
    """
    base = load_encoder(encoder, Settings(device=device))
    if base.files.adapts is not None or not Bert.reads(base.files.folder):
        raise AssetError(f"encoder {encoder!r} cannot be adapted; name one of the BERT kind that is not adapted")
    bert = Bert(base.files.folder, device, torch.float32)
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(plain(text), len(numbers)) for text in photo.captions[:CAPTIONS]]
        for photo in (*trained, *held_out)
    ]
    captions, sentences = np.array(rows, np.int64), tuple(numbers)
    seeded(recipe.seed)
    module = AdaptedBert(bert, recipe.rank, recipe.slope, recipe.offset, recipe.dropout)
    means = photo_means(sentences, captions[: len(trained)], encoder, Settings(device=device))
    learner = EncoderLearner(module, base.pieces(sentences), captions, means, recipe)
    outcome = Run(learner, recipe, folder / "run", description="adapting the encoder", device=device).train()
    made = Checkpoint(
        kind=KIND,
        parameters={"encoder": base.files.name, "encoder_sha256": base.files.sha256, "rank": recipe.rank},
        weights={
            name: values.astype(np.float16) for name, values in outcome.weights.items() if name.startswith("layers.")
        },
        data=tuple(data),
        training={**asdict(recipe), "photos": len(trained)},
        selection=f"the last of {len(outcome.history)} epochs",
        scores=outcome.scores,
    )
    made.save(folder)
    return made


def photo_means(
    sentences: Sequence[str], captions: NDArray[np.int64], encoder: str, settings: Settings
) -> NDArray[np.float32]:
    """The direction of the mean vector of each photo's captions.

    Args:
        sentences: all that the captions may be.
        captions: int64[photos, captions], numbers of sentences.
        encoder: its name.
        settings: where it runs.
    """
    layer = load_encoder(encoder, settings).layers
    parts = [
        SentencePool(tuple(sentences[start : start + _SENTENCES_AT_ONCE])).analyse(
            SentenceVectors(encoder, layer, settings)
        )
        for start in range(0, len(sentences), _SENTENCES_AT_ONCE)
    ]
    means: NDArray[np.float32] = np.concatenate(parts)[captions].mean(axis=1)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    return means
