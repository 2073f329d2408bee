"""Pairs of a reference and a candidate, human or not, drawn as in A.3 of Cui et al.

For each image one of its captions is the context; another is the positive candidate. The negative candidate for the
same context comes from one of the sources: a captioner's caption or sample of this image, a caption of another image
(T_RC: any other image, §4.4), or the positive caption with 2 to all of its words permuted (T_WP) or replaced by random
words of the vocabulary (T_RW).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.learning.leic.examples import Examples, Integers
from capmeter.learning.leic.recipe import MACHINE, OTHER, PERMUTED, REPLACED, SAMPLES, Shares
from capmeter.metrics.leic.forward import STEPS
from capmeter.metrics.leic.vocabulary import END, PAD, CriticVocabulary
from capmeter.transforms.perturbations import ReplacementWords, permuted, replaced


@dataclass(frozen=True, eq=False)
class Sample:
    """Contexts, positive and negative candidates of some images: word numbers int32[n, 15] and lengths [n] of each.

    `source`: the place of each negative's source among the shares.
    """

    images: Integers
    windows: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]
    lengths: tuple[Integers, Integers, Integers]
    source: Integers


class Sampler:
    """Draws pairs.

    Args:
        examples: images and captions.
        vocabulary: the words that T_RW draws from.
        shares: sources of negatives.

    Raises:
        InputError: a source has no captions.
    """

    def __init__(self, examples: Examples, vocabulary: CriticVocabulary, shares: Shares) -> None:
        self.examples, self.vocabulary = examples, vocabulary
        self.sources = tuple(source for source, _ in shares)
        self._random_words = ReplacementWords(vocabulary.words, (), {})
        there = np.ones((len(examples), len(shares)), np.bool_)
        for k, source in enumerate(self.sources):
            if source in (MACHINE, SAMPLES):
                there[:, k] = examples.given[source].lengths > 0
                if not there[:, k].any():
                    raise InputError(
                        f"negatives: no image has captions of the source {source!r}; give some, or leave the source out"
                    )
        weights = there * np.array([share for _, share in shares])
        self._usable = weights.sum(axis=1) > 0
        cumulated = np.cumsum(weights, axis=1)
        self._cumulated = cumulated / np.maximum(cumulated[:, -1:], np.finfo(np.float64).tiny)

    @property
    def images(self) -> Integers:
        """The images for which there are negatives."""
        return np.flatnonzero(self._usable)

    def draw(self, images: Integers, rng: np.random.Generator) -> Sample:
        """A positive and a negative pair for each of these images."""
        examples, human = self.examples, self.examples.human
        counts = human.lengths[images]
        first = rng.integers(counts)
        second = (first + 1 + rng.integers(counts - 1)) % counts
        context, positive = (human.values[human.offsets[images] + place] for place in (first, second))
        source = (rng.random((len(images), 1)) >= self._cumulated[images, :-1]).sum(axis=1)
        negative, changed = self._chosen(images, source, rng)
        windows = examples.windows[np.where(changed, positive, negative)]
        lengths = examples.lengths[np.where(changed, positive, negative)]
        for k in np.flatnonzero(changed).tolist():
            numbers = self._transformed(windows[k], self.sources[source[k]], rng)
            windows[k], lengths[k] = PAD, len(numbers)
            windows[k, : len(numbers)] = numbers
        return Sample(
            images,
            (examples.windows[context], examples.windows[positive], windows),
            (examples.lengths[context], examples.lengths[positive], lengths),
            source,
        )

    def _chosen(
        self, images: Integers, source: Integers, rng: np.random.Generator
    ) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The rows of negatives that are whole captions, and which ones are transformations instead."""
        human = self.examples.human
        negative = np.zeros(len(images), np.int64)
        changed = np.zeros(len(images), np.bool_)
        for k, name in enumerate(self.sources):
            rows = np.flatnonzero(source == k)
            if name in (PERMUTED, REPLACED):
                changed[rows] = True
                continue
            captions, of = human, images[rows]
            if name == OTHER:
                of = (of + 1 + rng.integers(len(human) - 1, size=len(rows))) % len(human)
            else:
                captions = self.examples.given[name]
            which = rng.integers(captions.lengths[of])
            negative[rows] = captions.values[captions.offsets[of] + which]
        return negative, changed

    def _transformed(self, window: npt.NDArray[np.int32], source: str, rng: np.random.Generator) -> list[int]:
        """The caption with 2 to all of its words permuted or replaced; permuting one word is replacing it."""
        words = self.vocabulary.spelled(window[(window != PAD) & (window != END)].tolist())
        touched = int(rng.integers(2, len(words) + 1)) if len(words) > 2 else len(words)
        found = permuted(words, touched, rng) if source == PERMUTED else words
        if found == words:
            found = replaced(words, touched, rng, self._random_words)
        return self.vocabulary.numbers(found)[:STEPS]
