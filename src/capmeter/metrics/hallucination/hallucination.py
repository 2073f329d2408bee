"""Hallucination of any kind of word: how probably a caption says what no reference supports, and which words.

For a content word w of the candidate, p(w) is its probability of being right, by the word error tagger of `capmeter`,
and c(w) its largest cosine with a word of the references (states in the sentence, by the encoder of `capmeter`; the
smallest of its word pieces). With the *error* of a word

    t(w) = φ(w) (4 (1 − c(w)) − ln p(w))        φ(w) = 1 for a noun that names a thing, .5 for any other word

the score is a logistic regression on three quantities:

    score = σ(6 (1 − cos) + .53 max t(w) + .4 m − 3.1)

cos is the cosine of the caption with the mean of its references, in the same encoder. m is the agreement on what the
caption misses: of the things that the candidate does not name (by its lemma, stem or a synonym, a common synset of
WordNet) the largest share of the other references that name it as well, 0 for one reference. Nouns that name no thing,
such as *background* or *view*, are those of `capture_stop_words`. A word that names one of `objects` has t(w) = 0.

The words of a candidate of several sentences are read sentence by sentence, each against all sentences of all
references; max t(w) is the mean over its sentences. If the references are texts of several sentences too, words and
pairs of words say more than similarity does:

    score = σ(2 (2 u − v) / R)

u is the number of the candidate's words that no reference has and that name none of `objects`, v that of the distinct
pairs of adjacent words that it shares with a reference, R the mean number of words of a reference.

Range 0 to 1, the probability that a caption hallucinates, where as many captions do as do not; **lower is better**. The
corpus score is the mean. Parts: `unsupported`, the share of content words with p(w) < .5 that no reference names.
The regression was fitted on captions of photos outside all benchmarks, half of them right, the others with an
exchanged word or of another photo; the terms and the 4 and the .5 of t were chosen on benchmarks
(docs/hallucination.md). English only.

`explain` marks unsupported words, and contradicted ones with the word of the reference that they contradict.

S. Petryk et al. ALOHa: A New Measure for Hallucination in Captioning Models. NAACL 2024 (the task and two benchmarks).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_captions
from capmeter.evaluation.evidence import Evidence, Mark
from capmeter.metrics.hallucination.ground_truth import ground_truth_facts, load_ground_truth
from capmeter.metrics.own.capmeter import Capmeter, SentenceReading, word_verdicts
from capmeter.text.concepts import CAPTURE_STOP_WORDS, STOP_WORDS
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.token_tables import bare_word, keep_letters_and_digits


@dataclass(frozen=True)
class Word:
    """A content word: its place among the words of its sentence, its base form, its stem, and whether it names a thing.

    Nouns name things, except those that describe the picture or a place in it (`CAPTURE_STOP_WORDS`).
    """

    place: int
    lemma: str
    stem: str
    names_thing: bool


@dataclass(frozen=True)
class _ContentVocabulary:
    """The content words of some texts: their lemmas and stems, and the synsets of their lemmas."""

    forms: frozenset[str]
    synsets: frozenset[int]

    @classmethod
    def from_words(cls, words: Iterable[Word]) -> _ContentVocabulary:
        """The vocabulary of these words."""
        words = list(words)
        forms = frozenset(form for word in words for form in (word.lemma, word.stem))
        return cls(forms, frozenset().union(*(_synsets(word.lemma) for word in words)))

    def names(self, word: Word) -> bool:
        """Whether it has the word's lemma, its stem or a synonym (a common synset of WordNet)."""
        return bool({word.lemma, word.stem} & self.forms or _synsets(word.lemma) & self.synsets)


def _missing_agreement(candidate: _ContentVocabulary, references: Sequence[Sequence[Word]]) -> float:
    """m: (k − 1) / (n − 1), where k of the n references name the thing that most name and the candidate does not.

    0 if the candidate names all things, or for a single reference.
    """
    if len(references) < 2:
        return 0.0
    reference_things = {word.lemma for words in references for word in words if word.names_thing}
    named_lemmas = {word.lemma for words in references for word in words if candidate.names(word)}
    reference_counts = Counter(lemma for words in references for lemma in {word.lemma for word in words})
    max_count = max((reference_counts[lemma] for lemma in reference_things - named_lemmas), default=1)
    return (max_count - 1) / (len(references) - 1)


