"""The grammar of synthetic scenes: from what a caption states to its sentence.

Every choice is made by one number of the style, at a place of its own, so that changing one statement changes only its
words.
"""

from __future__ import annotations

from collections.abc import Sequence

from capmeter_research.synthetic_scenes.scenes.content import Content, GroupMention
from capmeter_research.synthetic_scenes.scenes.vocabulary import (
    ALSO,
    BACKGROUNDS,
    COLOUR_WORDS,
    COUNTS,
    FRAMES,
    GENERAL,
    KINDS,
    RELATIONS,
    SEEN,
    SIZES,
    SOME,
    TEXTURES,
    WEARING,
)

_FRAMED, _FRAME, _FRONT, _BACKGROUND, _SEEN, _SEEN_WORD, _ALSO, _RELATION, _MENTIONS = 0, 1, 2, 3, 4, 5, 6, 7, 10
_PER_MENTION = 6
STYLE = _MENTIONS + 6 * _PER_MENTION
"""How many numbers choose the words of a caption."""


def realise(content: Content, style: Sequence[float]) -> str:
    """The sentence for this content, in lower case and without punctuation."""
    phrases = [_phrase(mention, style[_MENTIONS + _PER_MENTION * k :]) for k, mention in enumerate(content.mentions)]
    related_mentions = {mention_index for a, _, b in content.relations for mention_index in (a, b)}
    is_plural = content.mentions[0].count > 1
    background_phrase = _one(BACKGROUNDS[content.background].phrases, style[_BACKGROUND]) if content.background else ""
    in_front = bool(background_phrase) and style[_FRONT] < 0.2
    is_framed = in_front or style[_FRAMED] < 0.35
    if content.relations:
        main_clause = _related(content, phrases, style, is_framed)
        others = [phrase for mention_index, phrase in enumerate(phrases) if mention_index not in related_mentions]
        if others:
            also = _one(ALSO, style[_ALSO]).replace("{is}", _is(content.mentions[len(phrases) - len(others)].count > 1))
            main_clause = f"{main_clause} {also} {' and '.join(others)}"
    else:
        main_clause = " and ".join(phrases)
        if not is_framed and style[_SEEN] < 0.2:
            main_clause += " can be seen"
    if is_framed:
        sentence_frame = FRAMES[0] if in_front else _one(FRAMES, style[_FRAME])
        main_clause = sentence_frame.replace("{is}", _is(is_plural)).replace("{what}", main_clause)
    if in_front:
        return f"{background_phrase} {main_clause}"
    return f"{main_clause} {background_phrase}" if background_phrase else main_clause


def _related(content: Content, phrases: list[str], style: Sequence[float], is_framed: bool) -> str:
    """The phrases of one or two relations; the second has the same first group, or goes on from the second."""
    (a, relation_name, b), *more_relations = content.relations
    relation_word = ""
    if not is_framed and style[_SEEN] < 0.5:
        seen_words = SEEN.get(relation_name, SEEN[""])
        relation_word = _one(seen_words, style[_SEEN_WORD]).replace("{is}", _is(content.mentions[a].count > 1)) + " "
    relation_text = f"{phrases[a]} {relation_word}{_one(RELATIONS[relation_name], style[_RELATION])} {phrases[b]}"
    for relation_index, (_, other_name, c) in enumerate(more_relations, 1):
        relation_text += f" and {_one(RELATIONS[other_name], style[_RELATION + relation_index])} {phrases[c]}"
    return relation_text


def _phrase(mention: GroupMention, style: Sequence[float]) -> str:
    """A group as a noun phrase; people wear their colours."""
    is_plural = mention.count > 1
    nouns = KINDS[mention.noun].nouns if mention.noun in KINDS else GENERAL[mention.noun]
    noun_fraction = style[0] * style[0]  # the first noun is the most frequent one
    noun = nouns[int(noun_fraction * len(nouns))][is_plural]
    size_word = _one(SIZES[mention.size], style[1]) if mention.size else ""
    texture_word = _one(TEXTURES[mention.texture], style[2]) if mention.texture else ""
    colour_word = _one(COLOUR_WORDS[mention.colour], style[3]) if mention.colour else ""
    is_person = mention.noun == "person" or (mention.noun in KINDS and KINDS[mention.noun].category == "person")
    look_words = " ".join(filter(None, (texture_word, colour_word)))
    noun_words = [size_word, noun] if is_person else [size_word, look_words, noun]
    count_word = _one(SOME[mention.count] if mention.some else COUNTS[mention.count], style[4])
    noun_text = " ".join(filter(None, noun_words))
    if count_word == "a" and noun_text[0] in "aeiou":
        count_word = "an"
    if is_person and look_words:
        if texture_word:
            return f"{count_word} {noun_text} " + _one(WEARING[2:], style[5]).replace(
                "{look} clothes", "{look}"
            ).replace("{look}", f"{look_words} clothes")
        return f"{count_word} {noun_text} " + _one(WEARING, style[5]).replace("{look}", look_words)
    return f"{count_word} {noun_text}"


def _one(word_choices: Sequence[str], uniform: float) -> str:
    return word_choices[int(uniform * len(word_choices))]


def _is(is_plural: bool) -> str:
    return "are" if is_plural else "is"
