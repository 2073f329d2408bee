"""VIFIDEL (Madhyastha et al. 2019): visual fidelity: the distance of a caption's words from detected objects.

    d(O, C) = min Σ_{o,c} T_oc |v_o - v_c|     over flows T ≥ 0 with Σ_c T_oc = weight of o, Σ_o T_oc = weight of c
    score   = exp(-d)

O are the labels of the image's regions, each counted once, C the caption's content words, v unit word vectors: the
exact word mover's distance of `wmd`. No references are needed; with `weighted=true` the weight of a label is the number
of the references' content words whose nearest label it is, so that objects count as far as the references mention them
(the paper leaves the weights' details open, these are ours). Range 0 to 1; 1 if caption and labels have the same words,
0 if either has none with a vector. The corpus score is the mean.

If labels are numbers (`soft_labels`), `labels` is a text file with their names, one per line, the first for number 1
(bottom-up-attention's objects_vocab.txt).

>>> str(Vifidel(weighted=True))
'vifidel(weighted=true)'

Madhyastha, Wang, Specia: VIFIDEL: Evaluating the Visual Fidelity of Image Descriptions. ACL 2019.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CorpusState, Measurement, RunContext, note_captions
from capmeter.images.regions import regions_at
from capmeter_research.common.movers_distance import movers_distance
from capmeter_research.common.region_files import BoxRule
from capmeter_research.common.word_tables import ContentWords, MeanVectors, WordTable
from capmeter_research.papers.umic.regions import Confidence, MaxBoxes, MinBoxes, find_keys


@dataclass(frozen=True)
class _ZeroLabels(CorpusState):
    """Number of images with a region whose label is 0: where there is one, labels are counted from 0."""

    rule: BoxRule

    def collect(self, part: CaptionSet, context: RunContext) -> int:
        """The number of these images in this part."""
        regions = (self.rule.select(regions_at(part.regions).read(key)) for key in dict.fromkeys(find_keys(part)))
        return sum("0" in (each.labels or ()) for each in regions)


@dataclass(frozen=True, kw_only=True)
class Vifidel(MeanVectors):
    """exp(-distance) between the labels of regions and the caption's words.

    Args:
        vectors: `minilm` or a file.
        labels: file with the names of labels that are numbers, from 0 if any label is 0, else from 1.
        weighted: whether to weight labels by the references' words.
        conf_th, min_boxes, max_boxes: which boxes are used.
    """

    NAME: ClassVar[str] = "vifidel"
    SUMMARY: ClassVar[str] = "word mover's distance between detected objects' labels and the caption"
    FAMILY: ClassVar[str] = "With the picture"
    MISLEADS: ClassVar[str] = "Sees what the region detector found, and nothing else."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"d(O, C) = \min_{T \geq 0} \sum_{o,c} T_{oc} \|v_o - v_c\|, \quad \text{score} = e^{-d}",
    )
    GUIDE: ClassVar[str] = "docs/umic.md"

    labels: Annotated[str, "file of label names, one per line, for labels that are numbers"] = ""
    weighted: Annotated[bool, "weight labels by the references' words"] = False
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

    @property
    def needs(self) -> frozenset[str]:
        """Regions, and references if labels are weighted by them."""
        return frozenset({"regions", "references"} if self.weighted else {"regions"})

    def corpus_state(self) -> CorpusState | None:
        """Whether numbers of labels begin with 0."""
        return _ZeroLabels(self.rule) if self.labels else None

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        region_keys = find_keys(part)
        first_label = 0 if context.state else 1
        image_labels = {key: self._read_labels(part, key, first_label) for key in dict.fromkeys(region_keys)}
        distinct_labels = list(dict.fromkeys(label for of_image in image_labels.values() for label in of_image))
        label_indices = {label: len(part.pool) + k for k, label in enumerate(distinct_labels)}
        pool = SentencePool((*part.pool.sentences, *distinct_labels))
        word_table: WordTable = pool.analyse(ContentWords(self.vectors, settings=context.settings))
        caption_scores, out_of_vocabulary = np.zeros(len(part)), np.zeros(len(part), np.bool_)
        for row, region_key in enumerate(region_keys):
            caption_words = Counter(word_table.words[int(part.candidates[row])].tolist())
            label_words = [
                word for label in image_labels[region_key] for word in word_table.words[label_indices[label]].tolist()
            ]
            objects = self._weigh_labels(part, row, label_words, word_table) if self.weighted else Counter(label_words)
            if caption_words and objects:
                caption_scores[row] = np.exp(-movers_distance(objects, caption_words, word_table.unit))
            else:
                out_of_vocabulary[row] = True
        return Measurement(caption_scores[:, None], note_captions(part, "out of vocabulary", out_of_vocabulary))

    def _read_labels(self, part: CaptionSet, region_key: str, first_label: int) -> tuple[str, ...]:
        """The distinct labels of an image's regions; the first name in `labels` has this number."""
        regions = self.rule.select(regions_at(part.regions).read(region_key))
        if regions.labels is None:
            raise InputError(
                f"vifidel: the regions {region_key!a} in {part.regions!a} have no labels; write them with labels "
                "(texts), or soft_labels and labels=FILE"
            )
        if not all(label.isdecimal() for label in regions.labels):
            return tuple(dict.fromkeys(regions.labels))
        if not self.labels:
            raise InputError(
                f"vifidel: the labels of {region_key!a} are numbers; name them with labels=FILE, one label per line"
            )
        label_names = dict(enumerate(read_label_names(self.labels), first_label))
        label_numbers = [int(label) for label in regions.labels]
        if unnamed := [number for number in label_numbers if number not in label_names]:
            raise InputError(
                f"vifidel: {region_key!a} has label {unnamed[0]}, but {self.labels} names {first_label} to "
                f"{first_label + len(label_names) - 1}; use the detector's own list"
            )
        return tuple(dict.fromkeys(label_names[number] for number in label_numbers))

    def _weigh_labels(self, part: CaptionSet, row: int, label_words: list[int], word_table: WordTable) -> Counter[int]:
        """For each label word, the number of the references' content words that are nearest to it."""
        distinct_words = sorted(set(label_words))
        mentioned_words = [
            word for sentence in part.references[row].tolist() for word in word_table.words[int(sentence)].tolist()
        ]
        if not distinct_words or not mentioned_words:
            return Counter(distinct_words)
        nearest_labels = (word_table.unit[mentioned_words] @ word_table.unit[distinct_words].T).argmax(axis=1)
        return Counter(distinct_words[k] for k in nearest_labels.tolist())

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The vectors, the tokenizer, the stop words, and the labels' names."""
        label_facts = {"labels": f"{Path(self.labels).name}@{sha256(Path(self.labels))[:12]}"} if self.labels else {}
        return super().signature_facts(context) | label_facts


@lru_cache(maxsize=4)
def read_label_names(path: str) -> tuple[str, ...]:
    """The names of labels in a file, one per line (the first of several separated by commas)."""
    return tuple(line.partition(",")[0].strip() for line in CaptionSource.resolve(path).read_text().splitlines())
