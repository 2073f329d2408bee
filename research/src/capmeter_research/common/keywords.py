"""Degradations of a caption's keywords (verbs, nouns, adjectives), with which Lee et al. (2021) train UMIC.

Each keyword is changed with probability γ, independently of the others, and at least one of them; the words changed at
one γ are also changed at every larger one. A caption without a keyword is unchanged.

>>> import numpy as np
>>> words = TaggedVocabulary.collect(["a dog runs", "a cat sleeps", "two birds fly"])
>>> substitute_keywords(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(0), words)
['a', 'cat', 'sleeps']
>>> repeat_or_remove_keywords(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(3))
['a', 'dog', 'dog', 'runs', 'runs']
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.text.parsing.caption_parser import MAX_WORDS, bundled_caption_parser
from capmeter.text.tokenization.ptb import split_as_written
from capmeter.transforms.degradations import Degradation, Degrade, check_strength, reference_texts
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation

_KEYWORD_TAGS = ("V", "N", "J")
_AT_ONCE = 8192


def is_keyword(tag: str) -> bool:
    """Whether a tag is a verb's, a noun's or an adjective's."""
    return tag.startswith(_KEYWORD_TAGS)


def tag_words(sentences: Sequence[str]) -> list[tuple[str, ...]]:
    """The tag of each word of each sentence; words are those of `SentenceWords`, without final punctuation.

    A word that the tokenizer splits (`dog's`) has the tag of its first token.
    """
    sentence_tags: list[tuple[str, ...]] = []
    for batch_start in range(0, len(sentences), _AT_ONCE):
        sentence_tokens = [_tokens(sentence) for sentence in sentences[batch_start : batch_start + _AT_ONCE]]
        token_tags = bundled_caption_parser().tags([[token for token, _ in each] for each in sentence_tokens])
        for sentence, token_pairs, tag_row in zip(sentences[batch_start:], sentence_tokens, token_tags, strict=False):
            first_tags: dict[int, str] = {}
            for (_, word_index), tag in zip(token_pairs, tag_row, strict=True):
                first_tags.setdefault(word_index, tag)
            sentence_tags.append(tuple(first_tags.get(k, "NN") for k in range(len(SentenceWords.split(sentence).core))))
    return sentence_tags


@lru_cache(maxsize=65536)
def tag_sentence(sentence: str) -> tuple[str, ...]:
    """The tags of one sentence's words."""
    return tag_words([sentence])[0]


def _tokens(sentence: str) -> list[tuple[str, int]]:
    """The tokens of the first words of a sentence, each with the number of its word."""
    core_words = SentenceWords.split(sentence).core[:MAX_WORDS]
    return [(token, k) for k, word in enumerate(core_words) for token in split_as_written(word)][:MAX_WORDS]


@dataclass(frozen=True)
class TaggedVocabulary:
    """The verbs, nouns and adjectives of a corpus by tag, in order, with how often each occurs."""

    words: dict[str, tuple[str, ...]]
    counts: dict[str, tuple[int, ...]]

    @classmethod
    def collect(cls, sentences: Iterable[str]) -> TaggedVocabulary:
        """The words of these sentences, in lower case."""
        sentence_texts = list(sentences)
        return cls.count(zip(sentence_texts, tag_words(sentence_texts), strict=True))

    @classmethod
    def count(cls, sentences: Iterable[tuple[str, Sequence[str]]]) -> TaggedVocabulary:
        """The words of sentences whose tags are known."""
        tag_counters: dict[str, Counter[str]] = {}
        for sentence, tags in sentences:
            for word, tag in zip(SentenceWords.split(sentence).core, tags, strict=False):
                if is_keyword(tag) and (plain_word := strip_punctuation(word)):
                    tag_counters.setdefault(tag, Counter())[plain_word] += 1
        words = {tag: tuple(sorted(word_counts)) for tag, word_counts in sorted(tag_counters.items())}
        return cls(words, {tag: tuple(tag_counters[tag][word] for word in of_tag) for tag, of_tag in words.items()})

    @cached_property
    def totals(self) -> dict[str, tuple[int, ...]]:
        """Running totals of the counts of each tag's words."""
        return {tag: tuple(accumulate(word_counts)) for tag, word_counts in self.counts.items()}


def _sample_other_word(vocabulary: TaggedVocabulary, tag: str, fractions: Sequence[float], old: str) -> str | None:
    """A word with this tag, sampled by frequency, that is not the old one; None if the tag has no other."""
    words, sums = vocabulary.words.get(tag, ()), vocabulary.totals.get(tag, ())
    sampled = (words[min(bisect_right(sums, each * sums[-1]), len(words) - 1)] for each in (fractions if words else ()))
    return next((word for word in chain(sampled, words) if word != old), None)


