"""UMIC in training: a UNITER that learns to rank true captions above their negatives.

    loss = mean over negatives of max(0, margin + S(I, negative) - S(I, caption)),   S = sigmoid of the ranking head

From random weights further losses are added. `logits`: the same before the sigmoid, with a margin of 1, which still
learns where both scores are near 0 or 1. `matching`: the cross-entropy of the matching head, between captions and
other pictures' captions, as in UNITER's pretraining. The heads of the others are dropped afterwards: `words` learns
which words of a substituted caption are wrong, `repeated` which words repeat the one before them; where it is known,
`shown` learns which words of any caption name something that the picture shows, and `named` which words are true of
each region, by their products with the region's embedding.
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

from capmeter.encoders.uniter import Layout, Uniter, UniterShape, ranking_loss
from capmeter.encoders.word_piece import WordPieceTokenizer
from capmeter.learning.loop import Learner
from capmeter.learning.recipe import Recipe
from capmeter.learning.umic.examples import Examples, processes
from capmeter.learning.world.vocabulary import visible_words
from capmeter.transforms.negatives import Sampler

Ids = list[npt.NDArray[np.int32]]
_LENGTHS_AT_ONCE = 16  # batches within which captions are sorted by length
_DRAWN_AT_ONCE = 200


@dataclass(frozen=True)
class UmicRecipe(Recipe):
    """The settings of a run.

    Args:
        batch: captions per batch, each with its negatives (the paper's 320 are 64 of them with four negatives).
        batches: batches per epoch, after which the loss on held-out pictures decides whether the weights are kept.
        pairs: captions of held-out pictures (at most) whose loss decides it, as many as in the paper.
        margin: of the ranking loss.
        logits: weight of a ranking loss with a margin of 1 before the sigmoid; 0 in fine-tuning.
        matching: weight of the matching losses; 0 in fine-tuning.
        words: weight of the loss on substituted words; 0 in fine-tuning.
        repeated: weight of the loss on repeated words; 0 in fine-tuning.
        shown: weight of the loss on words that name something visible; 0 in fine-tuning.
        dropout: after the embeddings, of attention, and in every layer.
    """

    epochs: int = 10
    rate: float = 2e-6
    warmup: float = 0.1
    decay: str = "linear"
    clip: float = 0.25
    batch: int = 64
    batches: int = 400
    pairs: int = 25_000
    margin: float = 0.2
    logits: float = 0.0
    matching: float = 0.0
    words: float = 0.0
    repeated: float = 0.0
    shown: float = 0.0
    dropout: float = 0.1


WORLD_RECIPE = UmicRecipe(
    epochs=16,
    rate=1e-3,
    warmup=0.05,
    clip=1.0,
    batch=64,
    batches=100,
    pairs=1000,
    logits=0.25,
    matching=1.0,
    words=1.0,
    repeated=4.0,
    shown=1.0,
    dropout=0.0,
    average=0.99,
)
"""From random weights on the made world; all but the margin is ours."""
WORLD_SHAPE = {"width": 128, "layers": 3, "heads": 4, "inner": 384, "positions": 96}


class UmicModule(nn.Module):
    """The parameters of a UNITER under their published names."""

    def __init__(self, weights: Mapping[str, Tensor], shape: UniterShape) -> None:
        super().__init__()
        self.shape = shape
        self.parts = nn.ParameterDict({name.replace(".", ":"): nn.Parameter(each) for name, each in weights.items()})
        self.checked = nn.Linear(shape.width, 1)
        self.repeated = nn.Linear(shape.width, 1)
        self.named = nn.Linear(shape.width, 1)
        self.rarely = nn.Parameter(torch.tensor(-3.0))

    def uniter(self, dropout: float) -> Uniter:
        """The network on these parameters; without dropout outside training."""
        weights = {name.replace(":", "."): each for name, each in self.parts.items()}
        return Uniter(weights, self.shape, dropout if self.training else 0.0)

    @staticmethod
    def published(weights: Mapping[str, Any]) -> dict[str, Any]:
        """A state dict of this module under the published names, without what is used in training only."""
        parts = {name: each for name, each in weights.items() if name.startswith("parts.")}
        return {name.removeprefix("parts.").replace(":", "."): each for name, each in parts.items()}


@dataclass(frozen=True, eq=False)
class Batch:
    """Captions with their negatives: numbers of the examples, and for each 1 + negatives rows of word pieces."""

    rows: npt.NDArray[np.int64]
    ids: list[Ids]


_drawing: dict[str, Any] = {}


def _share(sampler: Sampler, tokenizer: WordPieceTokenizer, longest: int) -> None:
    _drawing.update(sampler=sampler, tokenizer=tokenizer, longest=longest)


def _drawn(given: tuple[npt.NDArray[np.int64], tuple[int, int]]) -> list[Ids]:
    """For each row the word pieces of the caption and of its negatives."""
    rows, (seed, epoch) = given
    sampler: Sampler = _drawing["sampler"]
    texts: list[str] = []
    for row in rows.tolist():
        drawn = sampler.draw(row, np.random.default_rng((seed, epoch, row)))
        texts += [sampler.captions.pool[int(sampler.captions.candidates[row])], *drawn.values()]
    longest = _drawing["longest"]
    ids = [np.array(each[:longest], np.int32) for each in _drawing["tokenizer"].ids(texts)]
    each = len(ids) // len(rows)
    return [ids[start : start + each] for start in range(0, len(ids), each)]


class UmicLearner(Learner[Batch]):
    """Trains UMIC.

    Args:
        weights: to start from, under their published names.
        shape: of the network.
        tokenizer: of the captions.
        sampler: of the training captions' negatives.
        train, held_out: the examples; `held_out_sampler` draws the negatives of the latter.
        recipe: settings.
        workers: processes that draw negatives.
    """

    select = "minus_loss"
    module: UmicModule

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        shape: UniterShape,
        tokenizer: WordPieceTokenizer,
        train: tuple[Examples, Sampler],
        held_out: tuple[Examples, Sampler],
        recipe: UmicRecipe,
        workers: int = 1,
    ) -> None:
        self.module = UmicModule(weights, shape)
        self.tokenizer, self.recipe, self.workers = tokenizer, recipe, workers
        self.examples, self.sampler = train
        self.held_out, held_out_sampler = held_out
        random = np.random.default_rng(0)
        rows = np.sort(random.permutation(len(self.held_out))[: recipe.pairs])
        self._checked = self._draw(held_out_sampler, rows, 0)
        self._visible: Any
        self._true: Any
        self._visible, self._true = self._known_words() if recipe.shown else (None, None)
        self._starts = np.cumsum([0, *map(len, self.examples.shown)])

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """An epoch's captions in random order, with new negatives, in batches of similar lengths."""
        count = self.recipe.batches * self.recipe.batch
        rows = np.concatenate([rng.permutation(len(self.examples)) for _ in range(-(-count // len(self.examples)))])
        drawn = self._draw(self.sampler, rows[:count], epoch + 1)
        order = np.arange(len(drawn.ids))
        lengths = np.array([max(map(len, each)) for each in drawn.ids])
        made = []
        for start in range(0, len(order), _LENGTHS_AT_ONCE * self.recipe.batch):
            some = order[start : start + _LENGTHS_AT_ONCE * self.recipe.batch]
            some = some[np.argsort(lengths[some], kind="stable")]
            made += [some[k : k + self.recipe.batch] for k in range(0, len(some), self.recipe.batch)]
        return [self._batch(drawn, made[k]) for k in rng.permutation(len(made)).tolist()]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The ranking loss and, from random weights, the losses of the other two heads."""
        each, kinds = len(batch.ids[0]), self.sampler.negatives.kinds
        uniter = self.module.uniter(self.recipe.dropout)
        captions = [[ids[k] for ids in batch.ids] for k in range(each)]
        states = self._states(
            uniter, self.examples, [ids for column in captions for ids in column], np.tile(self._pictures(batch), each)
        )
        pooled = uniter.pooled(states)
        logits = uniter.head(pooled, "rank_output").float().view(each, -1).T
        losses = {"ranking": ranking_loss(logits.sigmoid(), self.recipe.margin).mean()}
        if self.recipe.logits:
            losses["logits"] = self.recipe.logits * ranking_loss(logits, 1.0).mean()
        if self.recipe.matching and "random" in kinds:
            matched = uniter.head(pooled, "itm_output").float().view(each, -1, 2)
            yes = torch.ones(len(batch.rows), dtype=torch.long, device=self.device)
            right, wrong = matched[0], matched[1 + kinds.index("random")]
            losses["matching"] = self.recipe.matching * (cross_entropy(right, yes) + cross_entropy(wrong, 1 - yes)) / 2
        if self.recipe.words and "substitution" in kinds:
            place = 1 + kinds.index("substitution")
            table = states.view(each, len(batch.rows), *states.shape[1:])
            losses["words"] = self.recipe.words * self._word_loss(table[[0, place]], captions[0], captions[place])
        if self.recipe.repeated and "repetition-removal" in kinds:
            place = 1 + kinds.index("repetition-removal")
            table = states.view(each, len(batch.rows), *states.shape[1:])
            losses["repeated"] = self.recipe.repeated * self._repeated_loss(
                torch.cat([table[0], table[place]]), captions[0] + captions[place]
            )
        if self.recipe.shown and self._true is not None:
            every = [ids for column in captions for ids in column]
            losses["shown"] = self.recipe.shown * self._shown_loss(states, every, np.tile(self._pictures(batch), each))
            losses["named"] = self.recipe.shown * self._named_loss(uniter, np.unique(self._pictures(batch)))
        return losses

    def _known_words(self) -> tuple[Any, Any]:
        """Which word pieces name something visible, bool[v], and which are true of every region, bool[regions, v]."""
        if not self.examples.shown:
            return None, None
        number = {piece: k for k, piece in enumerate(self.tokenizer.vocabulary)}
        visible = np.zeros(len(number), np.bool_)
        visible[[number[word] for word in visible_words() if word in number]] = True
        regions = [words for picture in self.examples.shown for words in picture]
        true = np.zeros((len(regions), len(number)), np.bool_)
        for row, words in enumerate(regions):
            true[row, [number[word] for word in words if word in number]] = True
        return visible, true

    def _shown_loss(self, states: Tensor, texts: Ids, pictures: npt.NDArray[np.int64]) -> Tensor:
        """The cross-entropy of telling visible words that are true of the picture from those that are not."""
        rows = np.repeat(np.arange(len(texts)), [len(ids) for ids in texts])
        places = np.concatenate([np.arange(len(ids)) for ids in texts])
        ids = np.concatenate(texts)
        kept = self._visible[ids]
        rows, places, ids = rows[kept], places[kept], ids[kept]
        distinct, which = np.unique(pictures, return_inverse=True)
        shown = np.stack([self._true[self._regions(picture)].any(axis=0) for picture in distinct.tolist()])
        told = torch.from_numpy(shown[which[rows], ids].astype(np.float32)).to(self.device)
        scores = self.module.named(states[torch.from_numpy(rows), torch.from_numpy(places)])
        return binary_cross_entropy_with_logits(scores.float()[..., 0], told)

    def _repeated_loss(self, states: Tensor, texts: Ids) -> Tensor:
        """The cross-entropy of telling words that repeat the one before them."""
        rows = np.repeat(np.arange(len(texts)), [len(ids) for ids in texts])
        places = np.concatenate([np.arange(len(ids)) for ids in texts])
        told = np.concatenate([np.diff(ids, prepend=-1) == 0 for ids in texts]).astype(np.float32)
        scores = self.module.repeated(states[torch.from_numpy(rows), torch.from_numpy(places)])
        return binary_cross_entropy_with_logits(scores.float()[..., 0], torch.from_numpy(told).to(self.device))

    def _named_loss(self, uniter: Uniter, pictures: npt.NDArray[np.int64]) -> Tensor:
        """The cross-entropy of telling the words that are true of each region, per word that is."""
        banks = [self.examples.bank.get(picture) for picture in pictures.tolist()]
        features, positions = (torch.from_numpy(np.concatenate([each[k] for each in banks])) for k in (0, 1))
        true = np.concatenate([self._true[self._regions(picture)] for picture in pictures.tolist()])
        told = torch.from_numpy(true[:, self._visible].astype(np.float32)).to(self.device)
        seen = uniter.regions(features.to(self.device), positions.to(self.device))
        table = self.module.parts["uniter:embeddings:word_embeddings:weight"][torch.from_numpy(self._visible)]
        scores = (seen @ table.T).float() + self.module.rarely
        return binary_cross_entropy_with_logits(scores, told, reduction="sum") / told.sum()

    def _regions(self, picture: int) -> slice:
        """The rows of a picture's regions."""
        return slice(int(self._starts[picture]), int(self._starts[picture + 1]))

    def _word_loss(self, states: Tensor, right: Ids, substituted: Ids) -> Tensor:
        """The cross-entropy of telling substituted words from others, in captions that kept their length.

        states: [2, b, t, width], of the captions and of the substituted ones.
        """
        kept = [k for k in range(len(right)) if len(right[k]) == len(substituted[k])]
        wrong = [substituted[k] != right[k] for k in kept]
        rows = np.repeat(np.array(kept, np.int64), [len(marks) for marks in wrong])
        places = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(marks)) for marks in wrong)])
        told = np.concatenate([np.zeros(0, np.float32), *(marks.astype(np.float32) for marks in wrong)])
        if not len(told):
            return states.sum() * 0
        marked = torch.from_numpy(np.stack([np.zeros_like(told), told])).to(self.device)
        scores = self.module.checked(states[:, torch.from_numpy(rows), torch.from_numpy(places)])
        return binary_cross_entropy_with_logits(scores.float()[..., 0], marked)

    def _pictures(self, batch: Batch) -> npt.NDArray[np.int64]:
        return self.examples.picture[batch.rows]

    def measured(self) -> Mapping[str, float]:
        """The ranking loss on held-out captions, the share of negatives scored below, by kind and in all."""
        uniter = self.module.uniter(0.0)
        scores = []
        for start in range(0, len(self._checked.rows), self.recipe.batch):
            stop = min(start + self.recipe.batch, len(self._checked.rows))
            batch = self._batch(self._checked, np.arange(start, stop))
            ids = [row for each in batch.ids for row in each]
            picture = np.repeat(self.held_out.picture[batch.rows], len(batch.ids[0]))
            pooled = uniter.pooled(self._states(uniter, self.held_out, ids, picture))
            scores.append(uniter.head(pooled, "rank_output").float().sigmoid().view(len(batch.rows), -1))
        table = torch.cat(scores)
        above = (table[:, :1] > table[:, 1:]).double().mean(dim=0).cpu().numpy() * 100
        by_kind = dict(zip(self.sampler.negatives.kinds, above.tolist(), strict=True))
        loss = float(ranking_loss(table, self.recipe.margin).mean())
        return {"minus_loss": -loss, "above": float(above.mean()), **by_kind}

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Adam with UNITER's second moment."""
        return torch.optim.Adam(self.module.parameters(), lr=rate, betas=(0.9, 0.98))

    def _draw(self, sampler: Sampler, rows: npt.NDArray[np.int64], epoch: int) -> Batch:
        starts, key = range(0, len(rows), _DRAWN_AT_ONCE), (self.recipe.seed, epoch)
        parts = [(rows[start : start + _DRAWN_AT_ONCE], key) for start in starts]
        sampler.prepare()
        with processes(self.workers, _share, (sampler, self.tokenizer, self.module.shape.positions)) as run:
            return Batch(rows, [ids for part in run(_drawn, parts) for ids in part])

    def _batch(self, drawn: Batch, places: npt.NDArray[np.int64]) -> Batch:
        return Batch(drawn.rows[places], [drawn.ids[k] for k in places.tolist()])

    def _states(self, uniter: Uniter, examples: Examples, ids: Ids, pictures: npt.NDArray[np.int64]) -> Tensor:
        """The last states of pairs; each picture's regions are embedded once."""
        distinct, which = np.unique(pictures, return_inverse=True)
        regions = [examples.bank.get(int(each)) for each in distinct]
        sizes = np.array([len(features) for features, _ in regions])
        layout = Layout.of(np.array([len(each) for each in ids]), sizes[which], (np.cumsum(sizes) - sizes)[which])

        def tensor(array: npt.NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(self.device, non_blocking=True)

        return uniter.states(
            uniter.words(tensor(np.concatenate(ids).astype(np.int64)), tensor(layout.places)),
            uniter.regions(*(tensor(np.concatenate([each[k] for each in regions])) for k in (0, 1))),
            tensor(layout.index),
            None if layout.mask is None else tensor(layout.mask),
        )
