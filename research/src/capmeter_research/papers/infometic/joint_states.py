"""States of an image's regions and of a sentence's word pieces, and the features of both, from one encoder.

For heads that predict which words are wrong and which regions are not mentioned. Regions and the projections of pieces
are in the space in which the encoder compares images with sentences, wherever its projections apply to them:

| model | regions | projection of a piece |
|---|---|---|
| CLIP | patches, normalised and projected as the class token is | its state, projected as the end token's is |
| SigLIP | patches | its state |
| BLIP (image-text retrieval) | patches, projected as the first token is | its state, projected as the first token's |
| `StateModel`, of another package | as the model defines | as the model defines |

Only pieces of the sentence itself are included: neither begin, end and padding tokens nor those of a prefix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Rows, to_numpy
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.joint.encoder import JointModel, load_joint_encoder, register_model_type
from capmeter.encoders.preprocessing import Pixels
from capmeter_research.common.image_text_matcher import load_matcher

if TYPE_CHECKING:
    from torch import Tensor

    Four = tuple[Tensor, Tensor, Tensor, Tensor]

Floats32 = NDArray[np.float32]
MODEL_TYPES = ("clip", "siglip", "siglip2", "blip")
"""The supported architectures, as `config.json` names them, besides those that implement `StateModel`."""


@runtime_checkable
class StateModel(Protocol):
    """A model of another package (entry point group `capmeter.model_types`) that computes states itself.

    Its configuration may name its regions: `region_labels`.
    """

    def image_states(self, pixel_values: Tensor) -> Four:
        """States of images (batch, channels, height, width).

        Returns:
            Features (batch, width), regions (batch, regions, region_dim), boxes (batch, regions, 4) and the regions'
            mask (batch, regions); see `ImageStates`.
        """

    def sentence_states(self, input_ids: Tensor) -> Four:
        """States of sentences (batch, tokens).

        Returns:
            Features (batch, width), states (batch, tokens, state_dim), projections (batch, tokens, region_dim) and
            region weights (batch, tokens, regions); see `SentenceStates`.
        """


@dataclass(frozen=True, eq=False)
class ImageStates:
    """States of images.

    Attributes:
        features: float32 (images, width), those of `JointEncoder.image_features`.
        regions: float32 (images, regions, region_dim).
        boxes: float32 (images, regions, 4), x0, y0, x1, y1 relative to what the encoder sees of the image.
        mask: bool (images, regions), false where the encoder finds nothing.
    """

    features: Floats32
    regions: Floats32
    boxes: Floats32
    mask: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SentenceStates:
    """States of sentences; those of pieces in one array per sentence.

    Attributes:
        features: float32 (sentences, width), those of `JointEncoder.text_features`.
        states: float32 (tokens, state_dim) each.
        projections: float32 (tokens, region_dim) each, comparable with regions.
        region_weights: float32 (tokens, regions) each, how much a piece refers to a region; (tokens, 0) where only the
            image determines that.
        word_indices: int64 (tokens,) each, the word of each piece in `sentence.split()`.
        truncated: bool (sentences,).
    """

    features: Floats32
    states: tuple[Floats32, ...]
    projections: tuple[Floats32, ...]
    region_weights: tuple[Floats32, ...]
    word_indices: tuple[NDArray[np.int64], ...]
    truncated: NDArray[np.bool_]


class StateEncoder:
    """A joint encoder that gives states; `load_state_encoder` loads it."""

    def __init__(self, encoder: JointModel) -> None:
        self.encoder, self.handle, self.preprocessing = encoder, encoder.handle, encoder.preprocessing
        self.model_type = str(encoder.model.config.model_type)
        if not getattr(encoder.tokenizer, "is_fast", False):
            raise AssetError(
                f"encoder {self.handle.name!r}: its tokenizer cannot say where its pieces are in the sentence; it "
                "needs the file tokenizer.json"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each region; empty where regions are patches."""
        return tuple(getattr(self.encoder.model.config, "region_labels", None) or ())

    @property
    def device(self) -> str:
        """Where the encoder runs."""
        return self.encoder.precision.device

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """The number of regions; the dimensions of a region, of a piece's state, and of the features."""
        size = int(self.encoder.model.config.vision_config.image_size)
        images, sentences = self._image_states(np.zeros((1, 3, size, size), np.float32)), self.sentences(["a"], "")
        return *images.regions.shape[1:], sentences.states[0].shape[1], images.features.shape[1]

    def signature_facts(self) -> dict[str, str]:
        """Everything about the encoder that affects scores, for signatures."""
        return self.encoder.signature_facts()

    def images(self, count: int, read: Callable[[int], Pixels | None]) -> ImageStates:
        """The states of images.

        Args:
            count: the number of images.
            read: gives the pixels of image i; None (it cannot be read) gives states of 0.
        """
        region_count, region_dim, _, feature_dim = self.shape
        image_states = ImageStates(
            np.zeros((count, feature_dim), np.float32),
            np.zeros((count, region_count, region_dim), np.float32),
            np.zeros((count, region_count, 4), np.float32),
            np.zeros((count, region_count), np.bool_),
        )

        def encode(rows: Rows) -> tuple[Rows, ImageStates | None]:
            inputs = [None if (pixels := read(row)) is None else self.preprocessing(pixels) for row in rows.tolist()]
            readable_inputs = [pixels for pixels in inputs if pixels is not None]
            readable_rows = rows[[pixels is not None for pixels in inputs]]
            return readable_rows, self._image_states(np.stack(readable_inputs)) if readable_inputs else None

        for _, (rows, batch_states) in self.encoder.run_batches(np.full(count, region_count, np.int64), encode):
            if batch_states is not None:
                image_states.features[rows], image_states.regions[rows] = batch_states.features, batch_states.regions
                image_states.boxes[rows], image_states.mask[rows] = batch_states.boxes, batch_states.mask
        return image_states

    def sentences(self, sentences: Sequence[str], prefix: str) -> SentenceStates:
        """The states of these sentences, each after the prefix (which ends in a blank, or is empty)."""
        prefixed_sentences = [prefix + sentence for sentence in sentences]
        piece_table = self.encoder.pieces(prefixed_sentences)
        piece_positions = [
            self._piece_positions(prefixed_sentence, len(prefix)) for prefixed_sentence in prefixed_sentences
        ]

        def encode(rows: Rows) -> list[tuple[Floats32, ...]]:
            piece_ids = np.stack([piece_table[row] for row in rows.tolist()]).astype(np.int64)
            return list(zip(*map(to_numpy, self._sentence_states(piece_ids)), strict=True))

        encoded_rows: dict[int, tuple[Floats32, ...]] = {}
        for rows, batch_states in self.encoder.run_batches(piece_table.lengths, encode):
            encoded_rows.update(zip(rows.tolist(), batch_states, strict=True))
        states, projections, region_weights = (
            tuple(encoded_rows[row][state_index][tokens] for row, (tokens, _) in enumerate(piece_positions))
            for state_index in (1, 2, 3)
        )
        features = np.stack([encoded_rows[row][0] for row in range(len(prefixed_sentences))])
        word_indices = tuple(word_positions for _, word_positions in piece_positions)
        return SentenceStates(features, states, projections, region_weights, word_indices, piece_table.truncated)

    def _piece_positions(self, text: str, text_start: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the pieces of text[start:] are among all pieces, and the word of each."""
        offsets = self.encoder.tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        sentence, max_tokens = text[text_start:], self.encoder.max_length
        word_starts = np.array(
            [k for k, c in enumerate(sentence) if not c.isspace() and (not k or sentence[k - 1].isspace())]
        )
        token_positions, word_indices = [], []
        for token, (first, last) in enumerate(offsets if len(offsets) <= max_tokens else offsets[: max_tokens - 1]):
            if last > max(first, text_start) and not text[last - 1].isspace():
                token_positions.append(token)
                word_indices.append(int(np.searchsorted(word_starts, last - 1 - text_start, side="right")) - 1)
        return np.array(token_positions, np.int64), np.array(word_indices, np.int64)

    def _image_states(self, inputs: Floats32) -> ImageStates:
        """The states of preprocessed images (batch, channels, height, width)."""
        import torch

        model = self.encoder.model
        with torch.inference_mode():
            pixels = self.encoder.pixel_tensor(inputs)
            if isinstance(model, StateModel):
                features, regions, boxes, mask = model.image_states(pixels)
                return ImageStates(to_numpy(features), to_numpy(regions), to_numpy(boxes), mask.cpu().numpy())
            vision_output = model.vision_model(pixel_values=pixels)
            patch_states = vision_output.last_hidden_state
            if self.model_type.startswith("siglip"):
                features, regions = vision_output.pooler_output, patch_states
            else:
                if self.model_type == "clip":
                    patch_states = model.visual_projection(model.vision_model.post_layernorm(patch_states))
                else:
                    patch_states = model.vision_proj(patch_states)
                features, regions = patch_states[:, 0], patch_states[:, 1:]
        region_count = regions.shape[1]
        patch_boxes = np.broadcast_to(_patch_boxes(region_count), (len(inputs), region_count, 4))
        return ImageStates(
            to_numpy(features), to_numpy(regions), patch_boxes, np.ones((len(inputs), region_count), np.bool_)
        )

    def _sentence_states(self, piece_ids: NDArray[np.int64]) -> Four:
        """What `StateModel.sentence_states` returns, of sentences of equal length (batch, tokens)."""
        import torch

        model = self.encoder.model
        with torch.inference_mode():
            input_ids = torch.from_numpy(piece_ids).to(self.device)
            if isinstance(model, StateModel):
                return model.sentence_states(input_ids)
            if self.model_type == "blip":
                text_output = model.text_encoder(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
                states = text_output.last_hidden_state
                projections = model.text_proj(states)
                features = projections[:, 0]
            else:
                text_output = model.text_model(input_ids=input_ids)
                states, features = text_output.last_hidden_state, text_output.pooler_output
                projections = states
                if self.model_type == "clip":
                    projections, features = model.text_projection(states), model.text_projection(features)
            return features, states, projections, states.new_zeros((*states.shape[:2], 0))


def load_state_encoder(handle: EncoderHandle, settings: Settings | None = None) -> StateEncoder:
    """Load an encoder of images and sentences that gives states, once per process; see `load_joint_encoder`.

    Raises:
        AssetError: its architecture is not supported, or its tokenizer does not say where pieces are.
    """
    try:
        model_type = str(json.loads((handle.folder / "config.json").read_bytes())["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"encoder {handle.name!r}: cannot read config.json in {handle.folder}: {error}") from error
    encoder: Any = None
    if model_type == "blip":
        encoder = load_matcher(handle, settings)
    elif model_type in MODEL_TYPES or register_model_type(model_type):
        encoder = load_joint_encoder(handle, settings)
    if encoder is None or (model_type not in MODEL_TYPES and not isinstance(encoder.model, StateModel)):
        raise AssetError(
            f"encoder {handle.name!r} is a {model_type} model, which is not supported for region and word states; "
            f"expected one of {', '.join(MODEL_TYPES)}, or a model of an installed package that implements StateModel"
        )
    return StateEncoder(encoder)


def _patch_boxes(patch_count: int) -> Floats32:
    """The boxes of square patches in rows, (count, 4)."""
    grid_side = round(patch_count**0.5)
    rows, columns = np.divmod(np.arange(patch_count), grid_side)
    boxes: Floats32 = np.stack([columns, rows, columns + 1, rows + 1], axis=1).astype(np.float32) / grid_side
    return boxes
