"""A whole run: from parsed captions to the checkpoint of a parser."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capmeter.checkpoints import Checkpoint, TrainingData, Weights
from capmeter.errors import InputError
from capmeter.learning.loop import Outcome, Run
from capmeter.learning.parser.examples import Example, learn_vocabulary, pack, sentences
from capmeter.learning.parser.lemma_rules import lemma_rules
from capmeter.learning.parser.training import ParserLearner, ParserRecipe
from capmeter.text.caption_parser import KIND
from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import ParserVocabulary


def train_parser(
    examples: Sequence[Example],
    recipe: ParserRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    share: float = 1.0,
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a parser on the examples whose photos are not held out, and writes its checkpoint.

    Args:
        examples: without benchmark photos (`read_examples` leaves them out).
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the examples.
        share: share of the photos to train on.
        threads: number of threads. Another number sums in another order and gives slightly different weights.
        device: a torch device. Weights made on a GPU are repeated nearly, not bit for bit.

    Raises:
        InputError: no training sentences, or none held out.
    """
    torch.set_num_threads(threads)
    learned = sentences(example for example in examples if not example.held_out and _within(example, share))
    held_out = sentences(example for example in examples if example.held_out)
    if not learned or not held_out:
        raise InputError(
            f"{len(examples)} captions give {len(learned)} training sentences and {len(held_out)} held out; "
            "expected some of each: give more captions"
        )
    vocabulary, rareness = learn_vocabulary(learned)
    learner = ParserLearner(pack(learned, vocabulary), pack(held_out, vocabulary), vocabulary, rareness, recipe)
    outcome = Run(learner, recipe, folder, description="training the parser", device=device).train()
    checkpoint = parser_checkpoint(
        {name: values.astype(np.float16) for name, values in outcome.weights.items()},
        recipe.shape,
        vocabulary,
        lemma_rules(learned),
        data=data,
        training={
            **asdict(recipe),
            "share": share,
            "threads": threads,
            "device": torch.device(device).type,
            "sentences": len(learned),
            "words": sum(map(len, learned)),
        },
        scores=outcome.scores,
    )
    checkpoint.save(folder)
    return outcome


def parser_checkpoint(
    weights: Weights,
    shape: NetworkShape,
    vocabulary: ParserVocabulary,
    lemmas: Mapping[str, Any],
    *,
    data: Sequence[TrainingData],
    training: Mapping[str, Any],
    scores: Mapping[str, float],
) -> Checkpoint:
    """What `capmeter.text.caption_parser.CaptionParser` reads."""
    return Checkpoint(
        kind=KIND,
        parameters={
            "shape": asdict(shape),
            "tags": list(vocabulary.tags),
            "labels": list(vocabulary.labels),
            "lemmas": dict(lemmas),
        },
        weights=weights,
        vocabulary=tuple(sorted(vocabulary.features, key=vocabulary.features.__getitem__)),
        data=tuple(data),
        training=training,
        selection="the average of the weights at the end of the run; no other was looked at",
        scores=scores,
    )


def _within(example: Example, share: float) -> bool:
    """Whether the photo is in this share, by a different hash from the one that holds photos out."""
    digest = hashlib.sha256(f"share {example.source} {example.photo}".encode()).hexdigest()
    return int(digest[:12], 16) < share * 16**12
