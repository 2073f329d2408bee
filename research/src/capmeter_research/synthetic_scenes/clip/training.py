"""Training of the CLIP of synthetic scenes: contrastive, with wrong captions of the same image among the negatives.

    L = CE(s v_i · [t_1 … t_n, w_i1 … w_im], i) + CE(s t_i · [v_1 … v_n], i)

v and t are the unit features of pictures and their true captions, w_ik captions of picture i with one error, s the
trained scale (at most 100). The network of pictures is the world encoder's, which was trained before and stays as it is
(as in Zhai et al.: LiT: Zero-Shot Transfer with Locked-image Text Tuning. CVPR 2022); the map of its slots and the
network of sentences are learned. So every picture is seen once, before the first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from capmeter_research.common.loop import Learner, set_seed
from capmeter_research.synthetic_scenes.clip.examples import KINDS, LENGTH, SceneCaptionExamples
from capmeter_research.synthetic_scenes.clip.network import WorldClip, world_clip_config
from capmeter_research.synthetic_scenes.clip.recipe import END, START, WorldClipRecipe, vocabulary
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder
from capmeter_research.synthetic_scenes.encoder.network import WorldShape

_LENGTHS = 4  # number of parts of similar length in which sentences are encoded
_FIRST_SCALE, _LARGEST_SCALE = float(np.log(30)), float(np.log(100))


def clip_config(recipe: WorldClipRecipe, shape: WorldShape) -> Any:
    """The architecture, as the transformers library describes it."""
    word_ids, width = vocabulary(), recipe.width
    text = {"hidden_size": width, "intermediate_size": 2 * width, "num_attention_heads": max(1, width // 32)}
    text |= {"vocab_size": len(word_ids), "max_position_embeddings": LENGTH, "num_hidden_layers": recipe.layers}
    text |= {"bos_token_id": word_ids[START], "eos_token_id": word_ids[END], "pad_token_id": word_ids[END]}
    return world_clip_config(shape, text, recipe.slot, _FIRST_SCALE)


class WorldClipLearner(Learner[Tensor]):
    """The learner of the shared loop; a batch is the rows of its pictures."""

    select = "right above wrong"

    def __init__(
        self,
        train: SceneCaptionExamples,
        held_out: SceneCaptionExamples,
        recipe: WorldClipRecipe,
        encoder: WorldEncoder,
        device: str,
    ) -> None:
        set_seed(recipe.seed)
        self.recipe = recipe
        self.module: Any = WorldClip(clip_config(recipe, encoder.shape))
        self.module.vision_model.network.load_state_dict(encoder.network.state_dict())
        self.module.vision_model.requires_grad_(False)
        self._train, self._held_out = (_tensors(each, encoder, device) for each in (train, held_out))

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW, with weight decay on matrices alone."""
        groups: dict[bool, list[Tensor]] = {True: [], False: []}
        for weight in self.module.parameters():
            if weight.requires_grad:
                groups[weight.ndim > 1].append(weight)
        decay = self.recipe.decay_of_weights
        parameters = [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]
        return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.98))

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Tensor]:
        """Rows of pictures in random order; a rest that is smaller than a batch is left out."""
        picture_count = len(self._train[1])
        picture_order = torch.from_numpy(rng.permutation(picture_count)).to(self._train[1].device)
        size = min(self.recipe.batch, picture_count)
        return [picture_order[start : start + size] for start in range(0, picture_count - size + 1, size)]

    def losses(self, batch: Tensor, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        slots, true_ids, wrong_ids = (example_tensor[batch] for example_tensor in self._train)
        n, caption_count = true_ids.shape[:2]
        device = true_ids.device
        caption_choice = torch.from_numpy(rng.integers(caption_count, size=n)).to(device)
        batch_rows = torch.arange(n, device=device)
        caption_ids, error_ids = true_ids[batch_rows, caption_choice], wrong_ids[batch_rows, caption_choice]
        error_noise = torch.from_numpy(rng.random((n, len(KINDS)))).to(device)
        error_noise[error_ids[..., 0] < 0] = -1.0
        error_kinds = error_noise.topk(min(self.recipe.wrong, len(KINDS)), dim=1).indices
        error_ids = error_ids[batch_rows[:, None], error_kinds]  # [n, wrong, length]
        has_error = error_ids[..., 0] >= 0
        image_vectors = self.image_features(slots)
        text_vectors = self.text_features(torch.cat([caption_ids, error_ids[has_error]]))
        scale = self.module.logit_scale.clamp(max=_LARGEST_SCALE).exp()
        with torch.autocast(device.type, enabled=False):  # cosines times 100 need more digits
            pair_logits = scale * image_vectors @ text_vectors[:n].T
            error_owners = batch_rows[:, None].expand_as(has_error)[has_error]
            error_logits = torch.full(has_error.shape, -torch.inf, device=device)
            error_logits[has_error] = scale * (image_vectors[error_owners] * text_vectors[n:]).sum(-1)
        return {
            "picture": functional.cross_entropy(torch.cat([pair_logits, error_logits], dim=1), batch_rows),
            "text": functional.cross_entropy(pair_logits.T, batch_rows),
        }

    def evaluate(self) -> Mapping[str, float]:
        """On held-out pictures: the share of true captions above each error of them, and above a swapped picture."""
        slots, true_ids, wrong_ids = self._held_out
        image_vectors = self.image_features(slots)
        text_vectors = self.text_features(true_ids[:, 0])
        true_cosines = (image_vectors * text_vectors).sum(-1)
        swapped_cosines = (image_vectors.roll(1, 0) * text_vectors).sum(-1)
        kind_scores: dict[str, float] = {}
        outcome_parts = []
        for kind_index, error_kind in enumerate(KINDS):
            has_error = wrong_ids[:, 0, kind_index, 0] >= 0
            if has_error.any():
                error_vectors = self.text_features(wrong_ids[has_error, 0, kind_index])
                is_above = (true_cosines[has_error] > (image_vectors[has_error] * error_vectors).sum(-1)).float()
                kind_scores[error_kind] = float(is_above.mean())
                outcome_parts.append(is_above)
        return {
            "right above wrong": float(torch.cat(outcome_parts).mean()),
            "falls with another picture": float((true_cosines > swapped_cosines).float().mean()),
            **kind_scores,
        }

    def image_features(self, slots: Tensor) -> Tensor:
        """Unit features of pictures whose slots lie side by side, float [n, kinds * slot]."""
        return functional.normalize(self.module.visual_projection(slots).float(), dim=-1)

    def text_features(self, ids: Tensor) -> Tensor:
        """Unit features of sentences, [n, 40] word numbers."""
        text_lengths = (ids != 0).sum(-1) + 1  # the end is 0, and pads
        length_order = text_lengths.argsort()
        feature_parts = [
            self.module.get_text_features(input_ids=ids[part_rows, : int(text_lengths[part_rows].max())].long())
            for part_rows in torch.tensor_split(length_order, min(_LENGTHS, len(ids)))
        ]
        features = torch.cat([getattr(feature_part, "pooler_output", feature_part) for feature_part in feature_parts])
        return functional.normalize(features[length_order.argsort()].float(), dim=-1)


def _tensors(examples: SceneCaptionExamples, encoder: WorldEncoder, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """The slots of pictures, true captions, and wrong ones."""
    example_arrays = (encoder.pictures(list(examples.pixels)), examples.true, examples.wrong)
    slots, true, wrong = (torch.from_numpy(example_array).to(device) for example_array in example_arrays)
    return slots, true, wrong