def content_words(sentences: Sequence[str]) -> list[list[Word]]:
    """The words of each sentence that are not stop words, with base forms by the bundled parser's tags."""
    parser = bundled_caption_parser()
    bare = [[(k, bare_word(word)) for k, word in enumerate(sentence.split())] for sentence in sentences]
    words = [[(k, word.removesuffix("'s").removesuffix("\u2019s")) for k, word in each if word] for each in bare]
    tag_sequences = iter(parser.tags([[word for _, word in each] for each in words if each]))

    def read(place: int, word: str, tag: str) -> Word:
        lemma = parser.lemmas.lemma(word, tag).lower()
        return Word(place, lemma, stem(word), tag.startswith("NN") and lemma not in CAPTURE_STOP_WORDS)

    return [
        [read(k, word, tag) for (k, word), tag in zip(each, next(tag_sequences), strict=True) if word not in STOP_WORDS]
        if each
        else []
        for each in words
    ]


@lru_cache(maxsize=1 << 16)
def _synsets(word: str) -> frozenset[int]:
    return load_english_synonyms().synsets(word)


WEIGHTS = (6.0, 0.53, 0.4, -3.1)
"""Of 1 − cos, max t and m, and the offset."""
_DISTANCE, _NOT_A_THING = 4.0, 0.5
_LEAST = 1e-3  # probability of being right; a tagger is never surer


@dataclass(frozen=True)
class _SentenceFindings:
    """What is known of one sentence of a candidate.

    Attributes:
        words: its content words.
        reading: what the networks say of all of its words.
        named: whether a reference or an object names each content word.
        shown: whether an object does.
    """

    words: Sequence[Word]
    reading: SentenceReading
    named: NDArray[np.bool_]
    shown: NDArray[np.bool_]

    @property
    def right(self) -> Floats:
        """Of each content word its probability of being right."""
        return np.array(self.reading.right, np.float64)[[word.place for word in self.words]]

    @property
    def nearest(self) -> Floats:
        """Of each content word its largest cosine with a word of the references."""
        return np.array(self.reading.nearest, np.float64)[[word.place for word in self.words]]

    @property
    def word_errors(self) -> Floats:
        """t of each content word."""
        word_factors = np.array([1.0 if word.names_thing else _NOT_A_THING for word in self.words])
        scaled_errors = word_factors * (_DISTANCE * (1 - self.nearest) - np.log(np.maximum(self.right, _LEAST)))
        return np.where(self.shown, 0.0, scaled_errors)

    @property
    def unsupported(self) -> NDArray[np.bool_]:
        """Which content words are doubted by the tagger and named by no reference and no object."""
        return (self.right < 0.5) & ~self.named


@dataclass(frozen=True)
class CaptionFindings:
    """What is known of a candidate.

    Attributes:
        sentences: its sentences; none if it has no word.
        cosine: with the mean of the references' sentences; 0 for a document.
        missing: m.
        document: whether it and all references are texts of several sentences, which are judged by their words.
    """

    sentences: Sequence[_SentenceFindings]
    cosine: float
    missing: float
    document: bool = False

    @property
    def shown_words(self) -> set[str]:
        """The words that name an object, as letters and digits."""
        return {
            keep_letters_and_digits(sentence.reading.verdicts.candidate[word.place])
            for sentence in self.sentences
            for word, shown in zip(sentence.words, sentence.shown.tolist(), strict=True)
            if shown
        }

    @property
    def quantities(self) -> tuple[float, float, float]:
        """What the regression reads: 1 − cos, max t as the mean over sentences, and m."""
        worst_errors = [float(sentence.word_errors.max(initial=0.0)) for sentence in self.sentences]
        mean_error = sum(worst_errors) / max(len(worst_errors), 1)
        return 1 - self.cosine, mean_error, self.missing

    @property
    def logit(self) -> float:
        """The score before σ."""
        *quantity_weights, offset = WEIGHTS
        terms = (weight * quantity for weight, quantity in zip(quantity_weights, self.quantities, strict=True))
        return sum(terms) + offset


