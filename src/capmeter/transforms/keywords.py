"""Degradations of a caption's keywords (verbs, nouns, adjectives), with which Lee et al. (2021) train UMIC.

Each keyword is changed with probability γ, independently of the others, and at least one of them; the words changed at
one γ are also changed at every larger one. A caption without a keyword is unchanged.

>>> import numpy as np
>>> words = TaggedVocabulary.of(["a dog runs", "a cat sleeps", "two birds fly"])
>>> substitute_keywords(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(0), words)
['a', 'cat', 'sleeps']
>>> repeat_or_remove_keywords(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(3))
['a', 'dog', 'dog', 'runs', 'runs']
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.transforms.degradations import Degradation, Degrade, check_strength, reference_texts
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation
from capmeter.transforms.similarity import Scorer
from capmeter.transforms.tagged_words import TaggedVocabulary, is_keyword, sample_other_word, tag_sentence

_ATTEMPTS = 4


def choose_keywords(tags: Sequence[str], share: float, random: np.random.Generator) -> list[int]:
    """The positions of the keywords that are changed: each with probability `share`, and at least one of them."""
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
    """
    plain = list(map(strip_punctuation, words))
    replaceable_tags = [
        tag if vocabulary.words.get(tag, ()) not in ((), (word,)) else "" for word, tag in zip(plain, tags, strict=True)
    ]
    chosen_positions = choose_keywords(replaceable_tags, share, random)
    random_fractions = random.random((len(words), _ATTEMPTS)).tolist()
    new_words = list(words)
    for k in chosen_positions:
        new_words[k] = sample_other_word(vocabulary, tags[k], random_fractions[k], plain[k]) or new_words[k]
    return new_words


def repeat_or_remove_keywords(
    words: Sequence[str], tags: Sequence[str], share: float, random: np.random.Generator
) -> list[str]:
    """Keywords are repeated or dropped, with equal probability; at least one word remains."""
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

    def fit(self, captions: CaptionSet, seed: int = 0, scorer: Scorer | None = None) -> Degrade:
        """The function that degrades these captions."""
        change_keywords = self._change(captions)

        def degrade(row: int, strength: float) -> str:
            check_strength(strength)
            sentence = captions.pool[int(captions.candidates[row])]
            words = SentenceWords.of(sentence)
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
        tagged_vocabulary = TaggedVocabulary.of(reference_texts(captions))
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
