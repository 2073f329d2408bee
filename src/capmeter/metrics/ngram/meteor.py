"""METEOR 1.5 (Denkowski and Lavie 2014) as captioning uses it: `-l en -norm` on tokenised captions, without Java.

Candidate and reference are aligned word by word: same word, same stem, shared WordNet synset, or a pair in METEOR's
paraphrase table, covering as many words as possible in as few chunks (contiguous on both sides) as possible. With wᵢ
the weight of module i, c and f the matched content and function words:

    P = Σ wᵢ (δ cᵢ + (1 − δ) fᵢ) / (δ content words + (1 − δ) function words)     of the candidate;  R of the reference
    F = 1 / ((1 − α) / P + α / R),        fragmentation = chunks / mean of the matched words of both sides
    METEOR = F (1 − γ fragmentation^β),   the largest over the references;  fragmentation is 0 for a perfect match

English: α .85, β .2, γ .6, δ .75, weights 1, .6, .8, .6. Range 0 (nothing matched) to 1. The corpus score is the same
formula on summed counts (each caption's best reference; a perfect caption's chunk is not counted), as computed by the
Java program's EVAL; it is not the mean of the caption scores, which is the part "mean".

Scores equal those of the released program to the last digit for English. Where the program departs from the paper, and
what holds for other languages: docs/parity.md.

>>> from capmeter.evaluation.runner import score
>>> results = score(candidates=["a dog runs"], references=[["a dog is running"]], metrics="meteor")  # doctest: +SKIP
>>> round(results["meteor"].score, 6)  # doctest: +SKIP
0.312395

Denkowski and Lavie (2014): Meteor Universal: Language Specific Translation Evaluation for Any Target Language. WMT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged, distinct
from capmeter.evaluation.base import AdditiveMetric, Floats, Measurement, RunContext, note_empty_candidates
from capmeter.metrics.notes import note_captions
from capmeter.text.meteor.aligner import KINDS, MatchedPairs, WordMatches
from capmeter.text.meteor.resources import LANGUAGES, MeteorResources, load_meteor_resources, normalise_texts
from capmeter.text.meteor.sentence_features import AlignerSentences, MeteorFeatures, compute_features, prepare_sentences
from capmeter.text.meteor.statistics import (
    CHUNKS,
    COLUMNS,
    MeteorScores,
    bound_statistics,
    compute_scores,
    count_alignment_statistics,
    is_perfect_match,
)
from capmeter.text.tokenization.token_tables import Tokenizer, Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence, Link, Mark

Ints = npt.NDArray[np.integer[Any]]
_ROUNDING = 1e-9  # more than the error of a score by rounding
_SKIPPED = "too long or repetitive to be aligned with a reference, which counts as unmatched"


@dataclass(frozen=True, kw_only=True)
class Meteor(AdditiveMetric):
    """METEOR 1.5.

    Args:
        language: the program's short name: en, cz, fr, es, de, ru (tuned), pt, da, … (not tuned), other.
        tokenizer: `ptb`, or `whitespace` for captions that are already tokenised.
        references: `each` scores each and takes the best; `cat` concatenates all references of a caption.
        path: the folder of a METEOR 1.5 release; by default the resources of the package pycocoevalcap.
    """

    NAME: ClassVar[str] = "meteor"
    SUMMARY: ClassVar[str] = "words aligned by form, stem, synonym and paraphrase, with a penalty for fragments"
    EXTRA: ClassVar[str | None] = "meteor"
    MICROSECONDS: ClassVar[float] = 150.0
    FAMILY: ClassVar[str] = "Words and n-grams"
    MISLEADS: ClassVar[str] = (
        "Accepts synonyms and stems, and prefers recall: longer captions gain. One wrong word among ten costs little."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \frac{\sum_i w_i \left( \delta c_i + (1 - \delta) f_i \right)}{\delta \, \text{content words} + (1 - "
        r"\delta) \, \text{function words}}, \quad F = \frac{1}{(1 - \alpha) / P + \alpha / R}",
        r"\text{METEOR} = \max_{r} F \left( 1 - \gamma \left( \frac{\text{chunks}}{\text{matched words}} "
        r"\right)^{\beta} \right)",
        r"\alpha = 0.85, \quad \beta = 0.2, \quad \gamma = 0.6, \quad \delta = 0.75",
    )

    language: Annotated[str, "short name: en, cz, fr, es, de, ru are tuned; others, and `other`, are not"] = "en"
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    references: Annotated[Literal["each", "cat"], "score each and take the best, or concatenate all"] = "each"
    path: Annotated[str | None, "folder of a METEOR 1.5 release; default: the package pycocoevalcap"] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language not in LANGUAGES:
            raise InputError(f"meteor: expected language to be one of {', '.join(LANGUAGES)}, but got {self.language}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The program's 23 statistics of the best reference, the chunks that count for the corpus, and the score."""
        return (*COLUMNS, "counted-chunks", "score")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The counts of each caption with its best reference."""
        token_table: TokenTable = part.pool.analyse(Tokens(self.tokenizer))
        caption_counts, skipped = self.best_counts(part)
        notes = note_empty_candidates(part, token_table.ids.lengths) | note_captions(part, _SKIPPED, skipped)
        chunks = np.where(is_perfect_match(caption_counts), 0.0, caption_counts[:, CHUNKS])
        return Measurement(
            np.column_stack([caption_counts, chunks, _scores(caption_counts, self.resources).score]), notes
        )

    def best_counts(self, part: CaptionSet) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The program's statistics of each caption with its best reference, (captions, 23), and a mask (captions,) of
        those whose alignment with a reference was skipped.
        """
        aligned = part.analyse(_Alignments(self))
        return aligned.best_counts, aligned.skipped

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """METEOR and its components from counts; "mean" is the mean of the caption scores."""
        summed_counts = sums[..., : len(COLUMNS)].copy()
        summed_counts[..., CHUNKS] = sums[..., -2]
        corpus_scores = _scores(summed_counts, self.resources)
        return {
            "score": corpus_scores.score,
            "mean": sums[..., -1] / counts,
            "precision": corpus_scores.precision,
            "recall": corpus_scores.recall,
            "f-mean": corpus_scores.mean,
            "fragmentation": corpus_scores.fragmentation,
            "penalty": corpus_scores.penalty,
            "chunks": sums[..., CHUNKS] / counts,
        }

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer, the modules with their weights, the parameters and the version of the paraphrase table."""
        resources = self.resources
        modules = zip(resources.modules, resources.weights, strict=True)
        return {
            "tokenizer": tokenizer_version(self.tokenizer),
            "meteor": "1.5",
            "modules": "+".join(f"{module_name}*{module_weight:g}" for module_name, module_weight in modules),
            "parameters": "/".join(f"{value:g}" for value in resources.settings.parameters),
            "paraphrases": resources.paraphrase_version,
        }

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The alignment with the best reference; unmatched words are marked."""
        return part.analyse(_Alignments(self)).evidence(part, self.resources)

    @property
    def resources(self) -> MeteorResources:
        """The modules, weights, parameters and tables of this language."""
        return load_meteor_resources(self.language, self.path)


