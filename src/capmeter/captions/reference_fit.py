"""Do candidates and references belong together? Their words and lengths are compared.

Two mistakes give scores near 0 without any error: references of other images (then a candidate shares no more words
with its own references than with those of any other image), and several references joined into one text (then BLEU's
brevity penalty and CIDEr-D's length penalty leave nothing).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.unsegmented_scripts import CJK, HAN_AND_KANA, is_unsegmented

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_UNTOKENISED = re.compile(r"[^\W\d_]{2,}[.!?]$")
_FEWEST_IMAGES, _FEWEST_CAPTIONS = 20, 10  # fewer images, or fewer different captions, say nothing
_OWN_TO_OTHER = 1.1
_MIN_EXCESS = 3.0  # standard errors
_JOINED = 3.0
_SAMPLE = 200
MISMATCH = (
    "the references seem to belong to other images, to be in another order, or to be joined into one text (`capmeter "
    "validate` says why); check which field is the image id"
)
"""The note on captions whose references cannot be theirs."""


@dataclass(frozen=True)
class ReferenceFit:
    """Words and lengths of the candidates beside those of their references.

    Args:
        candidate_words, reference_words: mean number of words of a candidate, of a reference.
        vocabulary_share: share of the candidates' distinct words that occur in any reference; None without words.
        own_share: mean share of a candidate's distinct words that occur in its own references.
        other_share: likewise in the references of another image; None if there is only one image.
        other_count: number of candidates compared with another image.
        excess: mean difference of the two shares, in standard errors.
        distinct_count: number of different candidates.
        has_single_references: every image has one reference.
    """

    candidate_words: float
    reference_words: float
    vocabulary_share: float | None
    own_share: float
    other_share: float | None
    other_count: int
    excess: float
    distinct_count: int
    has_single_references: bool

    @classmethod
    def measure(cls, captions: CaptionSet) -> ReferenceFit:
        """Compares the candidates that have references; there must be at least one."""
        word_lists = [split_words(sentence) for sentence in captions.pool.sentences]
        word_counts, word_sets = list(map(len, word_lists)), list(map(frozenset, word_lists))
        reference_sets = captions.reference_sets
        sets = [reference_sets[k].tolist() for k in range(len(reference_sets))]  # the distinct lists of references
        words_of_sets = [
            word_sets[members[0]] if len(members) == 1 else frozenset().union(*(word_sets[k] for k in members))
            for members in sets
        ]
        candidates, set_of = captions.candidates.tolist(), captions.reference_set_indices.tolist()
        rows = [row for row, k in enumerate(set_of) if sets[k]]
        scored_candidates, used_sets = {candidates[row] for row in rows}, {set_of[row] for row in rows}
        vocabulary = frozenset[str]().union(*(word_sets[k] for k in scored_candidates))
        known_words = frozenset[str]().union(*(words_of_sets[k] for k in used_sets))
        with_words = [row for row in rows if word_counts[candidates[row]]]
        other_pairs = _pair_with_other_images(captions, with_words)
        own_shares = {row: _overlap(word_sets[candidates[row]], words_of_sets[set_of[row]]) for row in with_words}
        other_shares = [
            _overlap(word_sets[candidates[row]], words_of_sets[set_of[other_row]]) for row, other_row in other_pairs
        ]
        share_differences = [own_shares[row] - share for (row, _), share in zip(other_pairs, other_shares, strict=True)]
        return cls(
            candidate_words=float(np.mean([word_counts[candidates[row]] for row in rows])),
            reference_words=float(np.mean([word_counts[index] for row in rows for index in sets[set_of[row]]])),
            vocabulary_share=len(vocabulary & known_words) / len(vocabulary) if vocabulary else None,
            own_share=float(np.mean(list(own_shares.values()))) if own_shares else 0.0,
            other_share=float(np.mean(other_shares)) if other_pairs else None,
            other_count=len(other_pairs),
            excess=_standardise(share_differences),
            distinct_count=len(scored_candidates),
            has_single_references=all(len(sets[k]) == 1 for k in used_sets),
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether a candidate shares hardly more words with its own references than with another image's."""
        return (
            self.other_count >= _FEWEST_IMAGES
            and self.other_share is not None
            and self.own_share <= _OWN_TO_OTHER * self.other_share
        )

    def describe_mismatch(self) -> str | None:
        """Why the references cannot be those of these candidates, in a sentence; None if they can."""
        if self.distinct_count < _FEWEST_CAPTIONS:
            return None
        if self.is_doubtful and self.excess < _MIN_EXCESS:
            return (
                f"the candidates share no more words with their own references ({self.own_share:.0%}) than with those "
                f"of other images ({self.other_share:.0%}): the references belong to other images, or are in another "
                "order; check which field is the image id, and that both are of the same split"
            )
        if self.has_single_references and self.reference_words > _JOINED * self.candidate_words > 0:
            return (
                f"every image has one reference, of {self.reference_words:.0f} words on average where a candidate has "
                f"{self.candidate_words:.0f}: several references seem to be joined into one text, which leaves BLEU "
                "and CIDEr-D near 0; give a list with one text for each reference"
            )
        return None


def note_mismatch(captions: CaptionSet) -> dict[str, list[str]]:
    """A note with all captions, if the references cannot be theirs; a sample decides whether all are compared."""
    rows = range(0, len(captions), -(-len(captions) // _SAMPLE) or 1)
    sampled = captions if len(rows) == len(captions) else captions.select(rows)
    if not len(sampled.references.values) or ReferenceFit.measure(sampled).describe_mismatch() is None:
        return {}
    return {MISMATCH: list(captions.ids)} if ReferenceFit.measure(captions).describe_mismatch() else {}


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation: characters, where nothing separates words.

    >>> split_words("A dog's ball"), split_words("两只狗"), split_words("개 한 마리가 달린다")
    (['a', "dog's", 'ball'], ['两', '只', '狗'], ['개', '한', '마리가', '달린다'])
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    single_characters = CJK if is_unsegmented(text) else HAN_AND_KANA
    letter = rf"(?:(?![{single_characters}])\w)"
    return re.findall(rf"[{single_characters}]|{letter}+(?:['’]{letter}+)*", text.lower())


def find_untokenised(texts: Iterable[str]) -> list[str]:
    """The texts whose last word and full stop, exclamation or question mark are not separated.

    >>> find_untokenised(["A dog runs.", "a dog runs .", "a dog in the u.s.", "a dog"])
    ['A dog runs.']
    """
    return [text for text in texts if _UNTOKENISED.search(text.rstrip())]


def _pair_with_other_images(captions: CaptionSet, rows: Sequence[int]) -> list[tuple[int, int]]:
    """For each row one of another image, half the set away."""
    shift = len(rows) // 2
    pairs = ((row, rows[(k + shift) % len(rows)]) for k, row in enumerate(rows))
    return [(row, other_row) for row, other_row in pairs if captions.image_ids[row] != captions.image_ids[other_row]]


def _overlap(candidate_words: frozenset[str], reference_words: frozenset[str]) -> float:
    return len(candidate_words & reference_words) / len(candidate_words)


def _standardise(share_differences: Sequence[float]) -> float:
    """The mean in standard errors."""
    if len(share_differences) < 2:
        return 0.0
    mean, standard_deviation = float(np.mean(share_differences)), float(np.std(share_differences, ddof=1))
    if not standard_deviation:
        return 0.0 if not mean else float("inf") if mean > 0 else float("-inf")
    return mean / standard_deviation * math.sqrt(len(share_differences))
