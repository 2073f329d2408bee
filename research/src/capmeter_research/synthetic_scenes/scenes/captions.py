"""Captions of synthetic scenes: what they state, as facts, and how much of it is true of a scene.

A caption is made of a `Content` (mentions of groups, relations between them, the background) and a *style*: numbers in
[0, 1) that choose words and order. The same style with another content gives the same sentence with other words, so a
caption and its error differ in nothing else.

A caption is judged against any scene: each of its mentions is matched with at most one group, so that as many objects
and then as many facts as possible hold.

>>> from capmeter_research.synthetic_scenes.scenes.layout import plan, realise_plan
>>> import numpy as np
>>> rng = np.random.default_rng(3)
>>> scene = realise_plan(plan(rng), rng)
>>> all(truth(scene, caption.content).accuracy == 1 for caption in true_captions(scene))
True
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from capmeter.core.errors import InputError
from capmeter_research.synthetic_scenes.scenes.content import Content, Fact, GroupMention, Relation
from capmeter_research.synthetic_scenes.scenes.grammar import STYLE, realise
from capmeter_research.synthetic_scenes.scenes.vocabulary import GENERAL

if TYPE_CHECKING:
    from capmeter_research.synthetic_scenes.scenes.scenes import Group, Scene

_TRIES = 40
VAGUE = 0.15
"""How often several things are counted as *some*."""


@dataclass(frozen=True)
class WorldCaption:
    """A caption that knows what it states.

    Args:
        text: the sentence, in lower case and without punctuation.
        content: what it states.
        style: the numbers that chose its words.
        error: the kind of error that was put in; `""` for a true caption.
    """

    text: str
    content: Content
    style: tuple[float, ...]
    error: str = ""


@dataclass(frozen=True)
class Truth:
    """How much of a caption holds: its `facts`, whether each one `holds`, and how many groups it names.

    `accuracy` is the share of facts that hold, in [0, 1]; `coverage` the share of the scene's groups that are named.
    """

    facts: tuple[Fact, ...]
    holds: tuple[bool, ...]
    named: int
    groups: int

    @property
    def accuracy(self) -> float:
        """The share of the caption's facts that hold."""
        return sum(self.holds) / len(self.holds)

    @property
    def coverage(self) -> float:
        """The share of the scene's groups that the caption names."""
        return self.named / self.groups

    @property
    def wrong(self) -> tuple[Fact, ...]:
        """The facts that do not hold."""
        return tuple(fact for fact, holds in zip(self.facts, self.holds, strict=True) if not holds)


def truth(scene: Scene, content: Content) -> Truth:
    """How much of the content holds in the scene, under the matching of mentions with groups that favours it most.

    Raises:
        InputError: the content has no mention, or a relation of a mention that it does not have.
    """
    facts, mentions = content.facts(), content.mentions
    if not mentions:
        raise InputError("a caption of synthetic scenes mentions at least one thing; got a content without mentions")
    if any(not (0 <= a < len(mentions) and 0 <= b < len(mentions)) or a == b for a, _, b in content.relations):
        raise InputError(f"a relation joins two of the {len(mentions)} mentions; got {content.relations}")
    is_named = [[names(mention.noun, group) for group in scene.groups] for mention in mentions]
    best_rank: tuple[int, int] = (-1, -1)
    best_holds: tuple[bool, ...] = ()
    group_choices = [*range(len(scene.groups)), *[-1] * len(mentions)]
    certain_groups = [row.index(True) if sum(row) == 1 else None for row in is_named]  # a kind is found once in a scene
    if len({each for each in certain_groups if each is not None}) < sum(each is not None for each in certain_groups):
        certain_groups = [None] * len(mentions)
    tried_assignments = set()
    free_choices = [group_choice for group_choice in group_choices if group_choice not in certain_groups]
    open_mentions = [k for k, each in enumerate(certain_groups) if each is None]
    for assignment in itertools.permutations(free_choices, len(open_mentions)):
        if assignment in tried_assignments:
            continue
        tried_assignments.add(assignment)
        matched_groups = [-1 if each is None else each for each in certain_groups]
        for k, group in zip(open_mentions, assignment, strict=True):
            matched_groups[k] = group
        holds = tuple(_holds(scene, fact, mentions, matched_groups) for fact in facts)
        match_rank = sum(group >= 0 and is_named[k][group] for k, group in enumerate(matched_groups)), sum(holds)
        if match_rank > best_rank:
            best_rank, best_holds = match_rank, holds
    return Truth(facts, best_holds, best_rank[0], len(scene.groups))


def names(noun: str, group: Group) -> bool:
    """Whether the noun, of a kind or of a category, names the group."""
    return noun == group.look.kind or (noun in GENERAL and noun == group.look.of_kind.category)


