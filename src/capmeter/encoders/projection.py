"""A checkpoint that replaces the projections of a joint encoder: PAC-S, trained from CLIP with everything else frozen.

    picture's features = V pooled picture          sentence's features = T pooled sentence

The file is the authors' (a pickle with `state_dict`, in the layout of OpenAI's CLIP: `visual.proj`, `text_projection`),
or safetensors with either layout's names. Only numbers are read from it. The authors publish no hash of their
checkpoint; instead, one that would silently give another metric's numbers is refused: projections that are the
encoder's own, of another size, or beside a backbone that is not the encoder's.

Sarto, Barraco, Cornia, Baraldi, Cucchiara: Positive-Augmented Contrastive Learning for Image and Video Captioning
Evaluation. CVPR 2023.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.assets import sha256
from capmeter.errors import AssetError

if TYPE_CHECKING:
    from torch import Tensor

# OpenAI's names, and the transformers library's (a linear layer's weight is the transposed matrix).
_PROJECTIONS = {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
_BACKBONE = {
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
}
_SAME, _ROUNDED = 1e-6, 0.01  # projections are trained beyond the first; half precision stays within the second


@dataclass(frozen=True, eq=False)
class Projection:
    """Both projections, by the library's names, and those weights of the backbone that are compared."""

    path: Path
    sha256: str
    weights: Mapping[str, Tensor]

    def put_into(self, model: Any, name: str) -> None:
        """Replaces the model's projections; an `AssetError` if the checkpoint is not made from this model."""
        import torch

        own = dict(model.named_parameters())
        for key in (*_PROJECTIONS.values(), *_BACKBONE.values()):
            if key not in self.weights:
                continue
            if key not in own:
                raise AssetError(f"encoder {name!r} has no {key}; {self.path} is for CLIP models")
            found, expected = tuple(self.weights[key].shape), tuple(own[key].shape)
            if found != expected:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} has the shape {found}, but encoder {name!r} has {expected}; it "
                    "was trained from another model, so name that one as encoder"
                )
        for key in _BACKBONE.values():
            if key in self.weights and _difference(self.weights[key], own[key]) > _ROUNDED:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} is not that of encoder {name!r}; it was trained from another "
                    "model, or changes more than the projections"
                )
        if all(_difference(self.weights[key], own[key]) < _SAME for key in _PROJECTIONS.values()):
            raise AssetError(
                f"checkpoint {self.path}: its projections are those of encoder {name!r} itself, so that PAC-S would be "
                "CLIPScore; download the authors' checkpoint"
            )
        with torch.no_grad():
            for key in _PROJECTIONS.values():
                own[key].copy_(self.weights[key].to(own[key].dtype))


def read_projection(path: Path) -> Projection:
    """Reads a checkpoint's projections.

    Raises:
        AssetError: it cannot be read, contains more than numbers, or has no projections.
    """
    from safetensors import SafetensorError

    try:
        found = _tensors(path)
        digest = sha256(path)
    except pickle.UnpicklingError as error:
        raise AssetError(
            f"checkpoint {path}: a damaged pickle, or one that contains more than numbers, which is never loaded"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, SafetensorError) as error:
        raise AssetError(f"checkpoint {path}: cannot be read ({error}); download it again") from error
    weights = {}
    for openai, hub in (*_PROJECTIONS.items(), *_BACKBONE.items()):
        if hub in found:
            weights[hub] = found[hub]
        elif openai in found:
            weights[hub] = found[openai].T if openai in _PROJECTIONS else found[openai]
    lacking = [openai for openai, hub in _PROJECTIONS.items() if hub not in weights]
    if lacking:
        lora = any("lora" in name for name in found)
        raise AssetError(
            f"checkpoint {path}: it has no {' and no '.join(lacking)}"
            + (" (it has LoRA weights, as PAC-S++ does, which are not supported)" if lora else "")
            + "; expected PAC-S's checkpoint, such as clip_ViT-B-32.pth"
        )
    return Projection(path, digest, weights)


def _tensors(path: Path) -> dict[str, Tensor]:
    """The checkpoint's tensors by name."""
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    found = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict):
        raise ValueError(f"expected weights by name, but got {type(found).__name__}")
    return {str(name).removeprefix("module."): each for name, each in found.items() if isinstance(each, torch.Tensor)}


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest weight."""
    import torch

    both = one.detach().to("cpu", torch.float32), other.detach().to("cpu", torch.float32)
    return float((both[0] - both[1]).abs().max() / both[1].abs().max().clamp_min(1e-12))
