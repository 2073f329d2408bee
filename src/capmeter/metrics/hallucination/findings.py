"""What `hallucination` knows of a caption, and its regressions on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capmeter.evaluation.base import Floats
from capmeter.judgments.prepared import letters_and_digits
from capmeter.metrics.hallucination.content_words import Word
from capmeter.metrics.learned.capmeter.words import WordVerdicts

BASE_WEIGHTS = (6.0, 0.53, 0.4, 0.0, -3.1)
"""Of 1 − cos, max t, m and o, and the offset; o is not looked for."""
LARGE_WEIGHTS = (7.8, 0.45, 0.4, 1.0, -3.5)
"""The same where the cosine is that of a larger encoder."""
_DISTANCE, _NOT_A_THING = 4.0, 0.5
_LEAST = 1e-3  # probability of being right; a tagger is never surer


@dataclass(frozen=True)
class SentenceFindings:
    """What is known of one sentence of a candidate.

    Attributes:
        words: its content words.
        right: of each content word its probability of being right.
        nearest: of each content word its largest cosine with a word of the references.
        named: whether a reference or an object names each content word.
        shown: whether an object does.
        verdicts: the labels of all of its words.
    """

    words: Sequence[Word]
    right: Floats
    nearest: Floats
    named: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    verdicts: WordVerdicts

    @property
    def word_errors(self) -> Floats:
        """t of each content word."""
        word_factors = np.array([1.0 if word.names_thing else _NOT_A_THING for word in self.words])
        scaled_errors = word_factors * (_DISTANCE * (1 - self.nearest) - np.log(np.maximum(self.right, _LEAST)))
        return np.where(self.shown, 0.0, scaled_errors)

    @property
    def unsupported(self) -> NDArray[np.bool_]:
        """Which content words are doubted by the tagger and named by no reference and no object."""
        return (self.right < 0.5) & ~self.named


@dataclass(frozen=True)
class CaptionFindings:
    """What is known of a candidate.

    Attributes:
        sentences: its sentences; none if it has no word.
        cosine: with the mean of the references' sentences; 0 for a document.
        missing: m.
        unknown_objects: those of CHAIR's list that the candidate mentions and nothing else does; o is whether there is
            any.
        document: whether it and all references are texts of several sentences, which are judged by their words.
    """

    sentences: Sequence[SentenceFindings]
    cosine: float
    missing: float
    unknown_objects: Sequence[str] = ()
    document: bool = False

    @property
    def shown_words(self) -> set[str]:
        """The words that name an object, as letters and digits."""
        return {
            letters_and_digits(sentence.verdicts.candidate[word.place])
            for sentence in self.sentences
            for word, shown in zip(sentence.words, sentence.shown.tolist(), strict=True)
            if shown
        }

    @property
    def quantities(self) -> tuple[float, float, float, float]:
        """What the regressions read: 1 − cos, max t as the mean over sentences, m, and o."""
        worst_errors = [float(sentence.word_errors.max(initial=0.0)) for sentence in self.sentences]
        mean_error = sum(worst_errors) / max(len(worst_errors), 1)
        return 1 - self.cosine, mean_error, self.missing, float(bool(self.unknown_objects))

    def logit(self, weights: Sequence[float]) -> float:
        """The score before σ; weights: of the quantities, and the offset."""
        *quantity_weights, offset = weights
        terms = (weight * quantity for weight, quantity in zip(quantity_weights, self.quantities, strict=True))
        return sum(terms) + offset