MAX_REFERENCE_SENTENCES = 50
_CAPTIONS_AT_ONCE = 128  # the states of all words of their references, up to 50 sentences each, are in memory
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


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
    FAMILY: ClassVar[str] = "Hallucination"
    MISLEADS: ClassVar[str] = (
        "Reads the references alone: what the image shows and no reference says counts as unsupported. Its "
        "encoders may have seen captions of photos of HAT."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sigma \left( 10 (1 - \cos) + \sum_w (1 - s(w)) (1 - p(w)) + 3 \max_{\text{nouns}} (1 - "
        r"s(w)) - \frac{1}{2} \min_{s(w) < 1} \ln p(w) - 4 \right)",
    )

    objects: Annotated[str, "further objects of the images: COCO's instances, or a JSON of objects by image"] = ""

    @property
    def lower_is_better(self) -> bool:
        """Always."""
        return True

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score and the share of unsupported words of each caption; 0 and 0 for one without a word."""
        findings = find_errors(part, context, self.objects)
        score_rows = [self._row(each, caption) for each, caption in zip(findings, part, strict=True)]
        sentence_counts = [sum(len(split_text(text)) for text in caption.references) for caption in part]
        is_long = np.array(sentence_counts) > MAX_REFERENCE_SENTENCES
        notes = note_captions(part, f"only the first {MAX_REFERENCE_SENTENCES} reference sentences are read", is_long)
        return Measurement(np.array(score_rows, np.float64).reshape(len(part), len(self.columns)), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The networks, the parser and the dictionary."""
        facts = Capmeter().signature_facts(context)
        facts |= {"parser": bundled_caption_parser().version, "synonyms": "meteor-1.5"}
        return facts | ground_truth_facts(self.objects)

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Unsupported and contradicted words of each caption; word scores are exp(−t(w)), 1 for other words."""
        return [
            _caption_evidence(findings, caption, self._row(findings, caption))
            for findings, caption in zip(find_errors(part, context, self.objects), part, strict=True)
        ]

    def _row(self, findings: CaptionFindings, caption: Caption) -> list[float]:
        if not findings.sentences:
            return [0.0, 0.0]
        logit = findings.logit
        if findings.document:
            logit = _document_logit(caption.candidate, caption.references, findings.shown_words)
        unsupported_flags = np.concatenate([sentence.unsupported for sentence in findings.sentences])
        return [float(1 / (1 + np.exp(-logit))), float(unsupported_flags.mean()) if len(unsupported_flags) else 0.0]


def split_text(text: str) -> list[str]:
    """The sentences of a text, as written; those without a letter or digit are left out.

    >>> split_text("A dog runs. It is wet!  ...")
    ['A dog runs.', 'It is wet!']
    """
    return [each.strip() for each in _SENTENCE_END.split(text) if any(map(str.isalnum, each))]


def is_document(caption: Caption) -> bool:
    """Whether the candidate and all references are texts of several sentences."""
    return all(len(split_text(text)) > 1 for text in (caption.candidate, *caption.references))


def _document_logit(candidate: str, references: Sequence[str], shown: Collection[str] = ()) -> float:
    """2 (2 u − v) / R of texts of several sentences.

    Args:
        candidate, references: the texts.
        shown: words that name an object, as letters and digits in lower case.

    >>> _document_logit("a dog runs", ["a dog sits"])  # u = 1 (runs), v = 1 (a dog), R = 3
    0.6666666666666666
    """
    candidate_words = _words(candidate)
    reference_words = [_words(reference) for reference in references]
    known_words = {*shown, *chain.from_iterable(reference_words)}
    known_pairs = {pair for text in reference_words for pair in pairwise(text)}
    unknown_count = sum(word not in known_words for word in candidate_words)
    shared_count = len(set(pairwise(candidate_words)) & known_pairs)
    mean_length = sum(map(len, reference_words)) / max(len(reference_words), 1)
    return 2 * (2 * unknown_count - shared_count) / max(mean_length, 1)


def _words(text: str) -> list[str]:
    """The letters and digits of each word in lower case; words without any are left out."""
    return [word for word in map(keep_letters_and_digits, text.split()) if word]


def find_errors(part: CaptionSet, context: RunContext, objects: str = "") -> list[CaptionFindings]:
    """The findings about each caption.

    Args:
        part: the captions.
        context: of the run.
        objects: file of the images' objects, whose names support words as references do; empty: none.

    Raises:
        InputError: the file cannot be read, or lacks an image.
    """
    image_objects = load_ground_truth(objects).of_images(part.image_ids) if objects else {}
    captions = []  # with the sentences of their references in their place, as many as are read
    for caption in part:
        sentences_read = tuple(chain.from_iterable(map(split_text, caption.references)))[:MAX_REFERENCE_SENTENCES]
        captions.append(replace(caption, references=sentences_read or caption.references))
    object_names = {image_id: tuple(sorted(each)) for image_id, each in image_objects.items()}
    caption_texts = ((*split_text(each.candidate), *each.references) for each in captions)
    texts = list(dict.fromkeys(chain.from_iterable((*caption_texts, *object_names.values()))))
    text_words = dict(zip(texts, content_words(texts), strict=True))
    findings = [CaptionFindings((), 0.0, 0.0)] * len(part)
    documents = list(map(is_document, part))
    for caption_index, sentences, cosine in _read_captions(captions, documents, context):
        caption = captions[caption_index]
        reference_words = [text_words[text] for text in caption.references]
        objects_shown = [text_words[name] for name in object_names.get(caption.image_id, ())]
        sentence_findings = []
        for sentence in sentences:
            words = text_words[sentence.text]
            is_shown = _named(words, objects_shown)
            is_named = _named(words, reference_words) | is_shown
            sentence_findings.append(_SentenceFindings(words, sentence, is_named, is_shown))
        findings[caption_index] = CaptionFindings(
            sentence_findings,
            cosine,
            _missing(part[caption.id], caption.references, text_words),
            documents[caption_index],
        )
    return findings


def _read_captions(
    captions: Sequence[Caption], documents: Sequence[bool], context: RunContext
) -> Iterator[tuple[int, list[SentenceReading], float]]:
    """Of each caption with a word its row, its sentences, and its cosine with the mean of its references, 0 for a
    document.
    """
    caption_sentences = [split_text(caption.candidate) for caption in captions]
    rows = [row for row, sentences in enumerate(caption_sentences) if sentences]
    for block_start in range(0, len(rows), _CAPTIONS_AT_ONCE):
        block = rows[block_start : block_start + _CAPTIONS_AT_ONCE]
        sentences = [
            replace(captions[row], id=f"{row}/{k}", candidate=text)
            for row in block
            for k, text in enumerate(caption_sentences[row])
        ]
        short_rows = [row for row in block if not documents[row]]
        short_captions = [replace(captions[row], id=str(row)) for row in short_rows]
        readings, short_cosines = word_verdicts(sentences, short_captions, context.settings)
        cosines, remaining = dict(zip(short_rows, short_cosines, strict=True)), iter(readings)
        for row in block:
            yield row, list(islice(remaining, len(caption_sentences[row]))), cosines.get(row, 0.0)


def _named(words: Sequence[Word], named_texts: Sequence[Sequence[Word]]) -> NDArray[np.bool_]:
    """Whether one of the texts names each word."""
    vocabulary = _ContentVocabulary.from_words(chain.from_iterable(named_texts))
    return np.array([vocabulary.names(word) for word in words], np.bool_)


def _missing(caption: Caption, reference_sentences: Sequence[str], text_words: dict[str, list[Word]]) -> float:
    """m of a caption; only these sentences of its references are read."""
    candidate = _ContentVocabulary.from_words(
        word for text in split_text(caption.candidate) for word in text_words[text]
    )
    read_sentences = set(reference_sentences)
    reference_texts = (
        [text for text in split_text(reference) if text in read_sentences] for reference in caption.references
    )
    return _missing_agreement(
        candidate, [[word for text in each for word in text_words[text]] for each in reference_texts if each]
    )


def _caption_evidence(findings: CaptionFindings, caption: Caption, caption_scores: Sequence[float]) -> Evidence:
    """The sentences' evidence as that of one caption: words, marks and exp(−t(w))."""
    tokens: list[str] = []
    marks: list[Mark] = []
    word_scores: list[float] = []
    contradictions: list[str] = []
    for sentence in findings.sentences:
        sentence_start = len(tokens)
        word_scores_by_place = dict(
            zip((word.place for word in sentence.words), np.exp(-sentence.word_errors).tolist(), strict=True)
        )
        word_scores += [
            word_scores_by_place.get(word_place, 1.0) for word_place in range(len(sentence.reading.verdicts.candidate))
        ]
        unsupported_places = {
            word.place for word, flag in zip(sentence.words, sentence.unsupported, strict=True) if flag
        }
        contradicted_places = {contradicted_word.word for contradicted_word in sentence.reading.verdicts.contradicted}
        for word_place in sorted(unsupported_places | contradicted_places):
            mark_kind = "contradicted" if word_place in contradicted_places else "unsupported"
            marks.append(
                Mark("candidate", None, sentence_start + word_place, sentence_start + word_place + 1, mark_kind)
            )
        if summary := sentence.reading.verdicts.summary().get("contradicted"):
            contradictions.append(str(summary))
        tokens += sentence.reading.verdicts.candidate
    facts: dict[str, float | str] = {"score": caption_scores[0], "unsupported": caption_scores[1]}
    if contradictions:
        facts["contradicted"] = "; ".join(contradictions)
    references = tuple(tuple(reference.split()) for reference in caption.references)
    return Evidence(tuple(tokens), references, marks=tuple(marks), facts=facts, word_scores=tuple(word_scores))
