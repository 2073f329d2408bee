"""ROUGE-L as captioning computes it (Lin 2004; the coco-caption code).

    P = max over references of LCS / candidate length,    R = max over references of LCS / reference length
    ROUGE-L = (1 + β²) P R / (R + β² P),    β = 1.2;  0 where P or R is 0

LCS is the length of the longest common subsequence of tokens. The largest P and the largest R may come from
different references. Range 0 to 1; 1 for a candidate equal to a reference. As in the standard code, an empty text
counts as one empty token, so an empty candidate scores 0 unless a reference is empty too. `references=cat` compares
with the concatenation of all references instead. The corpus score is the mean.

β is the released code's; the paper leaves it open and combines P and R of the same reference.

>>> import capmeter
>>> results = capmeter.score(candidates=["a dog runs"], references=[["a dog is running"]], metrics="rouge-l")
>>> round(results["rouge-l"].score, 4)  # LCS "a dog": P = 2/3, R = 2/4
0.5571

Lin: ROUGE: A Package for Automatic Evaluation of Summaries. ACL Workshop 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cpdist

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import (
    MeanMetric,
    Measurement,
    References,
    RunContext,
    note_empty_candidates,
    select_references,
)
from capmeter.text.tokenization.token_tables import Tokenizer, Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence

_CHARACTERS = 0x10F000  # available Unicode code points


@dataclass(frozen=True, kw_only=True)
class RougeL(MeanMetric):
    """ROUGE-L with recall weighted β² times as much as precision."""

    NAME: ClassVar[str] = "rouge-l"
    SUMMARY: ClassVar[str] = "longest common subsequence, recall-weighted F-measure"
    MICROSECONDS: ClassVar[float] = 40.0
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    FAMILY: ClassVar[str] = "Words and n-grams"
    MISLEADS: ClassVar[str] = (
        "Takes the longest common subsequence: a caption that only reorders a reference loses much, one with a "
        "wrong noun little."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \max_{r} \frac{\text{LCS}(c, r)}{|c|}, \quad R = \max_{r} \frac{\text{LCS}(c, r)}{|r|}",
        r"\text{ROUGE-L} = \frac{(1 + \beta^2) P R}{R + \beta^2 P}, \quad \beta = 1.2",
    )

    beta: Annotated[float, "weight of recall relative to precision, squared in the formula"] = 1.2
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    references: References = "each"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta <= 1000:
            raise InputError(f"rouge-l: expected beta above 0 and up to 1,000, but got {self.beta:g}")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """ROUGE-L of each caption."""
        original_tokens: TokenTable = part.pool.analyse(Tokens(self.tokenizer))
        notes = note_empty_candidates(part, original_tokens.ids.lengths)
        part, tokenizer = select_references(part, self.references, self.tokenizer)
        tokens: TokenTable = part.pool.analyse(Tokens(tokenizer))
        texts = _as_characters(tokens)
        candidates, references = part.candidates[part.references.rows], part.references.values
        pairs = ([texts[i] for i in side.tolist()] for side in (candidates, references))
        lcs = cpdist(*pairs, scorer=LCSseq.similarity, dtype=np.int32).astype(np.float64)
        sentence_lengths, reference_starts = np.maximum(tokens.ids.lengths, 1), part.references.offsets[:-1]
        precision = np.maximum.reduceat(lcs / sentence_lengths[candidates], reference_starts)
        recall = np.maximum.reduceat(lcs / sentence_lengths[references], reference_starts)
        beta2 = self.beta**2
        both = (precision > 0) & (recall > 0)
        score = np.where(both, (1 + beta2) * precision * recall / np.where(both, recall + beta2 * precision, 1), 0.0)
        return Measurement(np.column_stack([score, precision, recall]), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version(self.tokenizer)}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The tokens of a longest common subsequence with the most similar reference."""
        from capmeter.evaluation.evidence import Evidence, Link, Mark

        part, tokenizer = select_references(part, self.references, self.tokenizer)
        tokens: TokenTable = part.pool.analyse(Tokens(tokenizer))
        texts = _as_characters(tokens)
        evidence = []
        for caption_index in range(len(part)):
            candidate, references = int(part.candidates[caption_index]), part.references[caption_index].tolist()
            best_index = int(
                np.argmax([LCSseq.similarity(texts[candidate], texts[reference]) for reference in references])
            )
            blocks = LCSseq.opcodes(texts[candidate], texts[references[best_index]])
            links = tuple(
                Link((block.src_start, block.src_end), best_index, (block.dest_start, block.dest_end), "subsequence")
                for block in blocks
                if block.tag == "equal"
            )
            marks = tuple(
                Mark("candidate", None, block.src_start, block.src_end, "unmatched")
                for block in blocks
                if block.tag in ("delete", "replace")
            )
            words = tuple(tokens.row(reference) for reference in references)
            evidence.append(
                Evidence(tokens.row(candidate), words, links, marks, {"best reference": float(best_index + 1)})
            )
        return evidence


def _as_characters(tokens: TokenTable) -> list[str]:
    """Each sentence as a string with one character per token, so that a string library can compare token sequences.

    A sentence without tokens becomes one character, for the empty token.
    """
    word_ids, word_codes = np.arange(len(tokens.vocabulary)), tokens.ids.values.astype(np.int64)
    if len(word_ids) > _CHARACTERS:
        word_ids, word_codes = np.unique(tokens.ids.values, return_inverse=True)
    if len(word_ids) > _CHARACTERS:
        raise InputError(f"more than {_CHARACTERS} distinct words in one part of the captions; score fewer at once")
    empty_codes = [k for k, word_id in enumerate(word_ids.tolist()) if not tokens.vocabulary.words[word_id]]
    character_codes = np.concatenate([word_codes, empty_codes[:1] or [len(word_ids)]])
    character_codes += (character_codes >= 0xD800) * 0x800  # skip surrogates
    joined_text = character_codes.astype("<u4").tobytes().decode("utf-32-le")
    sentence_bounds = tokens.ids.offsets.tolist()
    return [joined_text[a:b] or joined_text[-1] for a, b in pairwise(sentence_bounds)]
