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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Precision
from capmeter_research.common.forked_map import forked_map
from capmeter_research.common.loop import Learner, Run, set_seed, split_rows
from capmeter_research.common.recipe import Recipe
from capmeter_research.papers.umic.pairs import PairEncoder
from capmeter_research.papers.umic.training.evaluation import pairwise_accuracy
from capmeter_research.papers.umic.training.examples import RegionExamples
from capmeter_research.papers.umic.training.negatives import Negatives, NegativeSampler
from capmeter_research.papers.umic.training.weights import initial_weights, learn_vocabulary, uniter_checkpoint
from capmeter_research.papers.umic.uniter import PairLayout, Uniter, UniterShape, head_shapes
from capmeter_research.papers.umic.word_piece import WordPieceTokenizer
from capmeter_research.synthetic_scenes.scenes.vocabulary import visible_words

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
        weights = {part_name.replace(":", "."): weight_tensor for part_name, weight_tensor in self.parts.items()}
        return Uniter(weights, self.shape, dropout if self.training else 0.0)

    @staticmethod
    def published(weights: Mapping[str, Any]) -> dict[str, Any]:
        """A state dict of this module by the published names, without the heads of training."""
        parts = {weight_name: each for weight_name, each in weights.items() if weight_name.startswith("parts.")}
        return {weight_name.removeprefix("parts.").replace(":", "."): each for weight_name, each in parts.items()}


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
        return [[caption_ids[column_index] for caption_ids in self.ids] for column_index in range(len(self.ids[0]))]


