"""Lemma rules from parses: the endings that words lose, as few as give every known word its lemma.

For each ending, from the shortest to whole words, the replacement that most words with it show is a rule if the rule
of the next shorter ending differs.

>>> endings = learn_endings({"dogs": "dog", "cats": "cat", "toys": "toy", "boxes": "box", "foxes": "fox"})
>>> endings["s"], endings["es"]
('', '')
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from capmeter.text.lemmas import WHOLE_WORD, folded, inflected, without_ending
from capmeter.text.parses import Parse

_Edit = tuple[int, str]  # letters removed from the end, and their replacement


def lemma_rules(parses: Iterable[Parse]) -> dict[str, Any]:
    """The arguments of `capmeter.text.lemmas.LemmaRules`: `endings` and `table`."""
    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for parse in parses:
        for word, tag, lemma in zip(parse.words, parse.tags, parse.lemmas, strict=True):
            seen[folded(word, tag), tag][lemma] += 1
    usual = {key: lemmas.most_common(1)[0][0] for key, lemmas in seen.items()}
    votes: dict[str, defaultdict[str, Counter[str]]] = {"NNS": defaultdict(Counter), "V": defaultdict(Counter)}
    for (word, tag), lemmas in seen.items():
        kind = inflected(tag)
        if kind is not None and word.isalpha():
            votes[kind][word] += lemmas
    endings = {
        kind: learn_endings({word: lemmas.most_common(1)[0][0] for word, lemmas in words.items()})
        for kind, words in votes.items()
    }
    table: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (word, tag), lemma in usual.items():
        kind = inflected(tag)
        if lemma != (word if kind is None else without_ending(word, endings[kind])):
            table[tag][word] = lemma
    return {"endings": endings, "table": dict(table)}


def learn_endings(lemmas: Mapping[str, str]) -> dict[str, str]:
    """The endings, and their replacements, that turn every word into its lemma."""
    edits: defaultdict[str, Counter[_Edit]] = defaultdict(Counter)
    for word, lemma in lemmas.items():
        same = _common(word, lemma)
        edit = (len(word) - same, lemma[same:])
        for cut in range(len(word) + 1):
            edits[word[cut:]][edit] += 1
        edits[WHOLE_WORD + word][edit] += 1
    kept: dict[str, _Edit] = {}
    for ending in sorted(edits, key=len):
        edit, count = edits[ending].most_common(1)[0]
        if edit[0] > len(ending.removeprefix(WHOLE_WORD)):
            continue  # a longer ending decides
        shorter = next((kept[ending[k:]] for k in range(1, len(ending) + 1) if ending[k:] in kept), (0, ""))
        if shorter != edit and edits[ending][shorter] < count:
            kept[ending] = edit
    return {ending: _replaced(ending, edit) for ending, edit in kept.items()}


def _common(word: str, lemma: str) -> int:
    return next((k for k, (a, b) in enumerate(zip(word, lemma, strict=False)) if a != b), min(len(word), len(lemma)))


def _replaced(ending: str, edit: _Edit) -> str:
    letters = ending.removeprefix(WHOLE_WORD)
    return letters[: len(letters) - edit[0]] + edit[1]
