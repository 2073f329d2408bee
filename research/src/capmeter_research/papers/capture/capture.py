"""CAPTURE (Dong et al. 2024): F-scores of a detailed caption's objects, attributes and relations, matched softly.

The scene graphs of candidate and reference give sets of objects, of attributes and of relations: nouns and adjectives
in their base forms, objects of the same name as one, and without those of a list of abstract nouns ("atmosphere",
"scene"), which no picture shows. In each set, elements match one to one if they are equal, then if they are synonyms
(they share a synset in METEOR's dictionary); those that are left count by the cosine v(·) · v(·) of their phrases'
vectors, at least 0. With C and S the elements of candidate and reference, M the number of matches, and C′ and S′ those
without one:

    P = (M + Σ over c ∈ C′ of max over s ∈ S′ of v(c) · v(s)) / |C|      R = (M + Σ over s ∈ S′ of max over C′) / |S|
    CAPTURE = (5 F(objects) + 5 F(attributes) + 2 F(relations)) / 12      F = 2PR / (P + R)

Range 0 to 1. With several references the mean over them; the corpus score is the mean. A kind that neither side has is
left out of the weighted mean. 0 if either side has no element at all.

In the published metric an attribute counts wherever the other text has it: "a red car and a blue bus" and "a blue car
and a red bus" score 1. With `ownership=true` an attribute counts only with its object, and a relation only with both
ends: elements are (object, attribute) and (subject, relation, object), they match if all their parts do, and softly by
the cosine c of their least similar part, as max(0, 2c - 1), since words that exclude each other ("red", "blue") have
high cosines too. `soft=false` counts exact and synonymous matches alone.

The paper uses graphs of Flan-T5-base (FACTUAL) and all-mpnet-base-v2; the defaults here are the bundled scene-graph
parser (`graphs=factual`) and `minilm`, so that scores differ from published ones; `encoder` takes any sentence
encoder's folder. `as_released=true` follows the released code where it departs from the paper: one text that contains
the other is a synonym ("car", "scarf"), and so are two with a common synonym; attributes with " of" do not count; a
kind without elements has F = 0; cosines may be negative. That code takes elements in an arbitrary order, in which a few
synonyms may pair differently; here the order is that of the graph. It also leaves out objects that NLTK's tagger does
not take for nouns; this is not followed.

>>> from capmeter_research.papers.capture.capture import _match_elements
>>> _match_elements([("dog",), ("sofa",)], [("couch",), ("dog",), ("lamp",)], lambda a, b: {a, b} == {"sofa", "couch"})
([(0, 1), (1, 0)], [], [2])

H. Dong, J. Li, B. Wu, J. Wang, Y. Zhang, H. Guo. Benchmarking and Improving Detail Image Caption. arXiv:2405.19092,
2024.

Stop words (`CAPTURE_STOP_WORDS`) are nouns that are not objects: the 317 entries of the released list (Apache-2.0).
Look-ups are case-sensitive and in lemmas, as in that code, so that some never match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.embedding.word_pieces import encoder_facts
from capmeter.metrics.scene_graph.spice import caption_words, scene_graphs, scene_notes
from capmeter.text.concepts import CAPTURE_STOP_WORDS
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.meteor.synonyms import base_form
from capmeter.text.parsing.parsers import ParserName
from capmeter.text.scene_graphs.extraction import GraphsName, Scenes, SceneTable, describe_source, resolve_source
from capmeter.text.scene_graphs.graph import SceneGraph, build_scene_evidence, no_synsets, synset_key

Element = tuple[str, ...]
Elements = tuple[list[Element], list[Element], list[Element]]
"""Objects, attributes and relations of one text."""
WEIGHTS = (5.0, 5.0, 2.0)
"""Of the F-scores of objects, attributes and relations, as published (.5, .5, .2)."""
_EPSILON = 1e-6  # the released code's, in every division
_ROWS_AT_ONCE = 512  # of similarities in memory


@dataclass(frozen=True, kw_only=True)
class Capture(MeanMetric):
    """F-scores of objects, attributes and relations, matched exactly, by synonyms and softly.

    Args:
        encoder: alias, hub id or folder of a sentence encoder, for soft matches.
        graphs: `factual` or `stanford`.
        parser: `caption` or `corenlp`, for `stanford`.
        ownership: whether an attribute counts only with its object, and a relation only with both ends.
        soft: whether elements without a match count by their similarity.
        as_released: the released code's departures from the paper.
    """

    NAME: ClassVar[str] = "capture"
    SUMMARY: ClassVar[str] = (
        "objects, attributes and relations of detailed captions: exact, synonymous and soft matches"
    )
    EXTRA: ClassVar[str | None] = "meteor,neural"
    PART_SIZE: ClassVar[int] = 512
    columns: ClassVar[tuple[str, ...]] = ("score", "object", "attribute", "relation")
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        "Counts an attribute wherever the other text has it, whoever owns it; `ownership=true` does not. Soft "
        "matches are generous: two texts about different things share half of their score. Repeated sentences change "
        "nothing, and reversed relations little."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CAPTURE} = \frac{5 F_\text{objects} + 5 F_\text{attributes} + 2 F_\text{relations}}{12}, \quad F = "
        r"\frac{2 P R}{P + R}",
        r"P = \frac{M + \sum_{c \in C'} \max_{s \in S'} v(c) \cdot v(s)}{|C|}, \quad R = \frac{M + \sum_{s \in S'} "
        r"\max_{c \in C'} v(c) \cdot v(s)}{|S|}",
    )

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    graphs: GraphsName = "factual"
    parser: ParserName = "caption"
    ownership: Annotated[bool, "an attribute counts only with its object, a relation only with both ends"] = False
    soft: Annotated[bool, "elements without a match count by their similarity"] = True
    as_released: Annotated[bool, "the released code's departures from the paper"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        resolve_source(self.graphs, self.parser)
        if self.ownership and self.as_released:
            raise InputError("ownership=true and as_released=true exclude each other: the released code ignores owners")

    def scenes(self, settings: Settings) -> Scenes:
        """The analysis that extracts the tuples of texts, as written."""
        return Scenes(resolve_source(self.graphs, self.parser), settings)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score and the F-score of each kind of element, of each caption."""
        scene_analysis = self.scenes(context.settings)
        scene_table: SceneTable = part.pool.analyse(scene_analysis)
        sentence_indices = sorted({*part.candidates.tolist(), *part.references.values.tolist()})
        sentence_elements = {k: self._elements(scene_table.graph(k, no_synsets)) for k in sentence_indices}
        phrase_vectors = self._embed(list(sentence_elements.values()), context)
        matcher = _Matcher(phrase_vectors, as_released=self.as_released, soft=self.soft)
        pair_scores: dict[tuple[int, int], list[float]] = {}
        score_rows = []
        for caption_index, candidate in enumerate(part.candidates.tolist()):
            pairs = [(candidate, reference) for reference in part.references[caption_index].tolist()]
            for pair in pairs:
                if pair not in pair_scores:
                    pair_scores[pair] = self._row(sentence_elements[pair[0]], sentence_elements[pair[1]], matcher)
            score_rows.append(np.mean([pair_scores[pair] for pair in pairs], axis=0))
        caption_scores = np.array(score_rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(caption_scores, scene_notes(part, scene_analysis))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The source of graphs, the dictionary of synonyms, and the encoder's weights."""
        source_facts = {**describe_source(resolve_source(self.graphs, self.parser)), "synonyms": "meteor-1.5"}
        if not self.soft:
            return source_facts
        encoder_handle = find_encoder(self.encoder)
        return source_facts | encoder_facts(
            encoder_handle, load_encoder(encoder_handle, context.settings).layers, context.settings
        )

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Both graphs: what agrees, what is missing and what is unsupported, with owners."""
        caption_scores = self.measure(part, context).values
        return [
            Evidence(
                caption_words(part, int(part.candidates[caption_index])),
                tuple(caption_words(part, k) for k in part.references[caption_index].tolist()),
                facts=dict(zip(self.columns[1:], caption_scores[caption_index, 1:].tolist(), strict=True)),
                scene=build_scene_evidence(candidate, reference),
            )
            for caption_index, (candidate, reference) in enumerate(
                scene_graphs(part, self.scenes(context.settings), synonyms=True)
            )
        ]

    def _elements(self, graph: SceneGraph) -> Elements:
        """The elements of a graph: with `ownership` attributes with their objects, else as the paper has them."""
        names = [_base_form(str(each), "NN") for each in graph.objects]
        objects: list[Element] = [(name,) for name in dict.fromkeys(names) if name not in CAPTURE_STOP_WORDS]
        attributes: list[Element] = list(
            dict.fromkeys((names[owner], _base_form(str(each), "JJ")) for owner, each in graph.attributes)
        )
        if self.as_released:
            attributes = [each for each in attributes if " of" not in each[1]]
        relations = dict.fromkeys((names[a], str(each), names[b]) for a, each, b in graph.relations)
        return objects, attributes if self.ownership else [each[1:] for each in attributes], list(relations)

    def _embed(self, text_elements: Sequence[Elements], context: RunContext) -> dict[str, NDArray[np.float32]]:
        """The unit vectors of all phrases: with `ownership` of each part, else of each element."""
        if not self.soft:
            return {}
        each_part = self.ownership
        phrases = dict.fromkeys(
            phrase
            for elements in text_elements
            for kind_elements in elements
            for element in kind_elements
            for phrase in (element if each_part else (" ".join(element),))
        )
        encoder_handle = find_encoder(self.encoder)
        layer = load_encoder(encoder_handle, context.settings).layers
        phrase_vectors = SentencePool(tuple(phrases)).analyse(SentenceVectors(encoder_handle, layer, context.settings))
        return dict(zip(phrases, phrase_vectors, strict=True))

    def _row(self, candidate: Elements, reference: Elements, matcher: _Matcher) -> list[float]:
        """The score of a candidate against one reference, and its F-scores."""
        f_scores = [self._f(*pair, matcher) for pair in zip(candidate, reference, strict=True)]
        is_present = [self.as_released or bool(one or two) for one, two in zip(candidate, reference, strict=True)]
        if not self.as_released and not (any(candidate) and any(reference)):
            return [0.0] * len(self.columns)
        kind_weights = np.where(is_present, WEIGHTS, 0.0)
        return [float(kind_weights @ f_scores / kind_weights.sum()), *f_scores]

    def _f(self, candidate: list[Element], reference: list[Element], matcher: _Matcher) -> float:
        candidate_sum, reference_sum = matcher.sums(candidate, reference, parts=self.ownership)
        if self.as_released:
            precision = candidate_sum / (len(candidate) + _EPSILON)
            recall = reference_sum / (len(reference) + _EPSILON)
            return 2 * precision * recall / (precision + recall + _EPSILON)
        total = candidate_sum * len(reference) + reference_sum * len(candidate)
        return 2 * candidate_sum * reference_sum / total if total > 0 else 0.0


def _base_form(phrase: str, tag: str) -> str:
    """A noun or adjective, of a phrase the last word, in its base form ("tennis rackets": "tennis racket")."""
    *others, last = phrase.split() or [""]
    return " ".join([*others, base_form(last, tag, load_english_synonyms())])


class _Matcher:
    """Matches elements: equal ones, synonyms, and the others by the cosine of their vectors.

    Args:
        vectors: of phrases.
        as_released: whether a phrase that contains the other is a synonym, and two with a common synonym are; and
            whether cosines may be negative.
        soft: whether the elements without a match count.
    """

    def __init__(self, vectors: dict[str, NDArray[np.float32]], *, as_released: bool, soft: bool) -> None:
        self._vectors, self._as_released, self._soft = vectors, as_released, soft
        self._senses: dict[str, frozenset[int] | frozenset[str]] = {}

    def sums(self, candidate: list[Element], reference: list[Element], *, parts: bool) -> tuple[float, float]:
        """M + Σ of the largest similarities, for both sides; with `parts` elements have their owners."""
        matches, unmatched_candidates, unmatched_references = _match_elements(candidate, reference, self.are_synonyms)
        match_count = float(len(matches))
        if not (self._soft and unmatched_candidates and unmatched_references):
            return match_count, match_count
        best_similarity = np.full(len(unmatched_references), -np.inf, np.float32)
        similarity_sum = 0.0
        lowest_similarity = -1.0 if self._as_released else 0.0
        for batch_start in range(0, len(unmatched_candidates), _ROWS_AT_ONCE):
            batch_elements = [candidate[k] for k in unmatched_candidates[batch_start : batch_start + _ROWS_AT_ONCE]]
            similarity = self._similarity(
                batch_elements, [reference[k] for k in unmatched_references], parts=parts
            ).clip(lowest_similarity)
            similarity_sum += float(similarity.max(axis=1).sum(dtype=np.float64))
            best_similarity = np.maximum(best_similarity, similarity.max(axis=0))
        return match_count + similarity_sum, match_count + float(best_similarity.sum(dtype=np.float64))

    def are_synonyms(self, one: str, two: str) -> bool:
        """Whether two phrases share a synset, or as released a synonym, or one contains the other."""
        if one == two or (self._as_released and (one in two or two in one)):
            return True
        return not self._find_senses(one).isdisjoint(self._find_senses(two))

    def _find_senses(self, phrase: str) -> frozenset[int] | frozenset[str]:
        """The synsets of a phrase, as released its synonyms."""
        if phrase not in self._senses:
            dictionary = load_english_synonyms()
            look_up = dictionary.synonyms if self._as_released else dictionary.synsets
            self._senses[phrase] = look_up(synset_key(phrase))
        return self._senses[phrase]

    def _similarity(self, candidate: list[Element], reference: list[Element], *, parts: bool) -> NDArray[np.float32]:
        if not parts:
            candidate_vectors, reference_vectors = (
                np.stack([self._vectors[" ".join(each)] for each in side]) for side in (candidate, reference)
            )
            cosines: NDArray[np.float32] = candidate_vectors @ reference_vectors.T
            return cosines
        similarities = []
        for k in range(len(candidate[0])):
            candidate_vectors, reference_vectors = (
                np.stack([self._vectors[each[k]] for each in side]) for side in (candidate, reference)
            )
            words, others = sorted({each[k] for each in candidate}), sorted({each[k] for each in reference})
            synonym_matrix = np.array([[self.are_synonyms(a, b) for b in others] for a in words], np.float32)
            row_indices = [words.index(each[k]) for each in candidate]
            column_indices = [others.index(each[k]) for each in reference]
            similarities.append(
                np.maximum(candidate_vectors @ reference_vectors.T, synonym_matrix[row_indices][:, column_indices])
            )
        least_similarities: NDArray[np.float32] = np.minimum.reduce(similarities)
        return 2 * least_similarities - 1


def _match_elements(
    candidate: Sequence[Element], reference: Sequence[Element], are_synonyms: Callable[[str, str], bool]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Matches elements one to one: equal ones first, then those whose parts are all synonyms, in their order.

    Returns:
        The matches as (candidate's index, reference's index), and the indices of both sides without a match.
    """
    reference_positions: dict[Element, list[int]] = {}
    for k in range(len(reference) - 1, -1, -1):
        reference_positions.setdefault(reference[k], []).append(k)
    matches = [
        (k, reference_positions[each].pop()) for k, each in enumerate(candidate) if reference_positions.get(each)
    ]
    matched_candidates = {k for k, _ in matches}
    free_references = dict.fromkeys(sorted(k for indices in reference_positions.values() for k in indices))
    unmatched_candidates = []
    for k, each in enumerate(candidate):
        if k in matched_candidates:
            continue
        partner_index = next((j for j in free_references if all(map(are_synonyms, each, reference[j]))), None)
        if partner_index is None:
            unmatched_candidates.append(k)
        else:
            matches.append((k, partner_index))
            del free_references[partner_index]
    return matches, unmatched_candidates, list(free_references)
