"""ALOHa (Petryk et al. 2024): how similar the least supported object of a caption is to an object of its references.

With O_c the candidate's objects, O_r those of all references, and cos the cosine of their sentence vectors, objects are
matched one to one so that the sum of cosines is largest (Hungarian matching, M):

    ALOHa_o(o) = cos(o, M(o)), 0 for an object without a match          ALOHa = min over o ∈ O_c of ALOHa_o(o)

Range -1 to 1, in practice 0 to 1; 1 if the candidate has no object; **higher is better**. The corpus score is the mean.

The paper takes objects from GPT-3.5 and vectors from mpnet; here objects are the noun phrases of the bundled parser (a
noun with its adjectives and compounds; of references also the noun alone), and `encoder` is an alias, a hub id or a
folder. `as_released=true` follows two quirks of the released code: objects without a match are left out of the minimum
(the code adds zeros to the similarities instead of appending them), and a candidate without objects scores 0. The
released class gives −inf to a caption that names no object, or whose references name none, and so to their mean: here
the caption scores 1 (0 as released), or 0, since nothing supports its objects. With `objects`, the objects of a file
(detected in the image, or COCO's instances) join O_r, as in the paper and the released code, which drops those that it
detects itself. Scores are therefore comparable with each other and not with the paper's.

>>> from capmeter.text.parsing.caption_parser import bundled_caption_parser
>>> (parse,) = bundled_caption_parser().parse(["A brown dog sits on a kitchen table."])
>>> [" ".join(phrase.words) for phrase in _noun_phrases(parse)]
['brown dog', 'kitchen table']

S. Petryk, D. M. Chan, A. Kachinthaya, H. Zou, J. Canny, J. E. Gonzalez, T. Darrell. ALOHa: A New Measure for
Hallucination in Captioning Models. NAACL 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_captions
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.embedding.word_pieces import encoder_facts
from capmeter.metrics.hallucination.ground_truth import ground_truth_facts, load_ground_truth
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.parsing.parsers import Parses, ParseTable

_MODIFIERS = ("amod", "compound", "nn")
FLOOR = "more objects than its references name: 0 whatever they are"


class _NounPhrase(NamedTuple):
    """A noun with its adjectives and compounds in lower case, the noun alone, and the tokens [start, end) of it."""

    words: tuple[str, ...]
    noun: str
    start: int
    end: int


@dataclass(frozen=True)
class _MatchedObject:
    """An object of the candidate, its similarity, and the object of the references that it is matched with."""

    phrase: _NounPhrase
    similarity: float
    reference: str | None


@dataclass(frozen=True, kw_only=True)
class Aloha(MeanMetric):
    """Similarity of the least supported object.

    Args:
        encoder: alias, hub id or folder.
        as_released: the released code's treatment of unmatched objects and of captions without objects.
        objects: file of further objects of the images; empty: none.
    """

    NAME: ClassVar[str] = "aloha"
    SUMMARY: ClassVar[str] = "similarity of the least supported object to an object of the references (ALOHa)"
    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    FAMILY: ClassVar[str] = "Hallucination"
    MISLEADS: ClassVar[str] = (
        "Takes one object, the least supported, for the caption; objects come from the bundled parser here, and "
        "not from a language model."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{ALOHa} = \min_{o \in O_c} \cos(o, M(o))",)

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    as_released: Annotated[bool, "unmatched objects and captions without objects as in the released code"] = False
    objects: Annotated[str, "further objects of the images: COCO's instances, or a JSON of objects by image"] = ""

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        matches = self._matches(part, context)
        caption_scores = np.array([[self._score(object_matches)] for object_matches in matches], np.float64)
        has_unmatched = np.array([any(each.reference is None for each in object_matches) for object_matches in matches])
        return Measurement(caption_scores, note_captions(part, FLOOR, has_unmatched & (caption_scores[:, 0] == 0)))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The encoder's weights and the parser."""
        encoder_handle = find_encoder(self.encoder)
        facts = encoder_facts(encoder_handle, load_encoder(encoder_handle, context.settings).layers, context.settings)
        facts |= {"parser": bundled_caption_parser().version}
        return facts | ground_truth_facts(self.objects)

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Each object's similarity and match; word scores are those of the object that a word belongs to, else 1."""
        parse_table: ParseTable = part.pool.analyse(Parses("caption", context.settings))
        evidence = []
        for caption_index, matches in enumerate(self._matches(part, context)):
            tokens = _tokens(parse_table.parses[int(part.candidates[caption_index])])
            word_scores = [1.0] * len(tokens)
            for match in matches:
                word_scores[match.phrase.start : match.phrase.end] = [match.similarity] * len(match.phrase.words)
            pairs = (f"{' '.join(each.phrase.words)} ~ {each.reference or 'nothing'}" for each in matches)
            facts: dict[str, float | str] = {"score": self._score(matches), "objects": "; ".join(pairs) or "none"}
            references = tuple(_tokens(parse_table.parses[k]) for k in part.references[caption_index].tolist())
            evidence.append(Evidence(tokens, references, facts=facts, word_scores=tuple(word_scores)))
        return evidence

    def _score(self, matches: Sequence[_MatchedObject]) -> float:
        if not matches:
            return 0.0 if self.as_released else 1.0
        counted = [match.similarity for match in matches if match.reference is not None or not self.as_released]
        return min(counted, default=0.0)

    def _matches(self, part: CaptionSet, context: RunContext) -> list[list[_MatchedObject]]:
        """The objects of each candidate with their matches."""
        parse_table: ParseTable = part.pool.analyse(Parses("caption", context.settings))
        phrases = [_noun_phrases(parse) for parse in parse_table.parses]
        image_objects = load_ground_truth(self.objects).of_images(part.image_ids) if self.objects else {}
        reference_objects = [
            list(
                dict.fromkeys(
                    [name for k in part.references[row].tolist() for phrase in phrases[k] for name in _names(phrase)]
                    + sorted(name.lower() for name in image_objects.get(image_id, ()))
                )
            )
            for row, image_id in enumerate(part.image_ids)
        ]
        candidate_phrases = [list(_distinct(phrases[k])) for k in part.candidates.tolist()]
        texts = dict.fromkeys(
            " ".join(phrase.words) for caption_phrases in candidate_phrases for phrase in caption_phrases
        )
        texts |= dict.fromkeys(name for object_names in reference_objects for name in object_names)
        text_indices = {text: k for k, text in enumerate(texts)}
        encoder_handle = find_encoder(self.encoder)
        layer = load_encoder(encoder_handle, context.settings).layers
        text_vectors: NDArray[np.float32] = SentencePool(tuple(text_indices)).analyse(
            SentenceVectors(encoder_handle, layer, context.settings)
        )
        caption_matches = []
        for caption_phrases, object_names in zip(candidate_phrases, reference_objects, strict=True):
            phrase_vectors = text_vectors[[text_indices[" ".join(phrase.words)] for phrase in caption_phrases]]
            object_vectors = text_vectors[[text_indices[name] for name in object_names]]
            # not a matrix product, in which the last bits of a cosine depend on the other objects
            cosines = np.einsum("cd,rd->cr", phrase_vectors, object_vectors, dtype=np.float64)
            caption_matches.append(_match_objects(caption_phrases, object_names, cosines))
        return caption_matches


