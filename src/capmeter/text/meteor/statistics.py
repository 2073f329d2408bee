"""METEOR 1.5's sufficient statistics of an alignment, and the score computed from them.

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
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor.aligner import KINDS, MatchedPairs, WordMatches
from capmeter.text.meteor.resources import MeteorResources
from capmeter.text.meteor.sentence_features import AlignerSentences

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]

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


def count_alignment_statistics(
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


def bound_statistics(
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


def is_perfect_match(counts: Floats) -> npt.NDArray[np.bool_]:
    """Returns where all words of both sides are matched in one chunk, for statistics (…, 23)."""
    all_words = (counts[..., CHUNKS + 1] == counts[..., 0]) & (counts[..., CHUNKS + 2] == counts[..., 1])
    perfect: npt.NDArray[np.bool_] = all_words & (counts[..., CHUNKS] == 1)
    return perfect


@dataclass(frozen=True, eq=False)
class MeteorScores:
    """The score and its components, all of one shape; 0 if a denominator is 0."""

    score: Floats
    precision: Floats
    recall: Floats
    mean: Floats
    fragmentation: Floats
    penalty: Floats


def compute_scores(
    counts: Floats, parameters: tuple[float, float, float, float], weights: tuple[float, ...]
) -> MeteorScores:
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
    fragmentation = np.where(is_perfect_match(counts), 0.0, fragmentation)
    # Python's power agrees with Java's to the last digit; numpy's may not.
    penalty = gamma * np.asarray(_power(fragmentation, beta), np.float64)
    score = np.maximum(np.nan_to_num(mean * (1.0 - penalty)), 0.0)
    components = (
        np.nan_to_num(score_component) for score_component in (precision, recall, mean, fragmentation, penalty)
    )
    return MeteorScores(score, *components)
