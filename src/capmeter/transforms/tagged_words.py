"""Words with their parts of speech, by the caption parser's tagger, and the words of each part of speech in a corpus.

UMIC's negatives (Lee et al. 2021) change verbs, nouns and adjectives: the words that describe what is visible.

>>> tag_words(["a dog runs on the grass."])[0]
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
from itertools import accumulate, chain

from capmeter.text.parsing.caption_parser import MAX_WORDS, bundled_caption_parser
from capmeter.text.tokenization.ptb import split_as_written
from capmeter.transforms.perturbations import SentenceWords, strip_punctuation

_KEYWORD_TAGS = ("V", "N", "J")
_AT_ONCE = 8192


def is_keyword(tag: str) -> bool:
    """Whether a tag is a verb's, a noun's or an adjective's."""
    return tag.startswith(_KEYWORD_TAGS)


def tag_words(sentences: Sequence[str]) -> list[tuple[str, ...]]:
    """The tag of each word of each sentence; words are those of `SentenceWords`, without final punctuation.

    A word that the tokenizer splits (`dog's`) has the tag of its first token.
    """
    sentence_tags: list[tuple[str, ...]] = []
    for batch_start in range(0, len(sentences), _AT_ONCE):
        sentence_tokens = [_tokens(sentence) for sentence in sentences[batch_start : batch_start + _AT_ONCE]]
        token_tags = bundled_caption_parser().tags([[token for token, _ in each] for each in sentence_tokens])
        for sentence, token_pairs, tag_row in zip(sentences[batch_start:], sentence_tokens, token_tags, strict=False):
            first_tags: dict[int, str] = {}
            for (_, word_index), tag in zip(token_pairs, tag_row, strict=True):
                first_tags.setdefault(word_index, tag)
            sentence_tags.append(tuple(first_tags.get(k, "NN") for k in range(len(SentenceWords.of(sentence).core))))
    return sentence_tags


@lru_cache(maxsize=65536)
def tag_sentence(sentence: str) -> tuple[str, ...]:
    """The tags of one sentence's words."""
    return tag_words([sentence])[0]


def _tokens(sentence: str) -> list[tuple[str, int]]:
    """The tokens of the first words of a sentence, each with the number of its word."""
    core_words = SentenceWords.of(sentence).core[:MAX_WORDS]
    return [(token, k) for k, word in enumerate(core_words) for token in split_as_written(word)][:MAX_WORDS]


@dataclass(frozen=True)
class TaggedVocabulary:
    """The verbs, nouns and adjectives of a corpus by tag, in order, with how often each occurs."""

    words: dict[str, tuple[str, ...]]
    counts: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> TaggedVocabulary:
        """The words of these sentences, in lower case."""
        sentence_texts = list(sentences)
        return cls.tagged(zip(sentence_texts, tag_words(sentence_texts), strict=True))

    @classmethod
    def tagged(cls, sentences: Iterable[tuple[str, Sequence[str]]]) -> TaggedVocabulary:
        """The words of sentences whose tags are known."""
        tag_counters: dict[str, Counter[str]] = {}
        for sentence, tags in sentences:
            for word, tag in zip(SentenceWords.of(sentence).core, tags, strict=False):
                if is_keyword(tag) and (plain_word := strip_punctuation(word)):
                    tag_counters.setdefault(tag, Counter())[plain_word] += 1
        words = {tag: tuple(sorted(word_counts)) for tag, word_counts in sorted(tag_counters.items())}
        return cls(words, {tag: tuple(tag_counters[tag][word] for word in of_tag) for tag, of_tag in words.items()})

    @cached_property
    def totals(self) -> dict[str, tuple[int, ...]]:
        """Running totals of the counts of each tag's words."""
        return {tag: tuple(accumulate(word_counts)) for tag, word_counts in self.counts.items()}


def sample_other_word(vocabulary: TaggedVocabulary, tag: str, fractions: Sequence[float], old: str) -> str | None:
    """A word with this tag, sampled by frequency, that is not the old one; None if the tag has no other."""
    words, sums = vocabulary.words.get(tag, ()), vocabulary.totals.get(tag, ())
    sampled = (words[min(bisect_right(sums, each * sums[-1]), len(words) - 1)] for each in (fractions if words else ()))
    return next((word for word in chain(sampled, words) if word != old), None)
