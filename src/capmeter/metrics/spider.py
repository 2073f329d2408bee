"""SPIDEr (Liu et al. 2017): the mean of SPICE and CIDEr-D, what a caption says and how people say it.

    SPIDEr = (SPICE + CIDEr-D) / 2                                        for each caption; the corpus score is the mean

0 to 5.5, since CIDEr-D is scaled by 10 and SPICE is not: the sum follows CIDEr-D. Parts: `spice`, `cider-d`. `graphs`
and `parser` are SPICE's; CIDEr-D has its defaults (the tokenizer of MS COCO, document frequencies of the references at
hand).

>>> Spider().requires()[0].name, str(Spider(parser="corenlp"))
('spice', 'spider(parser=corenlp)')

S. Liu, Z. Zhu, N. Ye, S. Guadarrama, K. Murphy. Improved Image Captioning via Policy Gradient optimization of SPIDEr.
ICCV 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.cider import CiderD
from capmeter.metrics.composite import CompositeMetric, MemberScores
from capmeter.metrics.spice import Spice
from capmeter.text.parsers import ParserName
from capmeter.text.scenes import GraphsName, scene_source


@dataclass(frozen=True, kw_only=True)
class Spider(CompositeMetric):
    """The mean of SPICE and CIDEr-D."""

    NAME: ClassVar[str] = "spider"
    SUMMARY: ClassVar[str] = "mean of SPICE and CIDEr-D"
    EXTRA: ClassVar[str | None] = "meteor"
    combined: ClassVar[tuple[str, ...]] = ("score", "spice", "cider-d")
    is_mean: ClassVar[bool] = True

    parser: ParserName = "caption"
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        scene_source(self.graphs, self.parser)

    def requires(self) -> tuple[Metric, ...]:
        """SPICE with these graphs, and CIDEr-D."""
        return Spice(graphs=self.graphs, parser=self.parser), CiderD()

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """The mean of both, and both."""
        spice, cider = (scores[metric]["score"] for metric in self.requires())
        return {"score": (spice + cider) / 2, "spice": spice, "cider-d": cider}
