"""CHAIR (Rohrbach et al. 2018): the share of the objects that captions mention which their images do not show.

A caption mentions objects by words of a list (`synonyms`). With M(c) the mentions of caption c (repeated ones count
again), H(c) those of them whose object the image does not show, and G the image's objects:

    CHAIRi = Σ_c |H(c)| / Σ_c |M(c)|          CHAIRs = number of captions with H(c) ≠ ∅ / number of captions

Both range from 0 to 1; **lower is better**. The score is CHAIRi, or with `level=caption` CHAIRs. Parts: both as
`chair-i` and `chair-s`; `recall` = Σ_c |objects of G that c mentions| / Σ_c |G|; `f1` of 1 − CHAIRi and recall;
`length`, the mean number of words. Without any mention CHAIRi is 0, and without objects recall is 0.

The objects of an image are those that its references mention, and those in `objects`: COCO's instances, or a JSON of
objects by image. The original takes both. Variants differ in how words are brought to their base form:

* `original`: by endings, as Rohrbach's program (pattern.en) does, which never counts "bus" and "ties".
* `opera`, `lmms-eval`: by WordNet and part of speech (Huang et al. 2024), with the tags of the bundled parser.

docs/hallucination.md says which variant to compare with what.

>>> from capmeter.captions.caption_set import Caption
>>> captions = CaptionSet.from_captions([Caption("1", "1", "Two dogs and a cat.", ("a puppy with a kid",))])
>>> Chair(references=True).measure(captions, RunContext()).values.tolist()  # dog is shown, cat is not, person is missed
[[1.0, 2.0, 1.0, 1.0, 2.0, 5.0]]

A. Rohrbach, L. A. Hendricks, K. Burns, T. Darrell, K. Saenko. Object Hallucination in Image Captioning. EMNLP 2018.
Q. Huang et al. OPERA: Alleviating Hallucination in Multi-Modal Large Language Models via Over-Trust Penalty and
Retrospection-Allocation. CVPR 2024.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import AdditiveMetric, Floats, Measurement, RunContext, note_captions
from capmeter.evaluation.evidence import Evidence, Mark
from capmeter.metrics.hallucination.ground_truth import ground_truth_facts, load_ground_truth
from capmeter.metrics.hallucination.object_words import (
    BUNDLED,
    ObjectMention,
    ObjectWords,
    load_object_words,
    singular_form,
)
from capmeter.stats.ratios import f1, ratio
from capmeter.text.tokenization.token_tables import SentenceSource
from capmeter.text.tokenization.treebank import tokenise_caption

BaseForms = Annotated[
    Literal["original", "opera", "lmms-eval"],
    "base forms of words: by endings (original), or by WordNet and tags, as OPERA and lmms-eval do",
]
_SENTENCE_ENDS = frozenset(".!?")


@dataclass(frozen=True, eq=False)
class _MentionTable:
    """Of each sentence its tokens, its mentions of objects, where its last complete sentence ends, and its words."""

    tokens: Sequence[Sequence[str]]
    mentions: Sequence[Sequence[ObjectMention]]
    ends: Sequence[int]  # number of tokens up to the last . ! or ?; 0 without any
    words: Sequence[int]  # number of words


@dataclass(frozen=True)
class _ObjectMentions:
    """Analysis: the objects that each sentence mentions.

    Args:
        object_words: the list of object words.
        base_forms: how words are brought to their base form.
        settings: of the run.
    """

    object_words: ObjectWords
    base_forms: str
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentenceSource) -> _MentionTable:
        """Finds the mentions of every sentence of the pool."""
        tokens = [tokenise_caption(sentence) for sentence in pool.sentences]
        is_original = self.base_forms == "original"
        base_forms = [list(map(singular_form, each)) for each in tokens] if is_original else _tagged_bases(tokens)
        mentions = [self.object_words.find_mentions(each) for each in base_forms]
        words = [count_words(sentence.split()) for sentence in pool.sentences]
        ends = [max((k + 1 for k, token in enumerate(each) if token in _SENTENCE_ENDS), default=0) for each in tokens]
        return _MentionTable(tokens, mentions, ends, words)


def _tagged_bases(tokens: Sequence[Sequence[str]]) -> list[list[str]]:
    """The base forms by WordNet, with the tags of the bundled parser."""
    from capmeter.text.meteor.resources import load_english_synonyms
    from capmeter.text.meteor.synonyms import base_form
    from capmeter.text.parsing.caption_parser import MAX_WORDS, bundled_caption_parser
    from capmeter.text.parsing.network import split_long_sentence
    from capmeter.text.tokenization.ptb import split_sentences

    dictionary = load_english_synonyms()
    sentences = [
        piece
        for caption_tokens in tokens
        for sentence in split_sentences(caption_tokens)
        for piece in split_long_sentence(sentence, MAX_WORDS)
    ]
    word_tags = (tag for parse in bundled_caption_parser().parse_sentences(sentences) for tag in parse.tags)
    base_forms: dict[tuple[str, str], str] = {}

    def base(word: str, tag: str) -> str:
        if (word, tag) not in base_forms:
            base_forms[word, tag] = base_form(word, tag, dictionary)
        return base_forms[word, tag]

    return [[base(word, next(word_tags)) for word in sentence] for sentence in tokens]


def count_words(tokens: Iterable[str]) -> int:
    """The number of those with a letter or digit."""
    return sum(any(map(str.isalnum, token)) for token in tokens)


NO_REFERENCES = "no references: compared with the objects of the file alone"


@dataclass(frozen=True, kw_only=True)
class Chair(AdditiveMetric):
    """Share of mentioned objects that the image does not show.

    Args:
        variant: `original`, `opera` or `lmms-eval`.
        level: `mention` (CHAIRi) or `caption` (CHAIRs).
        objects: file of the images' objects; empty: none.
        references: whether the objects that references mention count as shown.
        synonyms: `bundled`, or a file of object words.
        drop_incomplete_sentence: whether words after the last complete sentence are ignored.
    """

    NAME: ClassVar[str] = "chair"
    SUMMARY: ClassVar[str] = "share of the mentioned objects that the image does not show (lower is better)"
    MICROSECONDS: ClassVar[float] = 100.0
    columns: ClassVar[tuple[str, ...]] = (
        *("hallucinated-captions", "mentions", "hallucinated"),
        *("recalled", "objects", "tokens"),
    )
    FAMILY: ClassVar[str] = "Hallucination"
    MISLEADS: ClassVar[str] = (
        'Sees 80 kinds of object and no attributes, actions or counts; a word in another sense ("orange", "bow") '
        "counts as an object, and long captions mention more. Lower is better."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{CHAIR}_i = \frac{\sum_c |H(c)|}{\sum_c |M(c)|}, \quad \text{CHAIR}_s = \frac{|\{ c : H(c) \neq "
        r"\emptyset \}|}{|\{ c \}|}",
    )

    variant: BaseForms = "original"
    level: Annotated[Literal["mention", "caption"], "the score: CHAIRi (mention) or CHAIRs (caption)"] = "mention"
    objects: Annotated[str, "the images' objects: COCO's instances, or a JSON of objects by image"] = ""
    references: Annotated[bool, "whether objects that the references mention count as shown"] = True
    synonyms: Annotated[str, "the words of the objects: bundled, or a file such as synonyms.txt"] = BUNDLED
    drop_incomplete_sentence: Annotated[bool, "ignore what follows the last complete sentence"] = False

    @property
    def lower_is_better(self) -> bool:
        """Always."""
        return True

    @property
    def needs(self) -> frozenset[str]:
        """References, unless a file has the objects."""
        return frozenset() if self.objects or not self.references else frozenset({"references"})

    @property
    def extras(self) -> tuple[str, ...]:
        """WordNet's dictionary, unless base forms are derived by endings."""
        return () if self.variant == "original" else ("meteor",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """Counts, for each caption, the objects that it mentions and those of them that are not in its image.

        Columns: whether any is hallucinated; mentions; hallucinated mentions; objects of the image that are mentioned;
        objects of the image; words.
        """
        mention_table = self._table(part, context.settings)
        truths = self._truths(part, mention_table)
        count_rows = []
        for candidate, truth in zip(part.candidates.tolist(), truths, strict=True):
            mentions, token_count = self._mentions(mention_table, candidate)
            hallucinated = sum(mention.node not in truth for mention in mentions)
            recalled = len(truth.intersection(mention.node for mention in mentions))
            count_rows.append((hallucinated > 0, len(mentions), hallucinated, recalled, len(truth), token_count))
        notes = {}
        if self.objects and self.references:
            notes = note_captions(part, NO_REFERENCES, part.references.lengths == 0)
        return Measurement(np.array(count_rows, np.float64).reshape(len(part), len(self.columns)), notes)

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """CHAIRi or CHAIRs; then both, recall, F1 and the mean length."""
        captions, mentions, hallucinated, recalled, objects, tokens = np.moveaxis(sums, -1, 0)
        chair_i, chair_s, recall = ratio(hallucinated, mentions), captions / counts, ratio(recalled, objects)
        precision = 1 - chair_i
        return {
            "score": chair_i if self.level == "mention" else chair_s,
            "chair-i": chair_i,
            "chair-s": chair_s,
            "recall": recall,
            "f1": f1(precision, recall),
            "length": tokens / counts,
        }

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The word list and the objects with their hashes; if words are tagged, the tagger and the dictionary."""
        object_words = load_object_words(self.synonyms)
        facts = {"synonyms": f"{object_words.name}/{object_words.digest}"} | ground_truth_facts(
            self.objects, object_words
        )
        if self.variant != "original":
            from capmeter.text.parsing.caption_parser import bundled_caption_parser

            facts |= {"tagger": bundled_caption_parser().version, "dictionary": "meteor-1.5"}
        return facts

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The mentioned objects of each caption, hallucinated or not, and those of its references."""
        mention_table = self._table(part, context.settings)
        truths = self._truths(part, mention_table)
        return [self._evidence(part, caption_index, mention_table, truth) for caption_index, truth in enumerate(truths)]

    def _evidence(
        self, part: CaptionSet, caption_index: int, mention_table: _MentionTable, truth: frozenset[str]
    ) -> Evidence:
        candidate, references = int(part.candidates[caption_index]), part.references[caption_index].tolist()
        mentions, _ = self._mentions(mention_table, candidate)
        marks = [
            Mark("candidate", None, mention.start, mention.end, "object" if mention.node in truth else "hallucinated")
            for mention in mentions
        ]
        for k, reference in enumerate(references if self.references else ()):
            marks += [
                Mark("reference", k, mention.start, mention.end, "object")
                for mention in mention_table.mentions[reference]
            ]
        facts: dict[str, float | str] = {
            "hallucinated": ", ".join(dict.fromkeys(each.node for each in mentions if each.node not in truth))
            or "none",
            "mentions": float(len(mentions)),
            "objects": ", ".join(sorted(truth)) or "none",
        }
        reference_tokens = tuple(tuple(mention_table.tokens[k]) for k in references)
        return Evidence(tuple(mention_table.tokens[candidate]), reference_tokens, marks=tuple(marks), facts=facts)

    def _table(self, part: CaptionSet, settings: Settings) -> _MentionTable:
        object_words = load_object_words(self.synonyms)
        if self.objects:
            object_words = load_ground_truth(self.objects, object_words).words or object_words
        mention_table: _MentionTable = part.pool.analyse(_ObjectMentions(object_words, self.variant, settings))
        return mention_table

    def _mentions(self, mention_table: _MentionTable, sentence: int) -> tuple[Sequence[ObjectMention], int]:
        """The mentions of a candidate and its number of words, without an incomplete sentence if it is dropped."""
        mentions, words = mention_table.mentions[sentence], mention_table.words[sentence]
        if self.drop_incomplete_sentence and (end := mention_table.ends[sentence]):
            mentions = [each for each in mentions if each.end <= end]
            words -= count_words(mention_table.tokens[sentence][end:])
        return mentions, words

    def _truths(self, part: CaptionSet, mention_table: _MentionTable) -> list[frozenset[str]]:
        """The objects that each caption's image shows."""
        truths: list[frozenset[str]] = [frozenset()] * len(part)
        if not self.objects and not self.references:
            raise InputError(
                f"{self.name}: nothing says which objects images show; name their file (objects=FILE, --instances), or "
                "leave references=true"
            )
        if self.objects:
            objects_by_image = load_ground_truth(self.objects, load_object_words(self.synonyms)).of_images(
                part.image_ids
            )
            truths = [objects_by_image[image_id] for image_id in part.image_ids]
        if not self.references:
            return truths
        reference_sets = part.reference_sets
        mentioned_objects = [
            frozenset(
                mention.node for sentence in reference_sets[k].tolist() for mention in mention_table.mentions[sentence]
            )
            for k in range(len(reference_sets))
        ]
        return [
            shown | mentioned_objects[k] for shown, k in zip(truths, part.reference_set_indices.tolist(), strict=True)
        ]
