"""What a writer reads of a photo: captions, or a bag of their words, with words lost, mistaken or taken from elsewhere.

A captioner errs because it sees badly and writes well. The writer therefore reads badly: a bag of content words says
which things there are but not which has what colour, who does what, or how many; words that are lost are guessed from
what captions usually say; words of a similar photo are things that are not there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_recipes.caption_writer.subwords import Subwords
from capmeter_recipes.common.transformer.decoding import END

FORMS = ("captions", "words", "nouns")
LONGEST_SOURCE, LONGEST_TARGET = 96, 48
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def form_mark(form: str) -> str:
    """The subword that tells the writer in which form it reads."""
    return f"<{form}>"


def style_mark(style: str) -> str:
    """The subword that tells the writer whose captions to imitate."""
    return f"<style {style}>"


@dataclass(frozen=True, eq=False)
class CaptionTable:
    """Captions as numbers.

    Args:
        pieces: the subwords of each caption; the last is the end.
        words: the content words of each caption, as numbers.
        spelled: the subwords of each word.
        noun: whether a word is a noun.
    """

    pieces: Ragged
    words: Ragged
    spelled: Ragged
    noun: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, captions: Sequence[str], subwords: Subwords, nouns: Collection[str]) -> CaptionTable:
        """The table of these captions."""
        number: dict[str, int] = {}
        word_ids: dict[str, int] = {}  # of words as they are written; -1: no content word
        rows: list[list[int]] = []
        for caption in captions:
            caption_words = caption.split()
            for each in caption_words:
                if each not in word_ids:
                    word = strip_punctuation(each)
                    word_ids[each] = number.setdefault(word, len(number)) if is_content(word) else -1
            rows.append([word_id for each in caption_words if (word_id := word_ids[each]) >= 0])
        return cls(
            pieces=Ragged.from_rows([[*ids, END] for ids in subwords.encode(captions)], np.int32),
            words=Ragged.from_rows(rows, np.int32),
            spelled=Ragged.from_rows(subwords.encode(list(number)), np.int32),
            noun=np.fromiter((word in nouns for word in number), np.bool_, len(number)),
        )

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True, eq=False)
class InputCorruption:
    """How each of n photos is read; every field is an array of length n.

    Args:
        form: number of the form in `FORMS`: the captions as they are, a shuffled bag of their content words, or of
            their nouns.
        kept: the share of words (of subwords, for captions) that are read; the others are lost.
        near: the share of words (of captions, for captions) that come from a caption of a similar photo.
        noise: the share of words that are taken for any other word (of a bag only).
    """

    form: Integers
    kept: Floats
    near: Floats
    noise: Floats

    def __len__(self) -> int:
        return len(self.form)


@dataclass(frozen=True, eq=False)
class SourceReader:
    """Turns rows of a table into what a writer reads.

    Args:
        table: the captions.
        marks: ids of the marks of the forms, in the order of `FORMS`.
    """

    table: CaptionTable
    marks: Sequence[int]

    def read(
        self,
        read_captions: Ragged,
        sight: InputCorruption,
        styles: Integers,
        rng: np.random.Generator,
        similar: Integers | None = None,
    ) -> Ragged:
        """The sources, each: style, form, then captions (each ended) or words, cut at `LONGEST_SOURCE` subwords.

        Args:
            own: for each photo, the rows of its captions that are read.
            sight: how they are read.
            styles: the mark of each photo's style.
            rng: chooses what is lost, mistaken and taken from elsewhere.
            near: the row of a caption of a similar photo; needed where `sight.near` is above 0.

        Raises:
            InputError: `near` is missing.
        """
        if similar is None:
            if sight.near.any():
                raise InputError("near: there is no similar photo to read from; expected at least two photos")
            similar = np.zeros(len(read_captions), np.int64)
        bags = sight.form > 0
        head = np.arange(len(read_captions))
        marks = np.array(self.marks, np.int64)[sight.form]
        photo, piece = [head, head], [styles, marks]
        for part, tokens in (
            self._bags(read_captions, sight, similar, bags, rng),
            self._captions(read_captions, sight, similar, ~bags, rng),
        ):
            photo.append(part)
            piece.append(tokens)
        photos, pieces = np.concatenate(photo), np.concatenate(piece)
        order = np.argsort(photos, kind="stable")
        sources = Ragged.from_lengths(pieces[order].astype(np.int32), np.bincount(photos, minlength=len(read_captions)))
        return _cut(sources, LONGEST_SOURCE)

    def _bags(
        self,
        read_captions: Ragged,
        sight: InputCorruption,
        similar: Integers,
        bags: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Integers, Any]:
        words, bag_photos = self.table.words, np.flatnonzero(bags)
        rows = read_captions.take(bag_photos)
        other = bag_photos[sight.near[bag_photos] > 0]
        own_words, similar_words = words.take(rows.values), words.take(similar[other])
        photo_of_theirs = other[similar_words.rows]
        photo = np.concatenate([bag_photos[rows.rows[own_words.rows]], photo_of_theirs])
        word = np.concatenate([own_words.values, similar_words.values]).astype(np.int64)
        share = np.concatenate([1 - sight.near[photo[: len(own_words.values)]], sight.near[photo_of_theirs]])
        is_read = rng.random(len(word)) < share * sight.kept[photo]
        is_read &= self.table.noun[word] | (sight.form[photo] != FORMS.index("nouns"))
        photo, word = photo[is_read], word[is_read]
        mistaken = rng.random(len(word)) < sight.noise[photo]
        if mistaken.any():
            word[mistaken] = rng.choice(words.values, int(mistaken.sum()))
        order = np.lexsort((rng.random(len(word)), photo))
        spelled = self.table.spelled.take(word[order])
        return photo[order][spelled.rows], spelled.values

    def _captions(
        self,
        read_captions: Ragged,
        sight: InputCorruption,
        similar: Integers,
        whole_captions: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Integers, Any]:
        caption_photos = np.flatnonzero(whole_captions)
        rows = read_captions.take(caption_photos)
        photo = caption_photos[rows.rows]
        elsewhere = rng.random(len(photo)) < sight.near[photo]
        pieces = self.table.pieces.take(np.where(elsewhere, similar[photo], rows.values))
        photo = photo[pieces.rows]
        is_read = (rng.random(len(photo)) < sight.kept[photo]) | (pieces.values == END)
        return photo[is_read], pieces.values[is_read]

    @cached_property
    def targets(self) -> Ragged:
        """What there is to write: each caption's subwords, cut at `LONGEST_TARGET`."""
        return _cut(self.table.pieces, LONGEST_TARGET)


def padded(rows: Ragged, fill: int) -> npt.NDArray[np.int64]:
    """The rows as a matrix as wide as the longest, filled up at the right."""
    lengths = rows.lengths
    matrix = np.full((len(rows), int(lengths.max(initial=1))), fill, np.int64)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = rows.values
    return matrix


def _cut(rows: Ragged, longest: int) -> Ragged:
    """The rows, none longer than this."""
    position = np.arange(len(rows.values)) - rows.offsets[:-1][rows.rows]
    return Ragged.from_lengths(rows.values[position < longest], np.minimum(rows.lengths, longest))
