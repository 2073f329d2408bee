"""Adapts an encoder to captions: from photos with captions to a checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from capmeter.captions.caption_set import SentencePool
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import AssetError
from capmeter.core.output_files import atomic_file
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, SentenceVectors, load_encoder
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import KIND, LAYERS
from capmeter.encoders.text.reference_reader import PREFIX
from capmeter.metrics.own.inputs import strip_final_punctuation
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo
from capmeter_research.common.loop import Run, set_seed
from capmeter_research.common.similar_photos import mean_directions
from capmeter_research.networks.text_encoder.rank_reduction import reduce_rank
from capmeter_research.networks.text_encoder.recipe import EncoderRecipe
from capmeter_research.networks.text_encoder.training import AdaptedBert, EncoderLearner, ReadingBert, ReadingLearner

EMBEDDINGS = "photo_embeddings.npz"
_SENTENCES_PER_CALL = 8192


def train_encoder(
    train: Sequence[Photo],
    held_out: Sequence[Photo],
    recipe: EncoderRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    encoder: EncoderHandle,
    device: str = "cpu",
) -> Checkpoint:
    """Trains an adapter of an encoder and writes its checkpoint.

    Args:
        train: training photos, with at least five captions each.
        held_out: photos for evaluation, with at least five captions each.
        recipe: settings.
        folder: the output folder; an interrupted run is resumed from `run` there.
        data: the sources of the captions.
        encoder: the encoder that is adapted.
        device: a torch device.

    Raises:
        AssetError: the encoder is not a BERT, or has adapters.
    """
    if encoder.adapters or not Bert.supports(encoder.folder):
        raise AssetError(f"encoder {encoder.name!r} cannot be adapted; name a BERT without adapters")
    captions, sentences = number_captions([*train, *held_out])
    settings = Settings(device=device)
    bert = Bert(encoder.folder, device, torch.float32)
    set_seed(recipe.seed)
    module_class, learner_class = (
        (ReadingBert, ReadingLearner) if recipe.reads_references else (AdaptedBert, EncoderLearner)
    )
    module = module_class(bert, recipe.rank, recipe.slope, recipe.offset, recipe.dropout)
    embeddings = load_or_embed_photos(folder / "run" / EMBEDDINGS, sentences, captions[: len(train)], encoder, settings)
    pieces = load_encoder(encoder, settings).pieces(sentences)
    learner = learner_class(module, pieces, captions, embeddings, recipe)
    outcome = Run(learner, recipe, folder / "run", description="adapting the encoder", device=device).train()
    rank = recipe.rank if recipe.stored_rank is None else min(recipe.rank, recipe.stored_rank)
    checkpoint = Checkpoint(
        kind=KIND,
        parameters={
            "encoder": encoder.name,
            "encoder_sha256": encoder.sha256,
            "rank": rank,
        },
        weights=stored_weights(outcome.weights, rank, recipe.reads_references),
        data=tuple(data),
        training={**asdict(recipe), "photos": len(train)},
        selection=f"the last of {len(outcome.history)} epochs",
        scores=outcome.scores,
    )
    checkpoint.save(folder)
    return checkpoint


def number_captions(photos: Sequence[Photo]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The captions of photos as indices of distinct sentences, (photos, 5), and these sentences."""
    sentence_numbers: dict[str, int] = {}
    caption_rows = [
        [
            sentence_numbers.setdefault(strip_final_punctuation(caption), len(sentence_numbers))
            for caption in photo.captions[:CAPTIONS_PER_PHOTO]
        ]
        for photo in photos
    ]
    return np.array(caption_rows, np.int64), tuple(sentence_numbers)


def stored_weights(weights: Mapping[str, NDArray[Any]], rank: int, reads_references: bool) -> dict[str, NDArray[Any]]:
    """The weights of a trained module as a checkpoint has them.

    Args:
        weights: of the module, by name.
        rank: the highest rank of the adapter in the checkpoint.
        reads_references: whether the module has a reader; other modules' logistic function is not stored.
    """
    factors = {name: values for name, values in weights.items() if name.startswith(LAYERS)}
    stored = {name: values.astype(np.float16) for name, values in reduce_rank(factors, rank).items()}
    if reads_references:
        stored |= {PREFIX + name: values for name, values in weights.items() if name not in factors}
    return stored


def load_or_embed_photos(
    path: Path, sentences: Sequence[str], captions: NDArray[np.int64], encoder: EncoderHandle, settings: Settings
) -> NDArray[np.float32]:
    """`embed_photos`, kept in a file for when the run is resumed: a large encoder takes minutes for it.

    Args:
        path: of the file.
        sentences: distinct texts.
        captions: sentences of each photo, (photos, captions).
        encoder: that embeds them.
        settings: where it runs.

    Returns:
        As `embed_photos` gives them.
    """
    content = json.dumps([encoder.sha256, settings.precision, sentences, captions.tolist()])
    content_key = np.frombuffer(hashlib.sha256(content.encode()).digest(), np.uint8)
    try:
        with np.load(path, allow_pickle=False) as stored_arrays:
            if np.array_equal(stored_arrays["key"], content_key):
                vectors: NDArray[np.float32] = stored_arrays["vectors"]
                return vectors
    except (OSError, ValueError, LookupError, EOFError, BadZipFile):
        pass  # absent or damaged
    vectors = embed_photos(sentences, captions, encoder, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        np.savez(file, key=content_key, vectors=vectors)
    return vectors


def embed_photos(
    sentences: Sequence[str], captions: NDArray[np.int64], encoder: EncoderHandle, settings: Settings
) -> NDArray[np.float32]:
    """The direction (photos, dim) of the mean embedding of each photo's captions.

    Args:
        sentences: of the captions.
        captions: (photos, captions), sentence indices.
        encoder: of the sentences.
        settings: for the encoder.
    """
    vectors = SentenceVectors(encoder, load_encoder(encoder, settings).layers, settings)
    vector_parts = [
        SentencePool(tuple(sentences[batch_start : batch_start + _SENTENCES_PER_CALL])).analyse(vectors)
        for batch_start in range(0, len(sentences), _SENTENCES_PER_CALL)
    ]
    return mean_directions(np.concatenate(vector_parts), captions)
