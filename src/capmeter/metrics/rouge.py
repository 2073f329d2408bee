"""ROUGE-L as captioning computes it (Lin 2004; the coco-caption code).

    P = max over references of LCS / candidate length,    R = max over references of LCS / reference length
    ROUGE-L = (1 + β²) P R / (R + β² P),    β = 1.2;  0 where P or R is 0

LCS is the length of the longest common subsequence of tokens. The largest P and the largest R may come from
different references. Range 0 to 1; 1 for a candidate equal to a reference. As in the standard code, an empty text
counts as one empty token, so an empty candidate scores 0 unless a reference is empty too. `references=cat` compares
with the concatenation of all references instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cpdist

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Context, MeanMetric, Measurement, wordless
from capmeter.metrics.concatenation import References, as_compared
from capmeter.text.tokens import Tokenizer, Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence

_CHARACTERS = 0x10F000  # available Unicode code points


@dataclass(frozen=True, kw_only=True)
class RougeL(MeanMetric):
    """ROUGE-L with recall weighted β² times as much as precision."""

    NAME: ClassVar[str] = "rouge-l"
    SUMMARY: ClassVar[str] = "longest common subsequence, recall-weighted F-measure"
    MICROSECONDS: ClassVar[float] = 40.0

    beta: Annotated[float, "weight of recall relative to precision, squared in the formula"] = 1.2
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    references: References = "each"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0:
            raise InputError(f"rouge-l: expected beta above 0, but got {self.beta}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and its precision and recall."""
        return ("score", "precision", "recall")

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """ROUGE-L of each caption."""
        said: TokenTable = part.pool.analyse(Tokens(self.tokenizer))
        notes = wordless(part, said.ids.lengths)
        part, tokenizer = as_compared(part, self.references, self.tokenizer)
        tokens: TokenTable = part.pool.analyse(Tokens(tokenizer))
        texts = _as_characters(tokens)
        of = np.repeat(part.candidates, part.references.lengths)
        common = cpdist(
            [texts[i] for i in of.tolist()],
            [texts[i] for i in part.references.values.tolist()],
            scorer=LCSseq.similarity,
            dtype=np.int32,
        ).astype(np.float64)
        length = np.maximum(tokens.ids.lengths, 1)
        start = part.references.offsets[:-1]
        precision = np.maximum.reduceat(common / length[of], start)
        recall = np.maximum.reduceat(common / length[part.references.values], start)
        weight = self.beta**2
        both = (precision > 0) & (recall > 0)
        score = np.where(both, (1 + weight) * precision * recall / np.where(both, recall + weight * precision, 1), 0.0)
        return Measurement(np.column_stack([score, precision, recall]), notes)

    def facts(self, context: Context) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version(self.tokenizer)}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The tokens of a longest common subsequence with the reference that shares most."""
        from capmeter.metrics.evidence import Evidence, Link, Mark  # which scores do not need

        part, tokenizer = as_compared(part, self.references, self.tokenizer)
        tokens: TokenTable = part.pool.analyse(Tokens(tokenizer))
        texts = _as_characters(tokens)
        evidence = []
        for row in range(len(part)):
            mine, theirs = int(part.candidates[row]), part.references[row].tolist()
            best = int(np.argmax([LCSseq.similarity(texts[mine], texts[other]) for other in theirs]))
            blocks = LCSseq.opcodes(texts[mine], texts[theirs[best]])
            links = tuple(
                Link((block.src_start, block.src_end), best, (block.dest_start, block.dest_end), "subsequence")
                for block in blocks
                if block.tag == "equal"
            )
            marks = tuple(
                Mark("candidate", None, block.src_start, block.src_end, "unmatched")
                for block in blocks
                if block.tag in ("delete", "replace")
            )
            references = tuple(tokens.row(other) for other in theirs)
            evidence.append(Evidence(tokens.row(mine), references, links, marks, {"best reference": float(best + 1)}))
        return evidence


def _as_characters(tokens: TokenTable) -> list[str]:
    """Each sentence as a string with one character per token, so that a string library can compare token sequences.

    A sentence without tokens becomes one character, for the empty token.
    """
    used, code = np.arange(len(tokens.vocabulary)), tokens.ids.values.astype(np.int64)
    if len(used) > _CHARACTERS:
        used, code = np.unique(tokens.ids.values, return_inverse=True)
    if len(used) > _CHARACTERS:
        raise InputError(f"more than {_CHARACTERS} distinct words in one part of the captions; score fewer at once")
    nothing = [k for k, word in enumerate(used.tolist()) if not tokens.vocabulary.words[word]]
    letters = np.concatenate([code, nothing[:1] or [len(used)]])
    letters += (letters >= 0xD800) * 0x800  # skip surrogates
    text = letters.astype("<u4").tobytes().decode("utf-32-le")
    bounds = tokens.ids.offsets.tolist()
    return [text[a:b] or text[-1] for a, b in pairwise(bounds)]
