"""BLEU as captioning computes it (Papineni et al. 2002; the coco-caption code).

    BLEU-n = BP · (p₁ · … · pₙ)^(1/n),    pₖ = (clipped matches of k-grams + 10⁻¹⁵) / (k-grams + 10⁻⁹)
    BP = exp(1 − 1/ratio) if ratio < 1 else 1,    ratio = (candidate length + 10⁻¹⁵) / (closest reference length + 10⁻⁹)

A k-gram's matches are clipped at its largest count in any one reference. The closest reference length is the one
nearest to the candidate's; of two equally near, the shorter. The same formula, with the same small constants, gives
a caption's score from its own counts and the corpus score from summed counts, so the corpus score is not the mean.
Range 0 to 1; 1 if every n-gram of the candidate occurs in a reference and the candidate is not shorter.

`n`: 1 to 4 (the metrics bleu-1 … bleu-4). `references=cat` compares with the concatenation of all references instead
(and with its length). The paper has no small constants; they are the released code's, because of which a caption
without a matching 4-gram scores slightly above 0, unlike in other sentence-level BLEU.

>>> import capmeter
>>> results = capmeter.score(candidates=["a dog runs"], references=[["a dog is running", "dogs run"]], metrics="bleu-2")
>>> round(results["bleu-2"].score, 4)  # of a, dog, runs two match, of "a dog", "dog runs" one; no brevity penalty
0.5774

Papineni, Roukos, Ward, Zhu: BLEU: a Method for Automatic Evaluation of Machine Translation. ACL 2002.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import (
    AdditiveMetric,
    Floats,
    Measurement,
    References,
    RunContext,
    note_captions,
    note_empty_candidates,
    select_references,
)
from capmeter.text.ngrams import Matches, MatchTable
from capmeter.text.tokenization.token_tables import Tokenizer, TokenTable, WhitespaceTokens, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence

TINY, SMALL = 1e-15, 1e-9


@dataclass(frozen=True, kw_only=True)
class Bleu(AdditiveMetric):
    """BLEU with n-grams up to order n; its parts are the lower orders, the length ratio and the brevity penalty."""

    MAX_WORDS: ClassVar[int | None] = 60  # below caption length in agreement on detailed captions (CapArena)
    SUMMARY: ClassVar[str] = "clipped n-gram precision with brevity penalty"
    MICROSECONDS: ClassVar[float] = 60.0
    FAMILY: ClassVar[str] = "Words and n-grams"
    MISLEADS: ClassVar[str] = (
        "Counts words and their order. A correct caption in other words scores low, a fluent wrong one high. At "
        "caption level it says little; at corpus level it rewards short, safe phrases."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{BLEU-}n = \text{BP} \cdot \left( \prod_{k=1}^{n} p_k \right)^{1/n}",
        r"p_k = \frac{\text{clipped matches of } k\text{-grams} + 10^{-15}}{k\text{-grams} + 10^{-9}}",
        r"\text{BP} = \min\left(1, e^{1 - 1/\rho}\right), \quad \rho = \frac{|c| + 10^{-15}}{\text{closest "
        r"reference length} + 10^{-9}}",
    )

    n: Annotated[int, "longest n-gram, 1 to 4"] = 4
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    references: References = "each"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 4:
            raise InputError(f"bleu: expected an order n from 1 to 4, but got {self.n}")

    @property
    def name(self) -> str:
        """bleu-1 … bleu-4."""
        return f"bleu-{self.n}"

    @property
    def implied_parameters(self) -> frozenset[str]:
        """The name implies the order."""
        return frozenset({"n"})

    @property
    def columns(self) -> tuple[str, ...]:
        """Matches and counts of each order, the candidate's length and the closest reference length."""
        orders = range(1, self.n + 1)
        counts = *(f"matches-{k}" for k in orders), *(f"ngrams-{k}" for k in orders)
        return *counts, "length", "reference-length"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The counts of each caption."""
        token_table: TokenTable = part.pool.analyse(WhitespaceTokens(self.tokenizer))
        notes = note_empty_candidates(part, token_table.ids.lengths)
        candidate_lengths = token_table.ids.lengths[part.candidates]
        notes |= note_captions(
            part, f"fewer than {self.n} words: no {self.n}-gram", (candidate_lengths > 0) & (candidate_lengths < self.n)
        )
        part, tokenizer = select_references(part, self.references, self.tokenizer)
        ngram_counts: Floats = part.analyse(_Counts(tokenizer))  # of all four orders
        return Measurement(ngram_counts[:, [*range(self.n), *range(4, 4 + self.n), -2, -1]], notes)

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """BLEU from counts."""
        n = self.n
        precision = (sums[..., :n] + TINY) / (sums[..., n : 2 * n] + SMALL)
        length_ratio = (sums[..., -2] + TINY) / (sums[..., -1] + SMALL)
        with np.errstate(over="ignore"):
            brevity_penalty = np.where(length_ratio < 1, np.exp(1 - 1 / length_ratio), 1.0)
        precision_product = np.cumprod(precision, axis=-1)
        bleu = {f"bleu-{k}": precision_product[..., k - 1] ** (1 / k) * brevity_penalty for k in range(1, n + 1)}
        return {"score": bleu[f"bleu-{n}"], **bleu, "length-ratio": length_ratio, "brevity-penalty": brevity_penalty}

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer, the small constants and the rule for the reference length."""
        return {"tokenizer": tokenizer_version(self.tokenizer), "smooth": "1e-15/1e-9", "length": "closest"}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The longest n-grams that occur in each reference."""
        from capmeter.metrics.ngram.evidence import ngram_evidence

        part, tokenizer = select_references(part, self.references, self.tokenizer)
        ngram_counts: Floats = part.analyse(_Counts(tokenizer))
        return [
            replace(evidence, facts={**evidence.facts, **self._facts(caption_counts)})
            for evidence, caption_counts in zip(ngram_evidence(part, self.n, tokenizer), ngram_counts, strict=True)
        ]

    def _facts(self, counts: Floats) -> dict[str, str]:
        """How many of the candidate's n-grams match, and why the score is near 0 if none of an order can."""
        matches, ngrams, candidate_length = counts[: self.n], counts[4 : 4 + self.n], int(counts[-2])
        facts = {f"{k}-grams matched": f"{m:.0f} of {c:.0f}" for k, (m, c) in enumerate(zip(matches, ngrams), 1)}  # noqa: B905
        if 0 < candidate_length < self.n:
            facts["near 0 because"] = f"{candidate_length} words have no {self.n}-gram"
        elif candidate_length and not matches[-1]:
            facts["near 0 because"] = f"no {self.n}-gram matches"
        return facts


