"""Perturbed captions, with the share of words that each omits and the words that are wrong.

Besides the degradations of `capmeter.transforms` (at every strength) there are four that need no other caption:

| kind | |
|---|---|
| exchange | a word is replaced by another of the same contrast set (number, colour, person, object …; as in FOIL) |
| swap | two nouns swap positions: who does what to whom |
| cut | the caption is truncated |
| doubled | its end is repeated |

>>> captions = build_caption_set([("1", ("Two dogs run.", "dogs are running")), ("2", ("A red car.", "a car"))])
>>> (perturbation,) = perturb_captions(captions, [1], per_caption=1, seed=0, kinds=("exchange",))
>>> perturbation.kind, perturbation.text != "A red car.", len(perturbation.wrong_words)
('exchange', True, 1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.text.concepts import SLOTS, find_meanings, token_concept
from capmeter.transforms.degradations import Degrade, parse
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation
from capmeter_research.common.keywords import tag_sentence

DEGRADATION_KINDS = (
    *("permutation", "replacement", "substitution", "pos-substitution"),
    *("repetition-removal", "repetition", "removal"),
)
KINDS = ("exchange", "swap", "cut", "doubled", *DEGRADATION_KINDS)
WORD_KINDS = ("exchange", "replacement", "substitution", "pos-substitution")
"""Kinds that leave every other word in place, so that the wrong words are known."""
PLAUSIBLE_KINDS = ("exchange", "substitution", "pos-substitution")
"""Those of them whose new word fits the sentence in some way."""
OTHER_PHOTO = "another photo"
"""The kind of a caption of another photo; `unsupported_words` are its wrong words."""
TRUE_KINDS = ("permutation", "repetition", "removal", "repetition-removal", "cut", "doubled")
"""Kinds that add nothing false: the caption is ungrammatical or says less."""
OMISSION_KINDS = ("removal", "cut", "repetition-removal")
DISFLUENT_KINDS = (*TRUE_KINDS, "swap", "replacement")
_LOWEST_STRENGTH = 1e-9
_STRENGTHS = (0.1, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0)
_ARTICLES = ("a", "an")


@dataclass(frozen=True)
class Perturbation:
    """A perturbed caption."""

    row: int  # of the caption
    kind: str  # of the perturbation
    text: str  # the perturbed caption
    omitted: float  # share of the caption's words that are missing from it
    wrong_words: tuple[int, ...]  # indices of its wrong words, if they are known


def build_caption_set(photos: Sequence[tuple[str, Sequence[str]]], candidate: int = 0) -> CaptionSet:
    """One caption of every photo as candidate, by its index; all captions of the photo as references."""
    return CaptionSet.from_captions(Caption(photo, photo, texts[candidate], tuple(texts)) for photo, texts in photos)


def perturb_captions(
    captions: CaptionSet, rows: Sequence[int], *, per_caption: int, seed: int, kinds: Sequence[str] = KINDS
) -> Iterator[Perturbation]:
    """Perturbations of candidates, of different random kinds and strengths.

    Args:
        Perturbations that do not change the caption are left out.
        captions: candidates and references.
        rows: the captions to perturb.
        per_caption: number of perturbations of each at most.
        seed: of kinds and strengths.
        kinds: to choose from.
    """
    degradations: Mapping[str, Degrade] = {
        kind: parse(kind).fit(captions, seed) for kind in kinds if kind in DEGRADATION_KINDS
    }
    for row in rows:
        random = np.random.default_rng((seed, row))
        sentence = captions.pool[int(captions.candidates[row])]
        perturbed_count = 0
        # exchanges are the errors that machines make most often and readers excuse least: they are always tried
        kind_order = sorted(random.permutation(list(kinds)).tolist(), key=lambda kind: kind != "exchange")
        for kind in kind_order:
            if perturbed_count == per_caption:
                break
            strength = float(random.choice(_STRENGTHS))
            perturbed_text = (
                degradations[kind](row, strength) if kind in degradations else perturb(sentence, kind, random)
            )
            if perturbed_text is None or perturbed_text == sentence:
                continue
            perturbed_count += 1
            yield Perturbation(row, kind, perturbed_text, *_compare_words(sentence, perturbed_text, kind))


def substitute_one_word(captions: CaptionSet, rows: Sequence[int], *, seed: int) -> Iterator[Perturbation]:
    """Each candidate with one wrong word, once for every applicable kind of `PLAUSIBLE_KINDS`.

    Args:
        captions: candidates and references.
        rows: the captions to perturb.
        seed: of the words.
    """
    degradations = {kind: parse(kind).fit(captions, seed) for kind in PLAUSIBLE_KINDS if kind in DEGRADATION_KINDS}
    for row in rows:
        random = np.random.default_rng((seed, row))
        sentence = captions.pool[int(captions.candidates[row])]
        for kind in PLAUSIBLE_KINDS:
            degrade = degradations.get(kind)
            perturbed_text = degrade(row, _LOWEST_STRENGTH) if degrade else perturb(sentence, kind, random)
            if perturbed_text is None:
                continue
            omitted, wrong_words = _compare_words(sentence, perturbed_text, kind)
            if len(wrong_words) == 1:
                yield Perturbation(row, kind, perturbed_text, omitted, wrong_words)


def unsupported_words(caption: str, references: Iterable[str]) -> tuple[int, ...]:
    """The indices of the caption's content words whose stem is in no reference.

    >>> unsupported_words("a dog runs on grass", ["dogs sleep on a sofa"])
    (2, 4)
    """
    supported_concepts = {
        token_concept(strip_punctuation(word))
        for reference in references
        for word in SentenceWords.split(reference).core
    }
    concepts = (token_concept(strip_punctuation(word)) for word in SentenceWords.split(caption).core)
    return tuple(k for k, concept in enumerate(concepts) if concept is not None and concept not in supported_concepts)


def perturb(sentence: str, kind: str, random: np.random.Generator) -> str | None:
    """The sentence with one error; None if it is not applicable.

    Args:
        sentence: to perturb.
        kind: `exchange`, `swap`, `cut` or `doubled`.
        random: of the error.
    """
    words = SentenceWords.split(sentence)
    core = list(words.core)
    if kind == "exchange":
        # "a" contrasts with numbers only if other words say so; alone it is an article
        contrasts = {
            k: contrasting_words(bare_word)
            for k, bare_word in enumerate(map(strip_punctuation, core))
            if bare_word not in _ARTICLES and contrasting_words(bare_word)
        }
        if not contrasts:
            return None
        word_position = list(contrasts)[int(random.integers(len(contrasts)))]
        choices = [word for word in contrasts[word_position] if word not in _ARTICLES]
        if not choices:
            return None
        core[word_position] = _match_form(core[word_position], choices[int(random.integers(len(choices)))])
    elif kind == "swap":
        nouns = [k for k, tag in enumerate(tag_sentence(sentence)) if tag.startswith("NN") and k < len(core)]
        noun_pairs = [
            (i, j) for i in nouns for j in nouns if i < j and strip_punctuation(core[i]) != strip_punctuation(core[j])
        ]
        if not noun_pairs:
            return None
        i, j = noun_pairs[int(random.integers(len(noun_pairs)))]
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


def _match_form(old: str, new: str) -> str:
    """The new word with the old one's number and capitals."""
    is_plural = old.lower().endswith("s") and not new.endswith("s") and not old.lower().endswith("ss") and len(old) > 3
    word = new + "s" if is_plural else new
    return word.capitalize() if old[:1].isupper() else word


def _compare_words(sentence: str, perturbed_text: str, kind: str) -> tuple[float, tuple[int, ...]]:
    """The share of the sentence's words that are missing from the text, and the indices of the text's wrong words."""
    original_words, perturbed_words = (
        [*map(strip_punctuation, SentenceWords.split(each).core)] for each in (sentence, perturbed_text)
    )
    omitted = (Counter(original_words) - Counter(perturbed_words)).total() / max(len(original_words), 1)
    if kind not in WORD_KINDS or len(original_words) != len(perturbed_words):
        return omitted, ()
    return omitted, tuple(
        k for k, (old, new) in enumerate(zip(original_words, perturbed_words, strict=True)) if old != new
    )


def contrasting_words(word: str) -> tuple[str, ...]:
    """Returns the words that fill a slot of this word with another meaning; the first synonym of each meaning."""
    meanings = ((synonyms, k != own) for slot, own in find_meanings(word) for k, synonyms in enumerate(SLOTS[slot]))
    return tuple(synonyms.split("/")[0] for synonyms, is_other in meanings if is_other)