_ATTEMPTS = 4


def choose_keywords(tags: Sequence[str], share: float, random: np.random.Generator) -> list[int]:
    """The positions of the keywords that are changed, at least one if there is a keyword.

    Args:
        tags: part of speech of each word.
        share: the probability of each keyword; 0: none is changed.
        random: of the choice.
    """
    random_fractions = random.random(len(tags)).tolist()
    positions = [k for k, tag in enumerate(tags) if is_keyword(tag)]
    if not positions or share <= 0:
        return []
    return [k for k in positions if random_fractions[k] < share] or [min(positions, key=random_fractions.__getitem__)]


def substitute_keywords(
    words: Sequence[str], tags: Sequence[str], share: float, random: np.random.Generator, vocabulary: TaggedVocabulary
) -> list[str]:
    """Keywords are replaced by other words of the same part of speech, sampled by their frequency.

    Those of which the vocabulary has no other word are not chosen.

    Args:
        words, tags: of the sentence, with their parts of speech.
        share: the probability of each keyword.
        random: of the choice.
        vocabulary: words by part of speech, with their frequencies.
    """
    plain = list(map(strip_punctuation, words))
    replaceable_tags = [
        tag if vocabulary.words.get(tag, ()) not in ((), (word,)) else "" for word, tag in zip(plain, tags, strict=True)
    ]
    chosen_positions = choose_keywords(replaceable_tags, share, random)
    random_fractions = random.random((len(words), _ATTEMPTS)).tolist()
    new_words = list(words)
    for k in chosen_positions:
        new_words[k] = _sample_other_word(vocabulary, tags[k], random_fractions[k], plain[k]) or new_words[k]
    return new_words


def repeat_or_remove_keywords(
    words: Sequence[str], tags: Sequence[str], share: float, random: np.random.Generator
) -> list[str]:
    """Keywords are repeated or dropped, with equal probability; at least one word remains.

    Args:
        words, tags: of the sentence, with their parts of speech.
        share: the probability of each keyword.
        random: of the choice.
    """
    chosen_positions = set(choose_keywords(tags, share, random))
    is_repeated = (random.random(len(words)) < 0.5).tolist()
    repeat_counts = [(2 if is_repeated[k] else 0) if k in chosen_positions else 1 for k in range(len(words))]
    if not any(repeat_counts):
        repeat_counts[0] = 2
    return [word for word, repeat_count in zip(words, repeat_counts, strict=True) for _ in range(repeat_count)]


KeywordChange = Callable[[Sequence[str], Sequence[str], float, np.random.Generator], list[str]]
"""Changes this share of the keywords of a sentence (words, tags), chosen by the random generator."""


class KeywordDegradation(Degradation):
    """A degradation that changes each verb, noun and adjective with probability γ."""

    def fit(self, captions: CaptionSet, seed: int = 0) -> Degrade:
        """The function that degrades these captions."""
        change_keywords = self._change(captions)

        def degrade(row: int, strength: float) -> str:
            check_strength(strength)
            sentence = captions.pool[int(captions.candidates[row])]
            words = SentenceWords.split(sentence)
            if strength == 0 or not words.core:
                return sentence
            return words.sentence(
                change_keywords(words.core, tag_sentence(sentence), strength, self.random(seed, captions.ids[row]))
            )

        return degrade

    @abstractmethod
    def _change(self, captions: CaptionSet) -> KeywordChange:
        """The change itself, prepared for this set."""


@dataclass(frozen=True, kw_only=True)
class PosSubstitution(KeywordDegradation):
    """Keywords become other words of the same part of speech, sampled by their frequency in the references.

    Lee et al. substitute 30 % of the words, by dictionaries from the training captions; parts of speech are those of
    the caption parser's tagger (theirs: NLTK's).
    """

    NAME = "pos-substitution"
    SUMMARY = "keywords are replaced by other words of the same part of speech"

    def _change(self, captions: CaptionSet) -> KeywordChange:
        tagged_vocabulary = TaggedVocabulary.collect(reference_texts(captions))
        if not tagged_vocabulary.words:
            raise InputError("the references have no verb, noun or adjective; give captions with references")
        return partial(substitute_keywords, vocabulary=tagged_vocabulary)


@dataclass(frozen=True, kw_only=True)
class RepetitionRemoval(KeywordDegradation):
    """Keywords are repeated or dropped (Lee et al.: with probability 30 %, either one half of the time)."""

    NAME = "repetition-removal"
    SUMMARY = "keywords are repeated or dropped"

    def _change(self, captions: CaptionSet) -> KeywordChange:
        return repeat_or_remove_keywords
