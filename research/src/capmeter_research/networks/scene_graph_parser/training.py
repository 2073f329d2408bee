"""The scene-graph parser in training: it predicts the next token of a caption's triples, given those before.

The loss is the cross-entropy of tokens, where a word of the sentence may be generated or copied. The epoch with the
most exact graphs of held-out training captions is selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capmeter_research.common.loop import DeviceTensors, Learner, split_rows
from capmeter_research.common.recipe import Recipe
from capmeter_research.networks.scene_graph_parser.forward import ENCODER_PREFIX, DecoderShape, SceneGraphNetwork
from capmeter_research.networks.scene_graph_parser.network import GraphDecoderModule, SceneGraphModule, copy_loss
from capmeter_research.networks.scene_graph_parser.packing import PackedCaptions
from capmeter_research.networks.scene_graph_parser.triples import PAD_ID, STOP_ID

Batch = tuple[int, npt.NDArray[np.int64], bool]
"""The captions' length, their indices (batch), and whether their graphs were written by annotators."""
_FROZEN = (ENCODER_PREFIX + "pieces", ENCODER_PREFIX + "places")  # rare words keep their relation to frequent ones
_LAYERS = ENCODER_PREFIX + "layers."
_MAX_STEPS = 40  # in evaluation after an epoch


@dataclass(frozen=True)
class SceneGraphRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 9
    parsed_epochs: int = 1  # number of first epochs that are trained on triples from parses, if there are any
    lr: float = 2e-3
    warmup: float = 0.04
    lr_schedule: str = "linear"
    max_grad_norm: float = 2.0
    ema_decay: float = 0.99
    decoders: int = 3  # number of decoders in training, which share the encoder
    kept_decoders: int = 2  # maximum number of decoders in the checkpoint
    words: int = 320  # words per batch
    encoder_lr_scale: float = 0.1  # learning rate of the encoder's upper layer, as a share of the decoders'
    layer_lr_decay: float = 0.9  # learning rate of each encoder layer, as a share of that of the layer above it
    dropout: float = 0.15  # inside the network
    word_dropout: float = 0.05  # share of the words that are hidden from the encoder
    token_dropout: float = 0.05  # share of the prefix's tokens that are hidden from the decoders
    layers: int = 2  # of a decoder, as in `DecoderShape`
    hidden: int = 384
    width: int = 128  # of a decoder
    encoder_layers: int = 6  # number of layers of the pretrained encoder
    pieces: int = 7000  # number of the pretrained encoder's word pieces
    # number of epochs after the others in which entities are named as in the caption (`name_as_in_caption`)
    naming_epochs: int = 3
    naming_lr: float = 5e-4  # highest learning rate of these

    @property
    def shape(self) -> DecoderShape:
        """The decoder's sizes."""
        return DecoderShape(layers=self.layers, hidden=self.hidden)

    @property
    def naming(self) -> SceneGraphRecipe:
        """The settings of the last epochs."""
        return replace(self, epochs=self.naming_epochs, parsed_epochs=0, lr=self.naming_lr, warmup=0.05)

    def build_decoder(self, encoded_width: int, tokens: int) -> GraphDecoderModule:
        """A decoder with random weights, for this width of the encoder's output and size of the vocabulary."""
        dropout = {"dropout": self.dropout, "token_dropout": self.token_dropout}
        return GraphDecoderModule(encoded_width, self.width, tokens, self.shape, **dropout)


