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

>>> from capmeter.metrics.evaluation import score
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

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import AdditiveMetric, Context, Floats, Measurement, wordless
from capmeter.ragged import Ragged, distinct
from capmeter.text.meteor_aligner import KINDS, MatchedPairs, WordMatches
from capmeter.text.meteor_normaliser import normalised
from capmeter.text.meteor_resources import LANGUAGES, MeteorLanguage, meteor_directory, meteor_language
from capmeter.text.meteor_statistics import CHUNKS, COLUMNS, most, perfect, scores, statistics
from capmeter.text.meteor_texts import Texts, texts_of
from capmeter.text.meteor_words import MeteorSentences, meteor_sentences
from capmeter.text.tokens import Tokenizer, Tokens, TokenTable, tokenizer_version

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence, Link, Mark

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
        backend: `python`, or `java` for the original program.
    """

    NAME: ClassVar[str] = "meteor"
    SUMMARY: ClassVar[str] = "words aligned by form, stem, synonym and paraphrase, with a penalty for fragments"
    EXTRA: ClassVar[str | None] = "meteor"
    MICROSECONDS: ClassVar[float] = 150.0

    language: Annotated[str, "short name: en, cz, fr, es, de, ru are tuned; others, and `other`, are not"] = "en"
    tokenizer: Annotated[Tokenizer, "how captions are split into words; whitespace for tokenised captions"] = "ptb"
    references: Annotated[Literal["each", "cat"], "score each and take the best, or concatenate all"] = "each"
    path: Annotated[str | None, "folder of a METEOR 1.5 release; default: the package pycocoevalcap"] = None
    backend: Annotated[Literal["python", "java"], "capmeter's implementation, or the original program"] = "python"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language not in LANGUAGES:
            raise InputError(f"meteor: expected language to be one of {', '.join(LANGUAGES)}, but got {self.language}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The program's 23 numbers for the best reference, the chunks that count for the corpus, and the score."""
        return (*COLUMNS, "counted-chunks", "score")

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The counts of each caption with its best reference."""
        tokens: TokenTable = part.pool.analyse(Tokens(self.tokenizer))
        notes = wordless(part, tokens.ids.lengths)
        if self.backend == "java":
            counts = self._java(part, tokens)
        else:
            aligned = part.analyse(_Alignments.of(self))
            counts = aligned.best_counts
            notes[_SKIPPED] = [part.ids[row] for row in np.flatnonzero(aligned.skipped).tolist()]
        known = self._known()
        score = scores(counts, known.settings.parameters, known.weights).score
        counted = np.where(perfect(counts), 0.0, counts[:, CHUNKS])
        return Measurement(np.column_stack([counts, counted, score]), notes)

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """METEOR and its components from counts; "mean" is the mean of the caption scores."""
        known = self._known()
        summed = sums[..., : len(COLUMNS)].copy()
        summed[..., CHUNKS] = sums[..., -2]
        found = scores(summed, known.settings.parameters, known.weights)
        return {
            "score": found.score,
            "mean": sums[..., -1] / counts,
            "precision": found.precision,
            "recall": found.recall,
            "f-mean": found.mean,
            "fragmentation": found.fragmentation,
            "penalty": found.penalty,
            "chunks": sums[..., CHUNKS] / counts,
        }

    def facts(self, context: Context) -> dict[str, str]:
        """The tokenizer, the modules with their weights, the parameters and the version of the paraphrase table."""
        known = self._known()
        modules = "+".join(f"{name}*{weight:g}" for name, weight in zip(known.modules, known.weights, strict=True))
        return {
            "tokenizer": tokenizer_version(self.tokenizer),
            "meteor": "1.5",
            "modules": modules,
            "parameters": "/".join(f"{value:g}" for value in known.settings.parameters),
            "paraphrases": known.version,
        }

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The alignment with the best reference; unmatched words are marked."""
        return part.analyse(_Alignments.of(self)).evidence(part, self._known())

    def _known(self) -> MeteorLanguage:
        return meteor_language(self.language, self.path)

    def _java(self, part: CaptionSet, tokens: TokenTable) -> Floats:
        from capmeter.text.meteor_java import java_statistics

        candidates, references = _lines(part, tokens, self.references)
        return java_statistics(candidates, references, (self.language, self._known()), meteor_directory(self.path))


def _lines(part: CaptionSet, tokens: TokenTable, references: str) -> tuple[list[str], list[list[str]]]:
    """Each candidate and its references as lines of tokens, in the program's input format."""
    pool = [" ".join(tokens.row(k)) for k in range(len(part.pool))]
    lines = [[pool[k] for k in part.references[row].tolist()] for row in range(len(part))]
    return [pool[k] for k in part.candidates.tolist()], [
        [" ".join(row)] for row in lines
    ] if references == "cat" else lines


