"""UMIC in training: a UNITER that learns to rank true captions above their negatives.

    loss = mean over negatives of max(0, margin + S(I, negative) - S(I, caption)),   S = sigmoid of the ranking head

From random weights further losses are added. `logits`: the same before the sigmoid, with a margin of 1, which has
gradients where both scores are near 0 or 1. `matching`: the cross-entropy of the matching head, between captions and
other pictures' captions, as in UNITER's pretraining. The heads of the others are dropped after training: `substitution`
predicts which words of a substituted caption are wrong, `repetition` which words repeat the word before them;
where the words that are true of regions are known, `visible_word` predicts which words of a caption are true of the
picture, and `region_word` which words are true of each region, by their products with the region's embedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from capmeter.encoders.regions.uniter import PairLayout, Uniter, UniterShape
from capmeter.encoders.text.word_piece import WordPieceTokenizer
from capmeter_recipes.common.forked_map import forked_map
from capmeter_recipes.common.loop import Learner
from capmeter_recipes.common.recipe import Recipe
from capmeter_recipes.synthetic_scenes.scenes.vocabulary import visible_words
from capmeter_recipes.umic.examples import RegionExamples
from capmeter_recipes.umic.negatives import NegativeSampler

Rows = npt.NDArray[np.int64]
Ids = list[npt.NDArray[np.int32]]
"""Word-piece ids (length) of each caption."""
_SORTED_BATCHES = 16  # batches within which captions are sorted by length
_ROWS_PER_JOB = 200


@dataclass(frozen=True)
class UmicRecipe(Recipe):
    """The settings of a run; the loss weights are 0 in fine-tuning."""

    epochs: int = 10
    lr: float = 2e-6
    warmup: float = 0.1
    lr_schedule: str = "linear"
    max_grad_norm: float = 0.25
    batch: int = 64  # captions per batch, each with its negatives (the paper's 320 are 64 of them with four negatives)
    batches: int = 400  # batches per epoch, after which the loss on held-out pictures is compared
    pairs: int = 25_000  # maximum number of held-out captions for that loss, as in the paper
    margin: float = 0.2  # of the ranking loss
    logit_weight: float = 0.0  # of a ranking loss with a margin of 1 before the sigmoid
    matching_weight: float = 0.0  # of the matching loss
    substitution_weight: float = 0.0  # of the loss on substituted words
    repetition_weight: float = 0.0  # of the loss on repeated words
    visibility_weight: float = 0.0  # of the losses on words for what is visible
    dropout: float = 0.1  # after the embeddings, of attention, and in every layer


SCENE_RECIPE = UmicRecipe(
    epochs=16,
    lr=1e-3,
    warmup=0.05,
    max_grad_norm=1.0,
    batch=64,
    batches=100,
    pairs=1000,
    logit_weight=0.25,
    matching_weight=1.0,
    substitution_weight=1.0,
    repetition_weight=4.0,
    visibility_weight=1.0,
    dropout=0.0,
    ema_decay=0.99,
)
"""From random weights on synthetic scenes; all values but the margin are ours."""
SCENE_SHAPE = {"width": 128, "layers": 3, "heads": 4, "inner": 384, "positions": 96}


class UmicModule(nn.Module):
    """The parameters of a UNITER by their published names, and the heads that are used in training only."""

    def __init__(self, weights: Mapping[str, Tensor], shape: UniterShape) -> None:
        super().__init__()
        self.shape = shape
        self.parts = nn.ParameterDict({name.replace(".", ":"): nn.Parameter(each) for name, each in weights.items()})
        self.substitution_head = nn.Linear(shape.width, 1)
        self.repetition_head = nn.Linear(shape.width, 1)
        self.visible_word_head = nn.Linear(shape.width, 1)
        self.region_word_bias = nn.Parameter(torch.tensor(-3.0))  # few words are true of a region

    def uniter(self, dropout: float) -> Uniter:
        """The network on these parameters; without dropout outside training."""
        weights = {name.replace(":", "."): each for name, each in self.parts.items()}
        return Uniter(weights, self.shape, dropout if self.training else 0.0)

    @staticmethod
    def published(weights: Mapping[str, Any]) -> dict[str, Any]:
        """A state dict of this module by the published names, without the heads of training."""
        parts = {name: each for name, each in weights.items() if name.startswith("parts.")}
        return {name.removeprefix("parts.").replace(":", "."): each for name, each in parts.items()}


@dataclass(frozen=True, eq=False)
class RankingBatch:
    """Captions with their negatives."""

    rows: Rows  # (captions), their numbers among the examples
    ids: list[Ids]  # for each caption, the ids of 1 + negatives sentences

    def take(self, indices: Rows) -> RankingBatch:
        """Some of the captions."""
        return RankingBatch(self.rows[indices], [self.ids[k] for k in indices.tolist()])

    @property
    def columns(self) -> list[Ids]:
        """The ids by kind of sentence: the captions', then those of each kind of negative."""
        return [[ids[k] for ids in self.ids] for k in range(len(self.ids[0]))]