@dataclass(frozen=True)
class _Counts:
    """Analysis of a set: the columns of BLEU-4, which include those of the lower orders."""

    tokenizer: str

    def compute(self, captions: CaptionSet) -> Floats:
        """The counts of each caption, (captions, 10)."""
        matches: MatchTable = captions.analyse(Matches(4, self.tokenizer))
        grams, slots = matches.grams, matches.slots
        max_reference_counts = np.zeros(len(slots.values), np.int64)
        np.maximum.at(max_reference_counts, matches.slot, grams.counts[matches.reference_entry])
        clipped_counts = np.minimum(grams.counts[slots.values], max_reference_counts)
        ngram_orders = grams.order[grams.entries.values[slots.values]]
        matched_counts = np.bincount(
            slots.rows * 5 + ngram_orders, weights=clipped_counts, minlength=len(captions) * 5
        ).reshape(-1, 5)

        candidate_lengths = grams.lengths[captions.candidates]
        ngrams = np.maximum(candidate_lengths[:, None] - np.arange(4), 0)
        reference_lengths = grams.lengths[captions.references.values]
        length_differences = np.abs(reference_lengths - np.repeat(candidate_lengths, captions.references.lengths))
        # nearest first, then shorter: encoded in one number so that reduceat can take the minimum
        nearest_keys = np.minimum.reduceat(
            (length_differences << 32) + reference_lengths, captions.references.offsets[:-1]
        )
        closest = nearest_keys & 0xFFFFFFFF
        return np.column_stack([matched_counts[:, 1:], ngrams, candidate_lengths, closest]).astype(np.float64)
