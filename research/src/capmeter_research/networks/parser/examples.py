"""Training sentences of the caption parser as arrays of ids."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.parsing.caption_parser import FIRST_FEATURE_ID, ParserVocabulary, word_features
from capmeter.text.parsing.dependency_parse import Parse
from capmeter.text.parsing.lemmas import WHOLE_WORD, fold_case, inflection_class, replace_ending
from capmeter_research.common.parsed_captions import ParsedCaption

MAX_LENGTH = 60
"""Longer sentences are not trained on."""
_WORD_FEATURES = ("w:", "c:")  # prefixes of the features that are words


def collect_sentences(captions: Iterable[ParsedCaption]) -> list[Parse]:
    """Every sentence of the captions."""
    return [sentence for caption in captions for sentence in caption.parse.sentences]


def learn_vocabulary(parses: Sequence[Parse]) -> tuple[ParserVocabulary, npt.NDArray[np.float32]]:
    """The features that get a vector, and for each the probability that it is hidden in training (high for rare words).

    Words need two occurrences, other features three words or twenty tokens.

    Returns:
        The vocabulary, and the probabilities (feature ids).
    """
    word_counts = Counter(word for parse in parses for word in parse.words)
    token_counts: Counter[str] = Counter()
    type_counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        for feature in word_features(word):
            token_counts[feature] += count
            type_counts[feature] += 1
    features = [
        feature_name
        for feature_name, count in token_counts.items()
        if (count >= 2 if feature_name.startswith(_WORD_FEATURES) else type_counts[feature_name] >= 3 or count >= 20)
    ]
    vocabulary = ParserVocabulary(
        {feature_name: feature_id for feature_id, feature_name in enumerate(features, start=FIRST_FEATURE_ID)},
        sorted({tag for parse in parses for tag in parse.tags}),
        sorted({label for parse in parses for label in parse.labels}),
    )
    hiding_probabilities = [
        1 / (1 + 2 * token_counts[feature_name]) if feature_name.startswith(_WORD_FEATURES) else 0.0
        for feature_name in features
    ]
    return vocabulary, np.array([0.0, 0.0, *hiding_probabilities], np.float32)


@dataclass(frozen=True, eq=False)
class PackedSentences:
    """Sentences of one length as ids."""

    features: npt.NDArray[np.int32]  # (sentences, length, features per word)
    tags: npt.NDArray[np.int64]  # (sentences, length)
    heads: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.features)


def pack_sentences(parses: Iterable[Parse], vocabulary: ParserVocabulary) -> dict[int, PackedSentences]:
    """The sentences by length, without those over `MAX_LENGTH`; unknown tags and labels have id 0."""
    tag_ids = {tag: tag_id for tag_id, tag in enumerate(vocabulary.tags)}
    label_ids = {label: label_id for label_id, label in enumerate(vocabulary.labels)}
    by_length: dict[int, list[Parse]] = {}
    for parse in parses:
        if len(parse) <= MAX_LENGTH:
            by_length.setdefault(len(parse), []).append(parse)
    return {
        length: PackedSentences(
            np.array([[vocabulary.row(word) for word in parse.words] for parse in group], np.int32),
            np.array([[tag_ids.get(tag, 0) for tag in parse.tags] for parse in group], np.int64),
            np.array([parse.heads for parse in group], np.int64),
            np.array([[label_ids.get(label, 0) for label in parse.labels] for parse in group], np.int64),
        )
        for length, group in sorted(by_length.items())
    }


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
    """The fewest endings to replace that give every word its lemma.

    For each ending, from the shortest to whole words, its most frequent replacement becomes a rule if it differs from
    the rule of the next shorter ending.

    >>> endings = learn_endings({"dogs": "dog", "cats": "cat", "toys": "toy", "boxes": "box", "foxes": "fox"})
    >>> endings["s"], endings["es"]
    ('', '')
    """
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
