"""The training of the made world's CLIP: contrastive, with wrong captions of the same picture beside those of others.

    L = CE(s v_i · [t_1 … t_n, w_i1 … w_im], i) + CE(s t_i · [v_1 … v_n], i)

v and t are the unit features of pictures and their true captions, w_ik captions of picture i with one error, s the
trained scale (at most 100). With the weight `known`, linear heads also read from every patch's state what is at its
centre (label, colour, texture, size; cross-entropies), which the world knows; they are dropped after training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from capmeter.learning.loop import Learner, seeded
from capmeter.learning.world_clip.examples import ATTRIBUTES, KINDS, LABELS, LENGTH, Examples
from capmeter.learning.world_clip.recipe import DEVIATION, END, MEAN, SIDE, START, WorldClipRecipe, vocabulary

_AT_ONCE = 250  # pictures measured together
_LARGEST_SCALE = float(np.log(100))


def clip_config(recipe: WorldClipRecipe) -> Any:
    """The architecture, as the transformers library describes it."""
    known = vocabulary()
    width = recipe.width
    common = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": max(1, width // 32)}
    text = {"vocab_size": len(known), "max_position_embeddings": LENGTH, "num_hidden_layers": recipe.text_layers}
    text |= {"bos_token_id": known[START], "eos_token_id": known[END], "pad_token_id": known[END]}
    vision = {"image_size": SIDE, "patch_size": recipe.patch, "num_hidden_layers": recipe.vision_layers}
    return transformers.CLIPConfig(
        text_config=common | text, vision_config=common | vision, projection_dim=width, initializer_factor=1.0
    )


class WorldClip(nn.Module):
    """CLIP, and the heads that are needed for training."""

    def __init__(self, recipe: WorldClipRecipe) -> None:
        super().__init__()
        self.clip: Any = transformers.CLIPModel(clip_config(recipe))
        sizes = [len(LABELS), *map(len, ATTRIBUTES.values())]
        self.heads = nn.ModuleList(nn.Linear(recipe.width, size) for size in sizes)


class WorldClipLearner(Learner[Tensor]):
    """The learner of the shared loop; a batch is the rows of its pictures."""

    select = "right above wrong"

    def __init__(self, train: Examples, held_out: Examples, recipe: WorldClipRecipe, device: str) -> None:
        seeded(recipe.seed)
        self.recipe = recipe
        self.module = self.model = WorldClip(recipe)
        self._train, self._held_out = _tensors(train, device), _tensors(held_out, device)

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """AdamW, with weight decay on matrices alone."""
        groups: dict[bool, list[Tensor]] = {True: [], False: []}
        for weight in self.module.parameters():
            groups[weight.ndim > 1].append(weight)
        decay = self.recipe.decay_of_weights
        parameters = [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]
        return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98))

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Tensor]:
        """Rows of pictures in random order; a rest that is smaller than a batch is left out."""
        count = len(self._train[0])
        order = torch.from_numpy(rng.permutation(count)).to(self._train[0].device)
        size = min(self.recipe.batch, count)
        return [order[start : start + size] for start in range(0, count - size + 1, size)]

    def losses(self, batch: Tensor, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        pixels, true, wrong, patches = (each[batch] for each in self._train)
        n, captions = true.shape[:2]
        device = true.device
        which = torch.from_numpy(rng.integers(captions, size=n)).to(device)
        rows = torch.arange(n, device=device)
        said, errors = true[rows, which], wrong[rows, which]
        drawn = torch.from_numpy(rng.random((n, len(KINDS)))).to(device)
        drawn[errors[..., 0] < 0] = -1.0
        chosen = drawn.topk(min(self.recipe.wrong, len(KINDS)), dim=1).indices
        errors = errors[rows[:, None], chosen]  # [n, wrong, length]
        there = errors[..., 0] >= 0
        seen, states = self._seen(pixels)
        texts = self.text_features(torch.cat([said, errors[there]]))
        scale = self.model.clip.logit_scale.clamp(max=_LARGEST_SCALE).exp()
        with torch.autocast(device.type, enabled=False):  # cosines times 100 need more digits
            pairs = scale * seen @ texts[:n].T
            owners = rows[:, None].expand_as(there)[there]
            beside = torch.full(there.shape, -torch.inf, device=device)
            beside[there] = scale * (seen[owners] * texts[n:]).sum(-1)
        losses = {
            "picture": functional.cross_entropy(torch.cat([pairs, beside], dim=1), rows),
            "text": functional.cross_entropy(pairs.T, rows),
        }
        if self.recipe.known:
            for k, (name, head) in enumerate(zip(("label", *ATTRIBUTES), self.model.heads, strict=True)):
                read = head(states).float().flatten(0, 1)
                losses[name] = self.recipe.known * functional.cross_entropy(
                    read, patches[..., k].long().flatten(), ignore_index=-1
                )
        return losses

    def measured(self) -> Mapping[str, float]:
        """On held-out pictures: the share of true captions above each error of them, and above a swapped picture."""
        pixels, true, wrong, _ = self._held_out
        seen = torch.cat([self.picture_features(part) for part in torch.split(pixels, _AT_ONCE)])
        said = torch.cat([self.text_features(part) for part in torch.split(true[:, 0], _AT_ONCE)])
        right = (seen * said).sum(-1)
        swapped = (seen.roll(1, 0) * said).sum(-1)
        scores: dict[str, float] = {}
        shares = []
        for k, kind in enumerate(KINDS):
            there = wrong[:, 0, k, 0] >= 0
            if there.any():
                texts = torch.cat([self.text_features(part) for part in torch.split(wrong[there, 0, k], _AT_ONCE)])
                above = (right[there] > (seen[there] * texts).sum(-1)).float()
                scores[kind] = float(above.mean())
                shares.append(above)
        return {
            "right above wrong": float(torch.cat(shares).mean()),
            "falls with another picture": float((right > swapped).float().mean()),
            **scores,
        }

    def picture_features(self, pixels: Tensor) -> Tensor:
        """Unit features of pictures uint8 [n, 96, 96, 3]."""
        return self._seen(pixels)[0]

    def _seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Unit features of pictures, and the states of their patches [n, patches, width]."""
        mean, deviation = (torch.tensor(each, device=pixels.device) for each in (MEAN, DEVIATION))
        values = ((pixels.float() / 255 - mean) / deviation).permute(0, 3, 1, 2)
        found = self.model.clip.vision_model(pixel_values=values)
        features = self.model.clip.visual_projection(found.pooler_output)
        return functional.normalize(features.float(), dim=-1), found.last_hidden_state[:, 1:]

    def text_features(self, ids: Tensor) -> Tensor:
        """Unit features of sentences, [n, 40] word numbers."""
        used = int((ids != 0).sum(-1).max()) + 1  # the end is 0, and pads
        found = self.model.clip.get_text_features(input_ids=ids[:, :used].long())
        return functional.normalize(getattr(found, "pooler_output", found).float(), dim=-1)


def _tensors(examples: Examples, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    arrays = (examples.pixels, examples.true, examples.wrong, examples.patches)
    pixels, true, wrong, patches = (torch.from_numpy(each).to(device) for each in arrays)
    return pixels, true, wrong, patches