@dataclass(frozen=True, eq=False)
class NegativeTokenizer:
    """Samples negatives of captions and tokenises them."""

    sampler: NegativeSampler  # of the negatives
    tokenizer: WordPieceTokenizer  # of captions and negatives
    max_length: int  # in word pieces
    seed: int  # of the samples

    def sample(self, rows: Rows, epoch: int, workers: int) -> RankingBatch:
        """The captions `rows` with the negatives of an epoch, computed by worker processes."""
        self.sampler.prepare()
        jobs = [(rows[start : start + _ROWS_PER_JOB], epoch) for start in range(0, len(rows), _ROWS_PER_JOB)]
        with forked_map(self._sample_job, workers) as run:
            return RankingBatch(rows, [ids for part in run(jobs) for ids in part])

    def _sample_job(self, job: tuple[Rows, int]) -> list[Ids]:
        rows, epoch = job
        captions = self.sampler.captions
        texts: list[str] = []
        for row in rows.tolist():
            negatives = self.sampler.sample(row, np.random.default_rng((self.seed, epoch, row)))
            texts += [captions.pool[int(captions.candidates[row])], *negatives.values()]
        ids = [np.array(each[: self.max_length], np.int32) for each in self.tokenizer.ids(texts)]
        each = len(ids) // len(rows)
        return [ids[start : start + each] for start in range(0, len(ids), each)]


