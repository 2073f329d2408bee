"""The grammar of synthetic scenes: from what a caption states to its sentence.

Every choice is made by one number of the style, at a place of its own, so that changing one statement changes only its
words.
"""

from __future__ import annotations

from collections.abc import Sequence

from capmeter_recipes.synthetic_scenes.scenes.content import Content, GroupMention
from capmeter_recipes.synthetic_scenes.scenes.vocabulary import (
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
    related = {index for a, _, b in content.relations for index in (a, b)}
    plural = content.mentions[0].count > 1
    background = _one(BACKGROUNDS[content.background].phrases, style[_BACKGROUND]) if content.background else ""
    in_front = bool(background) and style[_FRONT] < 0.2
    framed = in_front or style[_FRAMED] < 0.35
    if content.relations:
        main = _related(content, phrases, style, framed)
        others = [phrase for index, phrase in enumerate(phrases) if index not in related]
        if others:
            also = _one(ALSO, style[_ALSO]).replace("{is}", _is(content.mentions[len(phrases) - len(others)].count > 1))
            main = f"{main} {also} {' and '.join(others)}"
    else:
        main = " and ".join(phrases)
        if not framed and style[_SEEN] < 0.2:
            main += " can be seen"
    if framed:
        frame = FRAMES[0] if in_front else _one(FRAMES, style[_FRAME])
        main = frame.replace("{is}", _is(plural)).replace("{what}", main)
    if in_front:
        return f"{background} {main}"
    return f"{main} {background}" if background else main


def _related(content: Content, phrases: list[str], style: Sequence[float], framed: bool) -> str:
    """The phrases of one or two relations; the second has the same first group, or goes on from the second."""
    (a, name, b), *more = content.relations
    relation_word = ""
    if not framed and style[_SEEN] < 0.5:
        words = SEEN.get(name, SEEN[""])
        relation_word = _one(words, style[_SEEN_WORD]).replace("{is}", _is(content.mentions[a].count > 1)) + " "
    text = f"{phrases[a]} {relation_word}{_one(RELATIONS[name], style[_RELATION])} {phrases[b]}"
    for index, (_, other, c) in enumerate(more, 1):
        text += f" and {_one(RELATIONS[other], style[_RELATION + index])} {phrases[c]}"
    return text


def _phrase(mention: GroupMention, style: Sequence[float]) -> str:
    """A group as a noun phrase; people wear their colours."""
    several = mention.count > 1
    nouns = KINDS[mention.noun].nouns if mention.noun in KINDS else GENERAL[mention.noun]
    weights = style[0] * style[0]  # the first noun is the most frequent one
    noun = nouns[int(weights * len(nouns))][several]
    size = _one(SIZES[mention.size], style[1]) if mention.size else ""
    texture = _one(TEXTURES[mention.texture], style[2]) if mention.texture else ""
    colour = _one(COLOUR_WORDS[mention.colour], style[3]) if mention.colour else ""
    person = mention.noun == "person" or (mention.noun in KINDS and KINDS[mention.noun].category == "person")
    look = " ".join(filter(None, (texture, colour)))
    words = [size, noun] if person else [size, look, noun]
    count = _one(SOME[mention.count] if mention.some else COUNTS[mention.count], style[4])
    text = " ".join(filter(None, words))
    if count == "a" and text[0] in "aeiou":
        count = "an"
    if person and look:
        if texture:
            return f"{count} {text} " + _one(WEARING[2:], style[5]).replace("{look} clothes", "{look}").replace(
                "{look}", f"{look} clothes"
            )
        return f"{count} {text} " + _one(WEARING, style[5]).replace("{look}", look)
    return f"{count} {text}"


def _one(words: Sequence[str], uniform: float) -> str:
    return words[int(uniform * len(words))]


def _is(plural: bool) -> str:
    return "are" if plural else "is"
