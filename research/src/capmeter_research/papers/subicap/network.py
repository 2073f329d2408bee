"""The captioner's network: the object relation Transformer of Herdade et al. 2019, as in appendix A of Sharif 2019.

Between regions l and m, with boxes of centre (x, y), width w and height h, attention weights are (Eq. A.2 to A.4)

    w_A = q_l · k_m / sqrt(d_k)
    λ(l, m) = log(|x_l - x_m| / w_l), log(|y_l - y_m| / h_l), log(w_m / w_l), log(h_m / h_l)
    w_G = ReLU(Emb(λ(l, m)) W_G)
    w(l, m) = w_G exp(w_A) / sum_i w_G(l, i) exp(w_A(l, i))

Each layer and head has its own column of W_G. Emb has sines and cosines of 100 λ / 1000^(8k / d), k = 0 … d / 8 - 1
(Hu et al. 2018). As in their code, |x_l - x_m| / w_l is at least 1e-3 and w_G at least 1e-6, so that logarithms are
finite. The decoder is the Transformer's (Vaswani et al. 2017).

Herdade, Kappeler, Boakye, Soares: Image Captioning: Transforming Objects into Words. NeurIPS 2019. Hu, Gu, Zhang, Dai,
Wei: Relation Networks for Object Detection. CVPR 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from capmeter.core.errors import InputError
from capmeter_research.common.transformer.decoding import PAD
from capmeter_research.common.transformer.network import (
    CaptionTransformer,
    DecoderCache,
    DecoderLayer,
    EncoderLayer,
    KeysValues,
)
from capmeter_research.papers.subicap.recipe import CaptionerShape

Floats = npt.NDArray[np.float32]
_NEAREST, _WEAKEST = 1e-3, 1e-6
_WAVE, _ANGLE = 1000.0, 100.0
_POSITIONS = 7


@dataclass(eq=False)
class RegionBatch:
    """The regions of B pictures, each of which gets `each` captions.

    Args:
        features: [B, N, features].
        positions: [B, N, 7], as in `capmeter.images.regions.Regions.positions`.
        there: bool [B, N], False for padding.
        each: how many captions are written for a picture; they follow one another.
    """

    features: Tensor
    positions: Tensor
    there: Tensor
    each: int = 1

    def __len__(self) -> int:
        return len(self.features) * self.each

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.features.device

    @classmethod
    def from_regions(cls, regions: Sequence[tuple[Floats, Floats]], device: torch.device | str = "cpu") -> RegionBatch:
        """The regions of pictures, each as features [n, d] and positions [n, 7].

        Raises:
            InputError: features of several widths.
        """
        widths = {features.shape[1] for features, _ in regions}
        if len(widths) > 1:
            raise InputError(
                f"regions of some pictures have {min(widths)} features each and of others {max(widths)}; extract all "
                "in one way"
            )
        most = max(len(features) for features, _ in regions)
        features = np.zeros((len(regions), most, regions[0][0].shape[1]), np.float32)
        positions = np.zeros((len(regions), most, _POSITIONS), np.float32)
        positions[..., 2:6] = 1.0  # padding has a size, too
        mask = np.zeros((len(regions), most), bool)
        for picture_index, (region_features, places) in enumerate(regions):
            (
                features[picture_index, : len(region_features)],
                positions[picture_index, : len(region_features)],
                mask[picture_index, : len(region_features)],
            ) = region_features, places, True
        region_tensors = [torch.from_numpy(array).to(device) for array in (features, positions, mask)]
        return cls(region_tensors[0], region_tensors[1], region_tensors[2])

    def repeated(self, each: int) -> RegionBatch:
        """The same images, each repeated for several captions."""
        return RegionBatch(self.features, self.positions, self.there, each)


def displacements(boxes: Tensor) -> Tensor:
    """λ(l, m) of all pairs of boxes [..., N, 4] (x1, y1, x2, y2): [..., N, N, 4]."""
    centre = (boxes[..., :2] + boxes[..., 2:4]) / 2
    size = (boxes[..., 2:4] - boxes[..., :2]).clamp_min(_NEAREST)
    distances = (centre[..., :, None, :] - centre[..., None, :, :]).abs() / size[..., :, None, :]
    size_ratios = size[..., None, :, :] / size[..., :, None, :]
    return torch.cat([distances.clamp_min(_NEAREST), size_ratios], dim=-1).log()


def embedded(displacement: Tensor, width: int) -> Tensor:
    """Emb(λ): sines, then cosines, of displacements [..., 4] at width / 8 wavelengths: [..., width]."""
    angular_rates = _ANGLE * _WAVE ** (-torch.arange(width // 8, device=displacement.device) * (8 / width))
    angles = (displacement[..., None] * angular_rates).flatten(-2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def sinusoids(places: int, width: int) -> Tensor:
    """The Transformer's embeddings of places: [places, width], sines at even numbers, cosines at odd ones."""
    angles = torch.arange(places)[:, None] * torch.exp(torch.arange(0, width, 2) * (-np.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class CaptionerModule(CaptionTransformer):
    """Sees regions and predicts the next token of a caption.

    Args:
        shape: sizes.
        pieces: number of tokens in the vocabulary.
        longest: the most tokens that are written, with the end.
    """

    places: Tensor
    scale: Tensor

    def __init__(self, shape: CaptionerShape, pieces: int, longest: int) -> None:
        super().__init__()
        self.shape, self.longest = shape, longest
        self.see = nn.Linear(shape.features + _POSITIONS * shape.positions, shape.width)
        self.encoders = nn.ModuleList(EncoderLayer(shape, relu) for _ in range(shape.encoder_layers))
        geometric = shape.encoder_layers if shape.geometry else 0
        self.geometric = nn.ModuleList(nn.Linear(shape.geometry, shape.heads, bias=False) for _ in range(geometric))
        self.pieces = nn.Embedding(pieces, shape.width, padding_idx=PAD)
        self.decoders = nn.ModuleList(DecoderLayer(shape, relu) for _ in range(shape.decoder_layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.predict = nn.Linear(shape.width, pieces)
        self.dropout = nn.Dropout(shape.dropout)
        self.register_buffer("places", sinusoids(longest, shape.width), persistent=False)
        self.register_buffer("scale", torch.ones(()))  # features are divided by it
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.pieces.weight, std=shape.width**-0.5)
        with torch.no_grad():
            self.pieces.weight[PAD] = 0

    def geometric_weights(self, boxes: Tensor) -> list[Tensor]:
        """w_G of each layer, for boxes [B, N, 4]: [B, heads, N, N]; no layer has any where geometry is off."""
        if not self.geometric:
            return []
        embedded_displacements = embedded(displacements(boxes.float()), self.shape.geometry)
        return [relu(weigh(embedded_displacements)).permute(0, 3, 1, 2) for weigh in self.geometric]

    def encoded(self, pictures: RegionBatch) -> Tensor:
        """The states of regions: [B, N, width]."""
        features = pictures.features / self.scale
        if self.shape.positions:
            features = torch.cat([features, pictures.positions], dim=-1)
        states = self.dropout(relu(self.see(features)))
        absent_bias = torch.zeros_like(pictures.there, dtype=states.dtype).masked_fill(~pictures.there, -torch.inf)
        mask = absent_bias[:, None, None]
        weights = self.geometric_weights(pictures.positions[..., :4])
        for layer_index, layer in enumerate(self.encoders):
            bias = weights[layer_index].clamp_min(_WEAKEST).log().to(states.dtype) if weights else 0.0
            states = layer(states, mask + bias)
        normed_states: Tensor = self.encoder_norm(states)
        return normed_states

    def read(self, pictures: RegionBatch) -> tuple[list[KeysValues], Tensor]:
        """Each decoder layer's keys and values of the regions, and their mask [B, 1, 1, N]."""
        states = self.encoded(pictures)
        return [layer.pairs(states) for layer in self.decoder_layers()], pictures.there[:, None, None]

    def forward(self, pictures: RegionBatch, targets: Tensor) -> Tensor:
        """Scores [B * each, T, tokens] of the token after each of the targets [B * each, T]."""
        rows = torch.arange(len(pictures.features), device=targets.device).repeat_interleave(pictures.each)
        return self.scores(self.read(pictures), targets, rows)

    def start(self, pictures: RegionBatch) -> DecoderCache:
        """An empty cache for captions of these pictures."""
        cache = super().start(pictures)
        if pictures.each == 1:
            return cache
        rows = torch.arange(len(cache.source_mask), device=cache.source_mask.device)
        return cache.take(rows.repeat_interleave(pictures.each))

    def decoder_layers(self) -> list[DecoderLayer]:
        """See `CaptionTransformer`."""
        return [layer for layer in self.decoders if isinstance(layer, DecoderLayer)]

    def target_places(self) -> Tensor:
        """See `CaptionTransformer`."""
        return self.places

    def predict_tokens(self, states: Tensor) -> Tensor:
        """See `CaptionTransformer`."""
        logits: Tensor = self.predict(self.decoder_norm(states))
        return logits
