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
in every document has weight 0. Differences from the papers and the released code: docs/parity.md.

idf is computed from this run's references (`idf=run`), so that a score depends on the set it was computed in, and a
single caption always scores 0; or from a file: `idf="FILE"`, either a table saved with `DocumentFrequencies.save` or
any caption file, whose references are then the documents.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import CapmeterWarning, Context, Corpus, Floats, MeanMetric, Measurement, wordless
from capmeter.metrics.document_frequencies import DocumentFrequencies, References, from_file
from capmeter.text.ngrams import Matches, MatchTable
from capmeter.text.tokens import Tokenizer, tokenizer_version

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Cider(MeanMetric):
    """CIDEr as first published: plain cosine, without clipping or length penalty."""

    NAME: ClassVar[str] = "cider"
    SUMMARY: ClassVar[str] = "consensus of tf-idf weighted n-grams (the original, without clipping)"
    MICROSECONDS: ClassVar[float] = 60.0

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

    def corpus(self) -> Corpus | None:
        """Document frequencies of this run's references, unless a file gives them."""
        return References(self.n, self.tokenizer) if self.idf == "run" else None

    def frequencies(self, state: DocumentFrequencies | None) -> DocumentFrequencies:
        """The document frequencies that this metric uses."""
        return from_file(self.idf, self.n, self.tokenizer) if state is None else state

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The mean similarity to the references, times ten, for each caption."""
        frequencies = self.frequencies(context.state)
        matches: MatchTable = part.analyse(Matches(self.n, self.tokenizer))
        grams, kinds = matches.grams, self.n + 1
        order = grams.order.take(grams.entries.values)
        weight = grams.counts * frequencies.idf(grams.hashes).take(grams.entries.values)
        norm = np.sqrt(
            np.bincount(grams.entries.rows * kinds + order, weight**2, minlength=len(grams.entries) * kinds)
        ).reshape(-1, kinds)

        mine = matches.slots.values[matches.slot]
        product = self.product(weight.take(mine), weight.take(matches.reference_entry))
        pairs = len(part.references.values)
        shared = np.bincount(matches.pair * kinds + order[mine], product, minlength=pairs * kinds).astype(np.float64)
        shared = shared.reshape(-1, kinds)
        row = part.references.rows
        length = norm[part.candidates][row] * norm[part.references.values]
        similarity = np.divide(shared, length, out=np.zeros_like(shared), where=length != 0)[:, 1:]
        similarity *= self.penalty(part, matches)[:, None]
        by_order = 10 * np.add.reduceat(similarity, part.references.offsets[:-1]) / part.references.lengths[:, None]
        notes = wordless(part, grams.lengths)
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
        """The contribution of a shared n-gram, from its weights in the candidate and in the reference."""
        return candidate * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """The penalty factor for each pair of a candidate and one of its references."""
        return np.ones(len(part.references.values))

    def facts(self, context: Context) -> dict[str, str]:
        """The tokenizer and the source of idf."""
        return {"tokenizer": tokenizer_version(self.tokenizer), "idf": self.frequencies(context.state).source}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The longest n-grams found in references, each with its idf as weight."""
        from capmeter.metrics.ngram_evidence import ngram_evidence  # which scores do not need

        return ngram_evidence(part, self.n, self.tokenizer, self.frequencies(context.state))


@dataclass(frozen=True, kw_only=True)
class CiderD(Cider):
    """CIDEr-D: clipped, with a Gaussian length penalty. What most tables call CIDEr."""

    NAME: ClassVar[str] = "cider-d"
    SUMMARY: ClassVar[str] = "consensus of tf-idf weighted n-grams, clipped (what most tables call CIDEr)"

    sigma: Annotated[float, "width of the Gaussian length penalty, in words"] = 6.0

    def product(self, candidate: Floats, reference: Floats) -> Floats:
        """The candidate's weight counts up to the reference's."""
        return np.minimum(candidate, reference) * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """exp(−Δ² / 2σ²)."""
        candidate, reference = _lengths(part, matches)
        penalty: Floats = np.exp(-((candidate - reference) ** 2) / (2 * self.sigma**2))
        return penalty


@dataclass(frozen=True, kw_only=True)
class CiderR(Cider):
    """CIDEr-R: clipped, with penalties on repetition and on length relative to the reference."""

    NAME: ClassVar[str] = "cider-r"
    SUMMARY: ClassVar[str] = "CIDEr-D with penalties suited to references of very different lengths"

    repetition: Annotated[float, "weight of the repetition penalty"] = 0.8
    length: Annotated[float, "weight of the relative length penalty"] = 0.2

    def product(self, candidate: Floats, reference: Floats) -> Floats:
        """The candidate's weight counts up to the reference's."""
        return np.minimum(candidate, reference) * reference

    def penalty(self, part: CaptionSet, matches: MatchTable) -> Floats:
        """R^0.8 · L^0.2."""
        candidate, reference = _lengths(part, matches)
        relative = ((candidate - reference) / reference) ** 2

        words: MatchTable = part.analyse(Matches(1, self.tokenizer, letters=True))
        grams, slots = words.grams, words.slots
        count = grams.counts[slots.values]
        # ln R as if the reference had none of the words, then corrected for those it has
        absent = -np.bincount(slots.rows, np.log(count), minlength=len(part))
        mine, theirs = count[words.slot], grams.counts[words.reference_entry]
        present = np.bincount(
            words.pair, np.log(mine) - np.log1p(np.abs(mine - theirs)), minlength=len(part.references.values)
        )
        row = part.references.rows
        repeated = np.exp((absent[row] + present) / np.maximum(slots.lengths, 1)[row])
        penalty: Floats = repeated**self.repetition * np.exp(-relative) ** self.length
        return penalty


def _lengths(part: CaptionSet, matches: MatchTable) -> tuple[Floats, Floats]:
    """The lengths of each pair's candidate and reference in words; a text without words counts as one word."""
    words = np.maximum(matches.grams.lengths, 1).astype(np.float64)
    return words[part.candidates][part.references.rows], words[part.references.values]
