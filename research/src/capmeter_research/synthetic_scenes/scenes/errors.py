"""Controlled errors: a true caption with one thing wrong in it, by named kinds.

| kind | what is done | what then fails |
|---|---|---|
| colour, texture, size, count | one attribute is replaced | this fact |
| relation | left by right, above by below, behind by in front of, on by inside | this fact |
| object | one noun is replaced | this fact |
| background | the background is replaced | this fact |
| missing | a mention is left out | nothing is wrong, but less is said |
| hallucinated | a thing that is not there is added | the facts of what was added |
| disfluency | words are repeated or exchanged | nothing; the sentence is bad |

An error is as likely a statement as the truth: replacements follow the frequencies of the world, and only relations are
exchanged that are equally frequent in both directions (nothing but the picture tells that the bird is above the car and
not below it, or it is left alone). Several things are wide, and stand to the left or right of another group less often
than one thing does, so one thing beside another is left alone more often (`_WIDER`). Content errors in colour, texture,
size, count, relation and object can therefore hardly be found without looking at the picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from capmeter.core.errors import InputError
from capmeter_research.synthetic_scenes.scenes.captions import VAGUE, WorldCaption, true_caption
from capmeter_research.synthetic_scenes.scenes.content import Content, GroupMention, Relation
from capmeter_research.synthetic_scenes.scenes.grammar import realise
from capmeter_research.synthetic_scenes.scenes.layout import colours, pick, role_kinds
from capmeter_research.synthetic_scenes.scenes.scenes import Look, Scene
from capmeter_research.synthetic_scenes.scenes.vocabulary import (
    BACKGROUNDS,
    COUNTS,
    KINDS,
    OPPOSITES,
    SOME,
    TEXTURES,
    Kind,
)

Change = Callable[[Scene, Content, np.random.Generator], Content | None]
CONTENT_ERRORS = ("colour", "count", "relation", "object", "texture", "size", "background")
"""Kinds that make exactly one fact false."""
ERRORS = (*CONTENT_ERRORS, "missing", "hallucinated", "disfluency")
_LONGEST = 5
_WIDER = 0.7
"""Several things stand to the left or right of another group this many times as often as one thing does."""


def wrong(scene: Scene, caption: WorldCaption, kind: str, rng: np.random.Generator) -> WorldCaption | None:
    """The caption with an error of this kind; None if it states nothing that could be wrong in this way.

    Args:
        scene: what the caption is true of.
        caption: a true caption of it.
        kind: one of `ERRORS`.
        rng: chooses what is changed, and how.

    Raises:
        InputError: the kind is unknown.
    """
    if kind not in ERRORS:
        raise InputError(f"unknown kind of error {kind!r}; expected one of {', '.join(ERRORS)}")
    if kind == "disfluency":
        text = _disfluent(caption.text, rng)
        return replace(caption, text=text, error=kind)
    content = _CHANGES[kind](scene, caption.content, rng)
    if content is None:
        return None
    return WorldCaption(realise(content, caption.style), content, caption.style, kind)


def _about(scene: Scene, mention: GroupMention) -> Look | None:
    """The look of the group that a true mention is about; None for a general noun."""
    return next((group.look for group in scene.groups if group.look.kind == mention.noun), None)


def _changed(content: Content, index: int, mention: GroupMention) -> Content:
    return replace(content, mentions=(*content.mentions[:index], mention, *content.mentions[index + 1 :]))


def _colour(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    options = [(k, look) for k, each in enumerate(content.mentions) if each.colour and (look := _about(scene, each))]
    if not options:
        return None
    mention_index, look = pick(rng, options)
    other_colours = [each for each in colours(BACKGROUNDS[scene.background], look.texture) if each != look.colour]
    return _changed(content, mention_index, replace(content.mentions[mention_index], colour=pick(rng, other_colours)))


def _texture(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    mention_options = [k for k, each in enumerate(content.mentions) if each.texture]
    if not mention_options:
        return None
    mention = content.mentions[mention_index := pick(rng, mention_options)]
    other_textures = [each for each in TEXTURES if each != mention.texture]
    return _changed(content, mention_index, replace(mention, texture=pick(rng, other_textures)))


def _size(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    mention_options = [
        k for k, each in enumerate(content.mentions) if each.size and (look := _about(scene, each)) and look.resizable
    ]
    if not mention_options:
        return None
    mention = content.mentions[mention_index := pick(rng, mention_options)]
    return _changed(content, mention_index, replace(mention, size="small" if mention.size == "large" else "large"))


def _count(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    """Another count, or *some* for one; as often from a count to another as back (`Look.most`, `VAGUE`, `_WIDER`)."""
    options = [(k, look) for k, each in enumerate(content.mentions) if (look := _about(scene, each)) and look.most > 1]
    if not options:
        return None
    mention_index, look = pick(rng, options)
    mention, largest_count = content.mentions[mention_index], look.most
    beside = any(mention_index in (a, b) for a, name, b in content.relations if name in ("left of", "right of"))
    if mention.count == 1 and beside and rng.spawn(1)[0].random() >= _WIDER:  # other errors do not depend on this draw
        return None
    vague_share = (largest_count - 1) * VAGUE
    if mention.some:
        changed_mention = replace(mention, count=1, some=False)
    elif mention.count == 1 and rng.random() < vague_share:
        changed_mention = replace(mention, count=min(SOME), some=True)
    elif mention.count == 1:
        changed_mention = replace(mention, count=2 + int(rng.random() * (largest_count - 1)))
    else:
        others = [each for each in COUNTS if 2 <= each <= largest_count and each != mention.count]
        to_one = (1 - vague_share) / ((largest_count - 1) * (1 - VAGUE))
        changed_mention = replace(mention, count=1 if not others or rng.random() < to_one else pick(rng, others))
    return _changed(content, mention_index, changed_mention)


def _relation(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    places = {mention.noun: mention_index for mention_index, mention in enumerate(content.mentions)}
    group_of_mention = {places[group.look.kind]: k for k, group in enumerate(scene.groups) if group.look.kind in places}
    relation_options: list[tuple[int, Relation]] = []
    for k, (a, relation_name, b) in enumerate(content.relations):
        if a in group_of_mention and b in group_of_mention:
            other_relation = _exchanged(scene, group_of_mention[a], relation_name, group_of_mention[b])
            if other_relation and scene.relation(group_of_mention[a], other_relation, group_of_mention[b]) is False:
                relation_options.append((k, (a, other_relation, b)))
    if not relation_options:
        return None
    k, changed_relation = pick(rng, relation_options)
    return replace(content, relations=(*content.relations[:k], changed_relation, *content.relations[k + 1 :]))


def _exchanged(scene: Scene, a: int, relation_name: str, b: int) -> str:
    """The relation that is as frequent between such groups as this one; empty if there is none."""
    if relation_name in ("above", "below"):
        first, second = scene.groups[a].look.of_kind, scene.groups[b].look.of_kind
        is_plain = BACKGROUNDS[scene.background].ground is None
        same_support = not scene.groups[a].stands and not scene.groups[b].stands and (first.stands == second.stands)
        is_free = not any({a, b} & {x, y} for x, _, y in scene.contacts)
        return OPPOSITES[relation_name] if is_free and (is_plain or same_support) else ""
    if relation_name in ("on", "inside"):
        host = scene.groups[b].look.of_kind
        return {"on": "inside", "inside": "on"}[relation_name] if host.support is not None and host.cavity else ""
    return "" if relation_name == "next to" else OPPOSITES.get(relation_name, "")


def _object(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    mention_options = []
    for mention_index, mention in enumerate(content.mentions):
        group = next((k for k, group in enumerate(scene.groups) if group.look.kind == mention.noun), None)
        if group is not None and (other_nouns := _substitutes(scene, group)):
            mention_options.append((mention_index, other_nouns))
    if not mention_options:
        return None
    mention_index, other_nouns = pick(rng, mention_options)
    return _changed(content, mention_index, replace(content.mentions[mention_index], noun=pick(rng, other_nouns)))


def _substitutes(scene: Scene, group: int) -> list[str]:
    """Kinds that could have been there just as well, and are not in the picture."""
    look, kind = scene.groups[group].look, scene.groups[group].look.of_kind
    role_names = role_kinds(scene, group)
    return [
        other_kind.name
        for other_kind in _absent(scene)
        if (other_kind.stands, other_kind.aloft, other_kind.many) == (kind.stands, kind.aloft, kind.many)
        and (role_names is None or other_kind.name in role_names)
        and not (look.texture and other_kind.untextured)
    ]


def _absent(scene: Scene) -> list[Kind]:
    """The kinds that the background could have, and that no group is or could be called."""
    excluded_names = set(BACKGROUNDS[scene.background].excluded) | {group.look.kind for group in scene.groups}
    return [kind for kind in KINDS.values() if not {kind.name, kind.category} & excluded_names]


def _background(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    if not content.background:
        return None
    group_looks = [group.look for group in scene.groups]
    other_backgrounds = [
        background.name
        for background in BACKGROUNDS.values()
        if background.name != scene.background
        and not any({look.kind, look.of_kind.category} & set(background.excluded) for look in group_looks)
        and not any(look.colour in background.hidden for look in group_looks)
    ]
    return replace(content, background=pick(rng, other_backgrounds)) if other_backgrounds else None


def _missing(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    if len(content.mentions) < 2:
        return None
    gone = int(rng.random() * len(content.mentions))
    relations = tuple((a - (a > gone), name, b - (b > gone)) for a, name, b in content.relations if gone not in (a, b))
    return replace(content, mentions=content.mentions[:gone] + content.mentions[gone + 1 :], relations=relations)


def _hallucinated(scene: Scene, content: Content, rng: np.random.Generator) -> Content | None:
    if len(content.mentions) >= _LONGEST:
        return None
    absent_kinds = _absent(scene)
    colour = pick(rng, colours(BACKGROUNDS[scene.background], "")) if rng.random() < 0.75 else ""
    return replace(content, mentions=(*content.mentions, GroupMention(pick(rng, absent_kinds).name, colour=colour)))


def _disfluent(text: str, rng: np.random.Generator) -> str:
    """Two of: a word repeated, a pair of words repeated, an article or a number word after its noun phrase's next."""
    words = text.split()
    for _ in range(2):
        word_position = int(rng.random() * len(words))
        after = [k for k, word in enumerate(words[:-1]) if word in _BEFORE_NOUNS and words[k + 1] not in _BEFORE_NOUNS]
        uniform = rng.random()
        if uniform < 0.4 or not after:
            words.insert(word_position, words[word_position])
        elif uniform < 0.6 and len(words) > 1:
            word_position = min(word_position, len(words) - 2)
            words[word_position:word_position] = words[word_position : word_position + 2]
        else:
            k = pick(rng, after)
            words[k : k + 2] = words[k + 1], words[k]
    return " ".join(words)


