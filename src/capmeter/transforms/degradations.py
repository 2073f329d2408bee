"""Controlled degradation of captions, in gradual steps, to test whether a metric notices.

A `Degradation` is an immutable value whose text form is its name (`other-caption(similarity=tf-idf)`). Its `strength` γ
in [0, 1] says how much is changed: 0 leaves the caption unchanged, 1 is the strongest. The result depends only on the
seed, the caption's id and γ, never on the order or number of the other captions; and what is changed at one γ is
changed at every larger one.

Other packages add degradations through the entry point group `capmeter.transforms` (name = "module:Class").

The first three are from Cui et al. (2018, Eq. 7–9; their names T_RC, T_WP and T_RW are accepted too); repetition,
removal and substitution are the captioning errors that Lee et al. (2021, UMIC) train with.

>>> from capmeter.captions.caption_set import Caption, CaptionSet
>>> from capmeter.transforms.degradations import parse
>>> captions = CaptionSet.from_captions(
...     [
...         Caption("1", "1", "a dog runs on the grass", ("a dog is running",)),
...         Caption("2", "2", "two cats sleep on a sofa", ("cats on a sofa",)),
...     ]
... )
>>> worse = parse("permutation").fit(captions, seed=0)
>>> worse(0, 0.0), worse(0, 1.0)
('a dog runs on the grass', 'the a grass runs on dog')
>>> parse("rc").fit(captions, seed=0)(0, 1.0)
'two cats sleep on a sofa'
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.named import Named
from capmeter.core.registry import Entry, Registry
from capmeter.transforms import perturbations
from capmeter.transforms.perturbations import ReplacementWords, SentenceWords, is_content
from capmeter.transforms.similarity import Neighbours, Similarity

Degrade = Callable[[int, float], str]
"""The caption in this row of the fitted set, degraded at this strength."""
Change = Callable[[tuple[str, ...], int, np.random.Generator], list[str]]
"""Changes this number of words of a sentence, chosen by the random generator."""


@dataclass(frozen=True, kw_only=True)
class Degradation(Named, ABC):
    """The base class of all degradations. Class attributes: `NAME`, and `SUMMARY`, one line."""

    @abstractmethod
    def fit(self, captions: CaptionSet, seed: int = 0) -> Degrade:
        """The function that degrades these captions.

        Args:
            captions: their candidates are degraded; their references give words and similar images.
            seed: what is changed depends on it and on the caption's id only.
        """

    def random(self, seed: int, id: str) -> np.random.Generator:
        """A caption's random generator: the same at every strength, independent of the other captions."""
        id_digest = hashlib.blake2b(f"{self.NAME}\0{id}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return np.random.default_rng([seed, int.from_bytes(id_digest, "little")])


class WordDegradation(Degradation):
    """A degradation that changes round(γ n) of a caption's n words, at least one if γ > 0."""

    def fit(self, captions: CaptionSet, seed: int = 0) -> Degrade:
        """The function that degrades these captions."""
        change_words = self._change(captions)
        words_by_row: dict[int, SentenceWords] = {}

        def degrade(row: int, strength: float) -> str:
            check_strength(strength)
            if row not in words_by_row:
                words_by_row[row] = SentenceWords.split(captions.pool[int(captions.candidates[row])])
            words = words_by_row[row]
            if strength == 0 or not words.core:
                return captions.pool[int(captions.candidates[row])]
            changed_count = max(1, int(strength * self._changeable(words) + 0.5))
            return words.sentence(change_words(words.core, changed_count, self.random(seed, captions.ids[row])))

        return degrade

    def _changeable(self, sentence_words: SentenceWords) -> int:
        return len(sentence_words.core)

    @abstractmethod
    def _change(self, captions: CaptionSet) -> Change:
        """The change itself, prepared for this set."""


@dataclass(frozen=True, kw_only=True)
class WordPermutation(WordDegradation):
    """T_WP: a share γ of the words (at least two) swap positions; none of them stays in place.

    Cui et al. accept any order other than the original; here every selected word moves, so that γ is exact.
    """

    NAME = "permutation"
    SUMMARY = "words swap positions"

    def _change(self, captions: CaptionSet) -> Change:
        return perturbations.permute_words


@dataclass(frozen=True, kw_only=True)
class Replacement(WordDegradation):
    """T_RW: a share γ of the words is replaced by random words from the set's references."""

    NAME = "replacement"
    SUMMARY = "words are replaced by random words from the references"

    def _change(self, captions: CaptionSet) -> Change:
        return partial(perturbations.replace_words, vocabulary=_vocabulary(captions))


@dataclass(frozen=True, kw_only=True)
class Substitution(WordDegradation):
    """A share γ of the content words is replaced by other content words that follow the same word in the references.

    The caption stays fluent but becomes wrong. Lee et al. substitute 30 % of the words by words of the same part of
    speech; here the preceding word replaces a part-of-speech tagger.
    """

    NAME = "substitution"
    SUMMARY = "content words are replaced by wrong ones that fit the sentence"

    def _changeable(self, sentence_words: SentenceWords) -> int:
        return sum(map(is_content, sentence_words.core))

    def _change(self, captions: CaptionSet) -> Change:
        return partial(perturbations.substitute_words, vocabulary=_vocabulary(captions))


@dataclass(frozen=True, kw_only=True)
class Repetition(WordDegradation):
    """A share γ of the words is repeated."""

    NAME = "repetition"
    SUMMARY = "words are repeated"

    def _change(self, captions: CaptionSet) -> Change:
        return perturbations.repeat_words


@dataclass(frozen=True, kw_only=True)
class Removal(WordDegradation):
    """A share γ of the words is removed; at least one word remains."""

    NAME = "removal"
    SUMMARY = "words are removed"

    def _change(self, captions: CaptionSet) -> Change:
        return perturbations.remove_words


@dataclass(frozen=True, kw_only=True)
class OtherCaption(Degradation):
    """T_RC: the caption of another image, chosen at random from the share γ of images most similar to this one.

    A small γ is the hard case: captions of similar images. `similarity` says how images are compared: `tf-idf` (the
    words of their references, rare ones weighing more), `random` (any image at every γ > 0), or a file of image
    features (.npz with `image_ids` and `features`, compared by cosine); in Python also a function of two lists of image
    ids that returns a matrix.
    `nearest` chooses among this number of most similar images at every γ > 0 instead: hard negatives (Lee et al. 2021:
    3).
    """

    NAME = "other-caption"
    SUMMARY = "replaced by the caption of a similar image"

    similarity: Annotated[Similarity, "how images are compared: tf-idf, random, or a file"] = "tf-idf"
    nearest: Annotated[int, "number of most similar images to choose among at every strength; 0: by strength"] = 0

    def fit(self, captions: CaptionSet, seed: int = 0) -> Degrade:
        """The function that degrades these captions."""
        neighbours = Neighbours.find(captions, self.similarity)
        random_fractions = [self.random(seed, caption_id).random(2).tolist() for caption_id in captions.ids]

        def degrade(row: int, strength: float) -> str:
            check_strength(strength)
            if strength == 0:
                return captions.pool[int(captions.candidates[row])]
            image_fraction, caption_fraction = random_fractions[row]
            other_rows = neighbours.rows(row, strength, image_fraction, self.nearest)
            return captions.pool[int(captions.candidates[other_rows[int(caption_fraction * len(other_rows))]])]

        return degrade


def _vocabulary(captions: CaptionSet) -> ReplacementWords:
    replacement_words = ReplacementWords.collect(reference_texts(captions))
    if len(replacement_words.words) < 2:
        raise InputError("the references have no words to use as replacements; give captions with references")
    return replacement_words


def reference_texts(captions: CaptionSet) -> list[str]:
    """The distinct references of a set."""
    return [captions.pool[sentence_index] for sentence_index in np.unique(captions.references.values).tolist()]


def check_strength(strength: float) -> None:
    """An `InputError` if γ is not in [0, 1]."""
    if not 0 <= strength <= 1:
        raise InputError(f"expected a strength from 0 (unchanged) to 1 (strongest), but got {strength}")


TRANSFORMS: Registry[Degradation] = Registry(
    "degradation",
    Degradation,  # type: ignore[type-abstract]
    "capmeter.transforms",
    {
        "other-caption": Entry("capmeter.transforms.degradations:OtherCaption", aliases=("rc", "t_rc")),
        "permutation": Entry("capmeter.transforms.degradations:WordPermutation", aliases=("wp", "t_wp")),
        "replacement": Entry("capmeter.transforms.degradations:Replacement", aliases=("rw", "t_rw")),
        "substitution": Entry("capmeter.transforms.degradations:Substitution"),
        "repetition": Entry("capmeter.transforms.degradations:Repetition"),
        "removal": Entry("capmeter.transforms.degradations:Removal"),
    },
)
parse, parse_list, names = TRANSFORMS.parse, TRANSFORMS.parse_list, TRANSFORMS.names
