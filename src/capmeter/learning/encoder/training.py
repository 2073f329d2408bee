"""How an encoder is adapted to captions: captions of like photos become alike, as far as the photos are.

    σ(slope · cos(v(c_j), mean of v(r_i)) + offset)  →  1 if i = j, else cos(photo i, photo j)^power

c_j is a caption of photo j, r_i one to four captions of photo i. cos(photo i, photo j) compares the mean vectors of all
captions of the two photos by the encoder as it was: a soft target, which no single caption can reach. A step takes
clusters of photos that are like each other, and all pairs of their captions and references; .3 of the loss is that of
own captions, .45 that of other pairs within a cluster, .25 that of all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from capmeter.encoders import PieceTable
from capmeter.learning.capmeter.examples import CAPTIONS
from capmeter.learning.capmeter.training import nearest
from capmeter.learning.encoder.network import AdaptedBert
from capmeter.learning.encoder.recipe import EncoderRecipe
from capmeter.learning.loop import Learner

_NEAREST = 200
_GROUPS = 5  # of sentences of about equal length
_OWN, _NEAR, _FAR = 0.3, 0.45, 0.25  # shares of the loss
_AT_ONCE = 512

Numbers = NDArray[np.int64]


class EncoderLearner(Learner[bool]):
    """The adaptation in training. A batch is drawn by the step's own random numbers.

    Args:
        module: the network, as it begins.
        pieces: the word pieces of all sentences.
        captions: int64[photos, 5], numbers of sentences; the first `trained` photos are trained on.
        means: unit vectors of the photos that are trained on, by the encoder as it was.
        recipe: settings.
    """

    def __init__(
        self,
        module: AdaptedBert,
        pieces: PieceTable,
        captions: Numbers,
        means: NDArray[np.float32],
        recipe: EncoderRecipe,
    ) -> None:
        self.module: AdaptedBert = module
        self.pieces, self.captions, self.means, self.recipe = pieces, captions, means, recipe
        self.trained = len(means)
        self._near = nearest(means, _NEAREST)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """Each step is like the others."""
        return [True] * self.recipe.steps

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """AdamW; the two numbers of the logistic function move faster."""
        recipe = self.recipe
        groups: list[dict[str, Any]] = [
            {"params": self.module.adaptation()},
            {"params": [self.module.logistic], "share": recipe.calibration_rate},
        ]
        return torch.optim.AdamW(groups, lr=rate, weight_decay=recipe.decayed)

    def losses(self, batch: bool, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        photos, clusters = self._drawn(rng)
        order = rng.permuted(np.tile(np.arange(CAPTIONS), (len(photos), 1)), axis=1)
        sentences = np.take_along_axis(self.captions[photos], order, axis=1)
        vectors = self.vectors(sentences.ravel()).view(len(photos), CAPTIONS, -1)
        references = normalize(vectors[:, 1 : 1 + int(rng.integers(1, CAPTIONS))].mean(1), dim=1)
        slope, offset = self.module.logistic
        logits = slope * (vectors[:, 0] @ references.T) + offset

        own = photos[:, None] == photos
        near = (clusters[:, None] == clusters) & ~own
        target = np.maximum(self.means[photos] @ self.means[photos].T, 0) ** self.recipe.power
        target[own] = 1.0
        loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(target).to(self.device), reduction="none")
        kinds = ((_OWN, own), (_NEAR, near), (_FAR, ~own & ~near))
        parts = [share * loss[torch.from_numpy(kind)].mean() for share, kind in kinds if kind.any()]
        return {"similarity": torch.stack(parts).sum()}

    def _drawn(self, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
        """The photos of a step, and the cluster of each."""
        recipe = self.recipe
        first = rng.integers(0, self.trained, recipe.clusters)
        ranks = rng.exponential(recipe.nearest, (recipe.clusters, recipe.near - 1)).astype(np.int64)
        others = self._near[first[:, None], np.minimum(ranks, self._near.shape[1] - 1)]
        return np.column_stack([first, others]).ravel(), np.repeat(np.arange(recipe.clusters), recipe.near)

    def vectors(self, sentences: Numbers) -> Tensor:
        """The unit vectors of sentences by their numbers."""
        lengths = self.pieces.lengths[sentences]
        order = np.argsort(lengths, kind="stable")
        found = []
        for rows in np.array_split(order, min(_GROUPS, len(order))):
            ids, mask = self.pieces.padded(sentences[rows])
            found.append(self.module(torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)))
        return torch.cat(found)[torch.from_numpy(np.argsort(order)).to(self.device)]

    def measured(self) -> Mapping[str, float]:
        """On held-out photos: in how many cases of a hundred a caption's nearest references are its own photo's."""
        held_out = self.captions[self.trained :]
        if not len(held_out):
            return {}
        flat = held_out.ravel()
        parts = [self.vectors(flat[start : start + _AT_ONCE]) for start in range(0, len(flat), _AT_ONCE)]
        vectors = torch.cat(parts).view(len(held_out), CAPTIONS, -1)
        references = normalize(vectors[:, 1:].mean(1), dim=1)
        found = (vectors[:, 0] @ references.T).argmax(1).cpu() == torch.arange(len(held_out))
        return {"own photo": 100 * float(found.double().mean())}
