"""What captions of systems are like: length, variety, novelty, perplexity, and CIDEr-D against what was not read.

Every system's caption of a photo is compared with all of the photo's captions but one: a written caption with those
that the writer did not read, any other with those that are left when one, drawn by the seed, is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain, pairwise

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.learning.corpus import Photo
from capmeter.learning.writer.machine import read_places, unread
from capmeter.learning.writer.trigrams import Trigrams
from capmeter.metrics.evaluation import score
from capmeter.progress import task
from capmeter.text.ptb import tokenize

HUMAN = "human"


@dataclass(frozen=True)
class Described:
    """What the captions of a system are like.

    Args:
        captions: how many there are.
        perplexity: per word, under the trigrams of captions of held-out photos.
        words: mean length.
        distinct_1: distinct words per word.
        distinct_2: distinct bigrams per bigram.
        novel: share of captions that are no caption of a photo that was trained on, letter case and punctuation apart.
        cider_d: CIDEr-D; idf from the references of the photos.
    """

    captions: int
    perplexity: float
    words: float
    distinct_1: float
    distinct_2: float
    novel: float
    cider_d: float

    @classmethod
    def names(cls) -> list[str]:
        """The names of the measures, in their order."""
        return [field.name for field in fields(cls)]

    def to_dict(self) -> dict[str, float]:
        """The measures by name."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Known:
    """What captions are measured against: trigrams of held-out photos, and the captions that were trained on."""

    trigrams: Trigrams
    trained: frozenset[str]

    @classmethod
    def of(cls, photos: Sequence[Photo]) -> Known:
        """From the photos of a corpus, held-out ones and others.

        Raises:
            InputError: no photo is held out.
        """
        held_out = [tokenize(text) for photo in photos if photo.held_out for text in photo.captions]
        if not held_out:
            raise InputError(f"none of {len(photos)} photos is held out; give more photos, for the trigrams")
        trained = chain.from_iterable(photo.captions for photo in photos if not photo.held_out)
        return cls(Trigrams(held_out), frozenset(map(_plain, trained)))


def describe(
    systems: Mapping[str, Mapping[str, str]],
    read: Mapping[str, Mapping[str, Sequence[int]]],
    photos: Mapping[str, Photo],
    known: Known,
    seed: int = 0,
) -> dict[str, Described]:
    """The measures of each system, and of `human`: for each photo, the caption that is taken away.

    Args:
        systems: each system's caption of each photo, by the key of the photo.
        read: for the systems of a writer, the places of the captions that it read.
        photos: by key.
        known: what captions are measured against.
        seed: of the captions that are taken away.
    """
    away = {key: read_places(photo, 1, str(seed)) for key, photo in photos.items()}
    human = {key: photos[key].captions[places[0]] for key, places in away.items()}
    described: dict[str, Described] = {}
    with task("measuring captions", total=len(systems) + 1) as advance:
        for system, written in {HUMAN: human, **systems}.items():
            places = read.get(system, away)
            rows = [
                Caption(key, key, text, unread(photos[key], places.get(key, away[key])))
                for key, text in written.items()
            ]
            described[system] = _described(rows, known)
            advance(1)
    return described


def _described(rows: Sequence[Caption], known: Known) -> Described:
    tokens = [tokenize(row.candidate) for row in rows]
    words = sum(map(len, tokens))
    results = score(CaptionSet.from_captions(rows), ["cider-d"])
    return Described(
        captions=len(rows),
        perplexity=known.trigrams.perplexity(tokens),
        words=words / max(1, len(rows)),
        distinct_1=_distinct((word,) for each in tokens for word in each),
        distinct_2=_distinct(pair for each in tokens for pair in pairwise(each)),
        novel=sum(_plain(row.candidate) not in known.trained for row in rows) / max(1, len(rows)),
        cider_d=results["cider-d"].score,
    )


def _distinct(grams: Iterable[tuple[str, ...]]) -> float:
    found = list(grams)
    return len(set(found)) / max(1, len(found))


def _plain(caption: str) -> str:
    """The words in lower case, without punctuation around them."""
    return " ".join(bare for word in caption.split() if (bare := word.strip(".,;:!?\"'()").lower()))
