"""`capmeter` for documents: their claims, judged one by one by the networks that judge captions.

A document (`text.tokenization.document_splitting`) makes claims: its sentences, and the tuples of its scene graph. With
c_1 … c_m the candidate's sentences, r_1 … r_n those of a reference, near(c_i) the sentence of each reference that is
most similar to c_i (by the cosine of the matcher's sentence vectors), near(r_j) that of the candidate, and s(c, R) the
score of a caption c with the references R:

    P = mean over i of s(c_i, near(c_i))          R = mean over references and j of s(r_j, near(r_j))
    score = (P + R + G) / 3                       G = F-score of the tuples of both scene graphs

A sentence that repeats an earlier one has s = 0. One that its most similar sentences contradict (`document_words`:
another colour, number … of the same object, or the opposite place) has half of its s and of its correctness.
`correctness` is the mean of the distinct c_i's, `coverage` the mean correctness of the r_j against the candidate,
`fluency` the mean of the c_i's. What is neither a document nor has one among its references makes one claim, c itself,
near(c) is all its references, and the score is P. `uncertainty` is the mean of the distinct c_i's; it was calibrated on
captions, not on documents, and knows nothing of contradictions and graphs.

`explain` says of each sentence of the candidate whether it is supported (correctness at least .5), contradicted (by a
word of the most similar sentence, or by what is said of the same object) or unsupported, and of each of the references
whether it is covered or missing.

Tuples match word by word, without synonyms; the references share one graph, as in `spice`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.memory import return_freed_memory
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import load_encoder
from capmeter.evaluation.base import Floats
from capmeter.evaluation.evidence import Evidence, SentenceVerdict
from capmeter.evaluation.scene_evidence import build_scene_evidence
from capmeter.metrics.learned.capmeter.document_words import (
    SplitText,
    find_contradicted_sentences,
    find_contradicted_words,
    find_misplaced_words,
    index_conflicts,
)
from capmeter.metrics.learned.capmeter.encoded_part import (
    COLUMNS,
    WORD_CALIBRATION,
    EncodedPart,
    TrainedCapmeter,
    word_probabilities,
)
from capmeter.metrics.learned.capmeter.inputs import SentenceEncodings, strip_final_punctuation
from capmeter.metrics.learned.capmeter.uncertainty import estimate_uncertainties
from capmeter.metrics.learned.capmeter.words import label_words
from capmeter.text.scene_graphs.extraction import Scenes, SceneTable
from capmeter.text.scene_graphs.graph import SceneGraph, no_synsets
from capmeter.text.scene_graphs.matching import match
from capmeter.text.tokenization.document_splitting import document_sentences

GRAPHS = "caption"
"""The source of scene graphs: SPICE's rules over the bundled parser's trees."""
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 32, 1 << 17  # of documents, with their references, whose states are in memory
_SUPPORTED = 0.5  # correctness from which a sentence is supported; of other photos' sentences 12 % reach it
_CONTRADICTED = 0.5  # what a contradicted sentence counts: its other words may be right
_SCORE, _CORRECTNESS, _, _FLUENCY = range(len(COLUMNS))

Claim = tuple[int, tuple[int, ...]]
"""A sentence, and the sentences that it is judged by."""


def find_documents(part: CaptionSet) -> NDArray[np.int64]:
    """Returns the rows whose candidate or one of whose references is a document."""
    document = np.array([bool(document_sentences(text)) for text in part.pool.sentences], bool)
    referenced = np.bincount(part.references.rows, document[part.references.values], len(part)) > 0
    return np.flatnonzero(document[part.candidates] | referenced)


def document_blocks(
    part: CaptionSet, rows: NDArray[np.int64], trained: TrainedCapmeter, settings: Settings
) -> Iterator[DocumentBlock]:
    """Yields documents in blocks of bounded memory, at least one in each."""
    lengths = np.array(list(map(len, part.pool.sentences)))
    sizes = lengths[part.candidates] + np.bincount(part.references.rows, lengths[part.references.values], len(part))
    start, characters = 0, 0.0
    for end, size in enumerate(sizes[rows].tolist()):
        if end > start and (end - start == _ROWS_AT_ONCE or characters + size > _CHARACTERS_AT_ONCE):
            yield DocumentBlock.of(part, rows[start:end], trained, settings)
            return_freed_memory()
            start, characters = end, 0.0
        characters += size
    if len(rows):
        yield DocumentBlock.of(part, rows[start:], trained, settings)


@dataclass(frozen=True, eq=False)
class DocumentBlock:
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
    def of(
        cls, part: CaptionSet, rows: NDArray[np.int64], trained: TrainedCapmeter, settings: Settings
    ) -> DocumentBlock:
        """Splits, parses and encodes some rows of a part."""
        index: dict[str, int] = {}

        def split(text: str) -> NDArray[np.int64]:
            sentences = document_sentences(text) or [" ".join(text.split())]
            return np.array([index.setdefault(sentence, len(index)) for sentence in sentences], np.int64)

        texts = [
            (part.pool[int(part.candidates[k])], [part.pool[j] for j in part.references[k].tolist()])
            for k in rows.tolist()
        ]
        candidates = [split(candidate) for candidate, _ in texts]
        references = [[split(each) for each in several] for _, several in texts]
        stripped = tuple(map(strip_final_punctuation, index))
        encodings = trained.encode(stripped, settings)
        graphs = _parse_graphs(texts, settings)
        return cls(rows, tuple(index), candidates, references, graphs, encodings, trained, settings)

    @cached_property
    def claims(self) -> list[tuple[list[Claim], list[list[Claim]]]]:
        """For each row the claims of its candidate, and of each of its references."""
        return [
            (
                self._nearest(candidate, references),
                [self._nearest(reference, [candidate]) for reference in references],
            )
            for candidate, references in zip(self.candidates, self.references, strict=True)
        ]

    @cached_property
    def claim_scores(self) -> dict[Claim, Floats]:
        """The calibrated columns of each claim of either side, (4)."""
        distinct = dict.fromkeys(
            claim for own, others in self.claims for claim in (*own, *(each for other in others for each in other))
        )
        return dict(zip(distinct, self._encode(list(distinct)).scores(self.trained, self.settings), strict=True))

    def scores(self) -> Floats:
        """The calibrated columns of each row, (rows, 4); 0 for a candidate without word pieces."""
        scores = np.zeros((len(self.rows), len(COLUMNS)))
        empty = self.empty()
        for row, (own, others) in enumerate(self.claims):
            if empty[row]:
                continue
            once = dict.fromkeys(own)
            candidate_columns, *reference_columns = self._weighted_claim_scores(row)
            candidate = np.mean([candidate_columns[claim] for claim in once], axis=0)
            reference = np.mean(
                [
                    np.mean([columns[claim] for claim in other], axis=0)
                    for columns, other in zip(reference_columns, others, strict=True)
                ],
                axis=0,
            )
            tuples = match(*self.graphs[row]).counts["all"].f
            precision = candidate[_SCORE] * len(once) / len(own)
            score = (precision + reference[_SCORE] + tuples) / 3
            scores[row] = score, candidate[_CORRECTNESS], reference[_CORRECTNESS], candidate[_FLUENCY]
        return scores

    def uncertainties(self) -> Floats:
        """The mean uncertainty of the distinct sentences of each row's candidate, (rows,); 0 without word pieces."""
        distinct = list(dict.fromkeys(claim for own, _ in self.claims for claim in own))
        scores = np.array([self.claim_scores[claim][_SCORE] for claim in distinct])
        errors = estimate_uncertainties(self._encode(distinct), scores, self.trained, self.settings)
        by_claim = dict(zip(distinct, errors.tolist(), strict=True))
        means = np.array([np.mean([by_claim[claim] for claim in dict.fromkeys(own)]) for own, _ in self.claims])
        return np.where(self.empty(), 0.0, means)

    def _weighted_claim_scores(self, row: int) -> list[dict[Claim, Floats]]:
        """The columns of the claims of a row's candidate and of each of its references; less if contradicted."""
        candidate, references = self._texts(row)
        own, others = self.claims[row]
        graph, reference_graph = self.graphs[row]
        conflicts = index_conflicts(graph, reference_graph)
        flags = [
            find_contradicted_sentences(candidate, references, self._numbers(own, self.references[row]), conflicts)
        ]
        conflicts = index_conflicts(reference_graph, graph)
        for text, claims in zip(references, others, strict=True):
            numbers = self._numbers(claims, [self.candidates[row]])
            flags.append(find_contradicted_sentences(text, [candidate], numbers, conflicts))
        weights = np.ones(len(COLUMNS))
        weights[[_SCORE, _CORRECTNESS]] = _CONTRADICTED
        return [
            {
                claim: self.claim_scores[claim] * weights if contradicted else self.claim_scores[claim]
                for claim, contradicted in zip(claims, flag, strict=True)
            }
            for claims, flag in zip((own, *others), flags, strict=True)
        ]

    @staticmethod
    def _numbers(claims: Sequence[Claim], texts: Sequence[NDArray[np.int64]]) -> list[list[int]]:
        """For each text that judges claims, the number of the judging sentence in it."""
        places = [{sentence: k for k, sentence in enumerate(text.tolist())} for text in texts]
        return [[place[judges[k]] for _, judges in claims] for k, place in enumerate(places)]

    def empty(self) -> NDArray[np.bool_]:
        """The rows whose candidate has no word pieces."""
        lengths = self.encodings.table.pieces.lengths  # with the marks of both ends
        return np.array([bool((lengths[sentences] <= 2).all()) for sentences in self.candidates], bool)

    def truncated(self) -> NDArray[np.bool_]:
        """The rows with a sentence that is longer than the encoder reads."""
        long = self.encodings.table.pieces.truncated
        pairs = zip(self.candidates, self.references, strict=True)
        return np.array([bool(long[np.concatenate([one, *others])].any()) for one, others in pairs], bool)

    def explain(self) -> list[Evidence]:
        """Words and sentences with their verdicts, each sentence judged by the most similar ones of the other side."""
        encoder = load_encoder(self.trained.encoder, self.settings)
        scores = self.scores()
        claims = [claim for own, _ in self.claims for claim in own]
        probabilities: dict[int, list[float]] = {}
        for k, logits in self._encode(claims).word_logits(self.trained, self.settings):
            sentence = self.sentences[claims[k][0]]
            pieces = self.trained.probability(WORD_CALIBRATION, logits)
            count = len(sentence.split())
            probabilities[k] = word_probabilities(encoder, strip_final_punctuation(sentence), pieces, count)
        evidence, first = [], 0
        for row, (own, _) in enumerate(self.claims):
            values = [value for k in range(first, first + len(own)) for value in probabilities[k]]
            first += len(own)
            candidate, references = self._texts(row)
            words = [text.words for text in references]
            known = self._contradicted(row)
            verdicts = label_words(candidate.words, values, words, contradicted=known)
            contradicted = [(each.word, each.reference, each.position) for each in verdicts.contradicted]
            facts: dict[str, float | str] = dict(zip(COLUMNS[1:], scores[row, 1:].tolist(), strict=True))
            evidence.append(
                Evidence(
                    verdicts.candidate,
                    verdicts.references,
                    verdicts.links(),
                    verdicts.marks(),
                    facts | verdicts.summary(),
                    scene=build_scene_evidence(*self.graphs[row]),
                    word_scores=tuple(values),
                    sentences=tuple(self._sentence_verdicts(row, contradicted, known)),
                )
            )
        return evidence

    def _texts(self, row: int) -> tuple[SplitText, list[SplitText]]:
        sides = [self.candidates[row], *self.references[row]]
        candidate, *references = (SplitText.of([self.sentences[k] for k in side.tolist()]) for side in sides)
        return candidate, references

    def _contradicted(self, row: int) -> dict[int, tuple[int, int]]:
        """Words of the candidate that contradict a reference: word → reference and the word there."""
        candidate, references = self._texts(row)
        found = find_contradicted_words(candidate, references, *self.graphs[row])
        nearest = self._numbers(self.claims[row][0], self.references[row])
        for number, (reference, judges) in enumerate(zip(references, nearest, strict=True)):
            found |= {k: (number, at) for k, at in find_misplaced_words(candidate, reference, judges).items()}
        return found

    def _sentence_verdicts(
        self, row: int, contradicted: Sequence[tuple[int, int, int]], known: Collection[int]
    ) -> Iterator[SentenceVerdict]:
        """The candidate's sentences, then those of its references.

        A sentence is contradicted by a word of the most similar sentences, or by what is known of an object.
        """
        candidate, references = self._texts(row)
        own, others = self.claims[row]
        own_places = dict(zip(self.candidates[row].tolist(), candidate.bounds, strict=True))
        places = [
            dict(zip(sentences.tolist(), text.bounds, strict=True))
            for sentences, text in zip(self.references[row], references, strict=True)
        ]
        for (start, end), claim in zip(candidate.bounds, own, strict=True):
            score = float(self.claim_scores[claim][_CORRECTNESS])
            judged_by = tuple((k, *places[k][sentence]) for k, sentence in enumerate(claim[1]))
            is_contradicted = any(
                start <= word < end and (word in known or judged_by[k][1] <= at < judged_by[k][2])
                for word, k, at in contradicted
            )
            verdict = "contradicted" if is_contradicted else "supported" if score >= _SUPPORTED else "unsupported"
            yield SentenceVerdict("candidate", None, start, end, verdict, score, judged_by)
        for k, (text, claims) in enumerate(zip(references, others, strict=True)):
            for (start, end), claim in zip(text.bounds, claims, strict=True):
                score = float(self.claim_scores[claim][_CORRECTNESS])
                verdict = "covered" if score >= _SUPPORTED else "missing"
                judge = own_places[claim[1][0]]
                yield SentenceVerdict("reference", k, start, end, verdict, score, ((None, *judge),))

    def _nearest(self, sentences: NDArray[np.int64], texts: Sequence[NDArray[np.int64]]) -> list[Claim]:
        """Each sentence with the most similar sentence of each text."""
        vectors = self.encodings.vectors
        nearest = [text[(vectors[sentences] @ vectors[text].T).argmax(axis=1)] for text in texts]
        columns = zip(sentences.tolist(), *(each.tolist() for each in nearest), strict=True)
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
