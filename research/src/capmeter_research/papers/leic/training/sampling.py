"""Pairs of a reference and a candidate, human or not, drawn as in A.3 of Cui et al.

For each image one of its captions is the context; another is the positive candidate. The negative candidate for the
same context comes from one of the sources: a captioner's caption or sample of this image (if it is a changed copy of a
human caption, that one is the positive candidate), a caption of another image
(T_RC: any other image, §4.4), or the positive caption with 2 to all of its words permuted (T_WP) or replaced by random
words of the vocabulary (T_RW).

A caption of another image is the positive candidate of another image in the sample: it has been read already. Images
are in random order, so that it is a caption of any other image. Several such captions can share the weight of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.transforms.perturbations import ReplacementWords, permute_words, replace_words
from capmeter_research.papers.leic.training.examples import ImageExamples, Integers
from capmeter_research.papers.leic.training.recipe import MACHINE, OTHER, PERMUTED, SAMPLES, Shares
from capmeter_research.papers.leic.vocabulary import END, PAD, CriticVocabulary


@dataclass(frozen=True, eq=False)
class Sample:
    """The pairs of n images.

    Args:
        images: int[n].
        windows: word numbers, int32[captions, steps]: n contexts, their n positive candidates, then other negatives.
        lengths: words of each.
        source: int[n]: the place of each negative's source among the shares.
        row, negative, weight: of each negative pair its context, its candidate among the captions, and its weight;
            the weights of a context add up to 1.
    """

    images: Integers
    windows: npt.NDArray[np.int32]
    lengths: Integers
    source: Integers
    row: Integers
    negative: Integers
    weight: npt.NDArray[np.float32]


class PairSampler:
    """Draws pairs.

    Args:
        examples: images and captions.
        vocabulary: the words that T_RW draws from.
        shares: sources of negatives.
        others: how many captions of other images share the weight of one negative.

    Raises:
        InputError: a source has no captions.
    """

    def __init__(self, examples: ImageExamples, vocabulary: CriticVocabulary, shares: Shares, others: int = 1) -> None:
        self.examples, self.vocabulary, self.others = examples, vocabulary, others
        self.sources = tuple(source for source, _ in shares)
        self._random_words = ReplacementWords(vocabulary.words, (), {})
        is_available = np.ones((len(examples), len(shares)), np.bool_)
        for source_index, source in enumerate(self.sources):
            if source in (MACHINE, SAMPLES):
                is_available[:, source_index] = examples.given[source].rows.lengths > 0
                if not is_available[:, source_index].any():
                    raise InputError(
                        f"negatives: no image has captions of the source {source!r}; give some, or leave the source out"
                    )
        source_weights = is_available * np.array([share for _, share in shares])
        self._usable = source_weights.sum(axis=1) > 0
        cumulated_weights = np.cumsum(source_weights, axis=1)
        self._cumulated = cumulated_weights / np.maximum(cumulated_weights[:, -1:], np.finfo(np.float64).tiny)

    @property
    def images(self) -> Integers:
        """The images for which there are negatives."""
        return np.flatnonzero(self._usable)

    def draw(self, images: Integers, rng: np.random.Generator) -> Sample:
        """A positive and a negative for each of these images (at least two)."""
        examples, human, image_count = self.examples, self.examples.human, len(images)
        source = (rng.random((image_count, 1)) >= self._cumulated[images, :-1]).sum(axis=1)
        negatives, read_bits, of = self._given_negatives(images, source, rng)
        # a machine caption is never compared with a caption that the machine had read, or with what it changed
        caption_index = np.arange(int(human.lengths[images].max()))
        caption_order = rng.random((image_count, len(caption_index)))
        caption_order[caption_index >= human.lengths[images][:, None]] = 3
        unread_order = caption_order + ((read_bits[:, None] >> caption_index) & 1) + (caption_index == of[:, None])
        reference_choice = unread_order.argmin(axis=1)
        caption_order[np.arange(image_count), reference_choice] = 3
        positive_choice = np.where(of < 0, caption_order.argmin(axis=1), of)
        context_rows, positive = (
            human.values[human.offsets[images] + which] for which in (reference_choice, positive_choice)
        )
        other_rows = np.flatnonzero(np.array(self.sources)[source] == OTHER)
        human_rows = np.setdiff1d(np.arange(image_count), other_rows, assume_unique=True)
        machine_windows, machine_lengths = self._machine_captions(
            np.where(negatives < 0, positive, negatives)[human_rows], negatives[human_rows] < 0, source[human_rows], rng
        )
        shift = self._shifts(len(other_rows), image_count, rng)
        borrowed = (other_rows[:, None] + shift) % image_count
        return Sample(
            images,
            np.concatenate([examples.windows[context_rows], examples.windows[positive], machine_windows]),
            np.concatenate([examples.lengths[context_rows], examples.lengths[positive], machine_lengths]),
            source,
            np.concatenate([human_rows, np.repeat(other_rows, shift.shape[1])]),
            np.concatenate([2 * image_count + np.arange(len(human_rows)), image_count + borrowed.ravel()]),
            np.concatenate([np.ones(len(human_rows)), np.full(borrowed.size, 1 / shift.shape[1])]).astype(np.float32),
        )

    def _shifts(self, row_count: int, image_count: int, rng: np.random.Generator) -> Integers:
        """How far away in the sample the other images are, [rows, others]: different ones for each row, never 0."""
        shift_count = min(self.others, image_count - 1)
        if shift_count == 1:
            return rng.integers(1, image_count, size=(row_count, 1))
        return 1 + np.argpartition(rng.random((row_count, image_count - 1)), shift_count - 1, axis=1)[:, :shift_count]

    def _given_negatives(
        self, images: Integers, source: Integers, rng: np.random.Generator
    ) -> tuple[Integers, Integers, Integers]:
        """For each image the row of a caption of its source (-1 if it has none), what the machine had read, and the
        place of the caption that it changed (-1 if none).
        """
        negative_rows, read_bits, original_indices = (np.full(len(images), value, np.int64) for value in (-1, 0, -1))
        for source_index, source_name in enumerate(self.sources):
            if source_name in self.examples.given:
                chosen_rows, given_table = np.flatnonzero(source == source_index), self.examples.given[source_name]
                row_images = images[chosen_rows]
                positions = given_table.rows.offsets[row_images] + rng.integers(given_table.rows.lengths[row_images])
                negative_rows[chosen_rows], read_bits[chosen_rows], original_indices[chosen_rows] = (
                    given_table.rows.values[positions],
                    given_table.read[positions],
                    given_table.of[positions],
                )
        return negative_rows, read_bits, original_indices

    def _machine_captions(
        self, caption_rows: Integers, changed: npt.NDArray[np.bool_], source_indices: Integers, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.int32], Integers]:
        """Windows and lengths of these captions, of which some are changed as their source says."""
        windows, lengths = self.examples.windows[caption_rows], self.examples.lengths[caption_rows]
        for caption_index in np.flatnonzero(changed).tolist():
            word_numbers = self._transformed(windows[caption_index], self.sources[source_indices[caption_index]], rng)
            windows[caption_index], lengths[caption_index] = PAD, len(word_numbers)
            windows[caption_index, : len(word_numbers)] = word_numbers
        return windows, lengths

    def _transformed(self, window: npt.NDArray[np.int32], source_name: str, rng: np.random.Generator) -> list[int]:
        """The caption with 2 to all of its words permuted or replaced; permuting one word is replacing it."""
        caption_words = self.vocabulary.decode(window[(window != PAD) & (window != END)].tolist())
        changed_count = int(rng.integers(2, len(caption_words) + 1)) if len(caption_words) > 2 else len(caption_words)
        changed_words = permute_words(caption_words, changed_count, rng) if source_name == PERMUTED else caption_words
        if changed_words == caption_words:
            changed_words = replace_words(caption_words, changed_count, rng, self._random_words)
        return self.vocabulary.encode(changed_words, len(window))
