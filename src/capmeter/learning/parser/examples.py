"""Parsed training captions: read without benchmark photos, split by photo, and converted to numbers.

A row is what `caption_parses.jsonl.gz` holds: `{"source", "photo", "form", "caption", "sentences": [{words, tags,
lemmas, heads, labels}]}`. Three per cent of the photos are held out, chosen by
the hash of source and number, so that every run holds out the same.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.text.parser_vocabulary import FIRST_FEATURE, ParserVocabulary, word_features
from capmeter.text.parses import CaptionParse, Parse

HELD_OUT_PERCENT = 3
LONGEST_EXAMPLE = 60
_SOURCES = {"coco": "coco", "flickr30k": "flickr"}  # source of a row: its list in the exclusions


@dataclass(frozen=True)
class Example:
    """A caption with its parse and its source."""

    source: str
    photo: str
    form: str
    caption: str
    parse: CaptionParse

    @property
    def held_out(self) -> bool:
        """Whether the photo is kept for evaluation."""
        digest = hashlib.sha256((self.source + self.photo).encode()).hexdigest()
        return int(digest, 16) % 100 < HELD_OUT_PERCENT


def read_exclusions(path: Path) -> dict[str, frozenset[str]]:
    """The photos of benchmarks, by source, from `training_exclusions.json.gz`: `{"coco": […], "flickr": […]}`."""
    try:
        lists = json.loads(gzip.decompress(path.read_bytes()))
        return {source: frozenset(map(str, lists[name])) for source, name in _SOURCES.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f'{path}: expected the gzipped object {{"coco": [photos], "flickr": [photos]}} of excluded photos: {error}'
        ) from error


def read_examples(path: Path, exclusions: Mapping[str, frozenset[str]]) -> tuple[list[Example], int]:
    """The examples of a file, and how many rows were left out because their photo is in a benchmark.

    Raises:
        InputError: a line that is not a parsed caption, or has a source that the exclusions do not list.
    """
    examples: list[Example] = []
    excluded = 0
    for number, row in _rows(path):
        try:
            example = Example(
                row["source"], str(row["photo"]), row["form"], row["caption"], CaptionParse.from_dict(row)
            )
        except (KeyError, TypeError, InputError) as error:
            raise InputError(f"{path}, line {number}: not a parsed caption: {error}") from error
        if example.source not in exclusions:
            known = ", ".join(sorted(exclusions))
            raise InputError(
                f"{path}, line {number}: photos of {example.source!r} are in no list of exclusions ({known}), "
                "so they may be in a benchmark"
            )
        if example.photo in exclusions[example.source]:
            excluded += 1
        else:
            examples.append(example)
    return examples, excluded


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield number, json.loads(line)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected gzipped JSON lines of parsed captions: {error}") from error


def sentences(examples: Iterable[Example]) -> list[Parse]:
    """Every sentence of the examples."""
    return [sentence for example in examples for sentence in example.parse.sentences]


def learn_vocabulary(parses: Sequence[Parse]) -> tuple[ParserVocabulary, npt.NDArray[np.float32]]:
    """The features that get a vector, and for each number how likely it is hidden in training (often for rare words).

    Words count if they occur twice, other features if three words or twenty tokens have them.
    """
    words = Counter(word for parse in parses for word in parse.words)
    tokens: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for word, count in words.items():
        for feature in word_features(word):
            tokens[feature] += count
            types[feature] += 1
    kept = [name for name in tokens if (tokens[name] >= 2 if _whole(name) else types[name] >= 3 or tokens[name] >= 20)]
    vocabulary = ParserVocabulary(
        {name: number for number, name in enumerate(kept, start=FIRST_FEATURE)},
        sorted({tag for parse in parses for tag in parse.tags}),
        sorted({label for parse in parses for label in parse.labels}),
    )
    rareness = [1 / (1 + 2 * tokens[name]) if _whole(name) else 0.0 for name in kept]
    return vocabulary, np.array([0.0, 0.0, *rareness], np.float32)


def _whole(feature: str) -> bool:
    return feature.startswith(("w:", "c:"))


@dataclass(frozen=True, eq=False)
class Packed:
    """Sentences of one length as numbers: rows [B, n, features of a word], tags, heads and labels [B, n]."""

    rows: npt.NDArray[np.int32]
    tags: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def right(self, chosen: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
        """Tags, heads and labels of some of the sentences."""
        return self.tags[chosen], self.heads[chosen], self.labels[chosen]


def pack(parses: Iterable[Parse], vocabulary: ParserVocabulary) -> dict[int, Packed]:
    """The sentences by length, without the very long ones; tags and labels that do not occur in training count as 0."""
    tags = {tag: number for number, tag in enumerate(vocabulary.tags)}
    labels = {label: number for number, label in enumerate(vocabulary.labels)}
    by_length: dict[int, list[Parse]] = {}
    for parse in parses:
        if len(parse) <= LONGEST_EXAMPLE:
            by_length.setdefault(len(parse), []).append(parse)
    return {
        length: Packed(
            np.array([[vocabulary.row(word) for word in parse.words] for parse in group], np.int32),
            np.array([[tags.get(tag, 0) for tag in parse.tags] for parse in group], np.int64),
            np.array([parse.heads for parse in group], np.int64),
            np.array([[labels.get(label, 0) for label in parse.labels] for parse in group], np.int64),
        )
        for length, group in sorted(by_length.items())
    }
