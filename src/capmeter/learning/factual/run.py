"""A whole run: from captions with graphs to the checkpoint of a graph maker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from capmeter.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.errors import InputError
from capmeter.learning.factual.examples import FactExample, learn_vocabulary, pack
from capmeter.learning.factual.network import FactModule
from capmeter.learning.factual.training import FactLearner, FactRecipe
from capmeter.learning.loop import Outcome, Run, seeded
from capmeter.learning.parser.network import ParserModule
from capmeter.text.caption_parser import KIND as PARSER
from capmeter.text.fact_maker import KIND
from capmeter.text.fact_vocabulary import FactVocabulary
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import FIRST_FEATURE, ParserVocabulary

TOGETHER = "together"  # folder of the second stage


def train_factual(
    examples: Sequence[FactExample],
    recipe: FactRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    parser: str = PARSER,
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a graph maker on captions that are neither held out nor of dev, and writes its checkpoint.

    Args:
        examples: FACTUAL's captions.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the examples.
        parser: the checkpoint of the caption parser whose network the reader begins as.
        threads: number of threads. Another number sums in another order and gives slightly different weights.
        device: a torch device. Weights made on a GPU are repeated nearly, not bit for bit.

    Raises:
        InputError: no training captions, or none held out.
    """
    torch.set_num_threads(threads)
    learned = [example for example in examples if example.split == "train" and not example.held_out]
    held_out = [example for example in examples if example.held_out]
    if not learned or not held_out:
        raise InputError(
            f"{len(examples)} captions give {len(learned)} training captions and {len(held_out)} held out; "
            "expected some of each: give more captions"
        )
    start = load_checkpoint(parser, PARSER)
    features = ParserVocabulary({each: number for number, each in enumerate(start.vocabulary, FIRST_FEATURE)}, (), ())
    lemmas = LemmaRules(**start.parameters["lemmas"])
    vocabulary = learn_vocabulary(learned, lemmas)
    module = new_module(start, vocabulary, recipe)
    steps = recipe.shape.steps
    packed, kept = (pack(each, vocabulary, features, lemmas, steps) for each in (learned, held_out))
    alone = replace(recipe, reader_rate=0.0)
    learner = FactLearner(module, packed, kept, alone)
    outcome = Run(learner, alone, folder, description="training the writer", device=device).train()
    if recipe.together:
        module.load_state_dict({name: torch.from_numpy(values) for name, values in outcome.weights.items()})
        both = replace(recipe, epochs=recipe.together)
        learner = FactLearner(module, packed, kept, both)
        outcome = Run(learner, both, folder / TOGETHER, description="training reader and writer", device=device).train()
    weights = {name: values.astype(np.float16) for name, values in outcome.weights.items()}
    Checkpoint(
        kind=KIND,
        parameters={
            "reader": dict(start.parameters["shape"]),
            "writer": asdict(recipe.shape),
            "tokens": list(vocabulary.tokens),
            "lemmas": dict(start.parameters["lemmas"]),
        },
        weights=weights,
        vocabulary=start.vocabulary,
        data=tuple(data),
        training={
            **asdict(recipe),
            "reader": start.label,
            "captions": len(learned),
            "threads": threads,
            "device": torch.device(device).type,
        },
        selection="the epoch with the most graphs written exactly on held-out training captions; dev was not looked at",
        scores=outcome.scores,
    ).save(folder)
    return outcome


def new_module(start: Checkpoint, vocabulary: FactVocabulary, recipe: FactRecipe) -> FactModule:
    """The network before training: its reader is the caption parser of a checkpoint."""
    seeded(recipe.seed)
    count, width = start.weights["features.weight"].shape
    reader = ParserModule(
        features=count,
        tags=len(start.parameters["tags"]),
        labels=len(start.parameters["labels"]),
        shape=NetworkShape(**start.parameters["shape"]),
        width=width,
        hidden=len(start.weights["layers.0.widen.bias"]),
        dropout=0.0,
        word_dropout=recipe.word_dropout,
    )
    reader.load_state_dict({name: torch.from_numpy(each.astype(np.float32)) for name, each in start.weights.items()})
    return FactModule(
        reader, width, len(vocabulary), recipe.shape, dropout=recipe.dropout, token_dropout=recipe.token_dropout
    )
