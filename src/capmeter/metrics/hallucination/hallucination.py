"""Hallucination without a list of objects: which words of a caption no reference supports, and how probably it has any.

For a content word w of the candidate, p(w) is its probability of being right, by the word error tagger of `capmeter`,
and s(w) its support: 1 if a reference has its lemma, its stem or a synonym (a common synset of WordNet), else its
largest cosine with a word of the references (sentence encoder `minilm`). Names of `objects` support words as references
do. The *blame* of a word and the score are

    b(w)  = 1 − s(w) + 1 − p(w) + .3 [w is a noun]
    score = σ(10 (1 − cos) + Σ_w (1 − s(w)) (1 − p(w)) + 3 max over nouns of (1 − s(w)) + .5 max over w with s(w) < 1
            of −ln p(w) − 4)

cos is the cosine of the caption with the mean of its references, in the encoder of `capmeter`. A candidate of several
sentences is read sentence by sentence, each against all sentences of all references; the score is their mean. If the
references are texts of several sentences too, words and pairs of words say more than similarity does:

    score = σ(2 (2 u − m) / R)

u is the number of the candidate's words that no reference has, m that of the distinct pairs of adjacent words that it
shares with a reference, R the mean number of words of a reference.

Range 0 to 1, an estimated probability that a caption hallucinates; **lower is better**. The corpus score is the mean.
Parts: `unsupported`, the share of content words with p(w) < .5 that no reference supports. Nothing was trained for this
metric; its constants were chosen on captions of HAT and nocaps-FOIL (docs/hallucination.md). English only.

`explain` marks unsupported words, and contradicted ones with the word of the reference that they contradict.

S. Petryk et al. ALOHa: A New Measure for Hallucination in Captioning Models. NAACL 2024 (the task and two benchmarks).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet, SentencePool
from capmeter.core.settings import Settings
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence, Mark
from capmeter.judgments.prepared import letters_and_digits
from capmeter.metrics.hallucination.ground_truth import ground_truth_facts, load_ground_truth
from capmeter.metrics.learned.capmeter.capmeter import Capmeter
from capmeter.metrics.learned.capmeter.words import bare_word
from capmeter.metrics.notes import note_captions
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.stop_words import STOP_WORDS

MAX_REFERENCE_SENTENCES = 50
_ENCODER = "minilm"
_OFFSET, _SENTENCE, _WORDS, _NOUN, _SURPRISE = -4.0, 10.0, 1.0, 3.0, 0.5
_NOUN_BLAME = 0.3
_LEAST = 1e-3  # probability of being right; a tagger is never surer
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Word:
    """A content word: its place among the words of its sentence, its base form, its stem, whether it is a noun."""

    place: int
    lemma: str
    stem: str
    is_noun: bool


@dataclass(frozen=True)
class SentenceFindings:
    """What is known of one sentence of a candidate.

    Attributes:
        tokens: its words as written.
        words: its content words.
        support: of each content word, 0 to 1.
        right: of each content word its probability of being right.
        cosine: of the sentence with the mean of the reference sentences.
        evidence: the tagger's.
    """

    tokens: Sequence[str]
    words: Sequence[Word]
    support: Floats
    right: Floats
    cosine: float
    evidence: Evidence

    @property
    def blame(self) -> Floats:
        """b of each content word."""
        nouns = np.array([word.is_noun for word in self.words], np.float64)
        return (1 - self.support) + (1 - self.right) + _NOUN_BLAME * nouns

    @property
    def logit(self) -> float:
        """The score before σ."""
        lack, doubt = 1 - self.support, 1 - self.right
        nouns = [value for value, word in zip(lack.tolist(), self.words, strict=True) if word.is_noun]
        surprise = -np.log(np.maximum(self.right, _LEAST)) * (self.support < 1)
        return (
            _OFFSET
            + _SENTENCE * (1 - self.cosine)
            + _WORDS * float((lack * doubt).sum())
            + _NOUN * max(nouns, default=0.0)
            + _SURPRISE * float(surprise.max(initial=0.0))
        )

    @property
    def unsupported(self) -> NDArray[np.bool_]:
        """Which content words are both doubted by the tagger and without support."""
        return (self.right < 0.5) & (self.support < 1)


@dataclass(frozen=True, kw_only=True)
class Hallucination(MeanMetric):
    """Probability that a caption says something that no reference supports.

    Args:
        objects: file of the images' objects, whose names support words as references do; empty: none.
    """

    NAME: ClassVar[str] = "hallucination"
    SUMMARY: ClassVar[str] = "probability that a caption says what no reference supports (lower is better)"
    EXTRA: ClassVar[str | None] = "meteor,neural"
    PART_SIZE: ClassVar[int] = 512
    columns: ClassVar[tuple[str, ...]] = ("score", "unsupported")

    objects: Annotated[str, "further objects of the images: COCO's instances, or a JSON of objects by image"] = ""

    def with_objects(self, path: str) -> Hallucination:
        """The same with the objects in this file."""
        return replace(self, objects=path)

    @property
    def lower_is_better(self) -> bool:
        """Always."""
        return True

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score and the share of unsupported words of each caption; 0 and 0 for one without a word."""
        findings = find_errors(part, context, self.objects)
        rows = [self._row(sentences, caption) for sentences, caption in zip(findings, part, strict=True)]
        notes = note_captions(
            part, f"only the first {MAX_REFERENCE_SENTENCES} reference sentences are read", _too_many_references(part)
        )
        return Measurement(np.array(rows, np.float64).reshape(len(part), len(self.columns)), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The networks, the parser and the dictionary."""
        facts = Capmeter().signature_facts(context)
        facts |= {"parser": bundled_caption_parser().version, "synonyms": "meteor-1.5", "words": _ENCODER}
        return facts | ground_truth_facts(self.objects)

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Unsupported and contradicted words of each caption; word scores are 1 − b(w), 1 for other words."""
        return [
            _caption_evidence(sentences, caption, self._row(sentences, caption))
            for sentences, caption in zip(find_errors(part, context, self.objects), part, strict=True)
        ]

    def _row(self, sentences: Sequence[SentenceFindings], caption: Caption) -> list[float]:
        if not sentences:
            return [0.0, 0.0]
        logits = [sentence.logit for sentence in sentences]
        if len(sentences) > 1 and all(len(split_text(reference)) > 1 for reference in caption.references):
            logits = [document_logit(caption.candidate, caption.references)]
        flags = np.concatenate([sentence.unsupported for sentence in sentences])
        score = float(np.mean(1 / (1 + np.exp(-np.array(logits)))))
        return [score, float(flags.mean()) if len(flags) else 0.0]


def split_text(text: str) -> list[str]:
    """The sentences of a text, as written; those without a letter or digit are left out.

    >>> split_text("A dog runs. It is wet!  ...")
    ['A dog runs.', 'It is wet!']
    """
    return [each.strip() for each in _SENTENCE_END.split(text) if any(map(str.isalnum, each))]


def document_logit(candidate: str, references: Sequence[str]) -> float:
    """2 (2 u − m) / R of texts of several sentences.

    >>> document_logit("a dog runs", ["a dog sits"])  # u = 1 (runs), m = 1 (a dog), R = 3
    0.6666666666666666
    """
    words = _words(candidate)
    texts = [_words(reference) for reference in references]
    known_words = {word for text in texts for word in text}
    known_pairs = {pair for text in texts for pair in pairwise(text)}
    unknown = sum(word not in known_words for word in words)
    shared = len(set(pairwise(words)) & known_pairs)
    length = sum(map(len, texts)) / max(len(texts), 1)
    return 2 * (2 * unknown - shared) / max(length, 1)


def _words(text: str) -> list[str]:
    """The letters and digits of each word in lower case; words without any are left out."""
    return [word for word in map(letters_and_digits, text.split()) if word]


def find_errors(part: CaptionSet, context: RunContext, objects: str = "") -> list[list[SentenceFindings]]:
    """For each caption the findings about each of its sentences.

    Args:
        part: the captions.
        context: of the run.
        objects: file of the images' objects, whose names support words as references do; empty: none.

    Raises:
        InputError: the file cannot be read, or lacks an image.
    """
    shown = load_ground_truth(objects).of_images(part.image_ids) if objects else {}
    references = {
        row: tuple(chain.from_iterable(map(split_text, caption.references)))[:MAX_REFERENCE_SENTENCES]
        for row, caption in enumerate(part)
    }
    sentences = [
        Caption(f"{row}/{k}", caption.image_id, text, references[row])
        for row, caption in enumerate(part)
        for k, text in enumerate(split_text(caption.candidate))
    ]
    findings: list[list[SentenceFindings]] = [[] for _ in range(len(part))]
    if not sentences:
        return findings
    tagger, captions = Capmeter(), CaptionSet.from_captions(sentences)
    evidence = [each for chunk in captions.chunks(tagger.PART_SIZE) for each in tagger.explain(chunk, context)]
    cosines = tagger.component_logits(captions, context)["cosine"].tolist()
    names = {image_id: sorted(each) for image_id, each in shown.items()}
    texts = [text for each in sentences for text in (each.candidate, *each.references)]
    texts += [name for each in names.values() for name in each]
    support = WordSupport.of(texts, context.settings)
    for sentence, tagged, cosine in zip(sentences, evidence, cosines, strict=True):
        words = support.words[sentence.candidate]
        supporting = [*sentence.references, *names.get(sentence.image_id, ())]
        right = np.array([tagged.word_scores[word.place] for word in words], np.float64)
        row = int(sentence.id.partition("/")[0])
        findings[row].append(
            SentenceFindings(tagged.candidate, words, support.of_words(words, supporting), right, cosine, tagged)
        )
    return findings


@dataclass(frozen=True, eq=False)
class WordSupport:
    """The content words of some sentences, and how much references support them.

    words: of each sentence its content words.
    vectors: the unit vector of each lemma.
    """

    words: dict[str, list[Word]]
    vectors: dict[str, NDArray[np.float32]]

    @classmethod
    def of(cls, sentences: Sequence[str], settings: Settings) -> WordSupport:
        """Analyses these sentences."""
        distinct = list(dict.fromkeys(sentences))
        words = dict(zip(distinct, content_words(distinct), strict=True))
        lemmas = sorted({word.lemma for each in words.values() for word in each})
        encoder = find_encoder(_ENCODER)
        layer = load_encoder(encoder, settings).layers
        vectors = SentencePool(tuple(lemmas)).analyse(SentenceVectors(encoder, layer, settings))
        return cls(words, dict(zip(lemmas, vectors, strict=True)))

    def of_words(self, words: Sequence[Word], references: Sequence[str]) -> Floats:
        """s of each word against these reference sentences."""
        others = [word for reference in references for word in self.words[reference]]
        if not others or not words:
            return np.zeros(len(words))
        stems = {word.stem for word in others} | {word.lemma for word in others}
        synsets = frozenset().union(*(_synsets(word.lemma) for word in others))
        lemmas = list({word.lemma for word in others})
        cosine = np.stack([self.vectors[word.lemma] for word in words]) @ np.stack([self.vectors[k] for k in lemmas]).T
        support: Floats = np.clip(cosine.max(axis=1).astype(np.float64), 0, 1)
        for k, word in enumerate(words):
            if {word.stem, word.lemma} & stems or _synsets(word.lemma) & synsets:
                support[k] = 1.0
        return support


def content_words(sentences: Sequence[str]) -> list[list[Word]]:
    """The words of each sentence that are not stop words, with base forms by the bundled parser's tags."""
    parser = bundled_caption_parser()
    bare = [[(k, bare_word(word)) for k, word in enumerate(sentence.split())] for sentence in sentences]
    words = [[(k, word.removesuffix("'s")) for k, word in each if word] for each in bare]
    tags = iter(parser.tags([[word for _, word in each] for each in words if each]))
    return [
        [
            Word(k, parser.lemmas.lemma(word, tag).lower(), stem(word), tag.startswith("NN"))
            for (k, word), tag in zip(each, next(tags), strict=True)
            if word not in STOP_WORDS
        ]
        if each
        else []
        for each in words
    ]


@lru_cache(maxsize=1 << 16)
def _synsets(word: str) -> frozenset[int]:
    return load_english_synonyms().synsets(word)


def _too_many_references(part: CaptionSet) -> NDArray[np.bool_]:
    counts = [sum(len(split_text(text)) for text in caption.references) for caption in part]
    return np.array(counts) > MAX_REFERENCE_SENTENCES


def _caption_evidence(sentences: Sequence[SentenceFindings], caption: Caption, row: Sequence[float]) -> Evidence:
    """The sentences' evidence as that of one caption: words, marks and 1 − b(w)."""
    tokens: list[str] = []
    marks: list[Mark] = []
    scores: list[float] = []
    contradictions: list[str] = []
    for sentence in sentences:
        start = len(tokens)
        blame = dict(zip((word.place for word in sentence.words), sentence.blame.tolist(), strict=True))
        scores += [1 - blame.get(place, 0.0) for place in range(len(sentence.tokens))]
        wrong = {word.place for word, flag in zip(sentence.words, sentence.unsupported, strict=True) if flag}
        contradicted = {
            mark.start for mark in sentence.evidence.marks if mark.side == "candidate" and mark.kind == "contradicted"
        }
        for place in sorted(wrong | contradicted):
            kind = "contradicted" if place in contradicted else "unsupported"
            marks.append(Mark("candidate", None, start + place, start + place + 1, kind))
        if summary := sentence.evidence.facts.get("contradicted"):
            contradictions.append(str(summary))
        tokens += sentence.tokens
    facts: dict[str, float | str] = {"score": row[0], "unsupported": row[1]}
    if contradictions:
        facts["contradicted"] = "; ".join(contradictions)
    references = tuple(tuple(reference.split()) for reference in caption.references)
    return Evidence(tuple(tokens), references, marks=tuple(marks), facts=facts, word_scores=tuple(scores))
