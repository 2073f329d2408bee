"""Lists of object words: which words of a caption name which object, as CHAIR (Rohrbach et al. 2018) counts them.

A list gives each object (a *node*, such as `person`) its words. Two words that follow each other may count as one, the
same ("hot dog") or another ("baby giraffe" is a giraffe and not a person).

A file is the released `synonyms.txt` (one node a line, its words separated by commas), or such a list as JSON
(`[["person", "man", …], …]`, `{"person": ["man", …], …}`, or with `double_words`:
`{"nodes": [[node, [words]], …], "double_words": {"hot dog": "hot dog", …}}`).
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json, read_bundled_json
from capmeter.core.messages import list_names
from capmeter.evaluation.base import CapmeterWarning
from capmeter.text.parsing.lemmas import replace_ending

BUNDLED = "bundled"
_ANIMALS = "bird cat dog horse sheep cow elephant bear zebra giraffe animal cub"
_QUALIFIED = {
    f"{qualifier} {noun}": noun
    for qualifier, nouns in (("baby", _ANIMALS), ("adult", _ANIMALS), ("passenger", "jet train"))
    for noun in nouns.split()
}
_RENAMED = {"bow tie": "tie", "toilet seat": "toilet", "wine glas": "wine glass"}
_NOT_OBJECTS = ("home plate", "train track")
# Singular forms as CHAIR's program gets them from pattern.en (Smedt and Daelemans 2012), as far as they can be words of
# a list: the longest ending counts. It takes the s off any word, so that "bus" becomes "bu" and is never counted.
_ENDINGS = (
    "s: ies:y aies:aie eies:eie oies:oie uies:uie quies:quy xes:x ches:ch shes:sh sses:ss oes:o shoes:shoe buses:bus "
    "ves:ve lves:lf rves:rf nives:nife lives:life wives:wife leaves:leaf loaves:loaf moves:move movies:movie men:man "
    "people:person children:child feet:foot teeth:tooth geese:goose mice:mouse lice:louse oxen:ox brethren:brother "
    "^kine:cow ^series:series ^species:species ^scissors:scissors ^news:news ^collies:collies ^doggies:doggies"
)
_SINGULAR = {pair.partition(":")[0]: pair.partition(":")[2] for pair in _ENDINGS.split()}


class ObjectMention(NamedTuple):
    """An object that a caption mentions: its word, its node, and its tokens [start, end)."""

    word: str
    node: str
    start: int
    end: int


@lru_cache(maxsize=1 << 16)
def singular_form(token: str) -> str:
    """The singular of a token, as in the program of CHAIR.

    >>> [singular_form(token) for token in ("women", "puppies", "knives", "bus")]
    ['woman', 'puppy', 'knife', 'bu']
    """
    return replace_ending(token, _SINGULAR)


@dataclass(frozen=True, eq=False)
class ObjectWords:
    """A list of object words.

    Args:
        name: of its file.
        nodes: each word, and its node.
        double_words: two words, separated by a blank, and what they count as.
    """

    name: str
    nodes: Mapping[str, str]
    double_words: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """A hash of the list, for signatures."""
        list_content = json.dumps([sorted(self.nodes.items()), sorted(self.double_words.items())])
        return hashlib.sha256(list_content.encode()).hexdigest()[:8]

    @cached_property
    def _relevant(self) -> frozenset[str]:
        """The words that matter: those of the list, and those of double words."""
        return frozenset(self.nodes).union(*(double_word.split() for double_word in self.double_words))

    def find_mentions(self, words: Sequence[str]) -> list[ObjectMention]:
        """The objects that a caption mentions.

        Double words are joined from left to right; beside a toilet, "seat" is not a chair.

        Args:
            words: the caption's tokens in their base form.

        Returns:
            The mentions in order.
        """
        mentioned_words: list[tuple[str, int, int]] = []
        end = 0  # of the last double word
        for word_position in [k for k, word in enumerate(words) if word in self._relevant]:
            if word_position < end:
                continue
            double_word = self.double_words.get(" ".join(words[word_position : word_position + 2]))
            end = word_position + (1 if double_word is None else 2)
            mentioned_words.append((words[word_position] if double_word is None else double_word, word_position, end))
        has_toilet = any(word == "toilet" for word, _, _ in mentioned_words)
        return [
            ObjectMention(word, self.nodes[word], word_position, end)
            for word, word_position, end in mentioned_words
            if word in self.nodes and not (has_toilet and word == "seat")
        ]

    def find_node(self, name: str) -> str | None:
        """The node of an object's name, whatever its case and number; None if the list lacks it."""
        folded_name = name.strip().lower()
        forms = name, folded_name, singular_form(folded_name), folded_name.removesuffix("s")
        return next((self.nodes[form] for form in forms if form in self.nodes), None)

    def with_names(self, names: Iterable[str]) -> ObjectWords:
        """This list with further objects, each of which is named by its own name alone; the list itself without any."""
        unknown_names = [name for name in dict.fromkeys(names) if self.find_node(name) is None]
        if not unknown_names:
            return self
        warnings.warn(
            f"not in the list of words {self.name}, and counted by name alone: {list_names(unknown_names, 3)}; "
            "--synonyms FILE (synonyms=FILE) names a list with further words, a line for each object",
            CapmeterWarning,
            stacklevel=5,
        )
        folded_names = [name.strip().lower() for name in unknown_names]
        nodes = {singular_form(name): name for name in folded_names} | {name: name for name in folded_names}
        doubles = {word: word for word in nodes if len(word.split()) == 2}
        return ObjectWords(self.name, {**nodes, **self.nodes}, {**doubles, **self.double_words})


