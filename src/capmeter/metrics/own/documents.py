"""`capmeter` for documents: their claims, judged one by one by the networks that judge captions.

A document (`text.tokenization.document_splitting`) makes claims: its sentences, and the tuples of its scene graph. With
c_1 … c_m the candidate's sentences, r_1 … r_n those of a reference, near(c_i) the sentence of each reference that is
most similar to c_i (by the cosine of the matcher's sentence vectors), near(r_j) that of the candidate, and s(c, R) the
score of a caption c with the references R:

    S = Σ_i s(c_i, near(c_i)), supported          M = mean over references of Σ_j (1 - s(r_j, near(r_j))), missing
    T = S / (S + (m - S) / 4 + 3 M / 4)           G = F-score of the tuples of both scene graphs
    score = (2 T + G) / 3

T is Tversky's index (1977). A further sentence raises it if s > T / (4 - 3 T), which is .17 for T = .45.
A sentence that repeats an earlier one has s = 0. One that its most similar sentences contradict (below: another
colour, number … of the same object, or the opposite place) has half of its s and of its correctness.
`correctness` is the mean of the distinct c_i's, `coverage` the mean correctness of the r_j against the candidate,
`fluency` the mean of the c_i's. `uncertainty` is the mean of the distinct c_i's; it was calibrated on captions, not on
documents, and knows nothing of contradictions and graphs.

`explain` says of each sentence of the candidate whether it is supported (correctness at least .5), contradicted (by a
word of the most similar sentence, or by what is said of the same object) or unsupported, and of each of the references
whether it is covered or missing.

Tuples match word by word, without synonyms; the references share one graph, as in `spice`.

**Misplaced words** contradict a reference, although the reference has the same word elsewhere.

In 200 words nearly every colour occurs somewhere; what counts is whose it is, and where something stands:

* an attribute of an object, where the reference's object of the same name has another value of the same slot (colour,
  number, size …) and not this one, by both scene graphs;
* a word of place (left, above, behind, inside), where the most similar sentence of the reference has the opposite
  within `_NEAR` words of an object that both sentences place.

A sentence is contradicted by the most similar ones of the other side if one of them contradicts a word of it in either
way, and none of them has that word.

>>> candidate = _SplitText.from_sentences(["A red dog sits on a green sofa.", "The lamp is on the left."])
>>> reference = _SplitText.from_sentences(["A green dog sits on a red sofa.", "A lamp stands on the right side."])
>>> _find_misplaced_words(candidate, reference, [0, 1])
{13: 13}
>>> _find_contradicted_sentences(candidate, [reference], [[0, 1]], {})
[False, True]
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import load_encoder
from capmeter.evaluation.base import Floats
from capmeter.evaluation.evidence import Evidence, SentenceVerdict
from capmeter.metrics.embedding.word_pieces import find_unreadable
from capmeter.metrics.own.inputs import SentenceEncodings, strip_final_punctuation
from capmeter.metrics.own.trained_networks import (
    COLUMNS,
    WORD_CALIBRATION,
    EncodedPart,
    TrainedCapmeter,
    estimate_uncertainties,
    word_probabilities,
)
from capmeter.metrics.own.words import label_words
from capmeter.text.concepts import contradicts, find_slot, token_concept
from capmeter.text.scene_graphs.extraction import Scenes, SceneTable
from capmeter.text.scene_graphs.graph import SceneGraph, build_scene_evidence, match, no_synsets
from capmeter.text.tokenization.document_splitting import document_sentences
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.token_tables import bare_word

GRAPHS = "caption"
"""The source of scene graphs: SPICE's rules over the bundled parser's trees."""
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 32, 1 << 17  # of documents, with their references, whose states are in memory
_SUPPORTED = 0.5  # correctness from which a sentence is supported; of other photos' sentences 12 % reach it
_CONTRADICTED = 0.5  # what a contradicted sentence counts: its other words may be right
_MISSING = 0.75  # weight of what is missing; what is unsupported has the rest
_SCORE, _CORRECTNESS, _, _FLUENCY = range(len(COLUMNS))

Claim = tuple[int, tuple[int, ...]]
"""A sentence, and the sentences that it is judged by."""


def find_documents(part: CaptionSet) -> NDArray[np.int64]:
    """Returns the rows whose candidate or one of whose references is a document."""
    is_document = np.array([bool(document_sentences(text)) for text in part.pool.sentences], bool)
    has_document_reference = np.bincount(part.references.rows, is_document[part.references.values], len(part)) > 0
    return np.flatnonzero(is_document[part.candidates] | has_document_reference)


def document_blocks(
    part: CaptionSet, rows: NDArray[np.int64], trained: TrainedCapmeter, settings: Settings
) -> Iterator[_DocumentBlock]:
    """Yields documents in blocks of bounded memory, at least one in each.

    Args:
        part: the captions.
        rows: which of them are documents.
        trained: the networks.
        settings: where they run.
    """
    sentence_lengths = np.array(list(map(len, part.pool.sentences)))
    document_sizes = sentence_lengths[part.candidates] + np.bincount(
        part.references.rows, sentence_lengths[part.references.values], len(part)
    )
    block_start, block_characters = 0, 0.0
    for block_end, document_size in enumerate(document_sizes[rows].tolist()):
        if block_end > block_start and (
            block_end - block_start == _ROWS_AT_ONCE or block_characters + document_size > _CHARACTERS_AT_ONCE
        ):
            yield _DocumentBlock.read(part, rows[block_start:block_end], trained, settings)
            block_start, block_characters = block_end, 0.0
        block_characters += document_size
    if len(rows):
        yield _DocumentBlock.read(part, rows[block_start:], trained, settings)


@dataclass(frozen=True, eq=False)
class _DocumentBlock:
    """Some documents with their references, as indices of distinct sentences.

    Args:
        rows: of the part.
        sentences: as written.
        candidates: the sentences of each row's candidate.
        references: those of each of its references.
        graphs: of each row's candidate, and of its references.
        encodings: of the sentences.
        trained: the networks.
        settings: where they run.
    """

    rows: NDArray[np.int64]
    sentences: tuple[str, ...]
    candidates: list[NDArray[np.int64]]
    references: list[list[NDArray[np.int64]]]
    graphs: list[tuple[SceneGraph, SceneGraph]]
    encodings: SentenceEncodings
    trained: TrainedCapmeter
    settings: Settings

    @classmethod
    def read(
        cls, part: CaptionSet, rows: NDArray[np.int64], trained: TrainedCapmeter, settings: Settings
    ) -> _DocumentBlock:
        """Splits, parses and encodes some rows of a part."""
        sentence_indices: dict[str, int] = {}

        def split(text: str) -> NDArray[np.int64]:
            sentences = document_sentences(text) or [" ".join(text.split())]
            return np.array(
                [sentence_indices.setdefault(sentence, len(sentence_indices)) for sentence in sentences], np.int64
            )

        document_texts = [
            (part.pool[int(part.candidates[k])], [part.pool[j] for j in part.references[k].tolist()])
            for k in rows.tolist()
        ]
        candidates = [split(candidate) for candidate, _ in document_texts]
        references = [[split(each) for each in several] for _, several in document_texts]
        stripped_sentences = tuple(map(strip_final_punctuation, sentence_indices))
        encodings = trained.encode(stripped_sentences, settings)
        graphs = _parse_graphs(document_texts, settings)
        return cls(rows, tuple(sentence_indices), candidates, references, graphs, encodings, trained, settings)

    @cached_property
    def claims(self) -> list[tuple[list[Claim], list[list[Claim]]]]:
        """For each row the claims of its candidate, and of each of its references."""
        return [
            (self._nearest(candidate, references), [self._nearest(reference, [candidate]) for reference in references])
            for candidate, references in zip(self.candidates, self.references, strict=True)
        ]

    @cached_property
    def claim_scores(self) -> dict[Claim, Floats]:
        """The calibrated columns of each claim of either side, (4)."""
        distinct_claims = dict.fromkeys(
            claim
            for candidate_claims, reference_claims in self.claims
            for claim in (*candidate_claims, *(each for other in reference_claims for each in other))
        )
        return dict(
            zip(distinct_claims, self._encode(list(distinct_claims)).scores(self.trained, self.settings), strict=True)
        )

    def scores(self) -> Floats:
        """The calibrated columns of each row, (rows, 4); 0 for a candidate without word pieces."""
        scores = np.zeros((len(self.rows), len(COLUMNS)))
        is_empty = self.empty()
        for row, (candidate_claims, reference_claims) in enumerate(self.claims):
            if is_empty[row]:
                continue
            candidate_columns, *reference_columns = self._weighted_claim_scores(row)
            candidate_values = np.array([candidate_columns[claim] for claim in dict.fromkeys(candidate_claims)])
            reference_values = [
                np.array([columns[claim] for claim in text_claims])
                for columns, text_claims in zip(reference_columns, reference_claims, strict=True)
            ]
            supported = candidate_values[:, _SCORE].sum()
            unsupported = len(candidate_claims) - supported
            missing = np.mean([(1 - values[:, _SCORE]).sum() for values in reference_values])
            index = supported / (supported + (1 - _MISSING) * unsupported + _MISSING * missing)
            coverage = np.mean([values[:, _CORRECTNESS].mean() for values in reference_values])
            candidate_mean = candidate_values.mean(axis=0)
            score = (2 * index + match(*self.graphs[row]).counts["all"].f) / 3
            scores[row] = score, candidate_mean[_CORRECTNESS], coverage, candidate_mean[_FLUENCY]
        return scores

    def uncertainties(self) -> Floats:
        """The mean uncertainty of the distinct sentences of each row's candidate, (rows,); 0 without word pieces."""
        distinct_claims = list(dict.fromkeys(claim for claims, _ in self.claims for claim in claims))
        scores = np.array([self.claim_scores[claim][_SCORE] for claim in distinct_claims])
        claim_errors = estimate_uncertainties(self._encode(distinct_claims), scores, self.trained, self.settings)
        by_claim = dict(zip(distinct_claims, claim_errors.tolist(), strict=True))
        means = np.array([np.mean([by_claim[claim] for claim in dict.fromkeys(claims)]) for claims, _ in self.claims])
        return np.where(self.empty(), 0.0, means)

    def _weighted_claim_scores(self, row: int) -> list[dict[Claim, Floats]]:
        """The columns of the claims of a row's candidate and of each of its references; less if contradicted."""
        candidate, references = self._texts(row)
        candidate_claims, reference_claims = self.claims[row]
        candidate_graph, reference_graph = self.graphs[row]
        conflicts = _index_conflicts(candidate_graph, reference_graph)
        sides = [(candidate, references, candidate_claims, self.references[row], conflicts)]
        conflicts = _index_conflicts(reference_graph, candidate_graph)
        for reference, claims in zip(references, reference_claims, strict=True):
            sides.append((reference, [candidate], claims, [self.candidates[row]], conflicts))
        column_weights = np.ones(len(COLUMNS))
        column_weights[[_SCORE, _CORRECTNESS]] = _CONTRADICTED
        weighted_scores = []
        for text, others, claims, judges, conflicts in sides:
            flags = _find_contradicted_sentences(text, others, self._numbers(claims, judges), conflicts)
            claim_weights = np.where(np.array(flags)[:, None], column_weights, 1.0)
            values = [self.claim_scores[claim] for claim in claims]
            weighted_scores.append(dict(zip(claims, values * claim_weights, strict=True)))
        return weighted_scores

    @staticmethod
    def _numbers(claims: Sequence[Claim], texts: Sequence[NDArray[np.int64]]) -> list[list[int]]:
        """For each text that judges claims, the number of the judging sentence in it."""
        sentence_places = [{sentence: k for k, sentence in enumerate(text.tolist())} for text in texts]
        return [[text_places[nearest[k]] for _, nearest in claims] for k, text_places in enumerate(sentence_places)]

    def empty(self) -> NDArray[np.bool_]:
        """The rows whose candidate has no word pieces."""
        piece_counts = self.encodings.table.pieces.lengths  # with the marks of both ends
        return np.array([bool((piece_counts[sentences] <= 2).all()) for sentences in self.candidates], bool)

    def truncated(self) -> NDArray[np.bool_]:
        """The rows with a sentence that is longer than the encoder reads."""
        is_truncated = self.encodings.table.pieces.truncated
        pairs = zip(self.candidates, self.references, strict=True)
        return np.array([bool(is_truncated[np.concatenate([one, *others])].any()) for one, others in pairs], bool)

    def unreadable(self) -> NDArray[np.bool_]:
        """The rows whose candidate has more sentences that the encoder cannot read than others."""
        is_unreadable = find_unreadable(self.encodings.table.pieces, self.trained.encoder, self.settings)
        return np.array([2 * int(is_unreadable[each].sum()) > len(each) for each in self.candidates], bool)

    def explain(self) -> list[Evidence]:
        """Words and sentences with their verdicts, each sentence judged by the most similar ones of the other side."""
        encoder = load_encoder(self.trained.encoder, self.settings)
        document_scores = self.scores()
        claims = [claim for candidate_claims, _ in self.claims for claim in candidate_claims]
        probabilities: dict[int, list[float]] = {}
        for k, logits in self._encode(claims).word_logits(self.trained, self.settings):
            sentence = self.sentences[claims[k][0]]
            piece_probabilities = self.trained.probability(WORD_CALIBRATION, logits)
            word_count = len(sentence.split())
            probabilities[k] = word_probabilities(
                encoder, strip_final_punctuation(sentence), piece_probabilities, word_count
            )
        evidence, claim_start = [], 0
        for row, (candidate_claims, _) in enumerate(self.claims):
            word_scores = [
                value for k in range(claim_start, claim_start + len(candidate_claims)) for value in probabilities[k]
            ]
            claim_start += len(candidate_claims)
            candidate, references = self._texts(row)
            reference_words = [text.words for text in references]
            contradicted_words = self._contradicted(row)
            verdicts = label_words(candidate.words, word_scores, reference_words, contradicted=contradicted_words)
            contradicted = [(each.word, each.reference, each.position) for each in verdicts.contradicted]
            facts: dict[str, float | str] = dict(zip(COLUMNS[1:], document_scores[row, 1:].tolist(), strict=True))
            evidence.append(
                Evidence(
                    verdicts.candidate,
                    verdicts.references,
                    verdicts.links(),
                    verdicts.marks(),
                    facts | verdicts.summary(),
                    scene=build_scene_evidence(*self.graphs[row]),
                    word_scores=tuple(word_scores),
                    sentences=tuple(self._sentence_verdicts(row, contradicted, contradicted_words)),
                )
            )
        return evidence

    def _texts(self, row: int) -> tuple[_SplitText, list[_SplitText]]:
        side_sentences = [self.candidates[row], *self.references[row]]
        candidate, *references = (
            _SplitText.from_sentences([self.sentences[k] for k in side.tolist()]) for side in side_sentences
        )
        return candidate, references

    def _contradicted(self, row: int) -> dict[int, tuple[int, int]]:
        """Words of the candidate that contradict a reference: word → reference and the word there."""
        candidate, references = self._texts(row)
        contradicted_words = _find_contradicted_words(candidate, references, *self.graphs[row])
        nearest_numbers = self._numbers(self.claims[row][0], self.references[row])
        for reference_index, (reference, sentence_numbers) in enumerate(zip(references, nearest_numbers, strict=True)):
            contradicted_words |= {
                k: (reference_index, at)
                for k, at in _find_misplaced_words(candidate, reference, sentence_numbers).items()
            }
        return contradicted_words

    def _sentence_verdicts(
        self, row: int, contradicted: Sequence[tuple[int, int, int]], contradicted_words: Collection[int]
    ) -> Iterator[SentenceVerdict]:
        """The candidate's sentences, then those of its references.

        A sentence is contradicted by a word of the most similar sentences, or by what is known of an object.
        """
        candidate, references = self._texts(row)
        candidate_claims, reference_claims = self.claims[row]
        own_places = dict(zip(self.candidates[row].tolist(), candidate.bounds, strict=True))
        reference_places = [
            dict(zip(sentences.tolist(), text.bounds, strict=True))
            for sentences, text in zip(self.references[row], references, strict=True)
        ]
        for (start, end), claim in zip(candidate.bounds, candidate_claims, strict=True):
            claim_score = float(self.claim_scores[claim][_CORRECTNESS])
            judged_by = tuple((k, *reference_places[k][sentence]) for k, sentence in enumerate(claim[1]))
            is_contradicted = any(
                start <= word < end and (word in contradicted_words or judged_by[k][1] <= at < judged_by[k][2])
                for word, k, at in contradicted
            )
            verdict = "contradicted" if is_contradicted else "supported" if claim_score >= _SUPPORTED else "unsupported"
            yield SentenceVerdict("candidate", None, start, end, verdict, claim_score, judged_by)
        for k, (text, text_claims) in enumerate(zip(references, reference_claims, strict=True)):
            for (start, end), claim in zip(text.bounds, text_claims, strict=True):
                claim_score = float(self.claim_scores[claim][_CORRECTNESS])
                verdict = "covered" if claim_score >= _SUPPORTED else "missing"
                candidate_place = own_places[claim[1][0]]
                yield SentenceVerdict("reference", k, start, end, verdict, claim_score, ((None, *candidate_place),))

    def _nearest(self, sentences: NDArray[np.int64], texts: Sequence[NDArray[np.int64]]) -> list[Claim]:
        """Each sentence with the most similar sentence of each text."""
        sentence_vectors = self.encodings.vectors
        nearest_sentences = [
            text[(sentence_vectors[sentences] @ sentence_vectors[text].T).argmax(axis=1)] for text in texts
        ]
        columns = zip(sentences.tolist(), *(each.tolist() for each in nearest_sentences), strict=True)
        return [(k, tuple(column)) for k, *column in columns]

    def _encode(self, claims: Sequence[Claim]) -> EncodedPart:
        candidates = np.array([sentence for sentence, _ in claims], np.int64)
        return EncodedPart(self.encodings, candidates, Ragged.from_rows([each for _, each in claims], np.int64))


