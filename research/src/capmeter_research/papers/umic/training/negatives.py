"""Negatives of a caption: what a metric should score below it, as named and seeded values.

A `Negatives` value says which degradations are applied to each caption, and how strong. `paper` are the four of Lee et
al. (2021, section 3.2); `released` the five of their released code:

| | paper | released |
|---|---|---|
| substitution | keywords by words of the same part of speech, 30 % | 29 % |
| random | another image's caption; with 50 % one of the three most similar images' | both, one of each |
| repetition and removal | 30 % of the keywords, either one half of the time | the same |
| word order | permuted | permuted, or (one half of the time) 30 % of all words dropped |

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs", "two cats sleep"], [["a dog is running"], ["cats sleep on a bed"]])
>>> sampler = parse_negatives("paper").sampler(captions)
>>> sampler.sample(0, np.random.default_rng(0))["random"]
'two cats sleep'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.named import Named, read_parameters, split_name
from capmeter.transforms.perturbations import SentenceWords, permute_words
from capmeter.transforms.similarity import Neighbours, Similarity
from capmeter_research.common.keywords import (
    TaggedVocabulary,
    is_keyword,
    repeat_or_remove_keywords,
    substitute_keywords,
    tag_words,
)

KINDS = ("substitution", "random", "hard", "repetition-removal", "permutation")
"""Each kind on its own, as it is evaluated."""
NAMES = ("paper", "released")
_RELEASED_SHARE = 0.29  # randint(100) > 70
_ATTEMPTS = 64  # to find another image


@dataclass(frozen=True, kw_only=True)
class Negatives(Named):
    """Which negatives are sampled for a caption.

    without: kinds to exclude, for ablations. nearest: hard negatives are captions of one of this number of most similar
    images, by `similarity` (see `OtherCaption`).
    """

    NAME: ClassVar[str] = "negatives"
    SUMMARY: ClassVar[str] = "perturbed captions, as in UMIC's training"

    recipe: Annotated[Literal["paper", "released"], "the four of the paper, or the five of the released code"] = "paper"
    share: Annotated[float, "the share of keywords that are changed"] = 0.3
    hard: Annotated[float, "probability that a random caption is one of a similar image"] = 0.5
    nearest: Annotated[int, "the number of similar images"] = 3
    similarity: Annotated[Similarity, "how images are compared: tf-idf, random, or a file"] = "tf-idf"
    without: Annotated[tuple[str, ...], "kinds to exclude"] = ()

    @property
    def name(self) -> str:
        """The recipe."""
        return self.recipe

    @property
    def implied_parameters(self) -> frozenset[str]:
        """The recipe is the name."""
        return frozenset({"recipe"})

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown_kinds = [kind for kind in self.without if kind not in KINDS]
        if unknown_kinds or set(self.without) >= set(self.kinds_of_recipe):
            raise InputError(f"negatives: without={'+'.join(self.without)} must leave some of {', '.join(KINDS)}")
        if not (0 < self.share <= 1 and 0 <= self.hard <= 1 and self.nearest >= 1):
            raise InputError("negatives: expected a share above 0 up to 1, hard from 0 to 1, and nearest from 1")

    @property
    def kinds_of_recipe(self) -> tuple[str, ...]:
        """The kinds that the recipe samples for every caption, in order."""
        random_kinds = ("random", "hard") if self.recipe == "released" else ("random",)
        return ("substitution", *random_kinds, "repetition-removal", "permutation")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are sampled."""
        return tuple(kind for kind in self.kinds_of_recipe if kind not in self.without)

    def sampler(
        self,
        captions: CaptionSet,
        *,
        vocabulary: TaggedVocabulary | None = None,
        tags: Mapping[str, tuple[str, ...]] | None = None,
    ) -> NegativeSampler:
        """A sampler of negatives of these captions.

        Args:
            captions: the captions, with their references.
            vocabulary: words by part of speech; None: of the captions and their references.
            tags: sentence → its tags, where already known.
        """
        return NegativeSampler(self, captions, vocabulary, dict(tags or {}))


