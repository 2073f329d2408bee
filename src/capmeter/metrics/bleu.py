"""BLEU as captioning computes it (Papineni et al. 2002; the coco-caption code).

    BLEU-n = BP · (p₁ · … · pₙ)^(1/n),    pₖ = (clipped matches of k-grams + 10⁻¹⁵) / (k-grams + 10⁻⁹)
    BP = exp(1 − 1/ratio) if ratio < 1 else 1,    ratio = (candidate length + 10⁻¹⁵) / (closest reference length + 10⁻⁹)

A k-gram's matches are clipped at its largest count in any one reference. The closest reference length is the one
nearest to the candidate's; of two equally near, the shorter. The same formula, with the same small constants, gives
a caption's score from its own counts and the corpus score from summed counts, so the corpus score is not the mean.
Range 0 to 1; 1 if every n-gram of the candidate occurs in a reference and the candidate is not shorter.

`references=cat` compares with the concatenation of all references instead (and with its length).

Because of the constants, a caption without a matching 4-gram scores slightly above 0, unlike other sentence BLEU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import AdditiveMetric, Context, Floats, Measurement, wordless
from capmeter.metrics.concatenation import References, as_compared
from capmeter.text.ngrams import Matches, MatchTable
from capmeter.text.tokens import Tokenizer, TokenTable, Words, tokenizer_version

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence

TINY, SMALL = 1e-15, 1e-9


@dataclass(frozen=True, kw_only=True)
class Bleu(AdditiveMetric):
    """BLEU with n-grams up to order n; its parts are the lower orders, the length ratio and the brevity penalty."""

    SUMMARY: ClassVar[str] = "clipped n-gram precision with brevity penalty"
    MICROSECONDS: ClassVar[float] = 60.0

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
    def fixed(self) -> frozenset[str]:
        """The name implies the order."""
        return frozenset({"n"})

    @property
    def columns(self) -> tuple[str, ...]:
        """Matches and counts of each order, the candidate's length and the closest reference length."""
        orders = range(1, self.n + 1)
        return (
            *(f"matches-{k}" for k in orders),
            *(f"ngrams-{k}" for k in orders),
            "length",
            "reference-length",
        )

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The counts of each caption."""
        words: TokenTable = part.pool.analyse(Words(self.tokenizer))
        notes = wordless(part, words.ids.lengths)
        part, tokenizer = as_compared(part, self.references, self.tokenizer)
        counts: Floats = part.analyse(_Counts(tokenizer))  # those of all orders
        return Measurement(counts[:, [*range(self.n), *range(4, 4 + self.n), -2, -1]], notes)

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """BLEU from counts."""
        n = self.n
        precision = (sums[..., :n] + TINY) / (sums[..., n : 2 * n] + SMALL)
        ratio = (sums[..., -2] + TINY) / (sums[..., -1] + SMALL)
        with np.errstate(over="ignore"):
            penalty = np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)
        product = np.cumprod(precision, axis=-1)
        bleu = {f"bleu-{k}": product[..., k - 1] ** (1 / k) * penalty for k in range(1, n + 1)}
        return {"score": bleu[f"bleu-{n}"], **bleu, "length-ratio": ratio, "brevity-penalty": penalty}

    def facts(self, context: Context) -> dict[str, str]:
        """The tokenizer, the smoothing and the rule for the reference length."""
        return {"tokenizer": tokenizer_version(self.tokenizer), "smooth": "1e-15/1e-9", "length": "closest"}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The longest n-grams found in any reference."""
        from capmeter.metrics.ngram_evidence import ngram_evidence  # which scores do not need

        part, tokenizer = as_compared(part, self.references, self.tokenizer)
        return ngram_evidence(part, self.n, tokenizer)


@dataclass(frozen=True)
class _Counts:
    """Analysis of a set: the columns of BLEU-4, which have those of the lower orders."""

    tokenizer: str

    def run(self, captions: CaptionSet) -> Floats:
        """The counts of each caption: float64[captions, 10]."""
        matches: MatchTable = captions.analyse(Matches(4, self.tokenizer))
        grams, slots = matches.grams, matches.slots
        largest = np.zeros(len(slots.values), np.int64)
        np.maximum.at(largest, matches.slot, grams.counts[matches.reference_entry])
        clipped = np.minimum(grams.counts[slots.values], largest)
        order = grams.order[grams.entries.values[slots.values]]
        matched = np.bincount(slots.rows * 5 + order, weights=clipped, minlength=len(captions) * 5).reshape(-1, 5)

        length = grams.lengths[captions.candidates]
        ngrams = np.maximum(length[:, None] - np.arange(4), 0)
        reference_lengths = grams.lengths[captions.references.values]
        distance = np.abs(reference_lengths - np.repeat(length, captions.references.lengths))
        # nearest first, then shorter: encoded in one number so that reduceat can take the minimum
        nearest = np.minimum.reduceat((distance << 32) + reference_lengths, captions.references.offsets[:-1])
        closest = nearest & 0xFFFFFFFF
        return np.column_stack([matched[:, 1:], ngrams, length, closest]).astype(np.float64)
