"""HWCM: agreement of head-word chains (Liu and Gildea 2005), as LCEval uses it for the syntax of captions.

A head-word chain of length u is a path of u words down the dependency tree, each the head of the next. With g_u(·) the
multiset of a caption's chains of length u,

    hwcm_u(C, R) = |g_u(C) ∩ g_u(R)| / |g_u(C)|            score = max over references of hwcm_n

that is the precision of the candidate's chains, clipped by their number in the reference. Range 0 to 1; 1 if every
chain of the candidate occurs in one reference, 0 if none does or it has no chain of this length. Chains are spelled
by `kind`: words (in lower case), lemmas, part-of-speech tags, or dependency labels (`dep`). Parts: `hwcm-1` … `hwcm-n`.
The corpus score is the mean. Trees of captions as they are written come from SPICE's parser (`parser`); with
`spice(input=raw)` in the run they cost nothing.

`as_released` follows the code of LCEval where it departs from its paper: it divides by the reference's chains (a
recall), its value at n is cumulative (o₁, (o₁+o₂)/2, .33 (o₁+o₂+o₃), .25 (o₁+o₂+o₃+o₄)), it joins chains of length 3
and 4 wherever texts are equal, and uses only a caption's first sentence. Its parser was spaCy's; here it is `parser`.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs"], references=[["the dog runs fast", "a cat sleeps"]], metrics="hwcm(kind=word)"
... )
>>> results["hwcm(kind=word)"].score  # of "runs dog" and "dog a" the first occurs
0.5

D. Liu, D. Gildea. Syntactic Features for Evaluation of Machine Translation. ACL Workshop 2005.
N. Sharif, L. White, M. Bennamoun, W. Liu, S. A. A. Shah. LCEval: Learned Composite Metric for Caption Evaluation. IJCV
127, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_captions
from capmeter.stats.ratios import ratio
from capmeter.text.ngrams import MatchTable, NGramTable, match_ngrams
from capmeter.text.parsing.parsers import ParserName, Parses, ParseTable, find_parser
from capmeter_research.common.reference_pooling import Pooling, pool_over_references
from capmeter_research.papers.lceval.head_chains import MAX_LENGTH, ChainKind, HeadWordChains

_SMALL = 1e-9  # of the released code
# HWCM_n of the released code from the overlaps of each length, row n - 1
_CUMULATIVE = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.33, 0.33, 0.33, 0], [0.25, 0.25, 0.25, 0.25]])


@dataclass(frozen=True, kw_only=True)
class Hwcm(MeanMetric):
    """Agreement of head-word chains of length n."""

    NAME: ClassVar[str] = "hwcm"
    SUMMARY: ClassVar[str] = "head-word chains of the dependency tree in common with a reference"
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = "Sees syntax alone, which matters little to human judges. It is a feature of LCEval."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{hwcm}_u(c, r) = \frac{|g_u(c) \cap g_u(r)|}{|g_u(c)|}, \quad \text{score} = \max_{r} "
        r"\text{hwcm}_n(c, r)",
    )

    kind: Annotated[ChainKind, "how chains are spelled: words, lemmas, part-of-speech tags, dependency labels"] = "dep"
    n: Annotated[int, "length of the chains, 1 to 4"] = 2
    pooling: Annotated[Pooling, "how values with several references are pooled"] = "max"
    parser: ParserName = "caption"
    as_released: Annotated[bool, "the cumulative recall of LCEval's released code"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= MAX_LENGTH:
            raise InputError(f"hwcm: expected chains of a length n from 1 to {MAX_LENGTH}, but got {self.n}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and the value of each length up to n."""
        return ("score", *(f"hwcm-{k}" for k in range(1, self.n + 1)))

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The values of each caption."""
        analysis = HeadWordChains(self.parser, self.kind, self.as_released, context.settings)
        chains: NGramTable = part.pool.analyse(analysis)
        chain_overlaps = chain_overlap(part, chains, self.pooling, as_released=self.as_released)[:, : self.n]
        parses: ParseTable = part.pool.analyse(Parses(self.parser, context.settings))
        failed_parses = np.array([parse is None for parse in parses.parses], np.bool_)
        notes = note_captions(part, "candidate could not be parsed", failed_parses[part.candidates])
        return Measurement(np.column_stack([chain_overlaps[:, -1], chain_overlaps]), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The parser with its hash."""
        return {"parser": find_parser(self.parser).version}


def chain_overlap(part: CaptionSet, chains: NGramTable, pooling: Pooling, *, as_released: bool = False) -> Floats:
    """The overlap of head-word chains of each length, (captions, 4).

    Args:
        part: the captions.
        chains: of the sentences of the part's pool.
        pooling: of a caption's references.
        as_released: cumulative over lengths and divided by the references' chains, as the released code does.
    """
    matches: MatchTable = match_ngrams(part, chains)
    candidate_entries = matches.slots.values[matches.slot]  # of the candidate
    clipped = np.minimum(chains.counts[candidate_entries], chains.counts[matches.reference_entry])
    order = chains.order[chains.entries.values[candidate_entries]]
    pairs, kinds = len(part.references.values), MAX_LENGTH + 1
    shared_counts = np.bincount(matches.pair * kinds + order, clipped, minlength=pairs * kinds).astype(np.float64)
    shared_counts = shared_counts.reshape(-1, kinds)[:, 1:]
    chain_totals = _chain_counts(chains)
    if as_released:
        overlap = shared_counts / (chain_totals[part.references.values] + _SMALL) @ _CUMULATIVE.T
    else:
        candidate_totals = chain_totals[part.candidates][part.references.rows]
        overlap = ratio(shared_counts, candidate_totals)
    return pool_over_references(overlap, part, pooling)


def _chain_counts(chains: NGramTable) -> npt.NDArray[np.float64]:
    """The number of chains of each length, (sentences, 4)."""
    kinds = MAX_LENGTH + 1
    count_indices = chains.entries.rows * kinds + chains.order[chains.entries.values]
    total = np.bincount(count_indices, chains.counts, minlength=len(chains.entries) * kinds).reshape(-1, kinds)[:, 1:]
    return total.astype(np.float64)
