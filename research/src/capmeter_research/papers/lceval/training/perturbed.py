"""Human captions beside perturbed forms of themselves, which a network must score lower.

Retrieved captions are fluent and wrong; against them alone a network does not learn that a caption must be a sentence,
nor what a single word is worth. Here a caption is compared with itself: all forms have the same references, so that
nothing but the perturbation tells them apart. `permutation` moves half of the words or more, each `substitution`
replaces two words to half of them by words that follow the same word elsewhere.

>>> captions = ("a dog runs on grass", "the dog is fast", "a brown dog", "a pet runs", "grass and a dog")
>>> human = {("coco", "2"): captions, ("coco", "3"): ("two cats sleep",)}
>>> [each.system for each in perturb_captions(human, [("coco", "2")])]
['', 'permutation', 'substitution-1', 'substitution-2', 'substitution-3']
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter.transforms.perturbations import ReplacementWords, SentenceWords, permute_words, substitute_words
from capmeter_research.common.benchmark_exclusions import PhotoId
from capmeter_research.papers.lceval.training.examples import REFERENCES, LabelledCandidate

Perturb = Callable[[Sequence[str], int, np.random.Generator], list[str]]
"""Changes a number of words of a sentence."""
FORMS = 5
"""The human caption and its perturbed forms."""


def perturb_captions(
    human: Mapping[PhotoId, Sequence[str]], photos: Sequence[PhotoId], *, seed: int = 0
) -> list[LabelledCandidate]:
    """Of each photo one human caption and then its perturbed forms (`FORMS` rows), each with four other captions.

    Photos with fewer than five distinct captions, photos that are held out, and captions of which a form is the
    caption itself (of a single word) are left out. All are lower-cased and without punctuation, as in `build_examples`.

    Args:
        human: the human captions of all photos; their words replace others.
        photos: those whose captions are perturbed.
        seed: chooses captions and words, which depend on seed, photo and perturbation alone.
    """
    vocabulary = ReplacementWords.collect(text for distinct_texts in human.values() for text in distinct_texts)
    substitute = partial(substitute_words, vocabulary=vocabulary)
    perturbations: dict[str, tuple[Perturb, float]] = {
        "permutation": (permute_words, 1.0),
        **{f"substitution-{k}": (substitute, 0.5) for k in range(1, FORMS - 1)},
    }
    form_examples = []
    for photo in photos:
        distinct_texts = list(dict.fromkeys(human[photo]))
        random = _random(seed, "caption", photo)
        caption, *references = [distinct_texts[k] for k in random.permutation(len(distinct_texts))[: REFERENCES + 1]]
        original = LabelledCandidate(photo, caption, tuple(references))
        if len(references) < REFERENCES or original.held_out:
            continue
        forms = {name: _perturb(caption, *how, _random(seed, name, photo)) for name, how in perturbations.items()}
        if caption not in forms.values():
            form_examples += [
                original,
                *(replace(original, candidate=form, system=name) for name, form in forms.items()),
            ]
    form_tokens = tokenise_sentences("ptb", [example.candidate for example in form_examples])
    return [
        replace(example, candidate=" ".join(words)) for example, words in zip(form_examples, form_tokens, strict=True)
    ]


def _perturb(caption: str, perturb: Perturb, largest: float, random: np.random.Generator) -> str:
    """The caption with a random number of words perturbed: half of the largest share to all of it, at least two."""
    words = SentenceWords.split(caption)
    max_words = max(2, round(largest * len(words.core)))
    word_count = int(random.integers(max(2, max_words // 2), max_words + 1))
    return words.sentence(perturb(words.core, word_count, random))


def _random(seed: int, purpose: str, photo: PhotoId) -> np.random.Generator:
    return np.random.default_rng([seed, *hashlib.sha256(f"{purpose} {photo}".encode()).digest()[:8]])