@dataclass(frozen=True)
class _Alignments:
    """Analysis of a set: each candidate aligned with each of its references."""

    metric: Meteor

    def compute(self, captions: CaptionSet) -> _Aligned:
        """All alignments of this set."""
        metric, resources = self.metric, self.metric.resources
        candidates, references = captions.candidates.astype(np.int64), captions.references.values.astype(np.int64)
        reference_counts = captions.references.lengths
        if metric.references == "cat":
            token_table: TokenTable = captions.pool.analyse(Tokens(metric.tokenizer))
            sentence_count, reference_sets = len(captions.pool), captions.reference_sets
            sentence_groups = Ragged(
                np.append(np.arange(sentence_count), reference_sets.values),
                np.append(np.arange(sentence_count + 1), reference_sets.offsets[1:] + sentence_count),
            )
            references, reference_counts = (
                sentence_count + captions.reference_set_indices.astype(np.int64),
                np.ones(len(captions), np.int64),
            )
            sentence_features = compute_features(
                normalise_texts(token_table, sentence_groups, resources.normalise), resources
            )
        else:
            sentence_features = captions.pool.analyse(MeteorFeatures(metric.language, metric.tokenizer, metric.path))
        words = prepare_sentences(sentence_features, resources, distinct(candidates))
        pair_keys = np.repeat(candidates, reference_counts) << 32 | references
        pairs, pair_indices = np.unique(pair_keys, return_inverse=True)
        sides = pairs >> 32, pairs & 0xFFFFFFFF  # candidates and references
        matched_pairs = MatchedPairs.from_sentences(words, *sides)
        # Only the best reference of a caption counts: align the pair with the highest upper bound, then all those whose
        # bound reaches its score.
        upper_bounds = np.zeros(len(pairs))
        upper_bounds[matched_pairs.order] = _scores(
            bound_statistics(words, *sides, matched_pairs, resources), resources
        ).score
        reference_starts = np.cumsum(reference_counts) - reference_counts
        pair_scores, pair_counts, alignments = np.full(len(pairs), -1.0), np.zeros((len(pairs), len(COLUMNS))), []
        selected_pairs = distinct(
            pair_indices[_first_largest(upper_bounds[pair_indices], reference_starts, reference_counts)]
        )
        for _ in range(2):
            matches = matched_pairs.align(selected_pairs)
            selected_candidates, selected_references = (side[selected_pairs] for side in sides)
            pair_counts[selected_pairs] = count_alignment_statistics(
                words, selected_candidates, selected_references, matches, resources.modules
            )
            pair_scores[selected_pairs] = _scores(pair_counts[selected_pairs], resources).score
            alignments.append(replace(matches, pair=selected_pairs[matches.pair]))
            best_scores = np.repeat(np.maximum.reduceat(pair_scores[pair_indices], reference_starts), reference_counts)
            selected_pairs = distinct(
                pair_indices[(upper_bounds[pair_indices] >= best_scores - _ROUNDING) & (pair_scores[pair_indices] < 0)]
            )
        best = _first_largest(pair_scores[pair_indices], reference_starts, reference_counts)
        is_aligned = np.ones(len(pairs), bool)
        is_aligned[matched_pairs.unaligned] = False
        skipped = ~np.logical_and.reduceat(is_aligned[pair_indices], reference_starts)
        matches = WordMatches.concatenate(alignments)
        return _Aligned(
            words, candidates, references, reference_starts, best, pair_indices, matches, pair_counts, skipped
        )


