"""A whole run: from parsed captions to the files of a parser."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from capmeter.errors import InputError, MissingBackend
from capmeter.learning.parser.examples import Example, learn_vocabulary, pack, sentences
from capmeter.learning.parser.files import write_parser
from capmeter.learning.parser.lemma_rules import lemma_rules
from capmeter.learning.parser.recipe import Recipe
from capmeter.learning.parser.training import Training


def train_parser(
    examples: Sequence[Example],
    recipe: Recipe,
    folder: Path,
    *,
    data: Mapping[str, Any],
    share: float = 1.0,
    threads: int = 1,
) -> dict[str, Any]:
    """Trains a parser on the examples whose photos are not held out, and writes its files.

    Args:
        examples: none of a benchmark's photo (`read_examples` leaves them out).
        recipe: settings.
        folder: to write to; a run that was stopped there is taken up.
        data: what the card says of the data: names and hashes of files, and so on.
        share: of the photos that are learned from.
        threads: of the processor. Another number adds in another order, and so gives slightly other weights.

    Returns:
        The last line of the log.

    Raises:
        InputError: nothing to learn from, or nothing held out.
        MissingBackend: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingBackend('training needs torch: pip install "capmeter[neural]"') from error
    torch.set_num_threads(threads)
    learned = sentences(example for example in examples if not example.held_out and _within(example, share))
    held_out = sentences(example for example in examples if example.held_out)
    if not learned or not held_out:
        raise InputError(
            f"{len(examples)} captions are {len(learned)} sentences to learn from and {len(held_out)} held out; "
            "expected some of each: give more captions"
        )
    vocabulary, rareness = learn_vocabulary(learned)
    packed, kept = pack(learned, vocabulary), pack(held_out, vocabulary)
    training = Training(packed, kept, vocabulary, rareness, recipe, folder)
    last = training.run()
    record = {
        **data,
        "sentences": len(learned),
        "words": sum(map(len, learned)),
        "recipe": asdict(recipe),
        "last": last,
    }
    weights = {name: values.numpy() for name, values in training.average.items()}
    write_parser(
        folder,
        weights=weights,
        shape=training.shape,
        vocabulary=vocabulary,
        lemmas=lemma_rules(learned),
        training=record,
    )
    return last


def _within(example: Example, share: float) -> bool:
    """Whether the photo is among this share, by another hash than the one that holds photos out."""
    digest = hashlib.sha256(f"share {example.source} {example.photo}".encode()).hexdigest()
    return int(digest[:12], 16) < share * 16**12
