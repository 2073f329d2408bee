"""A small convolutional network that names what is in a crop; its last hidden layer gives a region's features.

It has the part that a detector trained on Visual Genome has for photographs: boxes of the made world are known, so that
it does not look for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d, relu

from capmeter.learning.loop import Learner
from capmeter.learning.umic.crops import HEADS, SIDE, Crops

FEATURES = 128
_CHANNELS = (16, 32, 64)
_BATCH, _AT_ONCE = 128, 2048


class RegionNetwork(nn.Module):
    """Crops to features, and features to names."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (3, *_CHANNELS)
        self.convolutions = nn.ModuleList(nn.Conv2d(before, after, 3, padding=1) for before, after in pairwise(sizes))
        self.hidden = nn.Linear(_CHANNELS[-1] * (SIDE // 8) ** 2, FEATURES)
        self.heads = nn.ModuleDict({name: nn.Linear(FEATURES, len(known)) for name, known in HEADS.items()})

    def features(self, crops: Tensor) -> Tensor:
        """float32[n, features] of crops uint8[n, height, width, 3]."""
        x = crops.permute(0, 3, 1, 2).float() / 127.5 - 1
        for convolution in self.convolutions:
            x = max_pool2d(relu(convolution(x)), 2)
        return cast(Tensor, self.hidden(x.flatten(1)).tanh())

    def forward(self, crops: Tensor) -> dict[str, Tensor]:
        """The scores of each head's names."""
        features = self.features(crops)
        return {name: head(features) for name, head in self.heads.items()}


class RegionLearner(Learner[npt.NDArray[np.int64]]):
    """Trains a `RegionNetwork` to name the things in crops."""

    select = "named"
    module: RegionNetwork

    def __init__(self, crops: Crops, held_out: Crops, device: str) -> None:
        self.module = RegionNetwork()
        self._crops, self._names = torch.from_numpy(crops.pixels).to(device), torch.from_numpy(crops.names).to(device)
        self._held_out = held_out

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.int64]]:
        """All crops in random order."""
        order = rng.permutation(len(self._crops))
        return [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]

    def losses(self, batch: npt.NDArray[np.int64], rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy of each head."""
        rows = torch.from_numpy(batch).to(self.device)
        scores = self.module(self._crops[rows])
        return {name: cross_entropy(scores[name], self._names[rows, k]) for k, name in enumerate(HEADS)}

    def measured(self) -> Mapping[str, float]:
        """Of the held-out regions, the share with every name right, and right names by head, in per cent."""
        right = []
        for start in range(0, len(self._held_out.pixels), _AT_ONCE):
            scores = self.module(torch.from_numpy(self._held_out.pixels[start : start + _AT_ONCE]).to(self.device))
            found = torch.stack([scores[name].argmax(1) for name in HEADS], dim=1).cpu().numpy()
            right.append(found == self._held_out.names[start : start + _AT_ONCE])
        table = np.concatenate(right)
        each = {name: 100 * float(table[:, k].mean()) for k, name in enumerate(HEADS)}
        return {"named": 100 * float(table.all(axis=1).mean()), **each}


def region_features(network: RegionNetwork, crops: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The features of crops, float32[n, features]."""
    device = next(network.parameters()).device
    made = []
    with torch.inference_mode():
        for start in range(0, len(crops), _AT_ONCE):
            made.append(network.features(torch.from_numpy(crops[start : start + _AT_ONCE]).to(device)).cpu().numpy())
    found: npt.NDArray[np.float32] = np.concatenate(made) if made else np.zeros((0, FEATURES), np.float32)
    return found