def _scores(counts: Floats, resources: MeteorResources) -> MeteorScores:
    return compute_scores(counts, resources.settings.parameters, resources.weights)


def _first_largest(values: Floats, row_starts: Ints, row_lengths: Ints) -> Ints:
    """The index of the first largest value of each row: `row_lengths` values from `row_starts` on."""
    largest_positions = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, row_starts), row_lengths))
    indices: Ints = largest_positions[np.searchsorted(largest_positions, row_starts)]
    return indices


@dataclass(frozen=True, eq=False)
class _Aligned:
    """Alignments of n captions with all their references, flat (m); only promising pairs were aligned."""

    words: AlignerSentences
    candidates: Ints  # (n,)
    references: Ints  # (m,)
    first: Ints  # (n,), where a caption's references start
    best: Ints  # (n,), where its best reference is
    pair: Ints  # (m,), index of the distinct pair in matches and counts
    matches: WordMatches
    counts: Floats  # (pairs, 23)
    skipped: npt.NDArray[np.bool_]  # (n,), whether an alignment with a reference failed

    @property
    def best_counts(self) -> Floats:
        """The counts of each caption with its best reference (the first if there are ties)."""
        counts: Floats = self.counts[self.pair[self.best]]
        return counts

    def evidence(self, part: CaptionSet, resources: MeteorResources) -> list[Evidence]:
        """The matches of each caption's best alignment."""
        from capmeter.evaluation.evidence import Evidence

        scores = _scores(self.best_counts, resources)
        last = np.append(self.first[1:], len(self.references))
        evidence = []
        for caption_index in range(len(part)):
            reference_index = int(self.best[caption_index] - self.first[caption_index])
            candidate = self.words.table.row(int(self.candidates[caption_index]))
            references = tuple(
                self.words.table.row(k)
                for k in self.references[self.first[caption_index] : last[caption_index]].tolist()
            )
            links = tuple(self._links(int(self.pair[self.best[caption_index]]), reference_index, resources))
            marks = (
                *_unmatched("candidate", None, len(candidate), [link.candidate for link in links]),
                *_unmatched(
                    "reference", reference_index, len(references[reference_index]), [link.reference for link in links]
                ),
            )
            facts: dict[str, float | str] = {
                "best reference": float(reference_index + 1),  # counted from 1, as displayed
                "precision": float(scores.precision[caption_index]),
                "recall": float(scores.recall[caption_index]),
                "fragmentation": float(scores.fragmentation[caption_index]),
                "penalty": float(scores.penalty[caption_index]),
                "chunks": float(self.best_counts[caption_index, CHUNKS]),
            }
            evidence.append(Evidence(candidate, references, links, marks, facts))
        return evidence

    def _links(self, pair_index: int, reference_index: int, resources: MeteorResources) -> list[Link]:
        from capmeter.evaluation.evidence import Link

        weights = dict(zip(resources.modules, resources.weights, strict=True))
        links = []
        for k in np.flatnonzero(self.matches.pair == pair_index).tolist():
            candidate_start, reference_start = int(self.matches.candidate_start[k]), int(self.matches.start[k])
            kind = KINDS[self.matches.kind[k]]
            span = (candidate_start, candidate_start + int(self.matches.candidate_length[k]))
            links.append(
                Link(
                    span,
                    reference_index,
                    (reference_start, reference_start + int(self.matches.length[k])),
                    kind,
                    weights[kind],
                )
            )
        return links


def _unmatched(side: str, reference_index: int | None, word_count: int, spans: Sequence[tuple[int, int]]) -> list[Mark]:
    from capmeter.evaluation.evidence import Mark

    matched_positions = {position for start, end in spans for position in range(start, end)}
    return [
        Mark(side, reference_index, at, at + 1, "unmatched") for at in range(word_count) if at not in matched_positions
    ]
