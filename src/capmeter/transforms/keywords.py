"""Degradations of a caption's keywords (verbs, nouns, adjectives), with which Lee et al. (2021) train UMIC.

Each keyword is changed with probability γ, independently of the others, and at least one of them; the words changed at
one γ are also changed at every larger one. A caption without a keyword is unchanged.

>>> import numpy as np
>>> words = TaggedVocabulary.of(["a dog runs", "a cat sleeps", "two birds fly"])
>>> substituted(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(0), words)
['a', 'cat', 'sleeps']
>>> repeated_or_removed(("a", "dog", "runs"), ("DT", "NN", "VBZ"), 1.0, np.random.default_rng(3))
['a', 'dog', 'dog', 'runs', 'runs']
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.transforms.degradations import Degradation, Degrade
from capmeter.transforms.perturbations import SentenceWords, bare
from capmeter.transforms.similarity import Scorer
from capmeter.transforms.tagged_words import TaggedVocabulary, is_keyword, other_word, tags_of

_TRIES = 4


def chosen_keywords(tags: Sequence[str], share: float, random: np.random.Generator) -> list[int]:
    """The places of the keywords that are changed: each with probability `share`, and at least one of them."""
    drawn = random.random(len(tags)).tolist()
    places = [place for place, tag in enumerate(tags) if is_keyword(tag)]
    if not places or share <= 0:
        return []
    return [place for place in places if drawn[place] < share] or [min(places, key=drawn.__getitem__)]


def substituted(
    words: Sequence[str], tags: Sequence[str], share: float, random: np.random.Generator, vocabulary: TaggedVocabulary
) -> list[str]:
    """Keywords are replaced by other words of the same part of speech, drawn by their frequency.

    Those of which the vocabulary has no other word are not chosen.
    """
    others = [vocabulary.words.get(tag, ()) not in ((), (bare(word),)) for word, tag in zip(words, tags, strict=True)]
    known = [tag if there else "" for tag, there in zip(tags, others, strict=True)]
    places = chosen_keywords(known, share, random)
    drawn = random.random((len(words), _TRIES)).tolist()
    result = list(words)
    for place in places:
        found = other_word(vocabulary, tags[place], drawn[place], bare(words[place]))
        result[place] = result[place] if found is None else found
    return result


def repeated_or_removed(
    words: Sequence[str], tags: Sequence[str], share: float, random: np.random.Generator
) -> list[str]:
    """Keywords are said twice or left out, with equal probability; at least one word remains."""
    places = set(chosen_keywords(tags, share, random))
    twice = (random.random(len(words)) < 0.5).tolist()
    times = [(2 if twice[place] else 0) if place in places else 1 for place in range(len(words))]
    if not any(times):
        times[0] = 2
    return [word for word, number in zip(words, times, strict=True) for _ in range(number)]


class KeywordDegradation(Degradation):
    """A degradation that changes each verb, noun and adjective with probability γ."""

    def fitted(self, captions: CaptionSet, seed: int = 0, scorer: Scorer | None = None) -> Degrade:
        """The function that degrades these captions."""
        change = self._change(captions)

        def degrade(row: int, strength: float) -> str:
            if not 0 <= strength <= 1:
                raise InputError(f"expected a strength from 0 (unchanged) to 1 (strongest), but got {strength}")
            sentence = captions.pool[int(captions.candidates[row])]
            words = SentenceWords.of(sentence)
            if strength == 0 or not words.core:
                return sentence
            return words.sentence(change(words.core, tags_of(sentence), strength, self.random(seed, captions.ids[row])))

        return degrade

    @abstractmethod
    def _change(
        self, captions: CaptionSet
    ) -> Callable[[Sequence[str], Sequence[str], float, np.random.Generator], list[str]]:
        """The change itself, prepared for this set."""


@dataclass(frozen=True, kw_only=True)
class PosSubstitution(KeywordDegradation):
    """Keywords become other words of the same part of speech, drawn by their frequency in the references.

    Lee et al. substitute 30 % of the words, by dictionaries from the training captions; parts of speech are those of
    the caption parser's tagger (theirs: NLTK's).
    """

    NAME = "pos-substitution"
    SUMMARY = "keywords are replaced by other words of the same part of speech"

    def _change(
        self, captions: CaptionSet
    ) -> Callable[[Sequence[str], Sequence[str], float, np.random.Generator], list[str]]:
        used = np.unique(captions.references.values).tolist()
        vocabulary = TaggedVocabulary.of(captions.pool[index] for index in used)
        if not vocabulary.words:
            raise InputError("the references have no verb, noun or adjective; give captions with references")
        return partial(substituted, vocabulary=vocabulary)


@dataclass(frozen=True, kw_only=True)
class RepetitionRemoval(KeywordDegradation):
    """Keywords are said twice or left out (Lee et al.: with probability 30 %, either one half of the time)."""

    NAME = "repetition-removal"
    SUMMARY = "keywords are said twice or left out"

    def _change(
        self, captions: CaptionSet
    ) -> Callable[[Sequence[str], Sequence[str], float, np.random.Generator], list[str]]:
        return repeated_or_removed
