"""Content words of captions: which of them other texts name, and what a caption misses that its references agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from capmeter.metrics.learned.capmeter.words import bare_word
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.scene_graphs.capture_stop_words import CAPTURE_STOP_WORDS
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.stop_words import STOP_WORDS


@dataclass(frozen=True)
class Word:
    """A content word: its place among the words of its sentence, its base form, its stem, and whether it names a thing.

    Nouns name things, except those that describe the picture or a place in it (`capture_stop_words`).
    """

    place: int
    lemma: str
    stem: str
    names_thing: bool


@dataclass(frozen=True)
class ContentVocabulary:
    """The content words of some texts: their lemmas and stems, and the synsets of their lemmas."""

    forms: frozenset[str]
    synsets: frozenset[int]

    @classmethod
    def of(cls, words: Iterable[Word]) -> ContentVocabulary:
        """The vocabulary of these words."""
        words = list(words)
        forms = frozenset(form for word in words for form in (word.lemma, word.stem))
        return cls(forms, frozenset().union(*(_synsets(word.lemma) for word in words)))

    def names(self, word: Word) -> bool:
        """Whether it has the word's lemma, its stem or a synonym (a common synset of WordNet)."""
        return bool({word.lemma, word.stem} & self.forms or _synsets(word.lemma) & self.synsets)


def missing_agreement(candidate: ContentVocabulary, references: Sequence[Sequence[Word]]) -> float:
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
