"""What the metric `capmeter` is trained on: photos with their captions, and one caption of each made wrong.

The encoder that the matcher reads is frozen: every sentence is encoded once. The judge's learns with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders import PieceTable, load_encoder
from capmeter.errors import InputError
from capmeter.learning.capmeter.wrong import KINDS, Wrong, caption_set, one_word_wrong, wrong_captions
from capmeter.learning.corpus import Corpus, Photo, drawn_photos
from capmeter.metrics.capmeter.associations import Associations
from capmeter.metrics.capmeter.inputs import Encoded, Words, plain
from capmeter.metrics.capmeter.knowledge import Knowledge
from capmeter.metrics.capmeter.language_model import LanguageModel
from capmeter.metrics.capmeter.lexicon import Lexicon
from capmeter.metrics.capmeter.words import words_of_pieces
from capmeter.settings import Settings
from capmeter.transforms.perturbations import SentenceWords, bare
from capmeter.transforms.tagged_words import tagged_words

CAPTIONS = 5
LEAST = 3
"""How often a pair or triple of word pieces occurs in captions that the language model keeps."""
_AT_ONCE = 8192
_JUDGED = 2
"""Of so many captions of each photo there are forms with one wrong word; of the others, for the judge alone. Of photos
for the judge alone as well."""
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class WrongForm:
    """A wrong form of one of a photo's captions: its kind, the number of its sentence, the share of the caption's
    words that it lacks, and the numbers of its wrong words where they are known.
    """

    kind: str
    sentence: int
    lost: float
    words: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """A caption by its photo and its place among that photo's captions, and forms of it with one wrong word."""

    photo: int
    place: int
    forms: tuple[WrongForm, ...]


@dataclass(frozen=True, eq=False)
class Examples:
    """Photos as numbers of sentences, int64[photos, 5], of which the first `trained` are trained on, those up to
    `matched` held out, and the others for the judge alone; the wrong forms of the first caption of each up to there;
    captions that are trained on whose words are judged, and more of them for the judge alone; the sentences, of which
    the first `read` are all that the matcher reads; what is known of word pieces; the encoder and the layer that is
    read.
    """

    sentences: tuple[str, ...]
    captions: Rows
    wrong: tuple[tuple[WrongForm, ...], ...]
    judged: tuple[Judged, ...]
    judged_alone: tuple[Judged, ...]
    read: int
    trained: int
    matched: int
    known: Knowledge
    encoder: str
    layer: int
    settings: Settings
    _places: dict[int, Rows | None] = field(default_factory=dict)

    @cached_property
    def pieces(self) -> PieceTable:
        """The sentences' word pieces."""
        return load_encoder(self.encoder, self.settings).pieces(self.sentences)

    @cached_property
    def encoded(self) -> Encoded:
        """The states and vectors of what the matcher reads, of the layer that is read."""
        return Encoded.of(self.sentences[: self.read], self.encoder, self.layer, self.settings)

    @cached_property
    def alone(self) -> Words:
        """What is known of word pieces, each by itself."""
        return self.known.words(load_encoder(self.encoder, self.settings))

    def words(self, sentence: int) -> Rows | None:
        """The word of each word piece of a sentence, or None where that is not known."""
        if sentence not in self._places:
            encoder = load_encoder(self.encoder, self.settings)
            pieces = int(self.pieces.lengths[sentence]) - 2
            found = words_of_pieces(encoder, self.sentences[sentence], pieces)
            self._places[sentence] = None if found is None else np.array(found, np.int64)
        return self._places[sentence]

    def means(self) -> NDArray[np.float32]:
        """The direction of the mean vector of the captions of each photo that is trained on."""
        means: NDArray[np.float32] = self.encoded.vectors[self.captions[: self.trained]].mean(axis=1)
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
        return means


