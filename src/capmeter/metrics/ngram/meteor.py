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

METEOR 1.5's sufficient statistics of an alignment, and the score computed from them.

The 23 statistics are those that the reference program prints, in its order: the lengths of candidate and reference,
their function words, then for each of four modules the matched content words (candidate, reference) and function words
(candidate, reference), then chunks and the matched words of both sides.

>>> counts = np.zeros(len(COLUMNS))
>>> counts[[0, 1, 4, 5]], counts[CHUNKS:] = 3, (1, 3, 3)  # three content words, all matched exactly in one chunk
>>> float(compute_scores(counts, (0.85, 0.2, 0.6, 0.75), (1.0, 0.6, 0.8, 0.6)).score)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged, distinct
from capmeter.evaluation.base import (
    AdditiveMetric,
    Floats,
    Measurement,
    RunContext,
    note_captions,
    note_empty_candidates,
)
from capmeter.text.meteor.aligner import KINDS, MatchedPairs, WordMatches
from capmeter.text.meteor.resources import LANGUAGES, MeteorResources, load_meteor_resources, normalise_texts
from capmeter.text.meteor.sentence_features import AlignerSentences, MeteorFeatures, compute_features, prepare_sentences
from capmeter.text.tokenization.token_tables import Tokenizer, Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.evaluation.evidence import Evidence, Link, Mark


Ints = npt.NDArray[np.integer[Any]]

COLUMNS = (
    *("candidate-words", "reference-words", "candidate-function-words", "reference-function-words"),
    *(
        f"{side}-{word}-{module}"
        for module in range(1, 5)
        for word in ("content", "function")
        for side in ("candidate", "reference")
    ),
    *("chunks", "candidate-matched", "reference-matched"),
)
CHUNKS = COLUMNS.index("chunks")
_power = np.frompyfunc(math.pow, 2, 1)


def _count_alignment_statistics(
    sentences: AlignerSentences, candidates: Ints, references: Ints, matches: WordMatches, modules: tuple[str, ...]
) -> Floats:
    """Counts the statistics of alignments.

    Args:
        sentences: all sentences.
        candidates: the candidate of each pair, as an index of a sentence (pairs,).
        references: the reference of each pair (pairs,).
        matches: the alignments, by pair and position in the reference.
        modules: the language's modules.

    Returns:
        The statistics of each pair (pairs, 23).
    """
    counts, function_sums = _count_lengths(sentences, candidates, references), sentences.function_sum
    match_modules = _module_numbers(modules)[matches.kind]
    for side, (sentence_ids, match_starts, match_lengths) in enumerate(_sides(candidates, references, matches)):
        first_words = sentences.offsets[sentence_ids[matches.pair]] + match_starts
        function_words = function_sums[first_words + match_lengths] - function_sums[first_words]
        for column, word_counts in (
            (4 + 4 * match_modules, match_lengths - function_words),
            (6 + 4 * match_modules, function_words),
            (0 * match_modules + CHUNKS + 1, match_lengths),
        ):
            cell_indices = matches.pair * len(COLUMNS) + column + side
            counts += np.bincount(cell_indices, weights=word_counts, minlength=counts.size).reshape(counts.shape)
    continues_chunk = (
        (matches.pair[1:] == matches.pair[:-1])
        & (matches.start[1:] == (matches.start + matches.length)[:-1])
        & (matches.candidate_start[1:] == (matches.candidate_start + matches.candidate_length)[:-1])
    )
    counts[:, CHUNKS] = np.bincount(matches.pair, minlength=len(counts))
    counts[:, CHUNKS] -= np.bincount(matches.pair[1:][continues_chunk], minlength=len(counts))
    return counts


def _bound_statistics(
    sentences: AlignerSentences, candidates: Ints, references: Ints, pairs: MatchedPairs, resources: MeteorResources
) -> Floats:
    """Returns statistics that no alignment of a pair scores higher than (pairs, 23), in the order of `pairs`.

    Every word that has a match is matched, by the module with the largest weight, in as few chunks as possible.
    Precision and recall are not below those of any alignment, and fragmentation is not above.
    """
    matches, candidates, references = pairs.matches, candidates[pairs.order], references[pairs.order]
    module_numbers = _module_numbers(resources.modules)
    lightest_first = sorted(range(len(KINDS)), key=lambda kind: resources.weights[module_numbers[kind]])
    counts = _count_lengths(sentences, candidates, references)
    for side, (sentence_ids, match_starts, match_lengths) in enumerate(_sides(candidates, references, matches)):
        sentence_lengths = sentences.lengths[sentence_ids]
        sentence_begins = np.cumsum(sentence_lengths) - sentence_lengths
        first_words = sentence_begins[matches.pair] + match_starts
        word_modules = np.full(int(sentence_lengths.sum()), -1, np.int8)
        for kind in lightest_first:
            of_kind = np.flatnonzero(matches.kind == kind)
            for word_step in range(int(match_lengths[of_kind].max(initial=0))):
                longer_matches = of_kind if word_step == 0 else of_kind[match_lengths[of_kind] > word_step]
                word_modules[first_words[longer_matches] + word_step] = module_numbers[kind]
        matched = np.flatnonzero(word_modules >= 0)
        pair = np.repeat(np.arange(len(sentence_ids)), sentence_lengths)[matched]
        word_positions = matched + (sentences.offsets[sentence_ids] - sentence_begins)[pair]
        is_function_word = sentences.function_sum[word_positions + 1] - sentences.function_sum[word_positions]
        cell = pair * len(COLUMNS) + (4 + side) + 4 * word_modules[matched].astype(np.int64) + 2 * is_function_word
        counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        counts[:, CHUNKS + 1 + side] = np.bincount(pair, minlength=len(sentence_ids))
    counts[:, CHUNKS] = np.maximum(pairs.min_chunks, counts[:, CHUNKS + 1] > 0)
    return counts


