"""What a caption of synthetic scenes states: things, counts, attributes, relations, background."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Relation = tuple[int, str, int]
"""Place of a mention, name of the relation, place of the other mention."""


@dataclass(frozen=True)
class GroupMention:
    """A group as a caption names it. Empty attributes are not stated.

    `noun` is a kind or a category; `count` things, or at least that many (`some`).
    """

    noun: str
    count: int = 1
    some: bool = False
    colour: str = ""
    texture: str = ""
    size: str = ""


@dataclass(frozen=True)
class Content:
    """What a caption states: mentions, relations between them (by their places), and the background."""

    mentions: tuple[GroupMention, ...]
    relations: tuple[Relation, ...] = ()
    background: str = ""

    def facts(self) -> tuple[Fact, ...]:
        """Everything that it states, one by one."""
        return tuple(self._facts())

    def _facts(self) -> Iterator[Fact]:
        for mention_index, mention in enumerate(self.mentions):
            yield Fact("object", mention.noun, mention_index)
            yield Fact("count", f"{mention.count}{'+' if mention.some else ''}", mention_index)
            for attribute_name in ("colour", "texture", "size"):
                if attribute_value := getattr(mention, attribute_name):
                    yield Fact(attribute_name, attribute_value, mention_index)
        for a, relation_name, b in self.relations:
            yield Fact("relation", relation_name, a, b)
        if self.background:
            yield Fact("background", self.background)


@dataclass(frozen=True)
class Fact:
    """One statement: object, count, colour, texture, size, relation or background; of which mention(s)."""

    kind: str
    value: str
    mention: int = -1
    other: int = -1
