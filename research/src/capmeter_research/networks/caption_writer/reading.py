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
from capmeter_research.common.transformer.decoding import END
from capmeter_research.networks.caption_writer.subwords import Subwords

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
    def from_captions(cls, captions: Sequence[str], subwords: Subwords, nouns: Collection[str]) -> CaptionTable:
        """The table of captions.

        Args:
            captions: texts.
            subwords: their vocabulary.
            nouns: words that are read where only nouns are.
        """
        word_numbers: dict[str, int] = {}
        word_ids: dict[str, int] = {}  # of words as they are written; -1: no content word
        word_rows: list[list[int]] = []
        for caption in captions:
            caption_words = caption.split()
            for written_word in caption_words:
                if written_word not in word_ids:
                    word = strip_punctuation(written_word)
                    word_ids[written_word] = (
                        word_numbers.setdefault(word, len(word_numbers)) if is_content(word) else -1
                    )
            word_rows.append([word_id for written_word in caption_words if (word_id := word_ids[written_word]) >= 0])
        return cls(
            pieces=Ragged.from_rows([[*piece_ids, END] for piece_ids in subwords.encode(captions)], np.int32),
            words=Ragged.from_rows(word_rows, np.int32),
            spelled=Ragged.from_rows(subwords.encode(list(word_numbers)), np.int32),
            noun=np.fromiter((word in nouns for word in word_numbers), np.bool_, len(word_numbers)),
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

    @classmethod
    def from_captions(cls, captions: Sequence[str], subwords: Subwords, nouns: Collection[str]) -> SourceReader:
        """The reader of captions.

        Args:
            captions, subwords, nouns: as in `CaptionTable.from_captions`.
        """
        table = CaptionTable.from_captions(captions, subwords, frozenset(nouns))
        return cls(table, [subwords.mark(form_mark(form)) for form in FORMS])

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
            read_captions: for each photo, the rows of its captions that are read.
            sight: how they are read.
            styles: the mark of each photo's style.
            rng: chooses what is lost, mistaken and taken from elsewhere.
            similar: the row of a caption of a similar photo; needed where `sight.near` is above 0.

        Raises:
            InputError: `similar` is missing.
        """
        if similar is None:
            if sight.near.any():
                raise InputError("similar: there is no similar photo to read from; expected at least two photos")
            similar = np.zeros(len(read_captions), np.int64)
        is_bag = sight.form > 0
        head = np.arange(len(read_captions))
        form_marks = np.array(self.marks, np.int64)[sight.form]
        photo_parts, piece_parts = [head, head], [styles, form_marks]
        for part_photos, part_pieces in (
            self._bags(read_captions, sight, similar, is_bag, rng),
            self._captions(read_captions, sight, similar, ~is_bag, rng),
        ):
            photo_parts.append(part_photos)
            piece_parts.append(part_pieces)
        photos, pieces = np.concatenate(photo_parts), np.concatenate(piece_parts)
        photo_order = np.argsort(photos, kind="stable")
        sources = Ragged.from_lengths(
            pieces[photo_order].astype(np.int32), np.bincount(photos, minlength=len(read_captions))
        )
        return _cut(sources, LONGEST_SOURCE)

    def _bags(
        self,
        read_captions: Ragged,
        sight: InputCorruption,
        similar: Integers,
        is_bag: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Integers, Any]:
        words, bag_photos = self.table.words, np.flatnonzero(is_bag)
        caption_rows = read_captions.take(bag_photos)
        near_photos = bag_photos[sight.near[bag_photos] > 0]
        own_words, similar_words = words.take(caption_rows.values), words.take(similar[near_photos])
        photo_of_theirs = near_photos[similar_words.rows]
        word_photos = np.concatenate([bag_photos[caption_rows.rows[own_words.rows]], photo_of_theirs])
        word = np.concatenate([own_words.values, similar_words.values]).astype(np.int64)
        read_share = np.concatenate([1 - sight.near[word_photos[: len(own_words.values)]], sight.near[photo_of_theirs]])
        is_read = rng.random(len(word)) < read_share * sight.kept[word_photos]
        is_read &= self.table.noun[word] | (sight.form[word_photos] != FORMS.index("nouns"))
        word_photos, word = word_photos[is_read], word[is_read]
        is_mistaken = rng.random(len(word)) < sight.noise[word_photos]
        if is_mistaken.any():
            word[is_mistaken] = rng.choice(words.values, int(is_mistaken.sum()))
        word_order = np.lexsort((rng.random(len(word)), word_photos))
        spelled_pieces = self.table.spelled.take(word[word_order])
        return word_photos[word_order][spelled_pieces.rows], spelled_pieces.values

    def _captions(
        self,
        read_captions: Ragged,
        sight: InputCorruption,
        similar: Integers,
        whole_captions: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Integers, Any]:
        caption_photos = np.flatnonzero(whole_captions)
        caption_rows = read_captions.take(caption_photos)
        piece_photos = caption_photos[caption_rows.rows]
        from_similar = rng.random(len(piece_photos)) < sight.near[piece_photos]
        pieces = self.table.pieces.take(np.where(from_similar, similar[piece_photos], caption_rows.values))
        piece_photos = piece_photos[pieces.rows]
        is_read = (rng.random(len(piece_photos)) < sight.kept[piece_photos]) | (pieces.values == END)
        return piece_photos[is_read], pieces.values[is_read]

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
    piece_positions = np.arange(len(rows.values)) - rows.offsets[:-1][rows.rows]
    return Ragged.from_lengths(rows.values[piece_positions < longest], np.minimum(rows.lengths, longest))
