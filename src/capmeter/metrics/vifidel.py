"""VIFIDEL (Madhyastha et al. 2019): do a caption's words say what a detector sees?

    d(O, C) = min Σ_{o,c} T_oc |v_o - v_c|     over flows T ≥ 0 with Σ_c T_oc = weight of o, Σ_o T_oc = weight of c
    score   = exp(-d)

O are the labels of the picture's regions, each counted once, C the caption's content words, v unit word vectors: the
exact word mover's distance of `wmd`. No references are needed; with `weighted=true` a label weighs as much as the
references' content words whose nearest label it is, so that what people mention counts (labels that nobody mentions do
not; the paper leaves the weights' details open, these are ours). Range 0 to 1; 1 if caption and labels have the same
words, 0 if either has none with a vector.

Labels that are numbers (`soft_labels`) are named by `labels`, a text file with one label per line, of which the first
is number 1 (bottom-up-attention's objects_vocab.txt).

Madhyastha, Wang, Specia: VIFIDEL: Evaluating the Visual Fidelity of Image Descriptions. ACL 2019.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from capmeter.assets import sha256
from capmeter.captions.model import CaptionSet, SentencePool
from capmeter.errors import InputError
from capmeter.images.region_source import regions_at
from capmeter.images.regions import BoxRule
from capmeter.metrics.base import Context, Measurement
from capmeter.metrics.mowe import MeanVectors
from capmeter.metrics.regions import keys_of
from capmeter.metrics.wmd import movers_distance
from capmeter.metrics.word_vectors import ContentWords, WordTable


@dataclass(frozen=True, kw_only=True)
class Vifidel(MeanVectors):
    """exp(-distance) between the labels of regions and the caption's words. vectors: `minilm` or a file."""

    NAME: ClassVar[str] = "vifidel"
    SUMMARY: ClassVar[str] = "word mover's distance between detected objects' labels and the caption"

    labels: Annotated[str, "file of label names, one per line, for labels that are numbers"] = ""
    weighted: Annotated[bool, "weigh labels by the references' words"] = False
    conf_th: Annotated[float, "use boxes with a confidence above this"] = 0.2
    min_boxes: Annotated[int, "but at least so many"] = 10
    max_boxes: Annotated[int, "and at most so many"] = 100

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

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        keys = keys_of(part)
        seen = {key: self._labels(part, key) for key in dict.fromkeys(keys)}
        known = list(dict.fromkeys(label for each in seen.values() for label in each))
        place = {label: len(part.pool) + k for k, label in enumerate(known)}
        pool = SentencePool((*part.pool.sentences, *known))
        table: WordTable = pool.analyse(ContentWords(self.vectors, settings=context.settings))
        values, silent = np.zeros(len(part)), []
        for row, key in enumerate(keys):
            words = Counter(table.words[int(part.candidates[row])].tolist())
            labels = [word for label in seen[key] for word in table.words[place[label]].tolist()]
            objects = self._weights(part, row, labels, table) if self.weighted else Counter(labels)
            if words and objects:
                values[row] = np.exp(-movers_distance(objects, words, table.unit))
            else:
                silent.append(part.ids[row])
        return Measurement(values[:, None], {"out of vocabulary": silent} if silent else {})

    def _labels(self, part: CaptionSet, key: str) -> tuple[str, ...]:
        """The distinct labels of a picture's regions."""
        regions = regions_at(part.regions).read(key).chosen(self.rule)
        if regions.labels is None:
            raise InputError(
                f"vifidel: the regions {key!a} in {part.regions!a} have no labels; write them with labels (texts), or "
                "soft_labels and labels=FILE"
            )
        if not all(label.isdecimal() for label in regions.labels):
            return tuple(dict.fromkeys(regions.labels))
        if not self.labels:
            raise InputError(
                f"vifidel: the labels of {key!a} are numbers; name them with labels=FILE, one label per line"
            )
        names = label_names(self.labels)
        numbers = [int(label) for label in regions.labels]
        if not 1 <= min(numbers) <= max(numbers) <= len(names):
            raise InputError(
                f"vifidel: {key!a} has label {max(numbers)}, but {self.labels} names {len(names)}; take the detector's "
                "own list"
            )
        return tuple(dict.fromkeys(names[number - 1] for number in numbers))

    def _weights(self, part: CaptionSet, row: int, labels: list[int], table: WordTable) -> Counter[int]:
        """How many of the references' content words each label's words are nearest to."""
        distinct = sorted(set(labels))
        said = [word for sentence in part.references[row].tolist() for word in table.words[int(sentence)].tolist()]
        if not distinct or not said:
            return Counter(distinct)
        nearest = (table.unit[said] @ table.unit[distinct].T).argmax(axis=1)
        return Counter(distinct[k] for k in nearest.tolist())

    def facts(self, context: Context) -> dict[str, str]:
        """The vectors, the tokenizer, the stop words, and the labels' names."""
        named = {"labels": f"{Path(self.labels).name}@{sha256(Path(self.labels))[:12]}"} if self.labels else {}
        return super().facts(context) | named


@lru_cache(maxsize=4)
def label_names(path: str) -> tuple[str, ...]:
    """The names of labels in a file, one per line (of several separated by commas, the first)."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"vifidel: cannot read labels={path} ({error}); expected a text file, one per line") from error
    return tuple(line.partition(",")[0].strip() for line in lines)