@dataclass(frozen=True, eq=False)
class NegativeTokenizer:
    """Samples negatives of captions and tokenises them."""

    sampler: NegativeSampler  # of the negatives
    tokenizer: WordPieceTokenizer  # of captions and negatives
    max_length: int  # in word pieces
    seed: int  # of the samples

    def sample(self, rows: Rows, epoch: int, workers: int) -> RankingBatch:
        """Captions with the negatives of an epoch, computed by worker processes.

        Args:
            rows: the captions.
            epoch: its number; each has other negatives.
            workers: number of processes.
        """
        self.sampler.prepare()
        row_jobs = [(rows[start : start + _ROWS_PER_JOB], epoch) for start in range(0, len(rows), _ROWS_PER_JOB)]
        with forked_map(self._sample_job, workers) as run_jobs:
            return RankingBatch(rows, [sentence_ids for job_ids in run_jobs(row_jobs) for sentence_ids in job_ids])

    def _sample_job(self, job: tuple[Rows, int]) -> list[Ids]:
        rows, epoch = job
        caption_set = self.sampler.captions
        job_texts: list[str] = []
        for row in rows.tolist():
            sampled_negatives = self.sampler.sample(row, np.random.default_rng((self.seed, epoch, row)))
            job_texts += [caption_set.pool[int(caption_set.candidates[row])], *sampled_negatives.values()]
        piece_ids = [np.array(text_ids[: self.max_length], np.int32) for text_ids in self.tokenizer.ids(job_texts)]
        sentence_count = len(piece_ids) // len(rows)
        return [piece_ids[start : start + sentence_count] for start in range(0, len(piece_ids), sentence_count)]


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
    betas = (0.9, 0.98)  # UNITER's
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
        held_out_rows = np.sort(np.random.default_rng(0).permutation(len(self.held_out))[: recipe.pairs])
        self._held_out_batch = held_out_negatives.sample(held_out_rows, 0, workers)
        self._visible: Any
        self._region_words: Any
        self._visible, self._region_words = self._word_tables() if recipe.visibility_weight else (None, None)
        self._first_region = np.cumsum([0, *map(len, self.examples.visible_words)])

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[RankingBatch]:
        """An epoch's captions in random order, with new negatives, in batches of similar lengths."""
        batch_size = self.recipe.batch
        count = self.recipe.batches * batch_size
        rows = np.concatenate([rng.permutation(len(self.examples)) for _ in range(-(-count // len(self.examples)))])
        epoch_captions = self.negatives.sample(rows[:count], epoch + 1, self.workers)
        caption_lengths = np.array([max(map(len, caption_ids)) for caption_ids in epoch_captions.ids])
        batches = []
        for block in split_rows(np.arange(count), _SORTED_BATCHES * batch_size):
            batches += split_rows(block[np.argsort(caption_lengths[block], kind="stable")], batch_size)
        return [epoch_captions.take(batches[k]) for k in rng.permutation(len(batches)).tolist()]

    def losses(self, batch: RankingBatch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The ranking loss, and the further losses whose weights are not 0."""
        recipe, kinds, columns = self.recipe, self.kinds, batch.columns
        uniter = self.module.uniter(recipe.dropout)
        sentence_ids = [text_ids for column_ids in columns for text_ids in column_ids]
        pictures = self.examples.picture[batch.rows]
        all_pictures = np.tile(pictures, len(columns))
        hidden_states = self.pair_states(uniter, self.examples, sentence_ids, all_pictures)
        pooled_states = uniter.pooled(hidden_states)
        rank_logits = uniter.head(pooled_states, "rank_output").float().view(len(columns), -1).T
        losses = {"ranking": ranking_loss(rank_logits.sigmoid(), recipe.margin).mean()}
        if recipe.logit_weight:
            losses["logits"] = recipe.logit_weight * ranking_loss(rank_logits, 1.0).mean()
        if recipe.matching_weight and "random" in kinds:
            matching_logits = uniter.head(pooled_states, "itm_output").float().view(len(columns), -1, 2)
            positive_logits, negative = matching_logits[0], matching_logits[1 + kinds.index("random")]
            match_labels = torch.ones(len(batch.rows), dtype=torch.long, device=self.device)
            matching_loss = cross_entropy(positive_logits, match_labels) + cross_entropy(negative, 1 - match_labels)
            losses["matching"] = recipe.matching_weight * matching_loss / 2
        column_shape = (len(columns), len(batch.rows), *hidden_states.shape[1:])
        if recipe.substitution_weight and "substitution" in kinds:
            k = 1 + kinds.index("substitution")
            loss = self._substitution_loss(hidden_states.view(column_shape)[[0, k]], columns[0], columns[k])
            losses["substitution"] = recipe.substitution_weight * loss
        if recipe.repetition_weight and "repetition-removal" in kinds:
            k = 1 + kinds.index("repetition-removal")
            by_column = hidden_states.view(column_shape)
            loss = self._repetition_loss(torch.cat([by_column[0], by_column[k]]), columns[0] + columns[k])
            losses["repetition"] = recipe.repetition_weight * loss
        if self._region_words is not None:
            loss = self._visible_word_loss(hidden_states, sentence_ids, all_pictures)
            losses["visible_word"] = recipe.visibility_weight * loss
            losses["region_word"] = recipe.visibility_weight * self._region_word_loss(uniter, np.unique(pictures))
        return losses

    def _word_tables(self) -> tuple[Any, Any]:
        """Which pieces are words for something visible, bool (vocabulary), and which of them are true of each region,
        bool (regions, vocabulary); None, None if that is unknown.
        """
        if not self.examples.visible_words:
            return None, None
        piece_numbers = {piece: k for k, piece in enumerate(self.tokenizer.vocabulary)}
        is_visible = np.zeros(len(piece_numbers), np.bool_)
        is_visible[[piece_numbers[word] for word in visible_words() if word in piece_numbers]] = True
        region_vocabularies = [region_words for picture in self.examples.visible_words for region_words in picture]
        is_true = np.zeros((len(region_vocabularies), len(piece_numbers)), np.bool_)
        for region_index, region_words in enumerate(region_vocabularies):
            is_true[region_index, [piece_numbers[word] for word in region_words if word in piece_numbers]] = True
        return is_visible, is_true

    def _visible_word_loss(self, states: Tensor, texts: Ids, pictures: Rows) -> Tensor:
        """The cross-entropy of whether each visible word is true of the picture."""
        rows, positions, ids = _flatten(texts)
        is_visible = self._visible[ids]
        rows, positions, ids = rows[is_visible], positions[is_visible], ids[is_visible]
        distinct, inverse = np.unique(pictures, return_inverse=True)
        true_words = np.stack([self._region_words[self._region_rows(each)].any(axis=0) for each in distinct.tolist()])
        return self._word_loss(self.module.visible_word_head, states, rows, positions, true_words[inverse[rows], ids])

    def _repetition_loss(self, states: Tensor, texts: Ids) -> Tensor:
        """The cross-entropy of whether each word repeats the one before it."""
        text_rows, word_positions, _ = _flatten(texts)
        is_repeated = np.concatenate([np.diff(text_ids, prepend=-1) == 0 for text_ids in texts])
        return self._word_loss(self.module.repetition_head, states, text_rows, word_positions, is_repeated)

    def _word_loss(
        self, head: nn.Module, states: Tensor, text_rows: Rows, word_positions: Rows, labels: npt.NDArray[np.bool_]
    ) -> Tensor:
        """The cross-entropy of a head on the states of some words with their labels."""
        logits = head(states[torch.from_numpy(text_rows), torch.from_numpy(word_positions)]).float()[..., 0]
        return binary_cross_entropy_with_logits(logits, torch.from_numpy(labels.astype(np.float32)).to(self.device))

    def _region_word_loss(self, uniter: Uniter, pictures: Rows) -> Tensor:
        """The cross-entropy of whether each visible word is true of each region, per true word."""
        region_arrays = [self.examples.bank.get(picture) for picture in pictures.tolist()]
        features, positions = (torch.from_numpy(np.concatenate([each[k] for each in region_arrays])) for k in (0, 1))
        true_words = np.concatenate([self._region_words[self._region_rows(each)] for each in pictures.tolist()])
        word_labels = torch.from_numpy(true_words[:, self._visible].astype(np.float32)).to(self.device)
        region_embeddings = uniter.regions(features.to(self.device), positions.to(self.device))
        word_embeddings = self.module.parts["uniter:embeddings:word_embeddings:weight"][torch.from_numpy(self._visible)]
        word_logits = (region_embeddings @ word_embeddings.T).float() + self.module.region_word_bias
        return binary_cross_entropy_with_logits(word_logits, word_labels, reduction="sum") / word_labels.sum()

    def _region_rows(self, picture: int) -> slice:
        """The rows of a picture's regions."""
        return slice(int(self._first_region[picture]), int(self._first_region[picture + 1]))

    def _substitution_loss(self, states: Tensor, original_ids: Ids, substituted_ids: Ids) -> Tensor:
        """The cross-entropy of whether each word was substituted, in captions of unchanged length.

        Args:
            states: (2, batch, length, width), of the captions and of the substituted ones.
            original_ids: of the captions.
            substituted_ids: of the substituted captions.
        """
        same_length = [k for k in range(len(original_ids)) if len(original_ids[k]) == len(substituted_ids[k])]
        if not same_length:
            return states.sum() * 0
        text_rows, word_positions, _ = _flatten([original_ids[k] for k in same_length])
        text_rows = np.array(same_length, np.int64)[text_rows]
        is_changed = np.concatenate([substituted_ids[k] != original_ids[k] for k in same_length]).astype(np.float32)
        word_labels = torch.from_numpy(np.stack([np.zeros_like(is_changed), is_changed])).to(self.device)
        logits = self.module.substitution_head(states[:, torch.from_numpy(text_rows), torch.from_numpy(word_positions)])
        return binary_cross_entropy_with_logits(logits.float()[..., 0], word_labels)

    def evaluate(self) -> Mapping[str, float]:
        """The ranking loss on held-out captions, and the percentage of negatives that score below, by kind and mean."""
        uniter = self.module.uniter(0.0)
        batch_scores = []
        for rows in split_rows(np.arange(len(self._held_out_batch.rows)), self.recipe.batch):
            batch = self._held_out_batch.take(rows)
            text_ids = [row for caption_ids in batch.ids for row in caption_ids]
            text_pictures = np.repeat(self.held_out.picture[batch.rows], len(batch.ids[0]))
            pooled_states = uniter.pooled(self.pair_states(uniter, self.held_out, text_ids, text_pictures))
            batch_scores.append(uniter.head(pooled_states, "rank_output").float().sigmoid().view(len(batch.rows), -1))
        score_table = torch.cat(batch_scores)
        accuracy = (score_table[:, :1] > score_table[:, 1:]).double().mean(dim=0).cpu().numpy() * 100
        mean_loss = float(ranking_loss(score_table, self.recipe.margin).mean())
        by_kind = dict(zip(self.kinds, accuracy.tolist(), strict=True))
        return {"minus_loss": -mean_loss, "pairwise_accuracy": float(accuracy.mean()), **by_kind}

    def pair_states(self, uniter: Uniter, examples: RegionExamples, texts: Ids, pictures: Rows) -> Tensor:
        """The last hidden states (pairs, length, width) of texts with pictures; each picture is embedded once.

        Args:
            uniter: the network.
            examples: of the pictures.
            texts: ids of each pair's text.
            pictures: (pairs), numbers of the pictures.
        """
        distinct_pictures, inverse = np.unique(pictures, return_inverse=True)
        picture_regions = [examples.bank.get(int(each)) for each in distinct_pictures]
        region_counts = np.array([len(features) for features, _ in picture_regions])
        starts = np.cumsum(region_counts) - region_counts
        layout = PairLayout.from_lengths(
            np.array([len(text_ids) for text_ids in texts]), region_counts[inverse], starts[inverse]
        )

        def tensor(array: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(self.device, non_blocking=True)

        return uniter.states(
            uniter.words(tensor(np.concatenate(texts).astype(np.int64)), tensor(layout.places)),
            uniter.regions(*(tensor(np.concatenate([each[k] for each in picture_regions])) for k in (0, 1))),
            tensor(layout.index),
            None if layout.mask is None else tensor(layout.mask),
        )


def _flatten(texts: Ids) -> tuple[Rows, Rows, npt.NDArray[np.int32]]:
    """Row, position and id of every word piece of the texts: (pieces) each."""
    text_rows = np.repeat(np.arange(len(texts)), [len(text_ids) for text_ids in texts])
    return text_rows, np.concatenate([np.arange(len(text_ids)) for text_ids in texts]), np.concatenate(texts)


def ranking_loss(scores: Tensor, margin: float) -> Tensor:
    """max(0, margin + negative - positive) [n, negatives] of scores [n, 1 + negatives], the positive first."""
    return (margin + scores[:, 1:] - scores[:, :1]).clamp(min=0)


_INITIAL_STD = 0.08
"""Of the initial weights of a small network, 1 / sqrt(width): the authors' .02 suits a width of 768."""
_POSITIONS = "uniter.embeddings.position_embeddings.weight"


def sinusoids(positions: int, width: int) -> npt.NDArray[np.float32]:
    """Position embeddings (positions, width) of the Transformer (Vaswani et al. 2017): sines, then cosines.

    >>> [round(float(number), 2) for number in sinusoids(2, 4)[1]]
    [0.84, 0.01, 0.54, 1.0]
    """
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class StartingPoint:
    """The initial weights of a run."""

    weights: Mapping[str, Any]  # tensors by their published names
    shape: UniterShape  # of the network
    vocabulary: tuple[str, ...]  # word pieces
    lowercase: bool  # whether captions are lower-cased
    name: str  # in the checkpoint

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> StartingPoint:
        """From a checkpoint; without a ranking head, row 1 of the matching head becomes it, as in the released code.

        Weights in half precision are converted to single precision.
        """
        shape = UniterShape(**checkpoint.parameters["shape"])
        names = {*shape.weights(), *head_shapes(shape, "itm_output"), *head_shapes(shape, "rank_output")}
        weights = {name: torch.tensor(array).float() for name, array in checkpoint.weights.items() if name in names}
        if "rank_output.weight" not in weights:
            if "itm_output.weight" not in weights:
                raise InputError(f"{checkpoint.label}: no ranking or matching head; expected UNITER's or UMIC's")
            for part_name in ("weight", "bias"):
                weights[f"rank_output.{part_name}"] = weights[f"itm_output.{part_name}"][1:].clone()
        lowercase = bool(checkpoint.parameters["lowercase"])
        return cls(weights, shape, checkpoint.vocabulary, lowercase, checkpoint.label)

    @classmethod
    def random(cls, sentences: tuple[str, ...], features: int, seed: int) -> StartingPoint:
        """Random weights of a small network, with the vocabulary of these sentences.

        The attention keys start equal to the queries, so that at first every token attends to similar ones; the
        position embeddings start as sinusoids, so that neighbours are similar.

        Args:
            sentences: whose words are the vocabulary.
            features: width of the regions' features.
            seed: of the weights.
        """
        vocabulary = learn_vocabulary(sentences)
        shape = UniterShape(vocabulary=len(vocabulary), features=features, **SCENE_SHAPE)
        weights = initial_weights(shape, seed, _INITIAL_STD)
        for weight_name in weights:
            if ".key." in weight_name:
                weights[weight_name] = weights[weight_name.replace(".key.", ".query.")].clone()
        position_embeddings = sinusoids(shape.positions, shape.width) * np.float32(_INITIAL_STD * 2**0.5)
        weights[_POSITIONS] = torch.from_numpy(position_embeddings)
        return cls(weights, shape, vocabulary, True, "random weights")


def train_umic(
    start: StartingPoint,
    train: RegionExamples,
    held_out: RegionExamples,
    negatives: Negatives,
    recipe: UmicRecipe,
    folder: Path,
    *,
    data: tuple[TrainingData, ...],
    device: str = "cpu",
    workers: int = 1,
) -> Checkpoint:
    """Trains UMIC and writes its checkpoint.

    Args:
        start: initial weights.
        train: training examples.
        held_out: examples for model selection.
        negatives: how negatives are sampled.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the sources of the examples.
        device: a torch device.
        workers: processes that sample negatives.

    Returns:
        The checkpoint with the lowest loss on held-out captions, with its scores there.
    """
    set_seed(recipe.seed)
    tokenizer = WordPieceTokenizer(start.vocabulary, start.lowercase)
    negative_sampler = negatives.sampler(train.captions, tags=train.tags)
    negative_sampler.prepare()
    held_out_sampler = negatives.sampler(held_out.captions, vocabulary=negative_sampler.vocabulary, tags=held_out.tags)
    learner = UmicLearner(
        start.weights, start.shape, tokenizer, (train, negative_sampler), (held_out, held_out_sampler), recipe, workers
    )
    outcome = Run(learner, recipe, folder, description="training umic", device=device).train()
    checkpoint = uniter_checkpoint(
        UmicModule.published(outcome.weights),
        start.shape,
        start.vocabulary,
        lowercase=start.lowercase,
        data=data,
        training={**asdict(recipe), "negatives": str(negatives), "start": start.name},
        selection=f"the lowest ranking loss on held-out pictures: epoch {outcome.epoch} of {len(outcome.history)}",
        scores={score_name: round(value, 4) for score_name, value in outcome.scores.items()},
    )
    checkpoint.save(folder)
    return checkpoint


def evaluate_umic(
    checkpoint: Checkpoint, examples: RegionExamples, negatives: Negatives, device: str
) -> dict[str, float]:
    """`pairwise_accuracy` of a checkpoint by kind of negative, also with the matching head (`umic-c …`).

    Args:
        checkpoint: of the network.
        examples: true captions with pictures.
        negatives: their kinds.
        device: of torch.
    """
    negative_sampler = negatives.sampler(examples.captions, tags=examples.tags)
    negative_sampler.prepare()
    encoder = PairEncoder(checkpoint, Precision.from_settings(Settings(device=device, precision="float32")))
    prefixes = {"rank_output": "", "itm_output": "umic-c "}
    heads = [head for head in prefixes if head in {"rank_output", *encoder.heads}]
    accuracies = pairwise_accuracy(encoder, examples, negative_sampler, heads=heads)
    return {
        prefixes[head] + kind: value
        for head, by_kind in zip(heads, accuracies, strict=True)
        for kind, value in by_kind.items()
    }