_BEFORE_NOUNS = frozenset(("a", "an", "the", "one", "two", "three", "four", "five", "some", "several"))
_CHANGES: dict[str, Change] = {
    "colour": _colour,
    "texture": _texture,
    "size": _size,
    "count": _count,
    "relation": _relation,
    "object": _object,
    "background": _background,
    "missing": _missing,
    "hallucinated": _hallucinated,
}


def make_errors(scene: Scene, caption: WorldCaption, rng: np.random.Generator) -> dict[str, WorldCaption]:
    """The caption with each kind of error that it can have, by kind.

    Args:
        scene: that the caption describes.
        caption: a true one.
        rng: of the errors.
    """
    variants = {error_kind: wrong(scene, caption, error_kind, rng) for error_kind in ERRORS}
    return {error_kind: wrong_caption for error_kind, wrong_caption in variants.items() if wrong_caption is not None}


def make_graded(scene: Scene, rng: np.random.Generator, errors: int) -> WorldCaption:
    """A true caption with content errors, one after the other.

    Args:
        scene: to describe.
        rng: of caption and errors.
        errors: their number at most.
    """
    caption = true_caption(scene, rng)
    content = caption.content
    for _ in range(errors):
        error_kinds = [*CONTENT_ERRORS, "hallucinated"]
        changed_content = _CHANGES[pick(rng, error_kinds)](scene, content, rng)
        content = changed_content or content
    return WorldCaption(realise(content, caption.style), content, caption.style, "graded" if errors else "")