class UmicLearner(Learner[RankingBatch]):
    """UMIC in training.

    Args:
        weights: initial weights by their published names.
        shape: of the network.
        tokenizer: of the captions.
        train: training examples and the sampler of their negatives.
        held_out: held-out examples and the sampler of their negatives.
        recipe: settings.
        workers: processes that sample negatives.
    """

    select = "minus_loss"
    module: UmicModule

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        shape: UniterShape,
        tokenizer: WordPieceTokenizer,
        train: tuple[RegionExamples, NegativeSampler],
        held_out: tuple[RegionExamples, NegativeSampler],
        recipe: UmicRecipe,
        workers: int = 1,
    ) -> None:
        self.module = UmicModule(weights, shape)
        self.tokenizer, self.recipe, self.workers = tokenizer, recipe, workers
        self.examples, self.kinds = train[0], train[1].negatives.kinds
        self.negatives, held_out_negatives = (
            NegativeTokenizer(sampler, tokenizer, shape.positions, recipe.seed) for _, sampler in (train, held_out)
        )
        self.held_out = held_out[0]
        rows = np.sort(np.random.default_rng(0).permutation(len(self.held_out))[: recipe.pairs])
        self._held_out_batch = held_out_negatives.sample(rows, 0, workers)
        self._visible: Any
        self._region_words: Any
        self._visible, self._region_words = self._word_tables() if recipe.visibility_weight else (None, None)
        self._first_region = np.cumsum([0, *map(len, self.examples.visible_words)])

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[RankingBatch]:
        """An epoch's captions in random order, with new negatives, in batches of similar lengths."""
        size = self.recipe.batch
        count = self.recipe.batches * size
        rows = np.concatenate([rng.permutation(len(self.examples)) for _ in range(-(-count // len(self.examples)))])
        captions = self.negatives.sample(rows[:count], epoch + 1, self.workers)
        lengths = np.array([max(map(len, each)) for each in captions.ids])
        batches = []
        for start in range(0, count, _SORTED_BATCHES * size):
            block = np.arange(start, min(start + _SORTED_BATCHES * size, count))
            block = block[np.argsort(lengths[block], kind="stable")]
            batches += [block[k : k + size] for k in range(0, len(block), size)]
        return [captions.take(batches[k]) for k in rng.permutation(len(batches)).tolist()]

    def losses(self, batch: RankingBatch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The ranking loss, and the further losses whose weights are not 0."""
        recipe, kinds, columns = self.recipe, self.kinds, batch.columns
        uniter = self.module.uniter(recipe.dropout)
        texts = [ids for column in columns for ids in column]
        pictures = self.examples.picture[batch.rows]
        all_pictures = np.tile(pictures, len(columns))
        states = self.pair_states(uniter, self.examples, texts, all_pictures)
        pooled = uniter.pooled(states)
        logits = uniter.head(pooled, "rank_output").float().view(len(columns), -1).T
        losses = {"ranking": ranking_loss(logits.sigmoid(), recipe.margin).mean()}
        if recipe.logit_weight:
            losses["logits"] = recipe.logit_weight * ranking_loss(logits, 1.0).mean()
        if recipe.matching_weight and "random" in kinds:
            matching = uniter.head(pooled, "itm_output").float().view(len(columns), -1, 2)
            positive, negative = matching[0], matching[1 + kinds.index("random")]
            yes = torch.ones(len(batch.rows), dtype=torch.long, device=self.device)
            both = cross_entropy(positive, yes) + cross_entropy(negative, 1 - yes)
            losses["matching"] = recipe.matching_weight * both / 2
        column_shape = (len(columns), len(batch.rows), *states.shape[1:])
        if recipe.substitution_weight and "substitution" in kinds:
            k = 1 + kinds.index("substitution")
            loss = self._substitution_loss(states.view(column_shape)[[0, k]], columns[0], columns[k])
            losses["substitution"] = recipe.substitution_weight * loss
        if recipe.repetition_weight and "repetition-removal" in kinds:
            k = 1 + kinds.index("repetition-removal")
            by_column = states.view(column_shape)
            loss = self._repetition_loss(torch.cat([by_column[0], by_column[k]]), columns[0] + columns[k])
            losses["repetition"] = recipe.repetition_weight * loss
        if self._region_words is not None:
            loss = self._visible_word_loss(states, texts, all_pictures)
            losses["visible_word"] = recipe.visibility_weight * loss
            losses["region_word"] = recipe.visibility_weight * self._region_word_loss(uniter, np.unique(pictures))
        return losses

    def _word_tables(self) -> tuple[Any, Any]:
        """Which pieces are words for something visible, bool (vocabulary), and which of them are true of each region,
        bool (regions, vocabulary); None, None if that is unknown.
        """
        if not self.examples.visible_words:
            return None, None
        number = {piece: k for k, piece in enumerate(self.tokenizer.vocabulary)}
        visible = np.zeros(len(number), np.bool_)
        visible[[number[word] for word in visible_words() if word in number]] = True
        regions = [words for picture in self.examples.visible_words for words in picture]
        table = np.zeros((len(regions), len(number)), np.bool_)
        for row, words in enumerate(regions):
            table[row, [number[word] for word in words if word in number]] = True
        return visible, table

    def _visible_word_loss(self, states: Tensor, texts: Ids, pictures: Rows) -> Tensor:
        """The cross-entropy of whether each visible word is true of the picture."""
        rows, positions, ids = _flatten(texts)
        visible = self._visible[ids]
        rows, positions, ids = rows[visible], positions[visible], ids[visible]
        distinct, inverse = np.unique(pictures, return_inverse=True)
        true_words = np.stack([self._region_words[self._region_rows(each)].any(axis=0) for each in distinct.tolist()])
        return self._word_loss(self.module.visible_word_head, states, rows, positions, true_words[inverse[rows], ids])

    def _repetition_loss(self, states: Tensor, texts: Ids) -> Tensor:
        """The cross-entropy of whether each word repeats the one before it."""
        rows, positions, _ = _flatten(texts)
        repeated = np.concatenate([np.diff(ids, prepend=-1) == 0 for ids in texts])
        return self._word_loss(self.module.repetition_head, states, rows, positions, repeated)

    def _word_loss(
        self, head: nn.Module, states: Tensor, rows: Rows, positions: Rows, labels: npt.NDArray[np.bool_]
    ) -> Tensor:
        """The cross-entropy of a head on the states of some words with their labels."""
        logits = head(states[torch.from_numpy(rows), torch.from_numpy(positions)]).float()[..., 0]
        return binary_cross_entropy_with_logits(logits, torch.from_numpy(labels.astype(np.float32)).to(self.device))

    def _region_word_loss(self, uniter: Uniter, pictures: Rows) -> Tensor:
        """The cross-entropy of whether each visible word is true of each region, per true word."""
        regions = [self.examples.bank.get(picture) for picture in pictures.tolist()]
        features, positions = (torch.from_numpy(np.concatenate([each[k] for each in regions])) for k in (0, 1))
        true_words = np.concatenate([self._region_words[self._region_rows(each)] for each in pictures.tolist()])
        labels = torch.from_numpy(true_words[:, self._visible].astype(np.float32)).to(self.device)
        embeddings = uniter.regions(features.to(self.device), positions.to(self.device))
        table = self.module.parts["uniter:embeddings:word_embeddings:weight"][torch.from_numpy(self._visible)]
        logits = (embeddings @ table.T).float() + self.module.region_word_bias
        return binary_cross_entropy_with_logits(logits, labels, reduction="sum") / labels.sum()

    def _region_rows(self, picture: int) -> slice:
        """The rows of a picture's regions."""
        return slice(int(self._first_region[picture]), int(self._first_region[picture + 1]))

    def _substitution_loss(self, states: Tensor, originals: Ids, substituted: Ids) -> Tensor:
        """The cross-entropy of whether each word was substituted, in captions of unchanged length.

        Args:
            states: (2, batch, length, width), of the captions and of the substituted ones.
            originals: the captions' ids.
            substituted: the substituted captions' ids.
        """
        same_length = [k for k in range(len(originals)) if len(originals[k]) == len(substituted[k])]
        if not same_length:
            return states.sum() * 0
        rows, positions, _ = _flatten([originals[k] for k in same_length])
        rows = np.array(same_length, np.int64)[rows]
        changed = np.concatenate([substituted[k] != originals[k] for k in same_length]).astype(np.float32)
        labels = torch.from_numpy(np.stack([np.zeros_like(changed), changed])).to(self.device)
        logits = self.module.substitution_head(states[:, torch.from_numpy(rows), torch.from_numpy(positions)])
        return binary_cross_entropy_with_logits(logits.float()[..., 0], labels)

    def evaluate(self) -> Mapping[str, float]:
        """The ranking loss on held-out captions, and the percentage of negatives that score below, by kind and mean."""
        uniter = self.module.uniter(0.0)
        scores = []
        for start in range(0, len(self._held_out_batch.rows), self.recipe.batch):
            stop = min(start + self.recipe.batch, len(self._held_out_batch.rows))
            batch = self._held_out_batch.take(np.arange(start, stop))
            ids = [row for each in batch.ids for row in each]
            picture = np.repeat(self.held_out.picture[batch.rows], len(batch.ids[0]))
            pooled = uniter.pooled(self.pair_states(uniter, self.held_out, ids, picture))
            scores.append(uniter.head(pooled, "rank_output").float().sigmoid().view(len(batch.rows), -1))
        table = torch.cat(scores)
        accuracy = (table[:, :1] > table[:, 1:]).double().mean(dim=0).cpu().numpy() * 100
        loss = float(ranking_loss(table, self.recipe.margin).mean())
        by_kind = dict(zip(self.kinds, accuracy.tolist(), strict=True))
        return {"minus_loss": -loss, "pairwise_accuracy": float(accuracy.mean()), **by_kind}

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam with UNITER's second moment."""
        return torch.optim.Adam(self.module.parameters(), lr=lr, betas=(0.9, 0.98))

    def pair_states(self, uniter: Uniter, examples: RegionExamples, texts: Ids, pictures: Rows) -> Tensor:
        """The last hidden states (pairs, length, width) of texts with pictures; each picture is embedded once.

        Args:
            uniter: the network.
            examples: of the pictures.
            texts: ids of each pair's text.
            pictures: (pairs), numbers of the pictures.
        """
        distinct, inverse = np.unique(pictures, return_inverse=True)
        regions = [examples.bank.get(int(each)) for each in distinct]
        sizes = np.array([len(features) for features, _ in regions])
        starts = np.cumsum(sizes) - sizes
        layout = PairLayout.of(np.array([len(each) for each in texts]), sizes[inverse], starts[inverse])

        def tensor(array: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(self.device, non_blocking=True)

        return uniter.states(
            uniter.words(tensor(np.concatenate(texts).astype(np.int64)), tensor(layout.places)),
            uniter.regions(*(tensor(np.concatenate([each[k] for each in regions])) for k in (0, 1))),
            tensor(layout.index),
            None if layout.mask is None else tensor(layout.mask),
        )


def _flatten(texts: Ids) -> tuple[Rows, Rows, npt.NDArray[np.int32]]:
    """Row, position and id of every word piece of the texts: (pieces) each."""
    rows = np.repeat(np.arange(len(texts)), [len(ids) for ids in texts])
    return rows, np.concatenate([np.arange(len(ids)) for ids in texts]), np.concatenate(texts)


def ranking_loss(scores: Tensor, margin: float) -> Tensor:
    """max(0, margin + negative - positive) [n, negatives] of scores [n, 1 + negatives], the positive first."""
    return (margin + scores[:, 1:] - scores[:, :1]).clamp(min=0)
