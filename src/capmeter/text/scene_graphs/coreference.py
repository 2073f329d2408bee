"""Pronouns of a document, replaced by the nouns that they refer to, so that sentences can be parsed one by one.

The antecedent of a pronoun is the best of the nouns before it in its sentence and in the two sentences before, by what
pronoun resolution has used since Hobbs (1978) and Lappin and Leass (1994): agreement in number and person, grammatical
role (subjects first), and distance. Words that stand for the picture ("the image", "the scene") are not antecedents.

>>> from capmeter.text.parsing.dependency_parse import Parse
>>> first = Parse(("A", "dog", "runs"), ("DT", "NN", "VBZ"), ("a", "dog", "run"), (2, 3, 0), ("det", "nsubj", "root"))
>>> second = Parse(("Its", "tail", "wags"), ("PRP$", "NN", "VBZ"), ("its", "tail", "wag"), (2, 3, 0),
...     ("nmod:poss", "nsubj", "root"))
>>> replace_pronouns([first, second])[1].words
('dog', 'tail', 'wags')
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from capmeter.text.parsing.dependency_parse import Parse

_SINGULAR = frozenset("it its itself".split())  # noqa: SIM905
_PLURAL = frozenset("they their them theirs themselves".split())  # noqa: SIM905
_MALE = frozenset("he his him himself".split())  # noqa: SIM905
_FEMALE = frozenset("she her hers herself".split())  # noqa: SIM905
PRONOUNS = _SINGULAR | _PLURAL | _MALE | _FEMALE
PICTURE_WORDS = frozenset(
    "image picture photo photograph photography scene shot view snapshot frame composition description caption "  # noqa: SIM905
    "focus foreground background center centre middle side left right corner edge top bottom front heart "
    "distance".split()
)
"""Nouns for the picture itself and for places in it."""
_PEOPLE = frozenset(
    "person man woman child boy girl player skier surfer rider skateboarder individual figure snowboarder baby lady "  # noqa: SIM905
    "gentleman chef officer worker pedestrian passenger driver kid toddler cyclist motorcyclist athlete batter catcher "
    "pitcher umpire couple guy bride groom performer vendor spectator subject".split()
)
_MEN, _WOMEN = frozenset("man boy gentleman guy groom".split()), frozenset("woman girl lady bride".split())  # noqa: SIM905
_NOUNS, _PLURALS = frozenset(("NN", "NNS", "NNP", "NNPS")), frozenset(("NNS", "NNPS"))
_SUBJECTS = frozenset(("nsubj", "nsubjpass"))
SENTENCES_BEFORE = 2
"""The number of sentences before that of a pronoun in which its antecedent may be."""
_MAX_MENTIONS = 100  # nouns that are compared with a pronoun


class _Mention(NamedTuple):
    sentence: int
    position: int
    words: tuple[str, ...]  # of the noun and its compound, lower case
    lemma: str
    tag: str
    rank: float  # the grammatical role's


def replace_pronouns(sentences: Sequence[Parse]) -> list[Parse]:
    """Replaces the pronouns of a document by the nouns that they refer to; trees stay as they are."""
    replaced_parses = []
    for parse, antecedents in zip(sentences, find_antecedents(sentences), strict=True):
        words, tags, lemmas = list(parse.words), list(parse.tags), list(parse.lemmas)
        for position, antecedent in antecedents.items():
            words[position], lemmas[position], tags[position] = antecedent.words[-1], antecedent.lemma, antecedent.tag
        replaced_parses.append(replace(parse, words=tuple(words), tags=tuple(tags), lemmas=tuple(lemmas)))
    return replaced_parses


def find_antecedents(parses: Sequence[Parse | None]) -> list[dict[int, _Mention]]:
    """Returns for each sentence of a document the antecedents by the position of the pronoun, counted from 0.

    Args:
        parses: the sentences; None for one that has neither pronouns nor their antecedents.
    """
    mentions: list[_Mention] = []
    antecedents: list[dict[int, _Mention]] = []
    for sentence_number, parse in enumerate(parses):
        by_position: dict[int, _Mention] = {}
        antecedents.append(by_position)
        if parse is None:
            continue
        mentions = [mention for mention in mentions if mention.sentence >= sentence_number - SENTENCES_BEFORE]
        nouns = _find_mentions(sentence_number, parse)
        for position, (word, tag) in enumerate(zip(parse.words, parse.tags, strict=True)):
            pronoun = word.lower()
            if pronoun in PRONOUNS and tag.startswith("PRP"):
                before = nouns[: bisect_left(nouns, position, key=lambda mention: mention.position)][-_MAX_MENTIONS:]
                agreeing = (mention for mention in (*mentions[-_MAX_MENTIONS:], *before) if _agrees(pronoun, mention))
                best = max(agreeing, key=lambda mention: _salience(pronoun, sentence_number, mention), default=None)
                if best is not None:
                    by_position[position] = best
        mentions += nouns
    return antecedents


def _salience(pronoun: str, sentence_number: int, mention: _Mention) -> tuple[float, int, int]:
    """What a pronoun prefers: subjects, near sentences, for "they" people; then the last mention."""
    is_person = pronoun in _PLURAL and mention.lemma in _PEOPLE
    rank = mention.rank + is_person - 1.5 * (sentence_number - mention.sentence)
    return rank, mention.sentence, mention.position


def _find_mentions(sentence_number: int, parse: Parse) -> list[_Mention]:
    """The nouns of a sentence that are neither parts of compounds nor words for the picture."""
    compounds: dict[int, list[int]] = {}
    for position, (head, label) in enumerate(zip(parse.heads, parse.labels, strict=True)):
        if label == "compound" and head:
            compounds.setdefault(head - 1, []).append(position)
    mentions = []
    for position, (tag, lemma, label) in enumerate(zip(parse.tags, parse.lemmas, parse.labels, strict=True)):
        if tag not in _NOUNS or label == "compound" or lemma.lower() in PICTURE_WORDS:
            continue
        mention_words = tuple(
            parse.words[word_position].lower() for word_position in (*compounds.get(position, ()), position)
        )
        mention_rank = 2.0 if label in _SUBJECTS else 1.0 if label in ("dobj", "root", "conj") else 0.5
        mentions.append(_Mention(sentence_number, position, mention_words, lemma.lower(), tag, mention_rank))
    return mentions


def _agrees(pronoun: str, mention: _Mention) -> bool:
    if pronoun in _PLURAL:
        return mention.tag in _PLURALS or mention.lemma in _PEOPLE
    if mention.tag in _PLURALS:
        return False
    if pronoun in _SINGULAR:
        return mention.lemma not in _PEOPLE
    return mention.lemma in _PEOPLE and mention.lemma not in (_WOMEN if pronoun in _MALE else _MEN)
