"""METEOR 1.5's sufficient statistics of an alignment, and the score computed from them.

The 23 numbers are those that the reference program prints, in its order: the lengths of hypothesis and reference,
their function words, then for each of four modules the matched content words (hypothesis, reference) and function
words (hypothesis, reference), then chunks and the matched words of both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor_aligner import KINDS, MatchedPairs, WordMatches
from capmeter.text.meteor_resources import MeteorLanguage
from capmeter.text.meteor_words import MeteorSentences

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


def statistics(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, matches: WordMatches, modules: tuple[str, ...]
) -> Floats:
    """The statistics of each pair, from the alignments of all pairs (ordered by pair and position in the reference)."""
    counts, function = _lengths(sentences, hypotheses, references), sentences.function_sum
    place = _places(modules)[matches.kind]
    sides = (
        (hypotheses, matches.hypothesis_start, matches.hypothesis_length),
        (references, matches.start, matches.length),
    )
    for side, (chosen, start, length) in enumerate(sides):
        first = sentences.offsets[chosen[matches.pair]] + start
        functional = function[first + length] - function[first]
        for at, words in (
            (4 + 4 * place, length - functional),
            (6 + 4 * place, functional),
            (0 * place + CHUNKS + 1, length),
        ):
            cell = matches.pair * len(COLUMNS) + at + side
            counts += np.bincount(cell, weights=words, minlength=counts.size).reshape(counts.shape)
    goes_on = (
        (matches.pair[1:] == matches.pair[:-1])
        & (matches.start[1:] == (matches.start + matches.length)[:-1])
        & (matches.hypothesis_start[1:] == (matches.hypothesis_start + matches.hypothesis_length)[:-1])
    )
    counts[:, CHUNKS] = np.bincount(matches.pair, minlength=len(counts))
    counts[:, CHUNKS] -= np.bincount(matches.pair[1:][goes_on], minlength=len(counts))
    return counts


def most(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, pairs: MatchedPairs, known: MeteorLanguage
) -> Floats:
    """Statistics that no alignment of a pair scores higher than, of all pairs in their order here.

    Every word that has a match is matched, by the module that weighs most, in as few chunks as there can be. Precision
    and recall are not below those of any alignment, and fragmentation is not above.
    """
    matches, hypotheses, references = pairs.matches, hypotheses[pairs.order], references[pairs.order]
    place = _places(known.modules)
    lightest_first = sorted(range(len(KINDS)), key=lambda kind: known.weights[place[kind]])
    counts = _lengths(sentences, hypotheses, references)
    sides = (
        (hypotheses, matches.hypothesis_start, matches.hypothesis_length),
        (references, matches.start, matches.length),
    )
    for side, (chosen, start, length) in enumerate(sides):
        lengths = sentences.lengths[chosen]
        begin = np.cumsum(lengths) - lengths
        first = begin[matches.pair] + start
        module = np.full(int(lengths.sum()), -1, np.int8)
        for kind in lightest_first:
            which = np.flatnonzero(matches.kind == kind)
            for step in range(int(length[which].max(initial=0))):
                longer = which if step == 0 else which[length[which] > step]
                module[first[longer] + step] = place[kind]
        matched = np.flatnonzero(module >= 0)
        pair = np.repeat(np.arange(len(chosen)), lengths)[matched]
        word = matched + (sentences.offsets[chosen] - begin)[pair]
        functional = sentences.function_sum[word + 1] - sentences.function_sum[word]
        cell = pair * len(COLUMNS) + (4 + side) + 4 * module[matched].astype(np.int64) + 2 * functional
        counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
        counts[:, CHUNKS + 1 + side] = np.bincount(pair, minlength=len(chosen))
    counts[:, CHUNKS] = np.maximum(pairs.chunks, counts[:, CHUNKS + 1] > 0)
    return counts


def _places(modules: tuple[str, ...]) -> Ints:
    """The place of each kind of match among the modules of a language, which the program numbers from one."""
    return np.array([modules.index(kind) if kind in modules else 0 for kind in KINDS])


def _lengths(sentences: MeteorSentences, hypotheses: Ints, references: Ints) -> Floats:
    """Statistics with the numbers of words and of function words alone."""
    counts = np.zeros((len(hypotheses), len(COLUMNS)))
    for column, chosen in enumerate((hypotheses, references)):
        first, last = sentences.offsets[chosen], sentences.offsets[chosen + 1]
        counts[:, column] = last - first
        counts[:, 2 + column] = sentences.function_sum[last] - sentences.function_sum[first]
    return counts


def perfect(counts: Floats) -> npt.NDArray[np.bool_]:
    """Where all words of both sides are matched in one chunk."""
    whole = (counts[..., CHUNKS + 1] == counts[..., 0]) & (counts[..., CHUNKS + 2] == counts[..., 1])
    found: npt.NDArray[np.bool_] = whole & (counts[..., CHUNKS] == 1)
    return found


@dataclass(frozen=True, eq=False)
class MeteorScores:
    """The score and its components, all of one shape; 0 where a denominator is 0."""

    score: Floats
    precision: Floats
    recall: Floats
    mean: Floats
    fragmentation: Floats
    penalty: Floats


def scores(counts: Floats, parameters: tuple[float, float, float, float], weights: tuple[float, ...]) -> MeteorScores:
    """The scores from statistics (shape [..., 23]), in the reference program's order of operations."""
    alpha, beta, gamma, delta = parameters
    matched, length = [], []
    for side in (0, 1):
        content = np.zeros(counts.shape[:-1])
        for module, weight in enumerate(weights):
            content = content + counts[..., 4 + 4 * module + side] * weight * delta
        for module, weight in enumerate(weights):
            content = content + counts[..., 6 + 4 * module + side] * weight * (1.0 - delta)
        matched.append(content)
        length.append(delta * (counts[..., side] - counts[..., 2 + side]) + (1.0 - delta) * counts[..., 2 + side])
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = matched[0] / length[0], matched[1] / length[1]
        mean = 1.0 / ((1.0 - alpha) / precision + alpha / recall)
        fragmentation = counts[..., CHUNKS] / ((counts[..., CHUNKS + 1] + counts[..., CHUNKS + 2]) / 2.0)
    fragmentation = np.where(perfect(counts), 0.0, fragmentation)
    # Python's power agrees with Java's to the last digit; numpy's may not.
    penalty = gamma * np.asarray(_power(fragmentation, beta), np.float64)
    score = np.maximum(np.nan_to_num(mean * (1.0 - penalty)), 0.0)
    parts = (np.nan_to_num(part) for part in (precision, recall, mean, fragmentation, penalty))
    return MeteorScores(score, *parts)
