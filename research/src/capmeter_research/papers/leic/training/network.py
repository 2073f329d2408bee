"""The critic as a network of torch, with the arithmetic of `capmeter_research.papers.leic.forward`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import rnn

from capmeter_research.papers.leic.pooling import CountSketch
from capmeter_research.papers.leic.shape import CriticShape

SEEDED_RANGE = 0.65
"""Seeded word vectors are uniform between plus and minus this: as widely spread as the numbers of GloVe."""
_FORGET = 1.0  # added to the forget gate, as in the released code
_GATES = (0, 2, 1, 3)  # torch: input, forget, candidate, output; released: input, candidate, forget, output


class CriticModule(nn.Module):
    """A critic in training.

    Args:
        shape: its architecture.
        words: size of the vocabulary.
        dropout: of word vectors, sentence vectors and hidden layers.
    """

    def __init__(self, shape: CriticShape, words: int, dropout: float) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(words, shape.embedding)
        self.lstm = nn.LSTM(shape.embedding, shape.width, shape.layers, batch_first=True)
        self.image = nn.Linear(shape.image, shape.width) if shape.sees_image else None
        self.dense = nn.ModuleList(nn.Linear(input_width, leaves) for _, input_width, leaves in shape.dense_layers)
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -SEEDED_RANGE, SEEDED_RANGE)
        for parameter_name, values in self.lstm.named_parameters():
            if parameter_name.startswith("weight"):
                nn.init.xavier_uniform_(values)
            else:
                nn.init.zeros_(values)
        if shape.fusion == "bilinear":
            context_width = shape.width * (len(shape.inputs) - 1)
            for part_name, input_size, hash_seeds in (
                ("context", context_width, shape.sketches[:2]),
                ("candidate", shape.width, shape.sketches[2:]),
            ):
                sketch = CountSketch.from_seeds(input_size, shape.pooled, *hash_seeds)
                self.register_buffer(f"{part_name}_places", torch.from_numpy(sketch.positions), persistent=False)
                self.register_buffer(f"{part_name}_signs", torch.from_numpy(sketch.signs).float(), persistent=False)

    def read(self, windows: Tensor, lengths: Tensor) -> Tensor:
        """The state after each caption's last word: word numbers [n, steps] and lengths [n] (CPU) → [n, width]."""
        word_vectors = self.dropout(self.embedding(windows))
        packed_vectors = rnn.pack_padded_sequence(word_vectors, lengths, batch_first=True, enforce_sorted=False)
        states, batch_sizes = packed_vectors.data, packed_vectors.batch_sizes.tolist()
        for layer in range(self.shape.layers):
            states, last_states = self._steps(layer, states, batch_sizes)
        return torch.as_tensor(self.dropout(last_states[packed_vectors.unsorted_indices]))

    def _steps(self, layer: int, layer_inputs: Tensor, batch_sizes: list[int]) -> tuple[Tensor, Tensor]:
        """A layer of the LSTM: the states after all steps, in the order of what entered, and each sentence's last.

        Step by step, since torch's own LSTM takes twice as long to train on a processor: there the backward pass of
        each step fills the gradients of all steps with zeros.
        """
        input_weight, recurrent_weight = (getattr(self.lstm, f"weight_{each}_l{layer}") for each in ("ih", "hh"))
        gate_bias = getattr(self.lstm, f"bias_ih_l{layer}") + getattr(self.lstm, f"bias_hh_l{layer}")
        state = cell_state = layer_inputs.new_zeros(batch_sizes[0], self.shape.width)
        step_states, final_states = [], []
        for gate_inputs in torch.split(functional.linear(layer_inputs, input_weight, gate_bias), batch_sizes):
            going = len(gate_inputs)  # the longest sentences come first
            final_states.append(state[going:])
            input_gate, forget_gate, cell_input, output_gate = (
                gate_inputs + functional.linear(state[:going], recurrent_weight)
            ).chunk(4, dim=1)
            cell_state = forget_gate.sigmoid() * cell_state[:going] + input_gate.sigmoid() * cell_input.tanh()
            state = output_gate.sigmoid() * cell_state.tanh()
            step_states.append(state)
        return torch.cat(step_states), torch.cat([state, *reversed(final_states)])

    def forward(
        self, image: Tensor | None, reference: Tensor | None, candidate: Tensor, row: Tensor | None = None
    ) -> Tensor:
        """The two logits of each pair of a context and a candidate, (candidates, 2).

        Args:
            image: features, (contexts, width); None where the context lacks them.
            reference: read sentences, (contexts, width); None where the context lacks them.
            candidate: read sentences, (candidates, width).
            row: the context of each candidate, (candidates,); None: each has its own.
        """
        context_parts = [] if image is None or self.image is None else [self.image(image)]
        context_parts += [] if reference is None else [reference]
        *hidden_layers, output_layer = self.dense
        if self.shape.fusion == "bilinear" and not hidden_layers:
            return self._form(torch.cat(context_parts, 1), candidate, row)
        if row is not None:
            context_parts = [context_part[row] for context_part in context_parts]
        if self.shape.fusion == "bilinear":
            fused_features = self._pooled(torch.cat(context_parts, 1), candidate)
        else:
            fused_features = torch.cat([*context_parts, candidate], 1)
        for layer in hidden_layers:
            fused_features = self.dropout(functional.relu(layer(fused_features)))
        logits: Tensor = output_layer(fused_features)
        return logits

    def _form(self, context: Tensor, candidate: Tensor, row: Tensor | None) -> Tensor:
        """The bilinear form that a linear map of the pooled outer product is (`metrics.leic.pooling`)."""
        weight, bias = self.get_parameter("dense.0.weight"), self.get_parameter("dense.0.bias")
        (rows, row_signs), (columns, column_signs) = self._sketch("context"), self._sketch("candidate")
        places = (rows[:, None] + columns) % self.shape.pooled
        signs = (row_signs[:, None] * column_signs).to(weight.dtype)
        form = weight.index_select(1, places.flatten()).view(-1, *places.shape) * signs  # [2, context, candidate]
        projected_contexts = torch.einsum("nc,kcd->nkd", context, form)
        if row is not None:
            projected_contexts = projected_contexts[row]
        logits: Tensor = torch.einsum("nkd,nd->nk", projected_contexts, candidate) + bias
        return logits

    def _pooled(self, context: Tensor, candidate: Tensor) -> Tensor:
        spectra = []
        for part_name, part_vectors in (("context", context), ("candidate", candidate)):
            sketch_positions, sketch_signs = self._sketch(part_name)
            signed = part_vectors * sketch_signs.to(part_vectors.dtype)
            sketched_vectors = signed.new_zeros(len(signed), self.shape.pooled).index_add(1, sketch_positions, signed)
            spectra.append(torch.fft.rfft(sketched_vectors))
        pooled: Tensor = torch.fft.irfft(spectra[0] * spectra[1], n=self.shape.pooled)
        return pooled

    def _sketch(self, part_name: str) -> tuple[Tensor, Tensor]:
        return self.get_buffer(f"{part_name}_places"), self.get_buffer(f"{part_name}_signs")


