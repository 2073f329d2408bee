"""The CLIP of synthetic scenes as a model of the transformers library: CLIP with the scene encoder's image network.

Both features have a slot for every kind of thing and one for the background, of width d. A picture's are those of the
network (see `network`), mapped to this width; in a sentence every word says which slots it speaks of, and what of them:

    v_k = W slot_k            t_k = Σ_i relu(a_k · x_i) U x_i            k: the slot, i: the words

x_i is the state of a word that knows what is said around it. W (one for things, one for the background) and U are the
same for all kinds, so that what *red* looks like is learned once.

After `register()`, `AutoModel` and `AutoConfig` read folders whose `config.json` says `capmeter-world-clip`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from capmeter_research.synthetic_scenes.encoder.network import SIDE, WorldNetwork, WorldShape
from torch import Tensor, nn
from torch.nn.functional import pad, relu
from transformers import AutoConfig, AutoModel, CLIPConfig, CLIPModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

MODEL_TYPE = "capmeter-world-clip"
_AROUND = 5


class WorldClipConfig(CLIPConfig):  # type: ignore[misc]
    """CLIP's settings; those of pictures hold the sizes of the network under `world`."""

    model_type = MODEL_TYPE


class WorldVision(nn.Module):
    """The network of pictures, called as CLIP calls its own."""

    def __init__(self, shape: WorldShape) -> None:
        super().__init__()
        self.network = WorldNetwork(shape)

    def forward(self, pixel_values: Tensor, **_: Any) -> Any:
        """The slots, and side by side as the pooled output.

        pixel_values: standardised, float [b, 3, 96, 96].
        """
        slots, _heat = self.network.slots(self.network.maps_of(pixel_values))
        return BaseModelOutputWithPooling(last_hidden_state=slots, pooler_output=slots.flatten(1))

    def regions(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The slots, [b, kinds + 1, slot], where each thing is, [b, kinds + 1, 4], and whether there is one.

        Boxes are x0, y0, x1, y1 relative to the picture: two deviations of the heat around its mean. The background is
        everywhere.
        """
        slots, heat = self.network.slots(self.network.maps_of(pixel_values))
        map_side = heat.shape[-1]
        heat_shares = heat.flatten(2).softmax(-1).view_as(heat)
        cell_centres = (torch.arange(map_side, device=heat.device, dtype=heat.dtype) + 0.5) / map_side
        axis_bounds = []
        for axis_shares in (heat_shares.sum(2), heat_shares.sum(3)):  # x, then y
            axis_mean = axis_shares @ cell_centres
            deviation = (axis_shares @ cell_centres.square() - axis_mean.square()).clamp(min=0).sqrt() + 0.5 / map_side
            axis_bounds.append(((axis_mean - 2 * deviation).clamp(min=0), (axis_mean + 2 * deviation).clamp(max=1)))
        boxes = torch.stack([axis_bounds[0][0], axis_bounds[1][0], axis_bounds[0][1], axis_bounds[1][1]], dim=-1)
        boxes = torch.cat([boxes, boxes.new_tensor([0, 0, 1, 1]).expand(len(boxes), 1, 4)], dim=1)
        is_present = pad(heat.flatten(2).amax(-1) > 0, (0, 1), value=True)
        return slots, boxes, is_present


class _Near(nn.Module):
    """What stands around each word, two words to either side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.read = nn.Linear(_AROUND * width, width)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        padded_states = pad(self.norm(states) * counts, (0, 0, _AROUND // 2, _AROUND // 2))
        word_windows = padded_states.unfold(1, _AROUND, 1).transpose(2, 3).flatten(2)
        return states + relu(self.read(word_windows))


class _SlotMap(nn.Module):
    """Slots of a picture to the width of a sentence's; all things' by one map, the background's by its own."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before = before
        self.things, self.background = (nn.Linear(before, after, bias=False) for _ in range(2))

    def forward(self, flat: Tensor) -> Tensor:
        return self.each(flat.view(len(flat), -1, self.before)).flatten(1)

    def each(self, slots: Tensor) -> Tensor:
        """Every slot on its own, [b, kinds + 1, after]."""
        return torch.cat([self.things(slots[:, :-1]), self.background(slots[:, -1:])], dim=1)


class WorldText(nn.Module):
    """The network of sentences: words with those around them, then attention; then slots."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, self.end = config.hidden_size, config.eos_token_id
        self.words = nn.Embedding(config.vocab_size, width)
        self.near = nn.ModuleList(_Near(width) for _ in range(config.num_hidden_layers))
        self.far = nn.TransformerEncoderLayer(
            width, config.num_attention_heads, config.intermediate_size, 0.0, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(width)
        self.about = nn.Linear(width, config.slots)
        self.said = nn.Linear(width, config.slot)

    def forward(self, input_ids: Tensor, **_: Any) -> Any:
        """The slots, side by side, as the pooled output; the first end token is the last that counts."""
        is_end = (input_ids == self.end).long()
        is_padding = is_end.cumsum(1) - is_end > 0
        counts = ~is_padding[..., None]
        states = self.words(input_ids)
        for convolution in self.near:
            states = convolution(states, counts)
        states = self.norm(self.far(states, src_key_padding_mask=is_padding))
        slots = (relu(self.about(states)) * counts).transpose(1, 2) @ self.said(states)
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=slots.flatten(1))


class WorldClip(CLIPModel):  # type: ignore[misc]
    """CLIP with `WorldVision` and `WorldText`."""

    config_class = WorldClipConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.vision_model = WorldVision(WorldShape(**config.vision_config.world))
        self.text_model = WorldText(config.text_config)
        self.visual_projection = _SlotMap(self.vision_model.network.shape.slot, config.text_config.slot)
        self.text_projection = nn.Identity()

    def image_states(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features, regions, boxes and mask; see `papers.infometic.joint_states.StateModel`."""
        slots, boxes, mask = self.vision_model.regions(pixel_values)
        regions = self.visual_projection.each(slots)
        return regions.flatten(1), regions, boxes, mask

    def sentence_states(self, input_ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features, states, projections and region weights; see `papers.infometic.joint_states.StateModel`."""
        output = self.text_model(input_ids=input_ids)
        states = output.last_hidden_state
        return output.pooler_output, states, self.text_model.said(states), self.text_model.about(states).relu()


def world_clip_config(shape: WorldShape, text: dict[str, int], slot: int, scale: float) -> Any:
    """The configuration of a CLIP of synthetic scenes.

    Args:
        shape: of the image network.
        text: the text network's settings, by the names of CLIP.
        slot: width of the embedding of each kind of object.
        scale: initial logarithm of the logit scale.
    """
    vision_settings = {"image_size": SIDE, "patch_size": 4, "hidden_size": shape.picture, "world": asdict(shape)}
    unused = {"num_hidden_layers": 0, "num_attention_heads": 1, "intermediate_size": 1}  # of CLIP's own network
    return WorldClipConfig(
        text_config=text | {"slots": shape.kinds + 1, "slot": slot},
        vision_config=vision_settings | unused,
        projection_dim=(shape.kinds + 1) * slot,
        logit_scale_init_value=scale,
    )


def register() -> None:
    """Makes the model known to the transformers library."""
    AutoConfig.register(MODEL_TYPE, WorldClipConfig, exist_ok=True)
    AutoModel.register(WorldClipConfig, WorldClip, exist_ok=True)