def _holds(scene: Scene, fact: Fact, mentions: tuple[GroupMention, ...], match: list[int]) -> bool:
    if fact.kind == "background":
        return scene.background == fact.value
    group_index = match[fact.mention]
    if group_index < 0:
        return False
    look = scene.groups[group_index].look
    if fact.kind == "object":
        return names(fact.value, scene.groups[group_index])
    if fact.kind == "count":
        mention = mentions[fact.mention]
        return look.count >= mention.count if mention.some else look.count == mention.count
    if fact.kind == "relation":
        return match[fact.other] >= 0 and scene.relation(group_index, fact.value, match[fact.other]) is True
    return bool(getattr(look, fact.kind) == fact.value)


def true_captions(scene: Scene, seed: int = 0, count: int = 5) -> list[WorldCaption]:
    """True captions of a scene with different texts; a function of scene and seed.

    Args:
        scene: to describe.
        seed: from 0.
        count: number of captions, 1 to 100.

    Raises:
        InputError: `count` is not from 1 to 100, or the seed is negative.
    """
    if not 1 <= count <= 100 or seed < 0:
        raise InputError(f"captions of a scene need a count from 1 to 100 and a seed from 0; got {count} and {seed}")
    rng = np.random.default_rng([seed, zlib.crc32(f"{scene.id} {scene.key}".encode())])
    captions: dict[str, WorldCaption] = {}
    for _ in range(_TRIES * count):
        caption = true_caption(scene, rng)
        captions.setdefault(caption.text, caption)
        if len(captions) == count:
            return list(captions.values())
    raise InputError(f"scene {scene.id} is too simple for {count} different captions; ask for at most {len(captions)}")


def true_caption(scene: Scene, rng: np.random.Generator) -> WorldCaption:
    """One true caption: some of the groups, some of their attributes, a relation or two, perhaps the background."""
    style = tuple(rng.random(STYLE).tolist())
    uniforms = rng.random(32).tolist()
    group_order = np.argsort(uniforms[:8])
    chosen_groups = [int(group_index) for group_index in group_order if group_index < len(scene.groups)]
    if len(chosen_groups) > 1 and uniforms[8] < 0.35:
        chosen_groups = chosen_groups[: max(1, int(1 + uniforms[9] * (len(chosen_groups) - 1)))]
    chain = _relations(scene, chosen_groups, uniforms[10:14]) if len(chosen_groups) > 1 and uniforms[14] < 0.85 else []
    ordered = list(dict.fromkeys([*(group_index for a, _, b in chain for group_index in (a, b)), *chosen_groups]))
    mention_of_group = {group: mention_index for mention_index, group in enumerate(ordered)}
    mentions = tuple(_mention(scene, group, uniforms[15 + 4 * k : 19 + 4 * k]) for k, group in enumerate(ordered))
    relations = tuple((mention_of_group[a], relation_name, mention_of_group[b]) for a, relation_name, b in chain)
    background = scene.background if uniforms[31] < 0.55 else ""
    content = Content(mentions, relations, background)
    return WorldCaption(realise(content, style), content, style)


def _relations(scene: Scene, chosen_groups: list[int], uniforms: list[float]) -> list[Relation]:
    """A true relation of two of these groups, touching ones before others, and perhaps a second one of the first."""
    candidates = [each for each in scene.relations() if each[0] in chosen_groups and each[2] in chosen_groups]
    if not candidates:
        return []
    touching = [each for each in candidates if each in scene.contacts or (each[2], "behind", each[0]) in scene.contacts]
    relation_pool = touching if touching and uniforms[0] < 0.6 else candidates
    first_relation = relation_pool[int(uniforms[1] * len(relation_pool))]
    more = [each for each in candidates if each[0] == first_relation[0] and each[2] != first_relation[2]]
    return [first_relation, more[int(uniforms[2] * len(more))]] if more and uniforms[3] < 0.35 else [first_relation]


def _mention(scene: Scene, group_index: int, uniforms: list[float]) -> GroupMention:
    look = scene.groups[group_index].look
    category = look.of_kind.category
    is_alone = sum(group.look.of_kind.category == category for group in scene.groups) == 1
    detail_uniform = uniforms[3]
    return GroupMention(
        noun=category if category in GENERAL and is_alone and uniforms[0] < 0.12 else look.kind,
        count=2 if look.count > 1 and uniforms[1] < VAGUE else look.count,
        some=look.count > 1 and uniforms[1] < VAGUE,
        colour=look.colour if uniforms[2] < 0.75 else "",
        texture=look.texture if detail_uniform < 0.6 else "",
        size=look.size if (7 * detail_uniform) % 1 < 0.7 else "",
    )
