"""What metrics on image regions share: pairs of captions and regions in an encoder of both, and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.settings import Settings
from capmeter.encoders.batches import in_order
from capmeter.encoders.handle import versions
from capmeter.encoders.text.tokenizer import PieceTable
from capmeter.evaluation.base import MeanMetric, RunContext, note_captions
from capmeter.images.regions import region_keys, regions_at
from capmeter_research.common.region_files import BoxRule, box_features
from capmeter_research.papers.umic.pairs import PairEncoder, PairStates, load_pair_encoder

Indices = NDArray[np.int64]
Confidence = Annotated[float, "use boxes with a confidence above this"]
MinBoxes = Annotated[int, "minimum number of boxes"]
MaxBoxes = Annotated[int, "maximum number of boxes"]
ADVICE = (
    "convert published weights with `capmeter train import-uniter`, or train with `capmeter train umic`, and name the "
    "folder (checkpoint=FOLDER)"
)


@dataclass(frozen=True, eq=False)
class CaptionRegionPairs:
    """The distinct pairs of a sentence and an image's regions in a part, and which pair each caption has."""

    encoder: PairEncoder
    pieces: PieceTable  # of the s distinct sentences
    sentence: Indices  # (pairs,), row of pieces
    embedded: list[Any]  # the embedded regions of each distinct image
    image: Indices  # (pairs,), index into embedded
    of_candidates: Indices  # (captions,), pair of each candidate
    of_references: Indices  # pair of each reference, flat as `part.references.values`

    @classmethod
    def from_captions(
        cls, part: CaptionSet, encoder: PairEncoder, rule: BoxRule, *, lower: bool = False, references: bool = False
    ) -> CaptionRegionPairs:
        """The pairs of candidates (and references) with images; each image's regions are read and embedded once.

        Args:
            part: captions with regions.
            encoder: of the pairs.
            rule: which regions are used.
            lower: whether captions are lowercased.
            references: whether to pair references, too.
        """
        sentence_groups = [part.candidates, part.references.values] if references else [part.candidates]
        distinct_sentences, sentence_rows = np.unique(
            np.concatenate(sentence_groups).astype(np.int64), return_inverse=True
        )
        piece_table = encoder.pieces([part.pool[k] for k in distinct_sentences.tolist()], lower)
        region_keys, region_source = find_keys(part), regions_at(part.regions)
        key_indices = {key: k for k, key in enumerate(dict.fromkeys(region_keys))}
        chosen_regions = (rule.select(region_source.read(key)) for key in key_indices)
        embedded = [encoder.embed(regions.features, box_features(regions)) for regions in chosen_regions]
        image_indices = np.array([key_indices[key] for key in region_keys], np.int64)
        pair_images = np.concatenate(
            [image_indices, image_indices[part.references.rows] if references else image_indices[:0]]
        )
        distinct_pairs, pair_indices = np.unique(np.stack([sentence_rows, pair_images]), axis=1, return_inverse=True)
        pair_indices = pair_indices.ravel()
        of_sentence, of_image = distinct_pairs.astype(np.int64)
        return cls(
            encoder, piece_table, of_sentence, embedded, of_image, pair_indices[: len(part)], pair_indices[len(part) :]
        )

    def run_pairs(self, work: Callable[[PairStates], Any], settings: Settings, *, attention: bool = False) -> list[Any]:
        """The output of `work` for each distinct pair.

        Args:
            work, settings, attention: as in `PairEncoder.run_pairs`.
        """
        outputs = self.encoder.run_pairs(
            self.pieces, self.sentence, self.embedded, self.image, work, settings, attention=attention
        )
        return in_order(outputs, len(self.sentence))

    def note_truncated(self, part: CaptionSet) -> dict[str, list[str]]:
        """The note of captions that are too long for the encoder."""
        truncated_captions = self.pieces.truncated[self.sentence[self.of_candidates]]
        return note_captions(part, "caption truncated to the encoder's length", truncated_captions)


def find_keys(part: CaptionSet) -> list[str]:
    """The key of each caption's regions.

    Raises:
        InputError: a caption's image has no regions.
    """
    caption_keys = region_keys(part)
    present_keys = [key for key in caption_keys if key is not None]
    if len(present_keys) < len(part):
        first_missing = part.ids[list(caption_keys).index(None)]
        have = format_count(len(part) - len(present_keys), "caption has", "captions have")
        raise InputError(f"{have} no regions (the first: {first_missing}); give --regions")
    return present_keys


@dataclass(frozen=True, kw_only=True)
class RegionPairMetric(MeanMetric):
    """The base of metrics on a caption and image regions in a vision-and-language encoder (UNITER)."""

    EXTRA: ClassVar[str | None] = "neural"
    MAX_WORDS: ClassVar[int | None] = 40  # trained on captions of one sentence
    FAMILY: ClassVar[str] = "With the picture"
    MISLEADS: ClassVar[str] = "Sees what the region detector found, and nothing else."
    GUIDE: ClassVar[str] = "docs/umic.md"

    checkpoint: Annotated[str, "name or folder of the trained weights"] = "umic"
    conf_th: Confidence = 0.2
    min_boxes: MinBoxes = 10
    max_boxes: MaxBoxes = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rule  # noqa: B018  checks the numbers of boxes

    @property
    def rule(self) -> BoxRule:
        """Which boxes are used."""
        return BoxRule(self.conf_th, self.min_boxes, self.max_boxes)

    def load_encoder(self, settings: Settings) -> PairEncoder:
        """The encoder of the checkpoint."""
        return load_pair_encoder(self.checkpoint, settings, ADVICE)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the choice of boxes, the libraries and the precision."""
        encoder, rule = self.load_encoder(context.settings), self.rule
        box_order = "first" if rule.in_order else "most confident"
        box_rule = f"conf>{rule.conf_th:g}, {rule.min_boxes}-{rule.max_boxes}, {box_order}"
        facts = {"weights": encoder.label, "boxes": box_rule, "libraries": versions("torch", "tokenizers")}
        precision_facts = (
            {} if context.settings.precision == "float32" else {"precision": str(encoder.dtype)[len("torch.") :]}
        )
        return facts | precision_facts
