"""The network of the world encoder: a small convolutional net, with one slot per kind of thing, and boxes.

The picture (96 x 96) becomes a map of 24 x 24 cells, of width C. A *heat* map per kind says where things of this kind
are; the slot of a kind holds what the map says at these places, how many there are and whether there is one at all:

    heat = W_h map                                            [kinds, 24, 24]
    slot_k = max(sigmoid(heat_k)) · W_s [softmax(heat_k) · (W_d map + place), sum sigmoid(heat_k)]

The picture's feature is the concatenation of all slots and of a slot for the background. The feature of a region is a
linear map of the 4 x 4 samples of the map within its box (ROI align).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SIDE = 96
"""Width and height of the pictures that the network reads."""
MEAN, DEVIATION = 127.5, 64.0
"""How the network standardises colours."""
_STRIDE = 4
_SAMPLES = 4


@dataclass(frozen=True)
class WorldShape:
    """Sizes: the kinds of things, the width of the map, of a slot, of a kind's description, and of a region."""

    kinds: int
    width: int = 48
    slot: int = 24
    described: int = 64
    region: int = 256

    @property
    def picture(self) -> int:
        """The width of a picture's feature."""
        return (self.kinds + 1) * self.slot


class _Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(8, after) for _ in range(2))
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        inner = functional.relu(self.norms[0](self.first(maps)))
        return functional.relu(self.norms[1](self.second(inner)) + self.short(maps))


class WorldNetwork(nn.Module):
    """Pictures to heat maps, slots, a picture's feature, and regions' features."""

    def __init__(self, shape: WorldShape) -> None:
        super().__init__()
        self.shape, width = shape, shape.width
        self.stem = nn.Conv2d(3, width, 2 * _STRIDE, _STRIDE, _STRIDE // 2)
        self.down = nn.ModuleList([_Block(width, width, 1), _Block(width, 96, 2), _Block(96, 128, 2)])
        self.across = nn.ModuleList([nn.Conv2d(level_width, width, 1) for level_width in (width, 96, 128)])
        self.join = nn.ModuleList([nn.Conv2d(width, width, 3, 1, 1), _Block(width, width, 1)])
        cell_count = SIDE // _STRIDE
        self.place = nn.Parameter(torch.zeros(shape.described, cell_count * cell_count))
        nn.init.normal_(self.place, std=0.1)
        self.heat = nn.Conv2d(width, shape.kinds, 1)
        nn.init.constant_(self.heat.bias, -4.0)  # type: ignore[arg-type]
        self.describe = nn.Conv2d(width, shape.described, 1)
        self.slot = nn.Linear(shape.described + 1, shape.slot)
        self.background = nn.Linear(width, shape.slot)
        self.region = nn.Linear(_SAMPLES * _SAMPLES * width, shape.region)

    def maps(self, pixels: Tensor) -> Tensor:
        """The map of pictures.

        Args:
            pixels: uint8 [b, 96, 96, 3].

        Returns:
            float [b, C, 24, 24].
        """
        return self.maps_of((pixels.permute(0, 3, 1, 2).float() - MEAN) / DEVIATION)

    def maps_of(self, standardised: Tensor) -> Tensor:
        """The map of pictures whose colours are standardised, float [b, 3, 96, 96]."""
        states = functional.relu(self.stem(standardised))
        level_states = []
        for block in self.down:
            states = block(states)
            level_states.append(states)
        merged = self.across[2](level_states[2])
        for level in (1, 0):
            merged = functional.interpolate(merged, scale_factor=2.0, mode="nearest") + self.across[level](
                level_states[level]
            )
            merged = functional.relu(self.join[level](merged))
        return torch.as_tensor(merged)

    def slots(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """The slots (float [b, kinds + 1, slot], the background's last) and the heat (float [b, kinds, 24, 24])."""
        heat = self.heat(maps)
        heat_logits = heat.flatten(2).float()
        cell_descriptions = self.describe(maps).flatten(2) + self.place
        mean_descriptions = heat_logits.softmax(-1).to(cell_descriptions.dtype) @ cell_descriptions.transpose(1, 2)
        presence = heat_logits.sigmoid()
        slot_inputs = torch.cat([mean_descriptions, presence.sum(-1, keepdim=True).to(mean_descriptions.dtype)], dim=-1)
        slots = self.slot(slot_inputs) * presence.amax(-1, keepdim=True).to(mean_descriptions.dtype)
        background_slot = self.background(maps.mean((2, 3)))
        return torch.cat([slots, background_slot[:, None]], dim=1), heat

    def regions(self, maps: Tensor, boxes: Tensor, pictures: Tensor) -> Tensor:
        """The features of boxes.

        Args:
            maps: of the pictures.
            boxes: float [n, 4], x0, y0, x1, y1 relative to the picture.
            pictures: int64 [n], the picture of each box.

        Returns:
            float [n, region].
        """
        sample_steps = (torch.arange(_SAMPLES, device=boxes.device) + 0.5) / _SAMPLES
        x = boxes[:, 0, None] + (boxes[:, 2] - boxes[:, 0])[:, None] * sample_steps
        y = boxes[:, 1, None] + (boxes[:, 3] - boxes[:, 1])[:, None] * sample_steps
        grid_shape = (len(boxes), _SAMPLES, _SAMPLES)
        sample_grid = torch.stack([x[:, None, :].expand(grid_shape), y[:, :, None].expand(grid_shape)], dim=-1) * 2 - 1
        sampled_states = functional.grid_sample(maps[pictures].float(), sample_grid.float(), align_corners=False)
        return functional.relu(self.region(sampled_states.flatten(1)))