def _sides(candidates: Ints, references: Ints, matches: WordMatches) -> tuple[tuple[Ints, Ints, Ints], ...]:
    """Returns the sentences of pairs, and the starts and lengths of their matches, for candidates and references."""
    return (
        (candidates, matches.candidate_start, matches.candidate_length),
        (references, matches.start, matches.length),
    )


def _module_numbers(modules: tuple[str, ...]) -> Ints:
    """Returns the index of each kind of match among the modules of a language."""
    return np.array([modules.index(kind) if kind in modules else 0 for kind in KINDS])


def _count_lengths(sentences: AlignerSentences, candidates: Ints, references: Ints) -> Floats:
    """Returns statistics with the numbers of words and of function words alone (pairs, 23)."""
    counts = np.zeros((len(candidates), len(COLUMNS)))
    for column, sentence_ids in enumerate((candidates, references)):
        sentence_begins, sentence_ends = sentences.offsets[sentence_ids], sentences.offsets[sentence_ids + 1]
        counts[:, column] = sentence_ends - sentence_begins
        counts[:, 2 + column] = sentences.function_sum[sentence_ends] - sentences.function_sum[sentence_begins]
    return counts


def _is_perfect_match(counts: Floats) -> npt.NDArray[np.bool_]:
    """Returns where all words of both sides are matched in one chunk, for statistics (…, 23)."""
    all_words = (counts[..., CHUNKS + 1] == counts[..., 0]) & (counts[..., CHUNKS + 2] == counts[..., 1])
    perfect: npt.NDArray[np.bool_] = all_words & (counts[..., CHUNKS] == 1)
    return perfect


@dataclass(frozen=True, eq=False)
class _MeteorScores:
    """The score and its components, all of one shape; 0 if a denominator is 0."""

    score: Floats
    precision: Floats
    recall: Floats
    mean: Floats
    fragmentation: Floats
    penalty: Floats


def compute_scores(
    counts: Floats, parameters: tuple[float, float, float, float], weights: tuple[float, ...]
) -> _MeteorScores:
    """Computes scores in the reference program's order of operations.

    Args:
        counts: statistics (…, 23).
        parameters: α, β, γ, δ.
        weights: of the modules.
    """
    alpha, beta, gamma, delta = parameters
    weighted_matches, length = [], []
    for side in (0, 1):
        side_total = np.zeros(counts.shape[:-1])
        for module, module_weight in enumerate(weights):
            side_total = side_total + counts[..., 4 + 4 * module + side] * module_weight * delta
        for module, module_weight in enumerate(weights):
            side_total = side_total + counts[..., 6 + 4 * module + side] * module_weight * (1.0 - delta)
        weighted_matches.append(side_total)
        length.append(delta * (counts[..., side] - counts[..., 2 + side]) + (1.0 - delta) * counts[..., 2 + side])
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = weighted_matches[0] / length[0], weighted_matches[1] / length[1]
        mean = 1.0 / ((1.0 - alpha) / precision + alpha / recall)
        fragmentation = counts[..., CHUNKS] / ((counts[..., CHUNKS + 1] + counts[..., CHUNKS + 2]) / 2.0)
    fragmentation = np.where(_is_perfect_match(counts), 0.0, fragmentation)
    # Python's power agrees with Java's to the last digit; numpy's may not.
    penalty = gamma * np.asarray(_power(fragmentation, beta), np.float64)
    score = np.maximum(np.nan_to_num(mean * (1.0 - penalty)), 0.0)
    components = (
        np.nan_to_num(score_component) for score_component in (precision, recall, mean, fragmentation, penalty)
    )
    return _MeteorScores(score, *components)


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
        "Accepts synonyms and stems, and prefers recall: longer captions gain. One wrong word among ten costs little. "
        "Rewards a repeated sentence (97 of 100 long captions score higher) and a foreign one (90 of 100)."
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
        return Measurement(self.with_scores(caption_counts), notes)

    def with_scores(self, counts: Floats) -> Floats:
        """The columns of captions with these statistics (captions, 23)."""
        chunks = np.where(_is_perfect_match(counts), 0.0, counts[:, CHUNKS])
        return np.column_stack([counts, chunks, _scores(counts, self.resources).score])

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
            _bound_statistics(words, *sides, matched_pairs, resources), resources
        ).score
        reference_starts = np.cumsum(reference_counts) - reference_counts
        pair_scores, pair_counts, alignments = np.full(len(pairs), -1.0), np.zeros((len(pairs), len(COLUMNS))), []
        selected_pairs = distinct(
            pair_indices[_first_largest(upper_bounds[pair_indices], reference_starts, reference_counts)]
        )
        for _ in range(2):
            matches = matched_pairs.align(selected_pairs)
            selected_candidates, selected_references = (side[selected_pairs] for side in sides)
            pair_counts[selected_pairs] = _count_alignment_statistics(
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


def _scores(counts: Floats, resources: MeteorResources) -> _MeteorScores:
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