def load_object_words(source: str) -> ObjectWords:
    """The list of this file, or the bundled one, read once per process as long as the file does not change.

    Raises:
        InputError: the file cannot be read or is not such a list.
    """
    if source == BUNDLED:
        return _bundled()
    return _read(source, file_stamp("synonyms", source, "expected `bundled`, or a file of object words (synonyms.txt)"))


@lru_cache(maxsize=1)
def _bundled() -> ObjectWords:
    return _object_words(BUNDLED, read_bundled_json("object_words.json").items(), None)


@lru_cache(maxsize=8)
def _read(path: str, stamp: tuple[int, int]) -> ObjectWords:
    file_text, file_name = CaptionSource.resolve(path).read_text(), Path(path).name
    if not file_text.lstrip().startswith(("{", "[")):
        lines = [line.strip().split(", ") for line in file_text.splitlines() if line.strip()]
        return _object_words(file_name, [(line[0], line) for line in lines], None)
    content = decode_json(file_text, file_name)
    if isinstance(content, list):
        return _object_words(file_name, (isinstance(words, list) and (words[0], words) for words in content), None)
    nodes, double_words = content.get("nodes", content), content.get("double_words") if "nodes" in content else None
    return _object_words(file_name, nodes.items() if isinstance(nodes, Mapping) else nodes, double_words)


def _object_words(list_name: str, word_lists: Iterable[Any], double_words: Any) -> ObjectWords:
    """Checks a list and warns of words that cannot be found."""
    nodes: dict[str, str] = {}
    repeated_words: list[str] = []
    try:
        for node, words in word_lists:
            if not isinstance(words, list):
                raise InputError(f"{list_name}: node {node!a} has {words!a:.60}; expected a list of its words")
            for word in dict.fromkeys((node, *words)):
                if not isinstance(word, str) or not word.strip() or re.search(r"[,;:|\t]", word):
                    raise InputError(
                        f"{list_name}: node {node!a} has the word {word!a}; expected a word that is not blank, and a "
                        "comma and a blank between words: `person, man, woman`"
                    )
                if nodes.setdefault(word, node) != node:
                    raise InputError(
                        f"{list_name}: {word!a} is a word of both {nodes[word]!a} and {node!a}; keep it in one of them"
                    )
            repeated_words += [word for k, word in enumerate(words) if word in words[:k]]
        if double_words is None:
            doubles = {word.strip(): word.strip() for word in nodes if len(word.split()) == 2}
            double_words = doubles | _QUALIFIED | _RENAMED | {word: word for word in _NOT_OBJECTS}
        checked_doubles = {str(double): "" + single for double, single in double_words.items()}
        long_words = [word for word in nodes if len(word.split()) > 2 and word not in checked_doubles.values()]
        if 2 * len(long_words) > len(nodes):  # such as captions
            raise ValueError
    except (TypeError, ValueError, AttributeError, LookupError):
        raise InputError(
            f"{list_name}: not a list of object words; expected lines such as `person, man, woman`, or JSON such as "
            '{"person": ["man", "woman"]}'
        ) from None
    if not nodes:
        raise InputError(f"{list_name}: there are no words in it; expected lines such as `person, man, woman`")
    blank_ends = [word for word in nodes if word != word.strip()]
    _warn(list_name, "begins or ends with a blank and is never found, as in CHAIR's program", blank_ends)
    _warn(list_name, "is repeated, as in CHAIR's program", repeated_words)
    _warn(list_name, "has more than two parts and is never found, as in CHAIR's program", long_words)
    is_other = list_name != BUNDLED and nodes.keys().isdisjoint(_bundled().nodes)
    _warn(list_name, "name none of COCO's 80 objects: is it a list of object words?", list(nodes) if is_other else [])
    return ObjectWords(list_name, nodes, checked_doubles)


def _warn(list_name: str, fault: str, words: Sequence[str]) -> None:
    if words:
        warnings.warn(f"{list_name}: {list_names(words, 3)} {fault}", CapmeterWarning, stacklevel=4)
