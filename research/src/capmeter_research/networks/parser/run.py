"""Trains the caption parser: from parsed captions to a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.text.parsing.caption_parser import KIND
from capmeter_research.common.loop import Outcome, Run
from capmeter_research.common.parsed_captions import ParsedCaption
from capmeter_research.networks.parser.examples import collect_sentences, learn_vocabulary, pack_sentences
from capmeter_research.networks.parser.lemma_rules import learn_lemma_rules
from capmeter_research.networks.parser.training import ParserLearner, ParserRecipe


def train_parser(
    captions: Sequence[ParsedCaption],
    recipe: ParserRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    share: float = 1.0,
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a parser on the captions whose photos are not held out, and writes its checkpoint.

    Args:
        captions: without benchmark photos (`read_parsed_captions` leaves them out).
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the captions.
        share: share of the photos to train on.
        threads: number of threads; it changes the order of sums, and so the weights slightly.
        device: a torch device. On a GPU, weights are reproduced approximately, not bit for bit.

    Raises:
        InputError: no training sentences, or none held out.
    """
    torch.set_num_threads(threads)
    train = collect_sentences(each for each in captions if not each.held_out and _is_within_share(each, share))
    held_out = collect_sentences(caption for caption in captions if caption.held_out)
    if not train or not held_out:
        count_text = f"{len(train)} training sentences and {len(held_out)} held out"
        raise InputError(f"{len(captions)} captions give {count_text}; expected some of each: give more captions")
    vocabulary, hiding = learn_vocabulary(train)
    packed, packed_held_out = (pack_sentences(parses, vocabulary) for parses in (train, held_out))
    learner = ParserLearner(packed, packed_held_out, vocabulary, hiding, recipe)
    outcome = Run(learner, recipe, folder, description="training the parser", device=device).train()
    training = {
        **asdict(recipe),
        "share": share,
        "threads": threads,
        "device": torch.device(device).type,
        "sentences": len(train),
        "words": sum(map(len, train)),
    }
    parameters = {
        "shape": asdict(recipe.shape),
        "tags": list(vocabulary.tags),
        "labels": list(vocabulary.labels),
        "lemmas": learn_lemma_rules(train),
    }
    Checkpoint(
        kind=KIND,
        parameters=parameters,
        weights={weight_name: values.astype(np.float16) for weight_name, values in outcome.weights.items()},
        vocabulary=tuple(sorted(vocabulary.features, key=vocabulary.features.__getitem__)),
        data=tuple(data),
        training=training,
        selection="the averaged weights at the end of the run; no others were evaluated",
        scores=outcome.scores,
    ).save(folder)
    return outcome


def _is_within_share(caption: ParsedCaption, share: float) -> bool:
    """Whether the photo is in this share, by another hash than that of held-out photos."""
    digest = hashlib.sha256(f"share {caption.source} {caption.photo}".encode()).hexdigest()
    return int(digest[:12], 16) < share * 16**12
