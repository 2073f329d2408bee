"""Captions made wrong in known ways, with the share of its words that each lacks and the words that are wrong.

Beside the degradations of `capmeter.transforms` (at every strength) there are four that need no other caption:

| kind | |
|---|---|
| exchange | one word becomes another that fills the same slot (number, colour, person, thing …; FOIL) |
| swap | two nouns swap positions: who does what to whom |
| cut | the caption ends too early |
| doubled | its end is said twice |

>>> captions = caption_set([("1", ("Two dogs run.", "dogs are running")), ("2", ("A red car.", "a car"))])
>>> (made,) = wrong_captions(captions, [1], per_caption=1, seed=0, kinds=("exchange",))
>>> made.kind, made.text != "A red car.", len(made.words)
('exchange', True, 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.model import Caption, CaptionSet
from capmeter.text.concepts import concept
from capmeter.text.slots import others
from capmeter.transforms.degradations import Degrade
from capmeter.transforms.perturbations import SentenceWords, bare
from capmeter.transforms.registry import parse
from capmeter.transforms.tagged_words import tags_of

TRANSFORMED = (
    "permutation",
    "replacement",
    "substitution",
    "pos-substitution",
    "repetition-removal",
    "repetition",
    "removal",
)
OWN = ("exchange", "swap", "cut", "doubled")
KINDS = (*OWN, *TRANSFORMED)
WORDS_KNOWN = ("exchange", "replacement", "substitution", "pos-substitution")
"""Kinds that leave every other word where it was, so that the wrong words are known."""
FITTING = ("exchange", "substitution", "pos-substitution")
"""Those of them whose new word fits the sentence in some way."""
_ONE_WORD = 1e-9
OF_ANOTHER = "another photo"
"""A caption of another photo, of which `not_said` tells the wrong words."""
STILL_TRUE = ("permutation", "repetition", "removal", "repetition-removal", "cut", "doubled")
"""Kinds that add nothing false: the caption is badly said, or says less."""


@dataclass(frozen=True)
class Wrong:
    """A caption made wrong: of which row, in which way, the share of the caption's words that it lacks, and which words
    are wrong.
    """

    row: int
    kind: str
    text: str
    lost: float
    words: tuple[int, ...]


def caption_set(photos: Sequence[tuple[str, Sequence[str]]], candidate: int = 0) -> CaptionSet:
    """One caption of every photo as candidate, the first if not told; all of the photo's captions as references."""
    return CaptionSet.from_captions(Caption(photo, photo, texts[candidate], tuple(texts)) for photo, texts in photos)


def wrong_captions(
    captions: CaptionSet, rows: Sequence[int], *, per_caption: int, seed: int, kinds: Sequence[str] = KINDS
) -> Iterator[Wrong]:
    """So many wrong forms of each candidate, by kinds drawn without repetition, at strengths from slight to strong.

    What does not change a caption is left out.
    """
    fitted: Mapping[str, Degrade] = {kind: parse(kind).fitted(captions, seed) for kind in kinds if kind in TRANSFORMED}
    for row in rows:
        random = np.random.default_rng((seed, row))
        sentence = captions.pool[int(captions.candidates[row])]
        found = 0
        # an exchange is the error that people make least excusable and machines most often: it is always tried
        order = sorted(random.permutation(list(kinds)).tolist(), key=lambda kind: kind != "exchange")
        for kind in order:
            if found == per_caption:
                break
            strength = float(random.choice((0.1, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0)))
            text = fitted[kind](row, strength) if kind in fitted else changed(sentence, kind, random)
            if text is None or text == sentence:
                continue
            found += 1
            yield Wrong(row, kind, text, *_difference(sentence, text, kind))


def one_word_wrong(captions: CaptionSet, rows: Sequence[int], *, seed: int) -> Iterator[Wrong]:
    """Each candidate with one wrong word, once in every way of `FITTING` that finds a place in it."""
    fitted = {kind: parse(kind).fitted(captions, seed) for kind in FITTING if kind in TRANSFORMED}
    for row in rows:
        random = np.random.default_rng((seed, row))
        sentence = captions.pool[int(captions.candidates[row])]
        for kind in FITTING:
            text = fitted[kind](row, _ONE_WORD) if kind in fitted else changed(sentence, kind, random)
            if text is None:
                continue
            lost, words = _difference(sentence, text, kind)
            if len(words) == 1:
                yield Wrong(row, kind, text, lost, words)


def not_said(caption: str, references: Iterable[str]) -> tuple[int, ...]:
    """The numbers of the caption's content words whose stem no reference says.

    >>> not_said("a dog runs on grass", ["dogs sleep on a sofa"])
    (2, 4)
    """
    said = {concept(bare(word)) for reference in references for word in SentenceWords.of(reference).core}
    mine = (concept(bare(word)) for word in SentenceWords.of(caption).core)
    return tuple(k for k, each in enumerate(mine) if each is not None and each not in said)


def changed(sentence: str, kind: str, random: np.random.Generator) -> str | None:
    """The sentence with one error of one of the kinds in `OWN`; None where it has no place for it."""
    words = SentenceWords.of(sentence)
    core = list(words.core)
    if kind == "exchange":
        # "a" is a number only where something else is said to be more; alone it is an article
        places = [k for k, word in enumerate(core) if bare(word) not in ("a", "an") and others(bare(word))]
        if not places:
            return None
        place = places[int(random.integers(len(places)))]
        choices = [word for word in others(bare(core[place])) if word not in ("a", "an")]
        if not choices:
            return None
        core[place] = _like(core[place], choices[int(random.integers(len(choices)))])
    elif kind == "swap":
        nouns = [k for k, tag in enumerate(tags_of(sentence)) if tag.startswith("NN") and k < len(core)]
        pairs = [(i, j) for i in nouns for j in nouns if i < j and bare(core[i]) != bare(core[j])]
        if not pairs:
            return None
        i, j = pairs[int(random.integers(len(pairs)))]
        core[i], core[j] = core[j], core[i]
    elif kind == "cut":
        if len(core) < 4:
            return None
        core = core[: int(random.integers(2, len(core)))]
    else:
        if len(core) < 2:
            return None
        core += core[-int(random.integers(1, max(2, len(core) // 2))) :]
    return words.sentence(core)


def _like(old: str, new: str) -> str:
    """The new word in the old one's number and capitals."""
    plural = old.lower().endswith("s") and not new.endswith("s") and not old.lower().endswith("ss") and len(old) > 3
    word = new + "s" if plural else new
    return word.capitalize() if old[:1].isupper() else word


def _difference(sentence: str, text: str, kind: str) -> tuple[float, tuple[int, ...]]:
    """The share of the sentence's words that the text lacks, and the numbers of the text's wrong words."""
    before, after = ([*map(bare, SentenceWords.of(each).core)] for each in (sentence, text))
    lost = (Counter(before) - Counter(after)).total() / max(len(before), 1)
    if kind not in WORDS_KNOWN or len(before) != len(after):
        return lost, ()
    return lost, tuple(k for k, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
