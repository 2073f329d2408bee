"""Which objects each sentence of a pool mentions: the common first step of CHAIR's variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from capmeter.core.settings import Settings
from capmeter.metrics.hallucination.object_words import ObjectMention, ObjectWords, singular_form
from capmeter.text.tokenization.token_tables import SentenceSource
from capmeter.text.tokenization.treebank import tokenise_caption

BaseForms = Annotated[
    Literal["original", "opera", "lmms-eval"],
    "base forms of words: by endings (original), or by WordNet and tags, as OPERA and lmms-eval do",
]
_SENTENCE_ENDS = frozenset(".!?")


@dataclass(frozen=True, eq=False)
class MentionTable:
    """Of each sentence its tokens, its mentions of objects, where its last complete sentence ends, and its words."""

    tokens: Sequence[Sequence[str]]
    mentions: Sequence[Sequence[ObjectMention]]
    ends: Sequence[int]  # number of tokens up to the last . ! or ?; 0 without any
    words: Sequence[int]  # number of words


@dataclass(frozen=True)
class ObjectMentions:
    """Analysis: the objects that each sentence mentions.

    Args:
        object_words: the list of object words.
        base_forms: how words are brought to their base form.
        settings: of the run.
    """

    object_words: ObjectWords
    base_forms: str
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentenceSource) -> MentionTable:
        """Finds the mentions of every sentence of the pool."""
        tokens = [tokenise_caption(sentence) for sentence in pool.sentences]
        base_forms = _singular_forms(tokens) if self.base_forms == "original" else _tagged_bases(tokens)
        mentions = [self.object_words.find_mentions(each) for each in base_forms]
        words = [count_words(sentence.split()) for sentence in pool.sentences]
        return MentionTable(tokens, mentions, [_last_end(each) for each in tokens], words)


def _singular_forms(tokens: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(map(singular_form, sentence_tokens)) for sentence_tokens in tokens]


def _tagged_bases(tokens: Sequence[Sequence[str]]) -> list[list[str]]:
    """The base forms by WordNet, with the tags of the bundled parser."""
    from capmeter.text.meteor.resources import load_english_synonyms
    from capmeter.text.meteor.synonyms import base_form
    from capmeter.text.parsing.caption_parser import MAX_WORDS, bundled_caption_parser
    from capmeter.text.parsing.network import split_long_sentence
    from capmeter.text.tokenization.ptb import split_sentences

    dictionary = load_english_synonyms()
    sentences = [
        piece
        for caption_tokens in tokens
        for sentence in split_sentences(caption_tokens)
        for piece in split_long_sentence(sentence, MAX_WORDS)
    ]
    word_tags = (tag for parse in bundled_caption_parser().parse_sentences(sentences) for tag in parse.tags)
    base_forms: dict[tuple[str, str], str] = {}

    def base(word: str, tag: str) -> str:
        if (word, tag) not in base_forms:
            base_forms[word, tag] = base_form(word, tag, dictionary)
        return base_forms[word, tag]

    return [[base(word, next(word_tags)) for word in sentence] for sentence in tokens]


def _last_end(tokens: Sequence[str]) -> int:
    return next((k + 1 for k in range(len(tokens) - 1, -1, -1) if tokens[k] in _SENTENCE_ENDS), 0)


def count_words(tokens: Iterable[str]) -> int:
    """The number of those with a letter or digit."""
    return sum(any(map(str.isalnum, token)) for token in tokens)
