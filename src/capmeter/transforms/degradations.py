"""Degradations: captions made worse on purpose, little by little, to see whether a metric notices.

A `Degradation` is an immutable value with a text form that is its name (`other-caption(similarity=tf-idf)`). Its
`strength` γ in [0, 1] says how much is touched: 0 leaves the caption as it is, 1 is the strongest. What a caption
becomes depends on the seed, its id and γ alone, never on the order or the number of the captions around it; and what is
touched at one γ is touched at every larger one.

The first three are Cui et al.'s (2018, Eq. 7–9; their names T_RC, T_WP and T_RW are understood too), repetition,
removal and substitution are the errors of captioners that Lee et al. (2021, UMIC) train with.

>>> from capmeter.captions.model import Caption, CaptionSet
>>> from capmeter.transforms.registry import parse
>>> captions = CaptionSet.from_captions(
...     [
...         Caption("1", "1", "a dog runs on the grass", ("a dog is running",)),
...         Caption("2", "2", "two cats sleep on a sofa", ("cats on a sofa",)),
...     ]
... )
>>> worse = parse("permutation").fitted(captions, seed=0)
>>> worse(0, 0.0), worse(0, 1.0)
('a dog runs on the grass', 'the a grass runs on dog')
>>> parse("rc").fitted(captions, seed=0)(0, 1.0)
'two cats sleep on a sofa'
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.named import Named
from capmeter.transforms import perturbations
from capmeter.transforms.perturbations import Vocabulary, Words, is_content
from capmeter.transforms.similarity import Neighbours, Scorer, Similarity


class Degrade(Protocol):
    """The caption at this row of the set that the degradation was fitted to, as it becomes at this strength."""

    def __call__(self, row: int, strength: float) -> str:
        """The degraded caption."""
        ...


@dataclass(frozen=True, kw_only=True)
class Degradation(Named, ABC):
    """The base of all degradations. Class attributes: `NAME`, and `SUMMARY`, one line."""

    @property
    def name(self) -> str:
        """The degradation's name without parameters."""
        return self.NAME

    @abstractmethod
    def fitted(self, captions: CaptionSet, seed: int = 0, scorer: Scorer | None = None) -> Degrade:
        """The function that degrades these captions; `scorer` compares images where a metric's name says how."""

    def random(self, seed: int, id: str) -> np.random.Generator:
        """The generator of one caption: the same for every strength, and whatever captions come before it."""
        digest = hashlib.blake2b(f"{self.NAME}\0{id}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return np.random.default_rng([seed, int.from_bytes(digest, "little")])


class WordDegradation(Degradation):
    """A degradation that touches round(γ n) of a caption's n words, at least one where γ > 0."""

    def fitted(self, captions: CaptionSet, seed: int = 0, scorer: Scorer | None = None) -> Degrade:
        """The function that degrades these captions."""
        change = self._change(captions)
        split: dict[int, Words] = {}

        def degrade(row: int, strength: float) -> str:
            _check(strength)
            if row not in split:
                split[row] = Words.of(captions.pool[int(captions.candidates[row])])
            words = split[row]
            if strength == 0 or not words.core:
                return captions.pool[int(captions.candidates[row])]
            touched = max(1, int(strength * self._touchable(words) + 0.5))
            return words.sentence(change(words.core, touched, self.random(seed, captions.ids[row])))

        return degrade

    def _touchable(self, words: Words) -> int:
        return len(words.core)

    @abstractmethod
    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        """The change itself, with what it must know of the set."""


@dataclass(frozen=True, kw_only=True)
class Permutation(WordDegradation):
    """T_WP: γ of the words change places, every one of them (two at least).

    Cui et al. take any order but the given one; here no touched word stays where it was, so that γ is what it says.
    """

    NAME = "permutation"
    SUMMARY = "words change places"

    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        return perturbations.permuted


@dataclass(frozen=True, kw_only=True)
class Replacement(WordDegradation):
    """T_RW: γ of the words become other words, drawn from those that the set's references use."""

    NAME = "replacement"
    SUMMARY = "words become random words of the references"

    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        vocabulary = _vocabulary(captions)
        return lambda words, touched, random: perturbations.replaced(words, touched, random, vocabulary)


@dataclass(frozen=True, kw_only=True)
class Substitution(WordDegradation):
    """γ of the content words become other content words that the references have after the same word.

    The caption reads well and says what is not there. Lee et al. substitute 30 % of the words by words of the same part
    of speech; here the word before takes the place of a tagger.
    """

    NAME = "substitution"
    SUMMARY = "content words become wrong ones that fit the sentence"

    def _touchable(self, words: Words) -> int:
        return sum(map(is_content, words.core))

    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        vocabulary = _vocabulary(captions)
        return lambda words, touched, random: perturbations.substituted(words, touched, random, vocabulary)


@dataclass(frozen=True, kw_only=True)
class Repetition(WordDegradation):
    """γ of the words are said twice."""

    NAME = "repetition"
    SUMMARY = "words are said twice"

    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        return perturbations.repeated


@dataclass(frozen=True, kw_only=True)
class Removal(WordDegradation):
    """γ of the words are left out; one stays."""

    NAME = "removal"
    SUMMARY = "words are left out"

    def _change(self, captions: CaptionSet) -> Callable[[tuple[str, ...], int, np.random.Generator], list[str]]:
        return perturbations.removed


@dataclass(frozen=True, kw_only=True)
class OtherCaption(Degradation):
    """T_RC: the caption of another image, drawn among the γ of all other images that are most similar to this one.

    A small γ is the hard case: captions of images that look alike. `similarity` says how images are compared: `tf-idf`
    (the words of their references, rare ones counting more), `random` (any image at every γ > 0), the name of a metric
    (the other image's caption against this image's references), or a file of image features (.npz with `image_ids` and
    `features`, compared by cosine); in Python also a function of two lists of image ids that gives a matrix.
    """

    NAME = "other-caption"
    SUMMARY = "the caption of one of the most similar images"

    similarity: Annotated[Similarity, "how images are compared: tf-idf, random, a metric, or a file"] = "tf-idf"

    def fitted(self, captions: CaptionSet, seed: int = 0, scorer: Scorer | None = None) -> Degrade:
        """The function that degrades these captions."""
        neighbours = Neighbours.of(captions, self.similarity, scorer)
        chosen = [self.random(seed, id).random(2).tolist() for id in captions.ids]

        def degrade(row: int, strength: float) -> str:
            _check(strength)
            if strength == 0:
                return captions.pool[int(captions.candidates[row])]
            among, which = chosen[row]
            rows = neighbours.rows(row, strength, among)
            return captions.pool[int(captions.candidates[rows[int(which * len(rows))]])]

        return degrade


def _vocabulary(captions: CaptionSet) -> Vocabulary:
    used = np.unique(captions.references.values).tolist()
    vocabulary = Vocabulary.of(captions.pool[index] for index in used)
    if len(vocabulary.words) < 2:
        raise InputError("the references have no words to replace others by; give captions with references")
    return vocabulary


def _check(strength: float) -> None:
    if not 0 <= strength <= 1:
        raise InputError(f"a strength is {strength}, expected a number from 0 (untouched) to 1 (strongest)")
