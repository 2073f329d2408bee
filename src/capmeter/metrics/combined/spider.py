"""SPIDEr (Liu et al. 2017): the mean of SPICE and CIDEr-D: the content of a caption, and its wording.

    SPIDEr = (SPICE + CIDEr-D) / 2                                        for each caption; the corpus score is the mean

Range 0 to 5.5; CIDEr-D is scaled by 10 and SPICE is not, so CIDEr-D dominates. Parts: `spice`, `cider-d`. `input`,
`graphs` and `parser` are SPICE's; CIDEr-D has its defaults (the tokenizer of MS COCO, document frequencies of this
run's references).

>>> Spider().required_metrics()[0].name, str(Spider(parser="corenlp"))
('spice', 'spider(parser=corenlp)')

S. Liu, Z. Zhu, N. Ye, S. Guadarrama, K. Murphy. Improved Image Captioning via Policy Gradient optimization of SPIDEr.
ICCV 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.composite import CompositeMetric, MemberScores
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.scene_graph.spice import Spice
from capmeter.text.parsing.parsers import ParserName
from capmeter.text.scene_graphs.extraction import GraphsName, InputName, resolve_source


@dataclass(frozen=True, kw_only=True)
class Spider(CompositeMetric):
    """The mean of SPICE and CIDEr-D."""

    NAME: ClassVar[str] = "spider"
    SUMMARY: ClassVar[str] = "mean of SPICE and CIDEr-D"
    EXTRA: ClassVar[str | None] = "meteor"
    combined_columns: ClassVar[tuple[str, ...]] = ("score", "spice", "cider-d")
    is_mean: ClassVar[bool] = True
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        "Has the weaknesses of SPICE and of CIDEr-D: it reads a parse, and depends on the idf of the run."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{SPIDEr} = \frac{\text{SPICE} + \text{CIDEr-D}}{2}",)

    input: InputName = "tokens"
    parser: ParserName = "caption"
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        resolve_source(self.graphs, self.parser)

    def required_metrics(self) -> tuple[Metric, ...]:
        """SPICE with these graphs, and CIDEr-D."""
        return Spice(input=self.input, graphs=self.graphs, parser=self.parser), CiderD()

    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """The mean of both, and both."""
        spice, cider = (scores[metric]["score"] for metric in self.required_metrics())
        return {"score": (spice + cider) / 2, "spice": spice, "cider-d": cider}