@dataclass(frozen=True)
class _Alignments:
    """Analysis of a set: each candidate aligned with each of its references."""

    language: str
    tokenizer: str
    references: str
    path: str | None

    @classmethod
    def of(cls, metric: Meteor) -> _Alignments:
        return cls(metric.language, metric.tokenizer, metric.references, metric.path)

    def run(self, captions: CaptionSet) -> _Aligned:
        """All alignments of this set."""
        known = meteor_language(self.language, self.path)
        mine, theirs = captions.candidates.astype(np.int64), captions.references.values.astype(np.int64)
        lengths = captions.references.lengths
        if self.references == "cat":
            tokens: TokenTable = captions.pool.analyse(Tokens(self.tokenizer))
            sentences, lists = len(captions.pool), captions.reference_sets
            each = Ragged(
                np.append(np.arange(sentences), lists.values),
                np.append(np.arange(sentences + 1), lists.offsets[1:] + sentences),
            )
            theirs, lengths = sentences + captions.reference_set.astype(np.int64), np.ones(len(captions), np.int64)
            texts = texts_of(normalised(tokens, each, known.normalize), known)
        else:
            texts = captions.pool.analyse(Texts(self.language, self.tokenizer, self.path))
        words = meteor_sentences(texts, known, distinct(mine))
        keys = np.repeat(mine, lengths) << 32 | theirs
        pairs, pair = np.unique(keys, return_inverse=True)
        hypotheses, others = pairs >> 32, pairs & 0xFFFFFFFF
        matched = MatchedPairs.of(words, hypotheses, others)
        # Only the best reference of a caption counts. The pair that may score most is aligned, and then the others that
        # may score as much as it does.
        limit = np.zeros(len(pairs))
        limit[matched.order] = scores(
            most(words, hypotheses, others, matched, known),
            known.settings.parameters,
            known.weights,
        ).score
        first = np.cumsum(lengths) - lengths
        score, counts, found = np.full(len(pairs), -1.0), np.zeros((len(pairs), len(COLUMNS))), []
        asked = distinct(pair[_first_largest(limit[pair], first, lengths)])
        for _ in range(2):
            matches = matched.aligned(asked)
            counts[asked] = statistics(words, hypotheses[asked], others[asked], matches, known.modules)
            score[asked] = scores(counts[asked], known.settings.parameters, known.weights).score
            found.append(replace(matches, pair=asked[matches.pair]))
            largest = np.repeat(np.maximum.reduceat(score[pair], first), lengths)
            asked = distinct(pair[(limit[pair] >= largest - _ROUNDING) & (score[pair] < 0)])
        best = _first_largest(score[pair], first, lengths)
        whole = np.ones(len(pairs), bool)
        whole[matched.unaligned] = False
        skipped = ~np.logical_and.reduceat(whole[pair], first)
        return _Aligned(words, mine, theirs, first, best, pair, WordMatches.joined(found), counts, skipped)


def _first_largest(values: Floats, first: Ints, lengths: Ints) -> Ints:
    """Where each row, `lengths` values from `first` on, has its largest value first."""
    largest = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, first), lengths))
    places: Ints = largest[np.searchsorted(largest, first)]
    return places


@dataclass(frozen=True, eq=False)
class _Aligned:
    """Alignments: caption k has the references `theirs[first[k]:]`, the best of which is `theirs[best[k]]`.

    `pair` maps each candidate with each reference to one of the distinct pairs of `matches` and `counts`, which are
    those of the pairs that were aligned, the best among them; `skipped` says which captions could not be aligned with
    one of their references.
    """

    words: MeteorSentences
    mine: Ints
    theirs: Ints
    first: Ints
    best: Ints
    pair: Ints
    matches: WordMatches
    counts: Floats
    skipped: npt.NDArray[np.bool_]

    @property
    def best_counts(self) -> Floats:
        """The counts of each caption with its best reference (the first if there are ties)."""
        counts: Floats = self.counts[self.pair[self.best]]
        return counts

    def evidence(self, part: CaptionSet, known: MeteorLanguage) -> list[Evidence]:
        """The matches of each caption's best alignment."""
        from capmeter.metrics.evidence import Evidence  # which scores do not need

        found = scores(self.best_counts, known.settings.parameters, known.weights)
        last = np.append(self.first[1:], len(self.theirs))
        evidence = []
        for row in range(len(part)):
            index = int(self.best[row] - self.first[row])
            candidate = self.words.table.row(int(self.mine[row]))
            references = tuple(self.words.table.row(k) for k in self.theirs[self.first[row] : last[row]].tolist())
            links = tuple(self._links(int(self.pair[self.best[row]]), index, known))
            marks = (
                *_unmatched("candidate", None, len(candidate), [link.candidate for link in links]),
                *_unmatched("reference", index, len(references[index]), [link.reference for link in links]),
            )
            facts: dict[str, float | str] = {
                "best reference": float(index + 1),  # counted from 1, as displayed
                "precision": float(found.precision[row]),
                "recall": float(found.recall[row]),
                "fragmentation": float(found.fragmentation[row]),
                "penalty": float(found.penalty[row]),
                "chunks": float(self.best_counts[row, CHUNKS]),
            }
            evidence.append(Evidence(candidate, references, links, marks, facts))
        return evidence

    def _links(self, pair: int, index: int, known: MeteorLanguage) -> list[Link]:
        from capmeter.metrics.evidence import Link

        weights = dict(zip(known.modules, known.weights, strict=True))
        links = []
        for k in np.flatnonzero(self.matches.pair == pair).tolist():
            start, other = int(self.matches.hypothesis_start[k]), int(self.matches.start[k])
            kind = KINDS[self.matches.kind[k]]
            mine = (start, start + int(self.matches.hypothesis_length[k]))
            links.append(Link(mine, index, (other, other + int(self.matches.length[k])), kind, weights[kind]))
        return links


def _unmatched(side: str, index: int | None, length: int, spans: Sequence[tuple[int, int]]) -> list[Mark]:
    from capmeter.metrics.evidence import Mark

    covered = {position for start, end in spans for position in range(start, end)}
    return [Mark(side, index, at, at + 1, "unmatched") for at in range(length) if at not in covered]
