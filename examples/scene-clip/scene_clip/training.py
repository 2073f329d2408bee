"""Training of the CLIP of synthetic scenes: contrastive, with wrong captions of the same image among the negatives.

    L = CE(s v_i · [t_1 … t_n, w_i1 … w_im], i) + CE(s t_i · [v_1 … v_n], i)

v and t are the unit features of pictures and their true captions, w_ik captions of picture i with one error, s the
trained scale (at most 100). The network of pictures is the world encoder's, which was trained before and stays as it is
(as in Zhai et al.: LiT: Zero-Shot Transfer with Locked-image Text Tuning. CVPR 2022); the map of its slots and the
network of sentences are learned. So every picture is seen once, before the first step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed
from capmeter_research.common.recipe import Recipe
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder
from capmeter_research.synthetic_scenes.encoder.network import DEVIATION, MEAN, SIDE, WorldShape
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS
from torch import Tensor
from torch.nn import functional

from capmeter._version import __version__
from capmeter.core.output_files import atomic_file
from scene_clip.examples import END, ERROR_KINDS, LENGTH, START, UNKNOWN, SceneCaptionExamples, vocabulary
from scene_clip.network import WorldClip, world_clip_config


@dataclass(frozen=True)
class WorldClipRecipe(Recipe):
    """The settings of a run.

    Args:
        pictures: pictures to train on.
        held_out: pictures of the split `dev` to measure on.
        batch: pictures per step.
        captions: true captions that are known of each picture; one is drawn at each step.
        wrong: captions with one error that stand beside the true one at each step.
        width, layers: of the network of sentences; layers in which words read those around them.
        slot: width of a slot of the common features (see `network`).
        decay_of_weights: of AdamW.
    """

    epochs: int = 8
    lr: float = 2e-3
    warmup: float = 0.05
    lr_schedule: str = "cosine"
    max_grad_norm: float = 1.0
    ema_decay: float = 0.99
    pictures: int = 20_000
    held_out: int = 500
    batch: int = 64
    captions: int = 5
    wrong: int = 4
    width: int = 128
    layers: int = 3
    slot: int = 32
    decay_of_weights: float = 0.05


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
        error_noise = torch.from_numpy(rng.random((n, len(ERROR_KINDS)))).to(device)
        error_noise[error_ids[..., 0] < 0] = -1.0
        error_kinds = error_noise.topk(min(self.recipe.wrong, len(ERROR_KINDS)), dim=1).indices
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
        for kind_index, error_kind in enumerate(ERROR_KINDS):
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


CARD = "training.json"


def train_world_clip(
    train: SceneCaptionExamples,
    held_out: SceneCaptionExamples,
    recipe: WorldClipRecipe,
    encoder: WorldEncoder,
    folder: Path,
    *,
    device: str = "cpu",
) -> Outcome:
    """Trains a CLIP, and writes model, tokenizer, image processor and card. An interrupted run is resumed from `run` in
    the folder.

    Args:
        train, held_out: pictures with captions to train on and to measure on.
        recipe: of the training.
        encoder: of the pictures.
        folder: of the model.
        device: of torch.
    """
    learner = WorldClipLearner(train, held_out, recipe, encoder, device)
    outcome = Run(
        learner, recipe, folder / "run", description="training the CLIP of synthetic scenes", device=device
    ).train()
    _save_clip(outcome, recipe, encoder, folder, data=train.digest)
    return outcome


def _save_clip(
    outcome: Outcome, recipe: WorldClipRecipe, encoder: WorldEncoder, folder: Path, *, data: str = ""
) -> None:
    """Writes the selected weights (float16) with everything that is needed to use them."""
    from safetensors.torch import save

    saved_weights = {name: each for name, each in outcome.weights.items() if not name.endswith("position_ids")}
    half = {weight_name: torch.from_numpy(values).half().contiguous() for weight_name, values in saved_weights.items()}
    model_config = clip_config(recipe, encoder.shape).to_dict() | {"architectures": ["WorldClip"]}
    model_config["region_labels"] = [*KINDS, "background"]
    model_files: dict[str, Any] = {
        "config.json": model_config,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": START,
            "eos_token": END,
            "pad_token": END,
            "unk_token": UNKNOWN,
            "model_max_length": LENGTH,
        },
        "preprocessor_config.json": {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": SIDE},
            "crop_size": {"height": SIDE, "width": SIDE},
            "resample": 3,
            "rescale_factor": 1 / 255,
            "image_mean": [MEAN / 255] * 3,
            "image_std": [DEVIATION / 255] * 3,
            **dict.fromkeys(("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"), True),
        },
        CARD: {
            "what": "a small CLIP trained from scratch on capmeter's synthetic scenes",
            "encoder": encoder.label,
            "recipe": asdict(recipe),
            "epoch": outcome.epoch,
            "held_out": dict(outcome.scores),
            "data": data,
            "licence": "Apache-2.0",
            "capmeter": __version__,
        },
    }
    for name, file_content in model_files.items():
        with atomic_file(folder / name) as file:
            file.write(
                json.dumps(file_content, indent=None if name == "tokenizer.json" else 1, default=str).encode() + b"\n"
            )
    with atomic_file(folder / "model.safetensors") as file:
        file.write(save(half, metadata={"format": "pt"}))


def _tokenizer() -> dict[str, Any]:
    """Words by blanks and punctuation, in lower case, between begin and end."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    word_ids = vocabulary()
    tokenizer = Tokenizer(models.WordLevel(word_ids, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, word_ids[START]), (END, word_ids[END])]
    )
    tokenizer_settings: dict[str, Any] = json.loads(tokenizer.to_str())
    return tokenizer_settings
