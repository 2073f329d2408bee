"""SPIDEr (Liu et al. 2017): the mean of SPICE and CIDEr-D, what a caption says and how people say it.

    SPIDEr = (SPICE + CIDEr-D) / 2                                        for each caption; the corpus score is the mean

0 to 5.5, since CIDEr-D is scaled by 10 and SPICE is not: the sum follows CIDEr-D. Parts: `spice`, `cider-d`. `parser`
is SPICE's; CIDEr-D has its defaults (the tokenizer of MS COCO, document frequencies of the references at hand).

>>> Spider().requires()[0].name, str(Spider(parser="corenlp"))
('spice', 'spider(parser=corenlp)')

S. Liu, Z. Zhu, N. Ye, S. Guadarrama, K. Murphy. Improved Image Captioning via Policy Gradient optimization of SPIDEr.
ICCV 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Corpus, Floats, MeanMetric, Measurement, Metric
from capmeter.metrics.cider import CiderD
from capmeter.metrics.spice import Spice
from capmeter.text.parsers import check_parser


@dataclass(frozen=True, kw_only=True)
class Spider(MeanMetric):
    """The mean of SPICE and CIDEr-D."""

    NAME: ClassVar[str] = "spider"
    SUMMARY: ClassVar[str] = "mean of SPICE and CIDEr-D"
    EXTRA: ClassVar[str | None] = "meteor"
    columns: ClassVar[tuple[str, ...]] = ("score", "spice", "cider-d")

    parser: str = "caption"

    def __post_init__(self) -> None:
        check_parser(self.parser)

    def requires(self) -> tuple[Metric, ...]:
        """SPICE with this parser, and CIDEr-D."""
        return Spice(parser=self.parser), CiderD()

    def measure(self, part: CaptionSet, state: Any, given: Mapping[Metric, Mapping[str, Floats]]) -> Measurement:
        """The mean, SPICE and CIDEr-D of every caption, float64[captions, 3]."""
        spice, cider = (given[metric]["score"] for metric in self.requires())
        return Measurement(np.stack([(spice + cider) / 2, spice, cider], axis=1))

    def corpus(self) -> Corpus | None:
        """What CIDEr-D collects: only the signature names it."""
        return CiderD().corpus()

    def facts(self, state: Any) -> dict[str, str]:
        """What moves SPICE and CIDEr-D."""
        spice, cider = Spice(parser=self.parser), CiderD()
        parameters = {f"cider-d-{name}": str(value) for name, value in cider.parameters().items() if name != "idf"}
        return {**spice.facts(None), **parameters, **cider.facts(state)}