def forget_by_default(module: CriticModule) -> None:
    """Adds 1 to the forget gates, which the released code adds on every step."""
    width = module.shape.width
    with torch.no_grad():
        for layer in range(module.shape.layers):
            getattr(module.lstm, f"bias_ih_l{layer}")[width : 2 * width] += _FORGET


def critic_weights(state: Mapping[str, npt.NDArray[Any]], shape: CriticShape) -> dict[str, npt.NDArray[np.float32]]:
    """The weights in the layout of `capmeter_research.papers.leic.forward`, from those of a `CriticModule`."""
    weights = {"embedding": state["embedding.weight"]}
    for k in range(shape.layers):
        kernel = np.concatenate([state[f"lstm.weight_ih_l{k}"], state[f"lstm.weight_hh_l{k}"]], axis=1).T
        gate_bias = state[f"lstm.bias_ih_l{k}"] + state[f"lstm.bias_hh_l{k}"]
        gate_bias = gate_bias - np.repeat(np.array([0.0, _FORGET, 0.0, 0.0], gate_bias.dtype), shape.width)
        weights[f"lstm.{k}.kernel"] = np.concatenate([np.split(kernel, 4, axis=1)[gate] for gate in _GATES], axis=1)
        weights[f"lstm.{k}.bias"] = np.concatenate([np.split(gate_bias, 4)[gate] for gate in _GATES])
    if shape.sees_image:
        weights |= {"image.kernel": state["image.weight"].T, "image.bias": state["image.bias"]}
    for k, (name, _, _) in enumerate(shape.dense_layers):
        weights |= {f"{name}.kernel": state[f"dense.{k}.weight"].T, f"{name}.bias": state[f"dense.{k}.bias"]}
    return {weight_name: np.ascontiguousarray(values, np.float32) for weight_name, values in weights.items()}