def _match_objects(
    objects: Sequence[_NounPhrase], references: Sequence[str], similarity: Floats
) -> list[_MatchedObject]:
    """The one-to-one matching with the largest sum of similarities.

    Args:
        objects: of the candidate.
        references: those of the references.
        similarity: (objects, references).
    """
    from scipy.optimize import linear_sum_assignment

    if not objects or not references:
        return [_MatchedObject(each, 0.0, None) for each in objects]
    matched_columns = dict(
        zip(*(each.tolist() for each in linear_sum_assignment(similarity, maximize=True)), strict=True)
    )
    matches = [_MatchedObject(each, 0.0, None) for each in objects]
    for k, column in matched_columns.items():
        matches[k] = _MatchedObject(objects[k], float(similarity[k, column]), references[column])
    return matches


def _noun_phrases(parse: CaptionParse | None) -> list[_NounPhrase]:
    """The nouns of a caption that modify no other noun, each with the adjectives and nouns before it that modify it."""
    phrases: list[_NounPhrase] = []
    word_offset = 0
    for sentence in parse.sentences if parse is not None else ():
        for k, tag in enumerate(sentence.tags):
            if not tag.startswith("NN") or sentence.labels[k] in _MODIFIERS:
                continue
            phrase_start = k
            while (
                phrase_start
                and sentence.heads[phrase_start - 1] == k + 1
                and sentence.labels[phrase_start - 1] in _MODIFIERS
            ):
                phrase_start -= 1
            words = tuple(word.lower() for word in sentence.words[phrase_start : k + 1])
            phrases.append(
                _NounPhrase(words, sentence.lemmas[k].lower(), word_offset + phrase_start, word_offset + k + 1)
            )
        word_offset += len(sentence.words)
    return phrases


def _names(phrase: _NounPhrase) -> tuple[str, str]:
    """A reference's object as a whole, and its noun."""
    return " ".join(phrase.words), phrase.noun


def _distinct(phrases: Sequence[_NounPhrase]) -> list[_NounPhrase]:
    """Each object once, where it is first named."""
    return list({phrase.words: phrase for phrase in reversed(phrases)}.values())[::-1]


def _tokens(parse: CaptionParse | None) -> tuple[str, ...]:
    return tuple(word for sentence in (parse.sentences if parse is not None else ()) for word in sentence.words)