def _parse_graphs(
    texts: Sequence[tuple[str, Sequence[str]]], settings: Settings
) -> list[tuple[SceneGraph, SceneGraph]]:
    pool = SentencePool(tuple(dict.fromkeys(text for one, several in texts for text in (one, *several))))
    index = {text: k for k, text in enumerate(pool.sentences)}
    scenes: SceneTable = pool.analyse(Scenes(GRAPHS, settings))
    return [
        (scenes.graph(index[one], no_synsets), scenes.reference_graph([index[each] for each in several], no_synsets))
        for one, several in texts
    ]


_PLACES = ("side", "height", "before or behind", "in or out")
_NEAR = 6


@dataclass(frozen=True)
class _SplitText:
    """A text's words in one row, and where its sentences start and end in it."""

    words: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]

    @classmethod
    def from_sentences(cls, sentences: Sequence[str]) -> _SplitText:
        """The words between blanks of these sentences."""
        sentence_words = [sentence.split() for sentence in sentences]
        sentence_ends = list(accumulate(map(len, sentence_words), initial=0))
        return cls(tuple(word for words in sentence_words for word in words), tuple(pairwise(sentence_ends)))

    @cached_property
    def stems(self) -> list[list[str]]:
        """The stems of each sentence's words."""
        return [[stem(bare_word(each)) for each in self.words[start:end]] for start, end in self.bounds]

    @cached_property
    def positions(self) -> Mapping[str, list[tuple[int, int]]]:
        """For each stem the sentences that have it, and where it stands."""
        positions: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for sentence_index, (stems, (start, _)) in enumerate(zip(self.stems, self.bounds, strict=True)):
            for word_index, word_stem in enumerate(stems):
                positions[word_stem].append((sentence_index, start + word_index))
        return positions

    def find(self, word: str, noun: str) -> Iterator[int]:
        """Where a word stands in a sentence with this noun; both in any form."""
        with_noun = {sentence_index for sentence_index, _ in self.positions.get(stem(noun), ())}
        yield from (at for sentence_index, at in self.positions.get(stem(word), ()) if sentence_index in with_noun)


