"""BERT's forward pass (Devlin et al. 2019), which RoBERTa, DistilBERT and MPNet share, on the weights as published.

    x = norm(word + position + type)                                                            for every word piece
    A = softmax(Q Kᵀ / √d + R),   y = norm(x + A V W + b),   x ← norm(y + gelu(y W + b) W + b)  for every layer

Q, K and V are x W + b of each head, d is a head's width. R is 0 but in MPNet, where it is a bias by head and distance
of two pieces (`_relative_bias`). The output is the hidden states x of one layer, or the attention maps A of all
layers. Working on the weights directly, this starts in one second where the transformers library takes five, and it
runs no layer above the requested one.

Devlin, Chang, Lee, Toutanova: BERT: Pre-training of Deep Bidirectional Transformers. NAACL 2019. Song, Tan, Qin, Lu,
Liu: MPNet: Masked and Permuted Pre-training for Language Understanding. NeurIPS 2020.

Relative positions in attention, as MPNet (Song et al. 2020) has them from T5 (Raffel et al. 2020).

    R[h, i, j] = W[bucket(j - i), h]

Half of the buckets are for pieces before, half for pieces after. Near distances have a bucket each; the rest share the
others, logarithmically, up to `_FARTHEST`, beyond which all are in the last.

Raffel et al.: Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer. JMLR 2020.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.encoders.text.layers import TransformerLayer, linear_of, merge_adapter, transformer_layer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

RELATIVE_BIAS = "encoder.relative_attention_bias.weight"
"""The name of W, (buckets, heads), in a checkpoint."""
_FARTHEST = 128


def _relative_bias(weight: Tensor, tokens: int) -> Tensor:
    """R of a sequence of word pieces, (heads, tokens, tokens).

    Args:
        weight: W, (buckets, heads).
        tokens: length of the sequence.
    """
    import torch

    token_positions = torch.arange(tokens, device=weight.device)
    return weight[_buckets(token_positions[None, :] - token_positions[:, None], len(weight))].permute(2, 0, 1)


def _buckets(distance: Tensor, bucket_count: int) -> Tensor:
    """The bucket of each distance j - i.

    >>> import torch
    >>> _buckets(torch.tensor([0, -1, -7, -8, -500, 1, 7, 8, 500]), 32).tolist()
    [0, 1, 7, 8, 15, 17, 23, 24, 31]
    """
    half_count = bucket_count // 2
    near = half_count // 2
    size = distance.abs()
    far = near + (size.clamp(min=1).float().div(near).log() / math.log(_FARTHEST / near) * (half_count - near)).long()
    return size.where(size < near, far.clamp(max=half_count - 1)) + (distance > 0) * half_count


CONFIG, WEIGHTS = "config.json", "model.safetensors"
_ROBERTAS = {"roberta", "xlm-roberta", "camembert", "mpnet"}
_KINDS = {"bert", "distilbert"} | _ROBERTAS
_PREFIX = re.compile(r"^(bert|roberta|distilbert|mpnet)\.")
# DistilBERT's and MPNet's names for BERT's weights, and old checkpoints' names for a norm's weight and bias.
_SETTINGS = {"n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "dim": "hidden_size"}
_NAMES = {
    "transformer.layer.": "encoder.layer.",
    "attention.q_lin": "attention.self.query",
    "attention.k_lin": "attention.self.key",
    "attention.v_lin": "attention.self.value",
    "attention.out_lin": "attention.output.dense",
    "sa_layer_norm": "attention.output.LayerNorm",
    "ffn.lin1": "intermediate.dense",
    "ffn.lin2": "output.dense",
    "output_layer_norm": "output.LayerNorm",
    "attention.attn.q.": "attention.self.query.",
    "attention.attn.k.": "attention.self.key.",
    "attention.attn.v.": "attention.self.value.",
    "attention.attn.o.": "attention.output.dense.",
    "attention.LayerNorm": "attention.output.LayerNorm",
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}


class Bert:
    """A model of the BERT family.

    layers, heads, width: its sizes. vocabulary: the number of word pieces; positions: the maximum input length. stack:
    the weights of its layers, with the factors of its `adapters` added to the first ones; epsilon: of its norms.

    In bfloat16, which has eight significant bits, only the layers' matrix products are computed; states, norms,
    attention and the sum of W and its factors are float32.
    """

    def __init__(
        self, folder: Path, device: str, dtype: torch.dtype, adapters: Sequence[Mapping[str, Tensor]] = ()
    ) -> None:
        import torch
        from safetensors.torch import load_file

        model_config = _config(folder)
        self.layers, self.heads = int(model_config["num_hidden_layers"]), int(model_config["num_attention_heads"])
        if int(model_config["hidden_size"]) % self.heads:
            raise ValueError(f"its width {model_config['hidden_size']} is not a multiple of its {self.heads} heads")
        self.width, self.epsilon = int(model_config["hidden_size"]), float(model_config.get("layer_norm_eps", 1e-12))
        state_dtype = torch.float32 if dtype == torch.bfloat16 else dtype
        tensors = load_file(str(folder / WEIGHTS))
        weights = {_name(name): tensor.to(device, state_dtype) for name, tensor in tensors.items()}

        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = weights["embeddings.position_embeddings.weight"]
        if "embeddings.token_type_embeddings.weight" in weights:
            self._places = self._places + weights["embeddings.token_type_embeddings.weight"][0]
        if self._words.shape[1] != self.width:
            raise ValueError(f"its weights are {self._words.shape[1]} wide, but {CONFIG} says {self.width}")
        self._norm = linear_of(weights, "embeddings.LayerNorm")
        self.stack = [
            TransformerLayer.from_weights(weights, f"encoder.layer.{layer_number}.", self.heads)
            for layer_number in range(self.layers)
        ]
        for adapter in adapters:
            factors = {name: factor.to(device, state_dtype) for name, factor in adapter.items()}
            self.stack = merge_adapter(self.stack, factors)
        if dtype != state_dtype:
            self.stack = [layer.with_products_in(dtype) for layer in self.stack]
        self._relative = weights.get(RELATIVE_BIAS)
        # RoBERTa's positions start after the padding id, and padding is at the position of that id.
        self._padding = int(model_config.get("pad_token_id", 1)) if model_config["model_type"] in _ROBERTAS else None
        self.vocabulary = len(self._words)
        self.positions = len(self._places) - (0 if self._padding is None else self._padding + 1)

    @staticmethod
    def supports(folder: Path) -> bool:
        """Whether the model in the folder is supported: its family, activation and files."""
        model_config = _config(folder)
        return (
            model_config.get("model_type") in _KINDS
            and model_config.get("hidden_act", model_config.get("activation", "gelu")) == "gelu"
            and model_config.get("position_embedding_type", "absolute") == "absolute"
            and not model_config.get("is_decoder", False)
            and (folder / WEIGHTS).is_file()
            and (folder / "tokenizer.json").is_file()
        )

    @property
    def embeddings(self) -> Tensor:
        """The vector of each word piece before the first layer: [vocabulary, width]."""
        words: Tensor = self._words
        return words

    def run(
        self, ids: Tensor, mask: Tensor | None, hidden: int | None, attentions: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Hidden states [b, t, width] of layer `hidden` (0: the embeddings), and all maps [b, layers, heads, t, t].

        Args:
            ids: int64[b, t].
            mask: bool[b, t], true where positions may be attended to; None means everywhere.
            hidden: the layer whose states are returned; None: none are.
            attentions: whether all attention maps are returned.
        """
        import torch

        b, t = ids.shape
        x = self.embed(ids).view(b * t, self.width)
        hidden_states, attention_maps, attention_bias = x if hidden == 0 else None, [], self.attention_bias(t)
        for layer_number, layer in enumerate(self.stack[: self.layers if attentions else hidden], start=1):
            x, attention = transformer_layer(layer, x, mask, (b, self.heads), self.epsilon, bias=attention_bias)
            if layer_number == hidden:
                hidden_states = x
            if attentions:
                attention_maps.append(attention)
        return (
            None if hidden_states is None else hidden_states.view(b, t, self.width),
            torch.stack(attention_maps, dim=1) if attentions else None,
        )

    def embed(self, ids: Tensor) -> Tensor:
        """The states before the first layer: [b, t, width]."""
        import torch
        from torch.nn.functional import layer_norm

        if self._padding is None:
            position_ids = torch.arange(ids.shape[1], device=ids.device)
        else:
            is_word = (ids != self._padding).long()
            position_ids = is_word.cumsum(dim=1) * is_word + self._padding
        return layer_norm(self._words[ids] + self._places[position_ids], (self.width,), *self._norm, self.epsilon)

    def attention_bias(self, tokens: int) -> Tensor | None:
        """What is added to attention logits of `tokens` word pieces, [heads, tokens, tokens]; None for nothing."""
        return None if self._relative is None else _relative_bias(self._relative, tokens)


def _config(folder: Path) -> dict[str, Any]:
    raw_settings = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return {
        _SETTINGS.get(setting_name, setting_name): setting_value for setting_name, setting_value in raw_settings.items()
    }


def _name(weight_name: str) -> str:
    """BERT's name for a weight."""
    weight_name = _PREFIX.sub("", weight_name)
    for other_name, our_name in _NAMES.items():
        weight_name = weight_name.replace(other_name, our_name)
    return weight_name
