"""Image-text matching: models that read an image and a sentence together (BLIP), and score each pair.

An image goes through its own network once, however many sentences are compared with it; the sentences then attend to
it. Pairs with sentences of equal length go through the model together, so that none is padded.

Li, Li, Xiong, Hoi: BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language Understanding and
Generation. ICML 2022.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.core import progress
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Precision, Rows, batch_threads, run_batches
from capmeter.encoders.handle import EncoderHandle, require_neural
from capmeter.encoders.joint.encoder import JointModel
from capmeter.encoders.preprocessing import Pixels
from capmeter.encoders.text.tokenizer import PieceTable

if TYPE_CHECKING:
    from torch import Tensor

Head = Literal["itm", "itc"]
Pairs = NDArray[np.int64]
_IMAGES_IN_MEMORY = 8  # images whose states are in memory together
_CPU_PAIRS, _GPU_PAIRS = 16, 256


class ImageTextMatcher(JointModel):
    """BLIP with its matching heads; `load_matcher` loads it only once."""

    def __init__(self, handle: EncoderHandle, precision: Precision) -> None:
        super().__init__(handle, precision, "BlipForImageTextRetrieval", " as BLIP for image-text retrieval")

    def match(
        self, pairs: Pairs, pieces: PieceTable, read: Callable[[int], Pixels | None], head: Head
    ) -> Iterator[tuple[Rows, NDArray[np.float64]]]:
        """Score pairs, a few images at a time.

        Args:
            pairs: int64 (pairs, 2), image and row of `pieces`.
            pieces: the sentences.
            read: gives the pixels of image i; pairs of an image that cannot be read (None) are left out.
            head: `itm`: the probability of a match, by the head that reads both together; `itc`: the cosine of both
                encoded separately.

        Yields:
            Rows of `pairs`, and their scores.
        """
        image_order = np.argsort(pairs[:, 0], kind="stable")
        group_starts = np.flatnonzero(np.diff(pairs[image_order, 0], prepend=-1))
        image_groups = np.split(image_order, group_starts[1:]) if len(pairs) else []
        with progress.task(f"matching with {self.handle.name}", total=len(image_groups)) as advance:
            for first_group in range(0, len(image_groups), _IMAGES_IN_MEMORY):
                group_batch = image_groups[first_group : first_group + _IMAGES_IN_MEMORY]
                images = [int(pairs[pair_rows[0], 0]) for pair_rows in group_batch]
                inputs = [None if (pixels := read(image)) is None else self.preprocessing(pixels) for image in images]
                readable = [group_position for group_position, pixels in enumerate(inputs) if pixels is not None]
                if readable:
                    image_states = self.encode_images(np.stack([pixels for pixels in inputs if pixels is not None]))
                    state_of = {images[group_position]: state_row for state_row, group_position in enumerate(readable)}
                    pair_rows = np.concatenate([group_batch[group_position] for group_position in readable])
                    yield pair_rows, self._scores(pairs[pair_rows], pieces, image_states, state_of, head)
                advance(len(group_batch))

    def encode_images(self, inputs: NDArray[np.float32]) -> Tensor:
        """The image network's output, (images, patches, width)."""
        import torch

        threads = batch_threads(self.settings, self.precision.device)

        def encode(rows: Rows) -> list[Tensor]:
            with torch.inference_mode():
                return list(self.model.vision_model(pixel_values=self.pixel_tensor(inputs[rows])).last_hidden_state)

        per_batch = -(-len(inputs) // threads)
        state_batches = run_batches(
            np.ones(len(inputs), np.int64), encode, lambda _: per_batch, threads=threads, device=self.precision.device
        )
        image_states: dict[int, Tensor] = {}
        for rows, batch_states in state_batches:
            image_states.update(zip(rows.tolist(), batch_states, strict=True))
        return torch.stack([image_states[image_row] for image_row in range(len(inputs))])

    def _scores(
        self, pairs: Pairs, pieces: PieceTable, states: Tensor, state_of: dict[int, int], head: Head
    ) -> NDArray[np.float64]:
        """The score of each pair; `state_of`: the row of each image in `states`."""
        import torch

        def score(rows: Rows) -> NDArray[np.float64]:
            piece_ids = torch.from_numpy(np.stack([pieces[int(k)] for k in pairs[rows, 1]]).astype(np.int64))
            piece_ids = piece_ids.to(self.precision.device)
            patch_states = states[[state_of[int(k)] for k in pairs[rows, 0]]]
            text_inputs = {"input_ids": piece_ids, "attention_mask": torch.ones_like(piece_ids)}
            with torch.inference_mode():
                if head == "itm":
                    patch_mask = torch.ones(patch_states.shape[:-1], dtype=torch.long, device=piece_ids.device)
                    text_output = self.model.text_encoder(
                        **text_inputs, encoder_hidden_states=patch_states, encoder_attention_mask=patch_mask
                    )
                    match_logits = self.model.itm_head(text_output.last_hidden_state[:, 0]).to(torch.float64)
                    batch_scores = match_logits.softmax(-1)[:, 1]
                else:
                    text_output = self.model.text_encoder(**text_inputs)
                    sentence_features = self.model.text_proj(text_output.last_hidden_state[:, 0]).to(torch.float64)
                    image_features = self.model.vision_proj(patch_states[:, 0]).to(torch.float64)
                    batch_scores = torch.nn.functional.cosine_similarity(sentence_features, image_features)
            return np.asarray(batch_scores.cpu().numpy(), np.float64)

        per_batch = _CPU_PAIRS if self.precision.device == "cpu" else _GPU_PAIRS
        pair_scores = np.zeros(len(pairs))
        lengths, thread_count = pieces.lengths[pairs[:, 1]], batch_threads(self.settings, self.precision.device)
        for rows, batch_scores in run_batches(
            lengths, score, lambda _: per_batch, threads=thread_count, device=self.precision.device
        ):
            pair_scores[rows] = batch_scores
        return pair_scores


def load_matcher(handle: EncoderHandle, settings: Settings | None = None) -> ImageTextMatcher:
    """Load a BLIP for image-text matching, once per process; see `load_joint_encoder`."""
    settings = settings or Settings()
    require_neural()
    matcher = copy.copy(_load_matcher(handle, Precision.from_settings(settings)))
    matcher.settings = settings
    return matcher


@functools.lru_cache(maxsize=2)
def _load_matcher(handle: EncoderHandle, precision: Precision) -> ImageTextMatcher:
    return ImageTextMatcher(handle, precision)