def _find_conflicts(graph: SceneGraph, other: SceneGraph) -> list[tuple[str, str, list[str]]]:
    """The attributes of a graph that another contradicts: the object, the attribute, and the other's values."""
    stated_values: dict[str, set[str]] = {}
    for owner, attribute in other.attributes:
        for noun in other.objects[owner].words:
            stated_values.setdefault(noun, set()).update(attribute.words)
    conflicts: list[tuple[str, str, list[str]]] = []
    for owner, attribute in graph.attributes:
        for noun in graph.objects[owner].words:
            other_values = stated_values.get(noun, set())
            for word in set(attribute.words) - other_values:
                conflicting_values = [value for value in other_values if contradicts(word, value)]
                if conflicting_values:
                    conflicts.append((noun, word, conflicting_values))
    return conflicts


def _find_contradicted_words(
    candidate: _SplitText, references: Sequence[_SplitText], graph: SceneGraph, reference_graph: SceneGraph
) -> dict[int, tuple[int, int]]:
    """The candidate's attributes that contradict the references: word → reference and the word there."""
    contradicted_words: dict[int, tuple[int, int]] = {}
    for noun, word, values in _find_conflicts(graph, reference_graph):
        places = ((k, at) for value in values for k, text in enumerate(references) for at in text.find(value, noun))
        reference_place = next(places, None)
        if reference_place is not None:
            contradicted_words.update(dict.fromkeys(candidate.find(word, noun), reference_place))
    return contradicted_words


