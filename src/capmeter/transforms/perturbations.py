"""Word-level perturbations of sentences, for measuring robustness and for training metrics with negatives.

Every function takes the words, the number of them to change, and a random generator. The order in which words are
changed is sampled before `number` is used: with the same generator state, words that are changed for one number are
also changed for every larger one.

>>> import numpy as np
>>> words = SentenceWords.split("Two dogs run on the grass.")
>>> words.core, words.end
(('Two', 'dogs', 'run', 'on', 'the', 'grass'), '.')
>>> words.sentence(permute_words(words.core, 2, np.random.default_rng(0)))
'Two dogs on run the grass.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import ne

import numpy as np

from capmeter.text.concepts import STOP_WORDS
from capmeter.text.tokenization.porter import stem

_ATTEMPTS = 8
_MARKS = ".,;:!?…\"'`()[]{}«»“”‘’"


@dataclass(frozen=True)
class SentenceWords:
    """A sentence as words, with its final punctuation separate so that it stays at the end."""

    core: tuple[str, ...]
    end: str

    @classmethod
    def split(cls, sentence: str) -> SentenceWords:
        """The words between spaces, and the punctuation that ends the sentence."""
        normalised_text = " ".join(sentence.split())
        core = normalised_text.rstrip(".!?… ")
        return cls(tuple(core.split()), normalised_text[len(core) :].strip() if core else normalised_text)

    def sentence(self, words: Sequence[str]) -> str:
        """These words with the sentence's final punctuation."""
        return " ".join(words) + self.end


@dataclass(frozen=True)
class ReplacementWords:
    """The distinct words of some sentences, and for `substitute_words` the content words that follow each word."""

    words: tuple[str, ...]
    content: tuple[str, ...] = field(repr=False)
    after: dict[str, tuple[str, ...]] = field(repr=False)

    @classmethod
    def collect(cls, sentences: Iterable[str]) -> ReplacementWords:
        """The words of these sentences in lower case, independent of the order of the sentences."""
        distinct_words: set[str] = set()
        content_words: list[str] = []
        following_words: dict[str, list[str]] = {}
        for sentence in sentences:
            previous_word = ""
            for word in map(strip_punctuation, sentence.split()):
                if not word:
                    continue
                distinct_words.add(word)
                if is_content(word):
                    content_words.append(word)
                    following_words.setdefault(previous_word, []).append(word)
                previous_word = word
        sorted_followers = {word: tuple(sorted(followers)) for word, followers in following_words.items()}
        return cls(tuple(sorted(distinct_words)), tuple(sorted(content_words)), sorted_followers)


def strip_punctuation(word: str) -> str:
    """The word in lower case, without surrounding punctuation."""
    return word.strip(_MARKS).lower()


def is_content(word: str) -> bool:
    """Whether a word is a content word: neither a stop word nor punctuation."""
    plain_word = strip_punctuation(word)
    return plain_word not in STOP_WORDS and any(letter.isalnum() for letter in plain_word)


def permute_words(words: Sequence[str], number: int, random: np.random.Generator) -> list[str]:
    """`number` words swap positions cyclically: each moves to the position of the next.

    At least two words are moved, and more if these are all equal, so that the sentence changes if it can.

    Args:
        words, number, random: of a sentence, how many of them are changed, and what decides which.
    """
    word_order = random.permutation(len(words)).tolist()
    for moved_count in range(min(max(2, number), len(words)), len(words) + 1) if number and words else ():
        moved_positions = word_order[:moved_count]
        new_words = list(words)
        for position, source_position in zip(moved_positions, moved_positions[1:] + moved_positions[:1], strict=True):
            new_words[position] = words[source_position]
        if new_words != list(words):
            return new_words
    return list(words)


def replace_words(
    words: Sequence[str], number: int, random: np.random.Generator, vocabulary: ReplacementWords
) -> list[str]:
    """`number` words are replaced by other words, sampled uniformly from the vocabulary.

    Args:
        words, number, random: of a sentence, how many of them are changed, and what decides which.
        vocabulary: other words.
    """
    word_order = random.permutation(len(words)).tolist()
    fractions = random.random((len(words), _ATTEMPTS)).tolist()
    result = list(words)
    for k in word_order[:number]:
        result[k] = _sample_word(vocabulary.words, fractions[k], partial(ne, strip_punctuation(words[k]))) or words[k]
    return result


def substitute_words(
    words: Sequence[str], number: int, random: np.random.Generator, vocabulary: ReplacementWords
) -> list[str]:
    """`number` content words are replaced by other content words, so that the sentence stays fluent but becomes wrong.

    The new word is sampled from those that follow the same word in the vocabulary's sentences, in proportion to their
    frequency; if there are none, any content word. Another form of the same stem does not count as a replacement.

    Args:
        words, number, random: of a sentence, how many of them are changed, and what decides which.
        vocabulary: other words, and what they follow.
    """
    word_order = [k for k in random.permutation(len(words)).tolist() if is_content(words[k])]
    random_fractions = random.random((len(words), _ATTEMPTS)).tolist()
    new_words = list(words)
    for k in word_order[:number]:
        fits = partial(_has_other_stem, stem(strip_punctuation(words[k])))
        previous_word = strip_punctuation(words[k - 1]) if k else ""
        choice_lists = vocabulary.after.get(previous_word, ()), vocabulary.content
        sampled_words = (_sample_word(word_choices, random_fractions[k], fits) for word_choices in choice_lists)
        new_words[k] = next((word for word in sampled_words if word is not None), words[k])
    return new_words


def repeat_words(words: Sequence[str], number: int, random: np.random.Generator) -> list[str]:
    """`number` words are repeated in place.

    Args:
        words, number, random: of a sentence, how many of them are changed, and what decides which.
    """
    repeated_positions = set(random.permutation(len(words))[:number].tolist())
    return [word for word_position, word in enumerate(words) for _ in range(1 + (word_position in repeated_positions))]


def remove_words(words: Sequence[str], number: int, random: np.random.Generator) -> list[str]:
    """`number` words are removed, but at least one word remains.

    Args:
        words, number, random: of a sentence, how many of them are changed, and what decides which.
    """
    removed_positions = set(random.permutation(len(words))[: min(number, len(words) - 1)].tolist()) if words else set()
    return [word for word_position, word in enumerate(words) if word_position not in removed_positions]


def _sample_word(choices: Sequence[str], random_fractions: Sequence[float], fits: Callable[[str], bool]) -> str | None:
    """The first sampled choice that fits; if none does, the next that fits in the order of the choices."""
    sampled_positions = [int(fraction * len(choices)) for fraction in random_fractions]
    choice_order = chain(sampled_positions, range(sampled_positions[-1], len(choices)), range(sampled_positions[-1]))
    return next((choices[k] for k in choice_order if k < len(choices) and fits(choices[k])), None)


def _has_other_stem(old_stem: str, word: str) -> bool:
    return stem(word) != old_stem
