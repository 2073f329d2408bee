"""The caption parser in training.

The loss is the sum of three cross-entropies: of tags, governors, and relations to the gold governor. Batches hold
sentences of one length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.text.parsing.caption_parser import KIND, ParserVocabulary
from capmeter.text.parsing.network import ParserShape
from capmeter_research.common.loop import DeviceTensors, Learner, Outcome, Run, set_seed, split_rows
from capmeter_research.common.parsed_captions import ParsedCaption
from capmeter_research.common.recipe import Recipe
from capmeter_research.networks.parser.examples import (
    PackedSentences,
    collect_sentences,
    learn_lemma_rules,
    learn_vocabulary,
    pack_sentences,
)
from capmeter_research.networks.parser.network import ParserModule

Batch = tuple[int, npt.NDArray[np.int64]]
"""The length of the sentences, and their indices (batch)."""


@dataclass(frozen=True)
class ParserRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 11
    lr: float = 2.5e-3
    warmup: float = 0.02
    lr_schedule: str = "linear"
    max_grad_norm: float = 2.0
    ema_decay: float = 0.997
    tokens: int = 2400  # tokens per batch
    gold_tag_share: float = 0.5  # share of sentences whose gold tags are the input of the layers after tagging
    layers: int = 5  # self-attention layers
    tags_after: int = 3  # number of layers before tags are predicted
    heads: int = 4  # attention heads
    width: int = 128  # of the states
    hidden: int = 384  # width of each layer's perceptron
    dropout: float = 0.1  # inside the network
    word_dropout: float = 0.15  # of the words' vectors

    @property
    def shape(self) -> ParserShape:
        """What cannot be inferred from the shapes of the weights."""
        return ParserShape(self.heads, self.layers, self.tags_after)


class ParserLearner(Learner[Batch]):
    """The caption parser in training.

    Args:
        examples: training sentences, packed by length.
        held_out: sentences for evaluation after each epoch.
        vocabulary: features, tags and labels.
        hiding: (features), from `learn_vocabulary`.
        recipe: settings.
    """

    def __init__(
        self,
        examples: Mapping[int, PackedSentences],
        held_out: Mapping[int, PackedSentences],
        vocabulary: ParserVocabulary,
        hiding: npt.NDArray[Any],
        recipe: ParserRecipe,
    ) -> None:
        self.recipe = recipe
        self.counts = {length: len(group) for length, group in examples.items()}
        self.examples, self.held_out = (
            {
                length: DeviceTensors(group.features, group.tags, group.heads, group.labels)
                for length, group in groups.items()
            }
            for groups in (examples, held_out)
        )
        set_seed(recipe.seed)
        self.module: ParserModule = ParserModule(
            features=len(vocabulary.features) + 2,
            tags=len(vocabulary.tags),
            labels=len(vocabulary.labels),
            shape=recipe.shape,
            width=recipe.width,
            hidden=recipe.hidden,
            dropout=recipe.dropout,
            word_dropout=recipe.word_dropout,
            hiding=torch.from_numpy(np.asarray(hiding, np.float32)),
        )

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam with a shorter memory for squared gradients."""
        return torch.optim.Adam(self.module.parameters(), lr=lr, betas=(0.9, 0.98), fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Sentences of one length, in a new order each epoch."""
        batches: list[Batch] = []
        for length, sentence_count in self.counts.items():
            sentence_order, batch_size = rng.permutation(sentence_count), max(8, self.recipe.tokens // length)
            batches += [(length, rows) for rows in split_rows(sentence_order, batch_size)]
        batch_order = rng.permutation(len(batches))
        return [batches[batch_index] for batch_index in batch_order]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """Cross-entropies of tags, governors and relations."""
        length, indices = batch
        features, *gold_targets = self.examples[length].select(indices, self.device)
        logits = self.module(features, gold_targets[0], gold_targets[1], gold_tag_share=self.recipe.gold_tag_share)
        return {
            loss_name: functional.cross_entropy(predicted_logits.flatten(0, 1).float(), gold_ids.flatten())
            for loss_name, predicted_logits, gold_ids in zip(
                ("tags", "governors", "relations"), logits, gold_targets, strict=True
            )
        }

    def evaluate(self) -> Mapping[str, float]:
        """Held-out `tags`, `uas` and `las` in per cent, each governor by itself (no tree is decoded)."""
        correct_counts, word_count = np.zeros(3), 0
        for group_tensors in self.held_out.values():
            features, gold_tags, gold_heads, gold_labels = group_tensors.select(slice(None), self.device)
            tags, heads, labels = (logits.argmax(-1) for logits in self.module(features, gold_tags))
            same_head = heads == gold_heads
            matches = (tags == gold_tags, same_head, same_head & (labels == gold_labels))
            correct_counts += [float(match_mask.sum()) for match_mask in matches]
            word_count += gold_tags.numel()
        return {
            score_name: round(100 * float(correct_count) / max(1, word_count), 2)
            for score_name, correct_count in zip(("tags", "uas", "las"), correct_counts, strict=True)
        }


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
