"""Word-level perturbations of sentences, for measuring robustness and for training metrics with negatives.

Every function takes the words, how many of them to change, and a random generator. The order in which words would be
changed is drawn before `touched` is used: with the same generator state, the words changed are also changed when
`touched` is larger.

>>> import numpy as np
>>> words = SentenceWords.of("Two dogs run on the grass.")
>>> words.core, words.end
(('Two', 'dogs', 'run', 'on', 'the', 'grass'), '.')
>>> words.sentence(permuted(words.core, 2, np.random.default_rng(0)))
'Two dogs on run the grass.'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import ne

import numpy as np

from capmeter.text.porter import stem
from capmeter.text.stopwords import STOP_WORDS

_TRIES = 8
_MARKS = ".,;:!?…\"'`()[]{}«»“”‘’"


@dataclass(frozen=True)
class SentenceWords:
    """A sentence as words, with its final punctuation kept apart so that it stays at the end."""

    core: tuple[str, ...]
    end: str

    @classmethod
    def of(cls, sentence: str) -> SentenceWords:
        """The words between spaces; punctuation that ends the sentence is kept apart."""
        text = " ".join(sentence.split())
        core = text.rstrip(".!?… ")
        return cls(tuple(core.split()), text[len(core) :].strip() if core else text)

    def sentence(self, words: Sequence[str]) -> str:
        """These words with the sentence's final punctuation."""
        return " ".join(words) + self.end


@dataclass(frozen=True)
class ReplacementWords:
    """The distinct words of some sentences, and for `substituted` the content words that follow each word."""

    words: tuple[str, ...]
    content: tuple[str, ...] = field(repr=False)
    after: dict[str, tuple[str, ...]] = field(repr=False)

    @classmethod
    def of(cls, sentences: Iterable[str]) -> ReplacementWords:
        """The words of these sentences in lower case, independent of the order of the sentences."""
        words: set[str] = set()
        content: list[str] = []
        after: dict[str, list[str]] = {}
        for sentence in sentences:
            last = ""
            for word in map(bare, sentence.split()):
                if not word:
                    continue
                words.add(word)
                if is_content(word):
                    content.append(word)
                    after.setdefault(last, []).append(word)
                last = word
        frames = {word: tuple(sorted(followers)) for word, followers in after.items()}
        return cls(tuple(sorted(words)), tuple(sorted(content)), frames)


def bare(word: str) -> str:
    """The word in lower case, without surrounding punctuation."""
    return word.strip(_MARKS).lower()


def is_content(word: str) -> bool:
    """Whether a word is a content word: neither a stop word nor punctuation."""
    plain = bare(word)
    return plain not in STOP_WORDS and any(letter.isalnum() for letter in plain)


def permuted(words: Sequence[str], touched: int, random: np.random.Generator) -> list[str]:
    """`touched` words swap positions cyclically: each moves to the position of the next.

    At least two words are moved, and more if these are all equal, so that the sentence changes if it can.
    """
    order = random.permutation(len(words)).tolist()
    for number in range(min(max(2, touched), len(words)), len(words) + 1) if touched and words else ():
        places = order[:number]
        result = list(words)
        for place, source in zip(places, places[1:] + places[:1], strict=True):
            result[place] = words[source]
        if result != list(words):
            return result
    return list(words)


def replaced(
    words: Sequence[str], touched: int, random: np.random.Generator, vocabulary: ReplacementWords
) -> list[str]:
    """`touched` words are replaced by other words, drawn uniformly from the vocabulary."""
    order = random.permutation(len(words)).tolist()
    drawn = random.random((len(words), _TRIES)).tolist()
    result = list(words)
    for place in order[:touched]:
        old = bare(words[place])
        result[place] = _drawn(vocabulary.words, drawn[place], partial(ne, old)) or words[place]
    return result


def substituted(
    words: Sequence[str], touched: int, random: np.random.Generator, vocabulary: ReplacementWords
) -> list[str]:
    """`touched` content words are replaced by other content words, so that the sentence stays fluent but is wrong.

    The new word is drawn from those that follow the same word in the vocabulary's sentences, in proportion to their
    frequency; if there are none, any content word. Another form of the same stem does not count as a replacement.
    """
    order = [place for place in random.permutation(len(words)).tolist() if is_content(words[place])]
    drawn = random.random((len(words), _TRIES)).tolist()
    result = list(words)
    for place in order[:touched]:
        old = stem(bare(words[place]))
        before = bare(words[place - 1]) if place else ""
        for choices in (vocabulary.after.get(before, ()), vocabulary.content):
            found = _drawn(choices, drawn[place], partial(_another_stem, old))
            if found is not None:
                result[place] = found
                break
    return result


def repeated(words: Sequence[str], touched: int, random: np.random.Generator) -> list[str]:
    """`touched` words are repeated in place."""
    chosen = set(random.permutation(len(words))[:touched].tolist())
    return [word for place, word in enumerate(words) for _ in range(1 + (place in chosen))]


def removed(words: Sequence[str], touched: int, random: np.random.Generator) -> list[str]:
    """`touched` words are removed, but at least one word remains."""
    chosen = set(random.permutation(len(words))[: min(touched, len(words) - 1)].tolist()) if words else set()
    return [word for place, word in enumerate(words) if place not in chosen]


def _drawn(choices: Sequence[str], drawn: Sequence[float], fits: Callable[[str], bool]) -> str | None:
    """The first drawn choice that fits; if none does, the next that fits in the order of the choices."""
    places = [int(number * len(choices)) for number in drawn]
    for place in chain(places, range(places[-1], len(choices)), range(places[-1])):
        if place < len(choices):
            found: str = choices[place]
            if fits(found):
                return found
    return None


def _another_stem(old: str, word: str) -> bool:
    return stem(word) != old
