"""TBR without an encoder (Yi, Deng, Hu 2020, Section 4.3): recall of the words of the combined references.

    score = |{w ∈ Comb' : w ∈ candidate}| / |Comb'|

Comb' is the set of distinct words of all references without stop words; it does not depend on the base. A strong and
cheap baseline: it measures how much of what the references mention the candidate says, and does not penalise additional
words. Range 0 to 1; 1 if every content word of the references is in the candidate; 0 if the references have only stop
words. The corpus score is the mean.

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

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext, note_empty_candidates
from capmeter.evaluation.evidence import Evidence, Link, Mark
from capmeter.text.tokenization.token_tables import Tokenizer, TokenTable, WhitespaceTokens, tokenizer_version
from capmeter_research.papers.tbr.tbr_stop_words import TBR_STOP_WORDS


@dataclass(frozen=True, kw_only=True)
class TbrUnigram(MeanMetric):
    """Recall of the references' distinct content words."""

    NAME: ClassVar[str] = "tbr-unigram"
    SUMMARY: ClassVar[str] = "recall of the distinct content words of all references"
    FAMILY: ClassVar[str] = "Words and n-grams"
    MISLEADS: ClassVar[str] = "Sees recall of words alone: a synonym counts as missing, and a wrong word costs nothing."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{|\{ w \in \text{Comb}' : w \in c \}|}{|\text{Comb}'|}",
        r"\text{Comb}' = \text{the distinct words of } R \text{ without stop words}",
    )

    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    as_released: Annotated[bool, "the released code's numbers"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_released and self.tokenizer != "ptb":
            raise InputError("tbr-unigram: as_released=true always splits at white space; leave tokenizer out")

    @property
    def _tokenizer(self) -> str:
        return "whitespace" if self.as_released else self.tokenizer

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        token_table: TokenTable = part.pool.analyse(WhitespaceTokens(self._tokenizer))
        size, token_ids = len(token_table.vocabulary), token_table.ids
        is_content = np.array([not self._is_stop(word) for word in token_table.vocabulary.words], np.bool_)

        sets, set_of_caption = part.reference_sets, part.reference_set_indices
        occurrences = token_ids.take(sets.values)
        set_indices = np.repeat(sets.rows, occurrences.lengths)
        combined_keys = np.unique(
            (set_indices * size + occurrences.values)[is_content[occurrences.values]]
        )  # reference set and word
        word_totals = np.bincount(combined_keys // max(size, 1), minlength=len(sets))[set_of_caption]
        candidates = token_ids.take(part.candidates)
        candidate_words = np.unique(candidates.rows * size + candidates.values)  # caption and word, each once
        caption = candidate_words // max(size, 1)
        is_matched = np.isin(
            set_of_caption[caption].astype(np.int64) * size + candidate_words % max(size, 1), combined_keys
        )
        recalled_counts = np.bincount(caption[is_matched], minlength=len(part))
        return Measurement(
            (recalled_counts / np.maximum(word_totals, 1))[:, None], note_empty_candidates(part, token_ids.lengths)
        )

    def _is_stop(self, word: str) -> bool:
        return word in TBR_STOP_WORDS or (not self.as_released and word.lower() in TBR_STOP_WORDS)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version(self._tokenizer)}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Each distinct content word of the references, whether or not the candidate has it, and removed stop words."""
        token_table: TokenTable = part.pool.analyse(WhitespaceTokens(self._tokenizer))
        scores = self.measure(part, context).values[:, 0].tolist()
        evidence = []
        for caption_index, caption_score in enumerate(scores):
            candidate = token_table.row(int(part.candidates[caption_index]))
            references = [token_table.row(int(reference)) for reference in part.references[caption_index]]
            links, marks, combined_words = [], [], set()
            for reference_index, reference in enumerate(references):
                for start, word in enumerate(reference):
                    if self._is_stop(word):
                        marks.append(Mark("reference", reference_index, start, start + 1, "removed"))
                    elif word not in combined_words:
                        combined_words.add(word)
                        marks.append(Mark("reference", reference_index, start, start + 1, "combined"))
                        if word in candidate:
                            at = candidate.index(word)
                            links.append(Link((at, at + 1), reference_index, (start, start + 1), "exact"))
            evidence.append(
                Evidence(candidate, tuple(references), tuple(links), tuple(marks), {"score": caption_score})
            )
        return evidence