class SceneGraphLearner(Learner[Batch]):
    """The scene-graph parser in training.

    Args:
        module: the network with its initial weights.
        examples: training captions, packed by length.
        held_out: captions for model selection.
        recipe: settings.
        parsed: captions with triples from parses.
    """

    select = "exact"

    def __init__(
        self,
        module: SceneGraphModule,
        examples: Mapping[int, PackedCaptions],
        held_out: Mapping[int, PackedCaptions],
        recipe: SceneGraphRecipe,
        parsed: Mapping[int, PackedCaptions] | None = None,
    ) -> None:
        self.module: SceneGraphModule = module
        self.recipe = recipe
        self.examples = {length: _CaptionTensors(packed) for length, packed in examples.items()}
        self.parsed = {length: _CaptionTensors(packed) for length, packed in (parsed or {}).items()}
        self.held_out = held_out

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam, with lower learning rates for the pretrained encoder."""
        scale_groups: dict[float, list[Tensor]] = {}
        for parameter_name, parameter in self.module.named_parameters():
            lr_scale = self._lr_scale(parameter_name)
            parameter.requires_grad_(bool(lr_scale))
            scale_groups.setdefault(lr_scale, []).append(parameter)
        parameters = [{"params": parameter, "lr_scale": lr_scale} for lr_scale, parameter in scale_groups.items()]
        return torch.optim.Adam(parameters, lr=lr, betas=(0.9, 0.98), fused=True)

    def _lr_scale(self, parameter_name: str) -> float:
        recipe = self.recipe
        if not parameter_name.startswith(ENCODER_PREFIX):
            return 1.0
        if parameter_name.startswith(_FROZEN):
            return 0.0
        layer = int(parameter_name.split(".")[2]) if parameter_name.startswith(_LAYERS) else 0
        return recipe.encoder_lr_scale * recipe.layer_lr_decay ** (recipe.encoder_layers - 1 - layer)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Captions of one length with targets of similar lengths, in a new order each epoch."""
        batches = self._shuffled_batches(self.examples, rng, annotated=True)
        if not self.parsed or epoch >= self.recipe.parsed_epochs:
            return batches
        parsed_batches = self._shuffled_batches(self.parsed, rng, annotated=False)[: len(batches)]
        return [parsed_batches[batch_index] for batch_index in rng.permutation(len(parsed_batches))]

    def _shuffled_batches(
        self, examples: Mapping[int, _CaptionTensors], rng: np.random.Generator, *, annotated: bool
    ) -> list[Batch]:
        batches: list[Batch] = []
        for length, caption_tensors in examples.items():
            batch_size = max(8, self.recipe.words // length)
            caption_order = rng.permutation(len(caption_tensors.target_lengths))
            for block in split_rows(caption_order, 16 * batch_size):
                sorted_block = block[np.argsort(caption_tensors.target_lengths[block], kind="stable")]
                batches += [(length, rows, annotated) for rows in split_rows(sorted_block, batch_size)]
        return [batches[batch_index] for batch_index in rng.permutation(len(batches))]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy of the tokens, averaged over the decoders."""
        length, indices, annotated = batch
        examples = self.examples if annotated else self.parsed
        pieces, source_ids, targets = examples[length].select_captions(indices, self.device)
        prefix = torch.nn.functional.pad(targets[:, :-1], (1, 0), value=PAD_ID)
        logits = self.module(self.module.encode(pieces), source_ids, prefix)
        return {
            "tokens": torch.stack([copy_loss(decoder_logits, source_ids, targets) for decoder_logits in logits]).mean()
        }

    def evaluate(self) -> Mapping[str, float]:
        """The percentage of held-out captions with exactly the right tokens."""
        weights = {name: values.cpu().numpy() for name, values in self.module.state_dict().items()}
        encoder_shape, decoder_shape = self.module.reader.shape, self.recipe.shape
        network = SceneGraphNetwork(weights, encoder_shape, decoder_shape, len(self.module.writers))
        is_exact: list[bool] = []
        for packed in self.held_out.values():
            embeddings = network.encoder.embed_words(packed.pieces.reshape(-1, packed.pieces.shape[2]).astype(np.int64))
            words = np.arange(len(embeddings) - 2).reshape(packed.pieces.shape[:2])
            encoded = network.encoder.encode(words, embeddings)
            decoded = network.decode(encoded, packed.source_ids, _MAX_STEPS, beam_size=1)
            for tokens, gold_tokens in zip(decoded, packed.targets.tolist(), strict=True):
                is_exact.append([*tokens, STOP_ID] == [token for token in gold_tokens if token != PAD_ID])
        return {"exact": round(100 * sum(is_exact) / max(1, len(is_exact)), 3)}


class _CaptionTensors(DeviceTensors):
    """Packed captions of one length."""

    def __init__(self, packed: PackedCaptions) -> None:
        super().__init__(packed.pieces, packed.source_ids, packed.targets)
        self.target_lengths: npt.NDArray[np.int64] = (packed.targets != PAD_ID).sum(axis=1)

    def select_captions(self, rows: npt.NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Pieces, source ids and targets of some captions, without steps that are padding for all."""
        pieces, source_ids, targets = self.select(rows, device)
        return pieces, source_ids, targets[:, : int(self.target_lengths[rows].max())]
