"""A head whose joint encoder is tuned with it: the same loss, and the inputs are encoded anew at every step.

The encoder learns at a share of the head's rate, without decay of its weights. Inputs are standardised by the means and
deviations that they have with the encoder as it was, from which the head and the encoder begin. Vectors of a text
encoder stay as they are. Pictures are decoded anew when they are needed; the last ones used stay in memory.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import MemoryCache, Settings
from capmeter.encoders import SentenceVectors, find_encoder, find_joint_encoder, load_encoder
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.encoders.text.tokenizer import PieceTable
from capmeter.images.joint_features import ImageReader
from capmeter.metrics.vision.image_text import add_prefix, normalise_rows
from capmeter_research.common.loop import Outcome
from capmeter_research.papers.infometic.head import joint_parts
from capmeter_research.papers.infometic.inputs import InputSpec
from capmeter_research.papers.infometic.training.examples import RegressionExamples
from capmeter_research.papers.infometic.training.recipe import RegressorRecipe
from capmeter_research.papers.infometic.training.training import RegressorLearner

_ENCODER = "encoder."
_WEIGHTS = "model.safetensors"
_PICTURE_BYTES = 1 << 30  # of pictures in memory


class TunedLearner(RegressorLearner):
    """The learner of the shared loop; its network is the head and a copy of the joint encoder."""

    def __init__(
        self,
        examples: RegressionExamples,
        recipe: RegressorRecipe,
        device: str,
        *,
        captions: CaptionSet,
        inputs: InputSpec,
        settings: Settings,
    ) -> None:
        super().__init__(examples, recipe, device)
        self._values = self._values[:0]  # encoded anew instead
        self._joint = load_joint_encoder(find_joint_encoder(inputs.encoder), settings)
        self.encoder: Any = copy.deepcopy(self._joint.model).float().requires_grad_(True)
        self.module = nn.ModuleDict({"head": self.head_module, "encoder": self.encoder})
        self._moments = tuple(torch.from_numpy(moment).to(device) for moment in (self.mean, self.deviation))
        self._reader = ImageReader(captions.image_pool.items, self._joint.preprocessing)
        self._pixels = MemoryCache(_PICTURE_BYTES)
        self._captions, self._with_references = captions, inputs.shape == "polos"
        sentence_indices = [captions.candidates, *([captions.references.values] if self._with_references else [])]
        self._sentences = np.unique(np.concatenate(sentence_indices))
        self._pieces: PieceTable = self._joint.pieces(
            [add_prefix(inputs.prefix, captions.pool[k]) for k in self._sentences.tolist()]
        )
        self._texts: Tensor | None = None
        if self._with_references and inputs.text_encoder:
            text_encoder = find_encoder(inputs.text_encoder)
            layer = load_encoder(text_encoder, settings).layers
            text_vectors = normalise_rows(captions.pool.analyse(SentenceVectors(text_encoder, layer, settings)))
            self._texts = torch.from_numpy(text_vectors.astype(np.float32)).to(device)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW; the encoder has its share of the rate, and no decay."""
        return torch.optim.AdamW(
            [
                {"params": self.head_module.parameters(), "weight_decay": self.recipe.weights},
                {"params": self.encoder.parameters(), "weight_decay": 0.0, "lr_scale": self.recipe.tune},
            ],
            lr=lr,
        )

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.int64]]:
        """The captions with their pictures in random order: those of one picture side by side, for which it is encoded
        once in a batch.
        """
        trained_rows = self.examples.rated.trained
        place = rng.permutation(int(self._captions.image_indices.max()) + 1)[self._captions.image_indices[trained_rows]]
        caption_order = trained_rows[np.lexsort((rng.random(len(trained_rows)), place))]
        return [
            caption_order[start : start + self.recipe.batch]
            for start in range(0, len(caption_order), self.recipe.batch)
        ]

    def _standardised(self, rows: Tensor) -> Tensor:
        row_array = rows.cpu().numpy()
        caption_rows = self.examples.rows[row_array]
        candidate_rows = self._captions.candidates[caption_rows]
        picture_features = self._image_features(self._captions.image_indices[caption_rows])
        references = texts = None
        if self._with_references:
            reference_rows = self._captions.references.values[row_array]
            sentence_features = self._sentence_features(np.concatenate([candidate_rows, reference_rows]))
            candidates, references = sentence_features[: len(caption_rows)], sentence_features[len(caption_rows) :]
            if self._texts is not None:
                texts = self._texts[candidate_rows.tolist()], self._texts[reference_rows.tolist()]
        else:
            candidates = self._sentence_features(candidate_rows)
        mean, deviation = self._moments
        values = torch.cat(joint_parts(picture_features, candidates, references, texts), dim=1)
        return (values - mean) / deviation

    def _image_features(self, picture_rows: npt.NDArray[Any]) -> Tensor:
        """The unit features of these pictures."""
        distinct_rows, inverse = np.unique(picture_rows, return_inverse=True)
        pixels = torch.from_numpy(np.stack([self._picture(row) for row in distinct_rows.tolist()])).to(self.device)
        return _unit(self.encoder.get_image_features(pixel_values=pixels))[torch.from_numpy(inverse)]

    def _picture(self, row: int) -> npt.NDArray[np.float32]:
        cached_pixels: npt.NDArray[np.float32] | None = self._pixels.get(row)
        if cached_pixels is None:
            raw_pixels = self._reader.pixels(row)
            self._reader.check()
            cached_pixels = self._joint.preprocessing(np.asarray(raw_pixels))
            self._pixels.put(row, cached_pixels)
        return cached_pixels

    def _sentence_features(self, sentences: npt.NDArray[Any]) -> Tensor:
        """The unit features of these sentences of the pool; those of one length go through the encoder together."""
        distinct_rows, inverse = np.unique(np.searchsorted(self._sentences, sentences), return_inverse=True)
        lengths = self._pieces.lengths[distinct_rows]
        length_order = np.argsort(lengths, kind="stable")
        length_groups = np.split(distinct_rows[length_order], np.flatnonzero(np.diff(lengths[length_order])) + 1)
        feature_parts = []
        for group in length_groups:
            piece_ids = torch.from_numpy(np.stack([self._pieces[row] for row in group.tolist()]).astype(np.int64))
            feature_parts.append(_unit(self.encoder.get_text_features(input_ids=piece_ids.to(self.device))))
        inverse_order = np.empty(len(length_order), np.int64)
        inverse_order[length_order] = np.arange(len(length_order))
        return torch.cat(feature_parts)[torch.from_numpy(inverse_order[inverse])]

    def chosen_head(self, outcome: Outcome) -> Outcome:
        """The outcome with the head's weights alone."""
        return Outcome(_within(outcome, "head."), outcome.epoch, outcome.scores, outcome.history)

    def weights(self, outcome: Outcome) -> Any:
        """The arrays of the head with the selected weights."""
        return super().weights(self.chosen_head(outcome))

    def save_encoder(self, outcome: Outcome, folder: Path) -> None:
        """Writes the tuned encoder: the files of the one that it began from, and the selected weights."""
        folder.mkdir(parents=True, exist_ok=True)
        model = copy.deepcopy(self.encoder)
        encoder_weights = _within(outcome, _ENCODER)
        model.load_state_dict({name: torch.from_numpy(values) for name, values in encoder_weights.items()})
        model.save_pretrained(folder)
        for file in self._joint.handle.folder.iterdir():
            if file.suffix in (".json", ".txt", ".model") and "index" not in file.name:
                shutil.copyfile(file, folder / file.name)


def _within(outcome: Outcome, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in outcome.weights.items() if name.startswith(prefix)}


def _unit(features: Any) -> Tensor:
    """The model's features, of length 1; from version 5 the library wraps them."""
    return normalize(getattr(features, "pooler_output", features).float(), dim=1)
