"""The base of metrics on the mean vectors of a caption's words (MOWE, WEmbSim, WMD, VIFIDEL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.evaluation.base import MeanMetric, RunContext
from capmeter.text.tokenization.token_tables import tokenizer_version
from capmeter_research.common.word_tables import find_vectors


@dataclass(frozen=True, kw_only=True)
class MeanVectors(MeanMetric):
    """The base of metrics on vectors of content words."""

    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    FAMILY: ClassVar[str] = "Vectors of words and sentences"
    MISLEADS: ClassVar[str] = (
        'Rates words with similar contexts as similar, including opposites and colours ("red car", "blue car"). '
        "Differences between good systems are small on its scale."
    )

    vectors: Annotated[str, "word vectors: minilm, or a file"] = "minilm"

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words."""
        label = find_vectors(self.vectors, context.settings).label
        return {"vectors": label, "tokenizer": tokenizer_version("ptb"), "stop-words": "nltk-179"}
