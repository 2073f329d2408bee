"""Lemma rules from parses: the fewest endings to replace that give every training word its lemma.

For each ending, from the shortest to whole words, its most frequent replacement becomes a rule if it differs from the
rule of the next shorter ending.

>>> endings = learn_endings({"dogs": "dog", "cats": "cat", "toys": "toy", "boxes": "box", "foxes": "fox"})
>>> endings["s"], endings["es"]
('', '')
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from capmeter.text.parsing.dependency_parse import Parse
from capmeter.text.parsing.lemmas import WHOLE_WORD, fold_case, inflection_class, replace_ending

_Edit = tuple[int, str]  # number of letters removed from the end, and their replacement


def learn_lemma_rules(parses: Iterable[Parse]) -> dict[str, Any]:
    """The arguments of `capmeter.text.parsing.lemmas.LemmaRules`: `endings` and `table`."""
    lemma_counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for parse in parses:
        for word, tag, lemma in zip(parse.words, parse.tags, parse.lemmas, strict=True):
            lemma_counts[fold_case(word, tag), tag][lemma] += 1
    usual_lemmas = {word_tag: counts.most_common(1)[0][0] for word_tag, counts in lemma_counts.items()}
    votes: dict[str, defaultdict[str, Counter[str]]] = {"NNS": defaultdict(Counter), "V": defaultdict(Counter)}
    for (word, tag), counts in lemma_counts.items():
        kind = inflection_class(tag)
        if kind is not None and word.isalpha():
            votes[kind][word] += counts
    endings = {
        kind: learn_endings({word: counts.most_common(1)[0][0] for word, counts in word_votes.items()})
        for kind, word_votes in votes.items()
    }
    lemma_table: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (word, tag), lemma in usual_lemmas.items():
        kind = inflection_class(tag)
        if lemma != (word if kind is None else replace_ending(word, endings[kind])):
            lemma_table[tag][word] = lemma
    return {"endings": endings, "table": dict(lemma_table)}


def learn_endings(lemmas: Mapping[str, str]) -> dict[str, str]:
    """The endings and their replacements that turn every word into its lemma."""
    edit_counts: defaultdict[str, Counter[_Edit]] = defaultdict(Counter)
    for word, lemma in lemmas.items():
        prefix_length = _common_prefix_length(word, lemma)
        edit = (len(word) - prefix_length, lemma[prefix_length:])
        for ending_start in range(len(word) + 1):
            edit_counts[word[ending_start:]][edit] += 1
        edit_counts[WHOLE_WORD + word][edit] += 1
    rules: dict[str, _Edit] = {}
    for ending in sorted(edit_counts, key=len):
        edit, count = edit_counts[ending].most_common(1)[0]
        if edit[0] > len(ending.removeprefix(WHOLE_WORD)):
            continue  # a longer ending decides
        shorter_edit = next((rules[ending[k:]] for k in range(1, len(ending) + 1) if ending[k:] in rules), (0, ""))
        if shorter_edit != edit and edit_counts[ending][shorter_edit] < count:
            rules[ending] = edit
    return {ending: _apply_edit(ending, edit) for ending, edit in rules.items()}


def _common_prefix_length(word: str, lemma: str) -> int:
    return next((k for k, (a, b) in enumerate(zip(word, lemma, strict=False)) if a != b), min(len(word), len(lemma)))


def _apply_edit(ending: str, edit: _Edit) -> str:
    letters = ending.removeprefix(WHOLE_WORD)
    return letters[: len(letters) - edit[0]] + edit[1]
