"""A run of training from drawn pictures to a folder in the layout of the Hugging Face hub."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from capmeter._version import __version__
from capmeter.core.output_files import atomic_file
from capmeter_research.common.loop import Outcome, Run
from capmeter_research.synthetic_scenes.clip.examples import LENGTH, SceneCaptionExamples
from capmeter_research.synthetic_scenes.clip.recipe import END, START, UNKNOWN, WorldClipRecipe, vocabulary
from capmeter_research.synthetic_scenes.clip.training import WorldClipLearner, clip_config
from capmeter_research.synthetic_scenes.encoder.encoder import WorldEncoder
from capmeter_research.synthetic_scenes.encoder.network import DEVIATION, MEAN, SIDE
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS

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
    """Trains a CLIP, and writes model, tokenizer, image processor and card.

    Args:
        An interrupted run is resumed from `run` in the folder.
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