def _find_misplaced_words(candidate: _SplitText, reference: _SplitText, nearest: Sequence[int]) -> dict[int, int]:
    """The candidate's words of place that contradict a reference: word → the word there.

    Args:
        candidate, reference: both texts.
        nearest: the number of the reference's sentence that is most similar to each of the candidate's.
    """
    misplaced_words: dict[int, int] = {}
    for candidate_bounds, reference_bounds in zip(
        candidate.bounds, (reference.bounds[k] for k in nearest), strict=True
    ):
        place_positions = [
            at for at in range(*reference_bounds) if find_slot(bare_word(reference.words[at])) in _PLACES
        ]
        for k in range(*candidate_bounds):
            word = bare_word(candidate.words[k])
            if find_slot(word) not in _PLACES or any(bare_word(reference.words[at]) == word for at in place_positions):
                continue
            for at in place_positions:
                shared_objects = _objects_near(candidate, k, candidate_bounds) & _objects_near(
                    reference, at, reference_bounds
                )
                if contradicts(word, bare_word(reference.words[at])) and shared_objects:
                    misplaced_words[k] = at
    return misplaced_words


def _find_contradicted_sentences(
    text: _SplitText,
    others: Sequence[_SplitText],
    nearest: Sequence[Sequence[int]],
    conflicts: Mapping[str, Sequence[tuple[str, frozenset[str]]]],
) -> list[bool]:
    """Says of each sentence of a text whether the most similar sentences of other texts contradict it.

    Args:
        text, others: the texts.
        nearest: for each of the other texts the number of its sentence that is most similar to each of the text's.
        conflicts: the result of `_index_conflicts`.
    """
    misplaced_stems: list[set[str]] = [set() for _ in text.bounds]
    for other, sentence_numbers in zip(others, nearest, strict=True):
        for k in _find_misplaced_words(text, other, sentence_numbers):
            sentence_index = bisect_right(text.bounds, k, key=itemgetter(0)) - 1
            misplaced_stems[sentence_index].add(text.stems[sentence_index][k - text.bounds[sentence_index][0]])
    contradicted = []
    for k, place_stems in enumerate(misplaced_stems):
        sentence_stems = set(text.stems[k])
        nearest_stems = [
            set(other.stems[sentence_numbers[k]]) for other, sentence_numbers in zip(others, nearest, strict=True)
        ]
        new_stems = sentence_stems.difference(*nearest_stems)
        contradicted.append(
            bool(place_stems & new_stems)
            or any(
                noun in sentence_stems and any(noun in judge and values & judge for judge in nearest_stems)
                for word in new_stems
                for noun, values in conflicts.get(word, ())
            )
        )
    return contradicted


def _index_conflicts(graph: SceneGraph, other: SceneGraph) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """The conflicts of two graphs by the stem of the attribute: the object's stem and those of the other's values."""
    conflict_index: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for noun, word, values in _find_conflicts(graph, other):
        conflict_index[stem(word)].append((stem(noun), frozenset(map(stem, values))))
    return dict(conflict_index)


def _objects_near(text: _SplitText, word_index: int, bounds: tuple[int, int]) -> set[str]:
    """The concepts around a word, other than words of place."""
    bare_words = map(bare_word, text.words[max(bounds[0], word_index - _NEAR) : min(bounds[1], word_index + _NEAR + 1)])
    concepts = {token_concept(word) for word in bare_words if word and find_slot(word) not in _PLACES}
    return {concept for concept in concepts if concept is not None}
