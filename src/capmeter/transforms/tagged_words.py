"""Words with their parts of speech, by the caption parser's tagger, and the words of each part of speech in a corpus.

UMIC's negatives (Lee et al. 2021) change verbs, nouns and adjectives: the words by which a caption says what is seen.

>>> tagged_words(["a dog runs on the grass."])[0]
('DT', 'NN', 'VBZ', 'IN', 'DT', 'NN')
>>> words = TaggedVocabulary.of(["a dog runs", "a cat sleeps", "a cat runs"])
>>> words.words["NN"], words.counts["NN"]
(('cat', 'dog'), (2, 1))
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from capmeter.text.caption_parser import LONGEST, shipped_parser
from capmeter.text.ptb import split_as_written
from capmeter.transforms.perturbations import SentenceWords, bare

_VISUAL = ("V", "N", "J")
_AT_ONCE = 8192


def is_keyword(tag: str) -> bool:
    """Whether a tag is a verb's, a noun's or an adjective's."""
    return tag.startswith(_VISUAL)


def tagged_words(sentences: Sequence[str]) -> list[tuple[str, ...]]:
    """The tag of each word of each sentence; words are those of `SentenceWords`, final punctuation left out.

    A word that the tokenizer splits (`dog's`) has the tag of its first token.
    """
    found: list[tuple[str, ...]] = []
    for start in range(0, len(sentences), _AT_ONCE):
        tokens = [_tokens(sentence) for sentence in sentences[start : start + _AT_ONCE]]
        tags = shipped_parser().tags([[token for token, _ in each] for each in tokens])
        for sentence, pairs, row in zip(sentences[start:], tokens, tags, strict=False):
            first: dict[int, str] = {}
            for (_, word), tag in zip(pairs, row, strict=True):
                first.setdefault(word, tag)
            found.append(tuple(first.get(k, "NN") for k in range(len(SentenceWords.of(sentence).core))))
    return found


@lru_cache(maxsize=65536)
def tags_of(sentence: str) -> tuple[str, ...]:
    """The tags of one sentence's words."""
    return tagged_words([sentence])[0]


def _tokens(sentence: str) -> list[tuple[str, int]]:
    """The tokens of the first words of a sentence, each with the number of its word."""
    core = SentenceWords.of(sentence).core[:LONGEST]
    return [(token, place) for place, word in enumerate(core) for token in split_as_written(word)][:LONGEST]


@dataclass(frozen=True)
class TaggedVocabulary:
    """The verbs, nouns and adjectives of a corpus by tag, in order, with how often each occurs."""

    words: dict[str, tuple[str, ...]]
    counts: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> TaggedVocabulary:
        """The words of these sentences, in lower case."""
        listed = list(sentences)
        return cls.tagged(zip(listed, tagged_words(listed), strict=True))

    @classmethod
    def tagged(cls, sentences: Iterable[tuple[str, Sequence[str]]]) -> TaggedVocabulary:
        """The words of sentences whose tags are known."""
        found: dict[str, Counter[str]] = {}
        for sentence, tags in sentences:
            for word, tag in zip(SentenceWords.of(sentence).core, tags, strict=False):
                if is_keyword(tag) and (plain := bare(word)):
                    found.setdefault(tag, Counter())[plain] += 1
        words = {tag: tuple(sorted(counts)) for tag, counts in sorted(found.items())}
        return cls(words, {tag: tuple(found[tag][word] for word in listed) for tag, listed in words.items()})

    @cached_property
    def totals(self) -> dict[str, tuple[int, ...]]:
        """Running totals of the counts of each tag's words."""
        return {tag: tuple(accumulate(counts)) for tag, counts in self.counts.items()}


def other_word(vocabulary: TaggedVocabulary, tag: str, drawn: Sequence[float], old: str) -> str | None:
    """A word with this tag, drawn by frequency, that is not the old one; None if the tag has no other."""
    words, sums = vocabulary.words.get(tag, ()), vocabulary.totals.get(tag, ())
    for number in drawn if words else ():
        found = words[min(bisect_right(sums, number * sums[-1]), len(words) - 1)]
        if found != old:
            return found
    return next((word for word in words if word != old), None)
