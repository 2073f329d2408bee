"""CIDEr, CIDEr-D and CIDEr-R: consensus of tf-idf weighted n-grams.

For n-grams of order k (1 … n), candidate c and references s₁ … s_m, with g(·) the vector of

    term frequency · idf,    idf(w) = ln N − ln max(1, documents that contain w),

where a document is the set of references of one caption and N is the number of documents:

    CIDEr    10/m Σⱼ  meanₖ  g(c)·g(sⱼ) / (‖g(c)‖ ‖g(sⱼ)‖)                              Vedantam et al. 2015
    CIDEr-D  10/m Σⱼ  meanₖ  min(g(c), g(sⱼ))·g(sⱼ) / (‖g(c)‖ ‖g(sⱼ)‖) · exp(−Δ² / 2σ²)    the "CIDEr" of most tables
    CIDEr-R  10/m Σⱼ  meanₖ  min(g(c), g(sⱼ))·g(sⱼ) / (‖g(c)‖ ‖g(sⱼ)‖) · R^0.8 · L^0.2      dos Santos et al. 2021

Δ is the difference in length, L = exp(−Δ² / |sⱼ|²), and R the geometric mean over the candidate's distinct words (for
R alone: runs of letters and digits, so that "it's" is two) of 1 / (1 + |its count in c − its count in sⱼ|), or of
1 / its count in c if sⱼ lacks the word. Lengths are counted in words. Range 0 to 10, up to rounding (as in the standard
code, a caption equal to its references may score 10.000000000000002); 0 if no n-gram is shared. An n-gram that occurs
in every document has weight 0. The corpus score is the mean.

Parameters and defaults: n = 4; σ = 6 (CIDEr-D); the weights .8 and .2 of R and L (CIDEr-R). Differences from the papers
and the released code: docs/parity.md.

idf is computed from this run's references (`idf=run`), so that a score depends on the set it was computed in, and a
single caption always scores 0; or from a file: `idf="FILE"`, either a table saved with `DocumentFrequencies.save` or
any caption file, whose references are then the documents.

>>> import capmeter
>>> candidates, references = ["a dog runs", "a red car"], [["a dog runs", "the dog runs"], ["a car"]]
>>> results = capmeter.score(candidates=candidates, references=references, metrics="cider-d")
>>> [round(score, 3) for score in results["cider-d"].items.values()]
[5.396, 1.743]

Vedantam, Zitnick, Parikh: CIDEr: Consensus-based Image Description Evaluation. CVPR 2015.
dos Santos, Colombini, Avila: CIDEr-R: Robust Consensus-based Image Description Evaluation. W-NUT 2021.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import (
    CapmeterWarning,
    CorpusState,
    Floats,
    MeanMetric,
    Measurement,
    RunContext,
    note_captions,
    note_empty_candidates,
)
from capmeter.metrics.ngram.document_frequencies import DocumentFrequencies, DocumentFrequencyState, read_frequencies
from capmeter.stats.ratios import ratio
from capmeter.text.ngrams import Matches, MatchTable
from capmeter.text.tokenization.token_tables import Tokenizer, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence


_SHARE_LEFT = 0.07  # of the similarity: CIDEr-D with a difference of 14 words
_LENGTH_PENALTY = (
    "so much longer or shorter than every reference that the length penalty takes 93 % or more; meteor, spice or a "
    "metric on embeddings compare texts of unequal length"
)


@dataclass(frozen=True, kw_only=True)
class Cider(MeanMetric):
    """CIDEr as first published: plain cosine, without clipping or length penalty."""

    NAME: ClassVar[str] = "cider"
    MAX_WORDS: ClassVar[int | None] = 60  # ranks models against human judges on detailed captions (CapArena)
    SUMMARY: ClassVar[str] = "consensus of tf-idf weighted n-grams (the original, without clipping)"
    MICROSECONDS: ClassVar[float] = 60.0
    PENALISES_LENGTH_ALONE: ClassVar[bool] = False
    FAMILY: ClassVar[str] = "Words and n-grams"
    MISLEADS: ClassVar[str] = (
        "Depends on the idf of the run: the same caption scores differently in another set, and in a set of one "
        "image everything is 0. Rare words of the references weigh most, whether they matter or not. Systems "
        'trained on CIDEr-D learn endings that no annotator writes ("a dog on a") and repeat phrases.'
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CIDEr} = \frac{10}{m} \sum_{j=1}^{m} \frac{1}{n} \sum_{k=1}^{n} \frac{g_k(c) \cdot "
        r"g_k(s_j)}{\|g_k(c)\| \, \|g_k(s_j)\|}",
        r"g_k(x)_w = \text{tf}_x(w) \cdot \left( \ln N - \ln \max(1, \text{df}(w)) \right)",
    )

    n: Annotated[int, "longest n-gram, 1 to 8"] = 4
    idf: Annotated[str, "document frequencies: run (its references), or a file of frequencies or references"] = "run"
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 8:
            raise InputError(f"{self.NAME}: expected n from 1 to 8, but got {self.n}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and the contribution of each n-gram order."""
        return ("score", *(f"{self.NAME}-{k}" for k in range(1, self.n + 1)))

    def corpus_state(self) -> CorpusState | None:
        """Document frequencies of this run's references, unless a file gives them."""
        return DocumentFrequencyState(self.n, self.tokenizer) if self.idf == "run" else None

    def frequencies(self, state: DocumentFrequencies | None) -> DocumentFrequencies:
        """The document frequencies that this metric uses."""
        return read_frequencies(self.idf, self.n, self.tokenizer) if state is None else state

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The mean similarity to the references, times ten, for each caption."""
        frequencies = self.frequencies(context.state)
        matches: MatchTable = part.analyse(Matches(self.n, self.tokenizer))
        grams, kinds = matches.grams, self.n + 1
        ngram_orders = grams.order.take(grams.entries.values)
        tfidf_weights = grams.counts * frequencies.idf(grams.hashes).take(grams.entries.values)
        sentence_norms = np.sqrt(
            np.bincount(
                grams.entries.rows * kinds + ngram_orders, tfidf_weights**2, minlength=len(grams.entries) * kinds
            )
        ).reshape(-1, kinds)

        entry = matches.slots.values[matches.slot]  # of the candidate
        product = self.product(tfidf_weights.take(entry), tfidf_weights.take(matches.reference_entry))
        pairs = len(part.references.values)
        dot = np.bincount(matches.pair * kinds + ngram_orders[entry], product, minlength=pairs * kinds).astype(
            np.float64
        )
        dot = dot.reshape(-1, kinds)
        norms = sentence_norms[part.candidates][part.references.rows] * sentence_norms[part.references.values]
        similarity = ratio(dot, norms)[:, 1:]
        pair_penalty = self.penalty(part, matches)
        similarity *= pair_penalty[:, None]
        by_order = 10 * np.add.reduceat(similarity, part.references.offsets[:-1]) / part.references.lengths[:, None]
        notes = note_empty_candidates(part, grams.lengths)
        if self.PENALISES_LENGTH_ALONE:
            largest_factor = np.maximum.reduceat(pair_penalty, part.references.offsets[:-1])
            notes |= note_captions(
                part, _LENGTH_PENALTY, (largest_factor < _SHARE_LEFT) & (grams.lengths[part.candidates] > 0)
            )
        if frequencies.documents < 2:
            notes["idf is zero"] = list(part.ids)
            warnings.warn(
                f"{self}: document frequencies come from {frequencies.documents} document, so every idf, and hence "
                'every score, is 0; score more captions at once, or name a reference corpus: idf="captions.json"',
                CapmeterWarning,
                stacklevel=2,
            )
        return Measurement(np.column_stack([by_order.mean(axis=1), by_order]), notes)

    def product(self, candidate: Floats, reference: Floats) -> Floats:
        """The summand of a shared n-gram, from its weights in the candidate and in the reference."""
        return candidate * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """The penalty factor for each pair of a candidate and one of its references."""
        return np.ones(len(part.references.values))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer and the source of idf."""
        return {"tokenizer": tokenizer_version(self.tokenizer), "idf": self.frequencies(context.state).source}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The longest n-grams that occur in each reference, each with its idf as weight."""
        from capmeter.metrics.ngram.evidence import ngram_evidence

        return ngram_evidence(part, self.n, self.tokenizer, self.frequencies(context.state))


@dataclass(frozen=True, kw_only=True)
class CiderD(Cider):
    """CIDEr-D: clipped, with a Gaussian length penalty. What most tables call CIDEr."""

    NAME: ClassVar[str] = "cider-d"
    SUMMARY: ClassVar[str] = "consensus of tf-idf weighted n-grams, clipped (what most tables call CIDEr)"
    PENALISES_LENGTH_ALONE: ClassVar[bool] = True
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CIDEr-D} = \frac{10}{m} \sum_{j=1}^{m} \frac{1}{n} \sum_{k=1}^{n} \frac{\min(g_k(c), g_k(s_j)) "
        r"\cdot g_k(s_j)}{\|g_k(c)\| \, \|g_k(s_j)\|} \, e^{-\Delta_j^2 / 2 \sigma^2}",
        r"g_k(x)_w = \text{tf}_x(w) \cdot \left( \ln N - \ln \max(1, \text{df}(w)) \right), \quad \Delta_j = |c| - "
        r"|s_j|, \quad \sigma = 6",
    )

    sigma: Annotated[float, "width of the Gaussian length penalty, in words, 0.1 to 10,000"] = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.1 <= self.sigma <= 10_000:
            raise InputError(f"{self.NAME}: expected sigma from 0.1 to 10,000, but got {self.sigma:g}")

    def product(self, candidate: Floats, reference: Floats) -> Floats:
        """The candidate's weight is clipped at the reference's."""
        return np.minimum(candidate, reference) * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """exp(−Δ² / 2σ²)."""
        candidate_lengths, reference_lengths = _lengths(part, matches)
        penalty: Floats = np.exp(-((candidate_lengths - reference_lengths) ** 2) / (2 * self.sigma**2))
        return penalty


@dataclass(frozen=True, kw_only=True)
class CiderR(Cider):
    """CIDEr-R: clipped, with penalties on repetition and on length relative to the reference."""

    NAME: ClassVar[str] = "cider-r"
    SUMMARY: ClassVar[str] = "CIDEr-D with penalties suited to references of very different lengths"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CIDEr-R} = \frac{10}{m} \sum_{j=1}^{m} \frac{1}{n} \sum_{k=1}^{n} \frac{\min(g_k(c), g_k(s_j)) "
        r"\cdot g_k(s_j)}{\|g_k(c)\| \, \|g_k(s_j)\|} \, \rho_j^{0.8} \, L_j^{0.2}",
        r"g_k(x)_w = \text{tf}_x(w) \cdot \left( \ln N - \ln \max(1, \text{df}(w)) \right), \quad L_j = "
        r"e^{-\Delta_j^2 / |s_j|^2}",
        r"\rho_j = \text{the geometric mean over the words of } c \text{ of } \frac{1}{1 + |n_c(w) - n_{s_j}(w)|}",
    )

    repetition: Annotated[float, "weight of the repetition penalty"] = 0.8
    length: Annotated[float, "weight of the relative length penalty"] = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter_name, weight in (("repetition", self.repetition), ("length", self.length)):
            if not 0 <= weight <= 100:
                raise InputError(f"{self.NAME}: expected {parameter_name} from 0 to 100, but got {weight:g}")

    def product(self, candidate: Floats, reference: Floats) -> Floats:
        """The candidate's weight is clipped at the reference's."""
        return np.minimum(candidate, reference) * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """R^0.8 · L^0.2."""
        candidate_lengths, reference_lengths = _lengths(part, matches)
        relative = ((candidate_lengths - reference_lengths) / reference_lengths) ** 2

        word_matches: MatchTable = part.analyse(Matches(1, self.tokenizer, letters=True))
        grams, slots = word_matches.grams, word_matches.slots
        candidate_counts = grams.counts[slots.values]
        # ln R as if the reference had none of the words, then corrected for those it has
        log_absent = -np.bincount(slots.rows, np.log(candidate_counts), minlength=len(part))
        in_candidate, in_reference = candidate_counts[word_matches.slot], grams.counts[word_matches.reference_entry]
        correction = np.log(in_candidate) - np.log1p(np.abs(in_candidate - in_reference))
        log_corrections = np.bincount(word_matches.pair, correction, minlength=len(part.references.values))
        caption_indices = part.references.rows
        r = np.exp((log_absent[caption_indices] + log_corrections) / np.maximum(slots.lengths, 1)[caption_indices])
        penalty: Floats = r**self.repetition * np.exp(-relative) ** self.length
        return penalty


def _lengths(part: CaptionSet, matches: MatchTable) -> tuple[Floats, Floats]:
    """The lengths of each pair's candidate and reference in words; a text without words counts as one word."""
    sentence_lengths = np.maximum(matches.grams.lengths, 1).astype(np.float64)
    return sentence_lengths[part.candidates][part.references.rows], sentence_lengths[part.references.values]