def drawn(corpora: Sequence[Corpus], photos: int, held_out: int, seed: int) -> tuple[list[Photo], list[Photo]]:
    """So many photos to train on and so many that are held out, with five captions each, as many from each corpus.

    Raises:
        InputError: there are fewer.
    """
    chosen: tuple[list[Photo], list[Photo]] = [], []
    for corpus in corpora:
        all_of_it = drawn_photos(corpus, 0, more_than=CAPTIONS - 1)
        for side, kept, number in ((0, False, photos), (1, True, held_out)):
            found = [photo for photo in all_of_it if photo.held_out is kept]
            wanted = -(-number // len(corpora))
            if len(found) < wanted:
                raise InputError(
                    f"{corpus.data.name}: expected {wanted:,} photos with {CAPTIONS} captions "
                    f"{'to hold out' if kept else 'to train on'}, but got {len(found):,}"
                )
            rows = np.random.default_rng(seed).choice(len(found), wanted, replace=False)
            chosen[side].extend(found[row] for row in np.sort(rows).tolist())
    return chosen


def drawn_more(corpora: Sequence[Corpus], drawn: Sequence[Photo], photos: int, seed: int) -> list[Photo]:
    """So many of the other photos to train on, or as many as there are, with five captions each."""
    before = {(photo.source, photo.number) for photo in drawn}
    left = [
        photo
        for corpus in corpora
        for photo in drawn_photos(corpus, 0, more_than=CAPTIONS - 1)
        if not photo.held_out and (photo.source, photo.number) not in before
    ]
    rows = np.random.default_rng(seed).permutation(len(left))[:photos]
    return [left[row] for row in np.sort(rows).tolist()]


def read_examples(
    trained: Sequence[Photo],
    held_out: Sequence[Photo],
    alone: Sequence[Photo] = (),
    *,
    known: Knowledge,
    encoder: str,
    layer: int,
    wrong: int,
    seed: int,
    settings: Settings,
) -> Examples:
    """The examples of these photos, with so many wrong forms of each; of photos held out, one of every kind.

    alone: photos for the judge alone; of two captions of each there are forms with one wrong word.

    Raises:
        InputError: no caption has a word that can be exchanged.
    """
    texts, texts_alone = (
        [(photo.source + photo.number, photo.captions[:CAPTIONS]) for photo in photos]
        for photos in ((*trained, *held_out), alone)
    )
    captions = caption_set(texts)
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(plain(text), len(numbers))

    def numbered(photos: Sequence[tuple[str, Sequence[str]]]) -> Rows:
        rows = [[number(caption) for caption in captions] for _, captions in photos]
        return np.array(rows, np.int64).reshape(-1, CAPTIONS)

    own = numbered(texts)

    def grouped(made: Iterable[Wrong]) -> dict[int, tuple[WrongForm, ...]]:
        found: dict[int, list[WrongForm]] = {}
        for each in made:
            form = WrongForm(each.kind, number(each.text), each.lost, each.words)
            found.setdefault(each.row, []).append(form)
        return {row: tuple(forms) for row, forms in found.items()}

    forms: dict[int, tuple[WrongForm, ...]] = {}
    for first, end, many in ((0, len(trained), wrong), (len(trained), len(texts), len(KINDS))):
        forms |= grouped(wrong_captions(captions, range(first, end), per_caption=many, seed=seed))

    def one_wrong(photos: Sequence[tuple[str, Sequence[str]]], place: int, first: int = 0) -> list[Judged]:
        if not photos:
            return []
        made = one_word_wrong(caption_set(photos, place), range(len(photos)), seed=seed + place)
        return [Judged(first + row, place, each) for row, each in grouped(made).items()]

    both = texts[: len(trained)]
    judged = [each for place in range(_JUDGED) for each in one_wrong(both, place)]
    read = len(numbers)
    judged_alone = [each for place in range(_JUDGED, CAPTIONS) for each in one_wrong(both, place)]
    own = np.concatenate([own, numbered(texts_alone)])
    judged_alone += [each for place in range(_JUDGED) for each in one_wrong(texts_alone, place, len(texts))]
    if not judged:
        raise InputError("expected captions with a word that can be exchanged for another, but got none")
    found = tuple(forms.get(row, ()) for row in range(len(texts)))
    return Examples(
        tuple(numbers),
        own,
        found,
        tuple(judged),
        tuple(judged_alone),
        read,
        len(trained),
        len(texts),
        known,
        encoder,
        layer,
        settings,
    )


def known_of(
    corpora: Sequence[Corpus], photos: Sequence[Photo], encoder: str, settings: Settings, *, least: int = LEAST
) -> Knowledge:
    """What is known of word pieces from all captions of photos that are neither held out nor trained on (`photos`).

    Captions that are trained on should be as new to these counts as those that the metric will read. Which words name
    things is learned from the tags of the photos that are trained on.
    """
    found = load_encoder(encoder, settings)
    left_out = {(photo.source, photo.number) for photo in photos}
    counted = [
        photo
        for corpus in corpora
        for photo in corpus.photos
        if not photo.held_out and (photo.source, photo.number) not in left_out
    ]
    sentences = [plain(text) for photo in counted for text in photo.captions]
    photo_of = np.repeat(np.arange(len(counted)), [len(photo.captions) for photo in counted])
    rows = [
        np.array(ids, np.int32)
        for start in range(0, len(sentences), _AT_ONCE)
        for ids in found.tokenizer.ids(sentences[start : start + _AT_ONCE])
    ]
    size = len(found.tokenizer)
    language = LanguageModel.counted(rows, size, least)
    associations = Associations.counted([row[1:-1] for row in rows], photo_of, size)
    return Knowledge(language, learned_lexicon(photos, language, encoder, settings), associations)


def learned_lexicon(photos: Sequence[Photo], language: LanguageModel, encoder: str, settings: Settings) -> Lexicon:
    """What word pieces mean alone; whether they name things is learned from the tags of these photos' captions."""
    found = load_encoder(encoder, settings)
    sentences = [plain(text) for photo in photos for text in photo.captions[:CAPTIONS]]
    nouns: Counter[str] = Counter()
    said: Counter[str] = Counter()
    for sentence, tags in zip(sentences, tagged_words(sentences), strict=True):
        for word, tag in zip(map(bare, SentenceWords.of(sentence).core), tags, strict=True):
            said[word] += 1
            nouns[word] += tag.startswith("NN")
    shares = np.zeros((2, len(found.tokenizer)))
    words = [word for word in said if word]
    for word, ids in zip(words, found.tokenizer.ids(words), strict=True):
        for piece in ids[1:-1]:
            shares[:, piece] += nouns[word], said[word]
    things = np.where(shares[1] >= LEAST, shares[0] / np.maximum(shares[1], 1), 0.0)
    special = np.array([found.begin_id, found.end_id])
    counts = language.pieces.copy()
    counts[special] = 0
    return Lexicon.learned(found.embeddings(), counts, things)
