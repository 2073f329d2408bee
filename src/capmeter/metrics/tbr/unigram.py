"""TBR without an encoder (Yi, Deng, Hu 2020, Section 4.3): recall of the words of the combined references.

    score = |{w ∈ Comb' : w ∈ candidate}| / |Comb'|

Comb' is the set of distinct words of all references without stop words; it does not depend on the base. A strong and
cheap baseline: it measures how much of what people mention the candidate says, and does not penalise additional words.
Range 0 to 1; 1 if every content word of the references is in the candidate; 0 if the references have only stop words.

`tokenizer`: the paper does not specify it; the default is that of the other metrics (lower case, no punctuation).
`as_released=True` reproduces the released code, which splits at white space and keeps case: docs/parity.md. Stop words
are those of the released list (by default in lower case).

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a brown dog runs"], references=[["a dog is running", "brown dog outdoors"]], metrics="tbr-unigram"
... )
>>> results["tbr-unigram"].score
0.5

Yi, Deng, Hu: Improving Image Captioning Evaluation by Considering Inter References Variance. ACL 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Context, MeanMetric, Measurement, wordless
from capmeter.metrics.evidence import Evidence, Link, Mark
from capmeter.text.tbr_stop_words import TBR_STOP_WORDS
from capmeter.text.tokens import Tokenizer, TokenTable, Words, tokenizer_version


@dataclass(frozen=True, kw_only=True)
class TbrUnigram(MeanMetric):
    """Recall of the references' distinct content words."""

    NAME: ClassVar[str] = "tbr-unigram"
    SUMMARY: ClassVar[str] = "recall of the distinct content words of all references"

    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    as_released: Annotated[bool, "the released code's numbers"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_released and self.tokenizer != "ptb":
            raise InputError("tbr-unigram: as_released=true always splits at white space; leave tokenizer out")

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    @property
    def _splitting(self) -> str:
        return "whitespace" if self.as_released else self.tokenizer

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        table: TokenTable = part.pool.analyse(Words(self._splitting))
        words, ids = len(table.vocabulary), table.ids
        content = np.array([not self._is_stop(word) for word in table.vocabulary.words], np.bool_)

        sets, own = part.reference_sets, part.reference_set
        spread = ids.take(sets.values)
        row = np.repeat(sets.rows, spread.lengths)
        wanted = np.unique((row * words + spread.values)[content[spread.values]])  # reference list and word
        total = np.bincount(wanted // max(words, 1), minlength=len(sets))[own]
        said = ids.take(part.candidates)
        said_words = np.unique(said.rows * words + said.values)  # caption and word, each once
        caption = said_words // max(words, 1)
        met = np.isin(own[caption].astype(np.int64) * words + said_words % max(words, 1), wanted)
        found = np.bincount(caption[met], minlength=len(part))
        return Measurement((found / np.maximum(total, 1))[:, None], wordless(part, ids.lengths))

    def _is_stop(self, word: str) -> bool:
        return word in TBR_STOP_WORDS or (not self.as_released and word.lower() in TBR_STOP_WORDS)

    def facts(self, context: Context) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version(self._splitting)}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """Each distinct content word of the references, found in the candidate or not, and the stop words removed."""
        table: TokenTable = part.pool.analyse(Words(self._splitting))
        scores = self.measure(part, context).values[:, 0].tolist()
        evidence = []
        for k, score in enumerate(scores):
            candidate = table.row(int(part.candidates[k]))
            references = [table.row(int(reference)) for reference in part.references[k]]
            links, marks, seen = [], [], set()
            for number, reference in enumerate(references):
                for start, word in enumerate(reference):
                    if self._is_stop(word):
                        marks.append(Mark("reference", number, start, start + 1, "removed"))
                    elif word not in seen:
                        seen.add(word)
                        marks.append(Mark("reference", number, start, start + 1, "combined"))
                        if word in candidate:
                            place = candidate.index(word)
                            links.append(Link((place, place + 1), number, (start, start + 1), "exact"))
            evidence.append(Evidence(candidate, tuple(references), tuple(links), tuple(marks), {"score": score}))
        return evidence