@dataclass(eq=False)
class NegativeSampler:
    """Samples negatives of the captions of a set; each depends on the given random generator only."""

    negatives: Negatives
    captions: CaptionSet
    given_vocabulary: TaggedVocabulary | None
    tags: dict[str, tuple[str, ...]]
    _nearest: dict[str, npt.NDArray[np.intp]] = field(default_factory=dict)  # image → its most similar ones

    @cached_property
    def vocabulary(self) -> TaggedVocabulary:
        """The words of each part of speech."""
        if self.given_vocabulary is not None:
            return self.given_vocabulary
        sentences = self.captions.pool.sentences
        self._tag(sentences)
        return TaggedVocabulary.count((sentence, self.tags[sentence]) for sentence in sentences)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours.find(self.captions, self.negatives.similarity)

    def prepare(self) -> None:
        """Computes what all samples share: tags, the vocabulary, and each image's most similar ones."""
        self._tag([self.captions.pool[k] for k in np.unique(self.captions.candidates).tolist()])
        self.vocabulary  # noqa: B018
        kinds = self.negatives.kinds
        if "hard" in kinds or ("random" in kinds and self.negatives.hard > 0):  # which need similar images
            for row in range(len(self.captions)):
                self._similar_images(row)

    def sample(self, row: int, random: np.random.Generator) -> dict[str, str]:
        """One negative of each kind of the recipe, for the caption in this row."""
        return {kind: self.sample_kind(kind, row, random, mixed=True) for kind in self.negatives.kinds}

    def sample_kind(self, kind: str, row: int, random: np.random.Generator, *, mixed: bool = False) -> str:
        """A negative of one kind.

        Args:
            kind: its name.
            row: of the caption.
            random: of the negative.
            mixed: whether kinds are mixed as in the recipe.
        """
        sentence = self.captions.pool[int(self.captions.candidates[row])]
        if kind in ("random", "hard"):
            may_be_hard = mixed and self.negatives.recipe == "paper" and kind == "random"
            is_hard = kind == "hard" or (may_be_hard and random.random() < self.negatives.hard)
            return self._similar_caption(row, random) if is_hard else self._random_caption(row, random)
        words = SentenceWords.split(sentence)
        if not words.core:
            return sentence
        is_released = self.negatives.recipe == "released"
        if kind == "permutation":
            if is_released and mixed and random.random() < 0.5:
                return words.sentence(_drop_words(words.core, random))
            order = shuffle_words if is_released else _permute_all
            return words.sentence(order(words.core, random))
        word_tags = self._tags_of(sentence)
        keyword_share = _RELEASED_SHARE if is_released and kind == "substitution" else self.negatives.share
        if not any(map(is_keyword, word_tags)):  # nothing to change; the released code would not return
            return words.sentence(_permute_all(words.core, random))
        if kind == "repetition-removal":
            return words.sentence(repeat_or_remove_keywords(words.core, word_tags, keyword_share, random))
        substituted = substitute_keywords(words.core, word_tags, keyword_share, random, self.vocabulary)
        return words.sentence(substituted if tuple(substituted) != words.core else _permute_all(words.core, random))

    def _similar_caption(self, row: int, random: np.random.Generator) -> str:
        similar_images = self._similar_images(row)
        caption_rows = self._neighbours.captions_of(int(similar_images[int(random.random() * len(similar_images))]))
        return self.captions.pool[int(self.captions.candidates[caption_rows[int(random.random() * len(caption_rows))]])]

    def _similar_images(self, row: int) -> npt.NDArray[np.intp]:
        image_id = self.captions.image_ids[row]
        if image_id not in self._nearest:
            self._nearest[image_id] = self._neighbours.nearest(row, self.negatives.nearest)
        return self._nearest[image_id]

    def _random_caption(self, row: int, random: np.random.Generator) -> str:
        captions, other_row = self.captions, row
        for _ in range(_ATTEMPTS):
            other_row = int(random.random() * len(captions))
            if captions.image_ids[other_row] != captions.image_ids[row]:
                break
        return captions.pool[int(captions.candidates[other_row])]

    def _tags_of(self, sentence: str) -> tuple[str, ...]:
        if sentence not in self.tags:
            self._tag([sentence])
        return self.tags[sentence]

    def _tag(self, sentences: Sequence[str]) -> None:
        untagged_sentences = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self.tags]
        self.tags.update(zip(untagged_sentences, tag_words(untagged_sentences), strict=True))


def shuffle_words(words: tuple[str, ...], random: np.random.Generator) -> list[str]:
    """The words in any order, possibly the original one, as in the released code."""
    return [words[k] for k in random.permutation(len(words)).tolist()]


def _permute_all(words: tuple[str, ...], random: np.random.Generator) -> list[str]:
    """The words in another order; every word moves."""
    return permute_words(words, len(words), random)


def _drop_words(words: tuple[str, ...], random: np.random.Generator) -> list[str]:
    """Each word is dropped with probability 30 %, and at least one of several."""
    random_fractions = random.random(len(words)).tolist()
    remaining_words = [word for word, fraction in zip(words, random_fractions, strict=True) if fraction >= 0.3]
    if len(remaining_words) == len(words) > 1:
        dropped_position = int(np.argmin(random_fractions))
        remaining_words = [*words[:dropped_position], *words[dropped_position + 1 :]]
    return remaining_words or [words[int(np.argmax(random_fractions))]]


def parse_negatives(text: str) -> Negatives:
    """The negatives with this text form: `paper`, `released`, `paper(share=0.5,without=permutation)`.

    Raises:
        InputError: an unknown name or parameter.
    """
    recipe_name, parameter_text = split_name(text, "kind of negatives")
    if recipe_name not in NAMES:
        raise InputError(f"unknown negatives {recipe_name!r}; expected one of {', '.join(NAMES)}")
    return Negatives(recipe=recipe_name, **read_parameters(Negatives, parameter_text, recipe_name, implied=("recipe",)))  # type: ignore[arg-type]
