"""A checkpoint that replaces the projections of a joint encoder: PAC-S, trained from CLIP with everything else frozen.

    image features = V pooled image          sentence features = T pooled sentence

The file is the authors' (a pickle with `state_dict`, in the layout of OpenAI's CLIP: `visual.proj`, `text_projection`),
or safetensors with either layout's names. Only numbers are read from it. The authors publish no hash of their
checkpoint; instead, one that would silently give another metric's numbers is refused: projections that are the
encoder's own or of another size, or a backbone that is not the encoder's.

Sarto, Barraco, Cornia, Baraldi, Cucchiara: Positive-Augmented Contrastive Learning for Image and Video Captioning
Evaluation. CVPR 2023.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.assets import sha256
from capmeter.core.errors import AssetError

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
_UNTRAINED = 1e-6  # relative difference below which projections are the encoder's own
_HALF_PRECISION = 0.01  # relative difference within which a backbone in half precision stays


@dataclass(frozen=True, eq=False)
class Projection:
    """The projections of a checkpoint.

    Attributes:
        path, sha256: the checkpoint.
        weights: both projections, by the transformers library's names, and those weights of the backbone that are
            compared.
    """

    path: Path
    sha256: str
    weights: Mapping[str, Tensor]

    def replace_projections(self, model: Any, name: str) -> None:
        """Replace the projections of the encoder's model.

        Raises:
            AssetError: the checkpoint was not trained from this model.
        """
        import torch

        model_parameters = dict(model.named_parameters())
        for key in (*_PROJECTIONS.values(), *_BACKBONE.values()):
            if key not in self.weights:
                continue
            if key not in model_parameters:
                raise AssetError(f"encoder {name!r} has no {key}; {self.path} is for CLIP models")
            shape, expected = tuple(self.weights[key].shape), tuple(model_parameters[key].shape)
            if shape != expected:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} has the shape {shape}, but encoder {name!r} has {expected}; it "
                    "was trained from another model, so name that one as encoder"
                )
        for key in _BACKBONE.values():
            if key in self.weights and _difference(self.weights[key], model_parameters[key]) > _HALF_PRECISION:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} is not that of encoder {name!r}; it was trained from another "
                    "model, or changes more than the projections"
                )
        if all(_difference(self.weights[key], model_parameters[key]) < _UNTRAINED for key in _PROJECTIONS.values()):
            raise AssetError(
                f"checkpoint {self.path}: its projections are those of encoder {name!r} itself, so that PAC-S would be "
                "CLIPScore; download the authors' checkpoint"
            )
        with torch.no_grad():
            for key in _PROJECTIONS.values():
                model_parameters[key].copy_(self.weights[key].to(model_parameters[key].dtype))


def read_projection(path: Path) -> Projection:
    """Read a checkpoint's projections.

    Raises:
        AssetError: it cannot be read, contains more than numbers, or has no projections.
    """
    from safetensors import SafetensorError

    try:
        checkpoint_tensors = _read_tensors(path)
        file_digest = sha256(path)
    except pickle.UnpicklingError as error:
        raise AssetError(
            f"checkpoint {path}: a damaged pickle, or one that contains more than numbers, which is never loaded"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, SafetensorError) as error:
        raise AssetError(f"checkpoint {path}: cannot be read ({error}); download it again") from error
    weights = {}
    for openai, hub_name in (*_PROJECTIONS.items(), *_BACKBONE.items()):
        if hub_name in checkpoint_tensors:
            weights[hub_name] = checkpoint_tensors[hub_name]
        elif openai in checkpoint_tensors:
            weights[hub_name] = checkpoint_tensors[openai].T if openai in _PROJECTIONS else checkpoint_tensors[openai]
    missing_names = [openai for openai, hub_name in _PROJECTIONS.items() if hub_name not in weights]
    if missing_names:
        has_lora = any("lora" in tensor_name for tensor_name in checkpoint_tensors)
        raise AssetError(
            f"checkpoint {path}: it has no {' and no '.join(missing_names)}"
            + (" (it has LoRA weights, as PAC-S++ does, which are not supported)" if has_lora else "")
            + "; expected PAC-S's checkpoint, such as clip_ViT-B-32.pth"
        )
    return Projection(path, file_digest, weights)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """The checkpoint's tensors by name."""
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    state = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise ValueError(f"expected weights by name, but got {type(state).__name__}")
    return {
        str(name).removeprefix("module."): tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)
    }


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest weight of the other tensor."""
    import torch

    one, other = (tensor.detach().to("cpu", torch.float32) for tensor in (one, other))
    return float((one - other).abs().max() / other.abs().max().clamp_min(1e-12))
