"""METEOR's alignment in plain Python, pair by pair, path by path, and a small METEOR release to test with."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capmeter.text.meteor.resources import MeteorResources, load_meteor_resources
from capmeter.text.meteor.sentence_features import java_hashes

FUNCTION_WORDS = "a\nthe\non\nin\nof\nis\n"
PREFIXES = "# abbreviations\nDr\nNo #NUMERIC_ONLY#\n"
SYNSETS = {"car": "1", "automobile": "1 2", "machine": "2", "goose": "3", "bird": "3", "dog": "4", "canine": "4"}
EXCEPTIONS = {"goose": "geese"}
PARAPHRASES = [
    ("a lot of", "many"),
    ("dog", "the animal"),
    ("dog", "beast"),
    ("many", "lots of"),
    ("on top of", "on"),
    ("on the", "on"),
    ("on the", "on"),  # a duplicate pair gives duplicate matches
    ("the red car", "it"),
]


def pairs_text(table: dict[str, str]) -> str:
    return "".join(f"{one}\n{other}\n" for one, other in table.items())


def paraphrase_bytes(pairs: list[tuple[str, str]]) -> bytes:
    return gzip.compress("".join(f"0.5\n{left}\n{right}\n" for left, right in pairs).encode())


def small_release(folder: Path) -> Path:
    """Writes a folder like a METEOR release, with a few words."""
    (folder / "data").mkdir(parents=True)
    with zipfile.ZipFile(folder / "meteor-1.5.jar", "w") as jar:
        jar.writestr("function/english.words", FUNCTION_WORDS)
        for language in ("english", "french"):
            jar.writestr(f"nonbreaking/{language}.prefixes", PREFIXES)
        jar.writestr("synonym/english.synsets", pairs_text(SYNSETS))
        jar.writestr("synonym/english.exceptions", pairs_text(EXCEPTIONS))
    (folder / "data" / "paraphrase-en.gz").write_bytes(paraphrase_bytes(PARAPHRASES))
    return folder


def small_language(folder: Path) -> MeteorResources:
    """Loads English from such a release; its indices stay in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPMETER_CACHE", str(folder / "cache"))
        return load_meteor_resources("en", str(small_release(folder / "release")))


@dataclass(frozen=True)
class Match:
    """A match of words: the module, and spans in the reference and in the candidate."""

    kind: int
    start: int
    length: int
    candidate_start: int
    candidate_length: int


@dataclass
class PartialAlignment:
    """A path of the beam search."""

    matches: dict[int, Match]
    used: set[tuple[str, int]]
    total: int = 0
    chunks: int = 0
    distance: int = 0
    next: int = 0
    end: int = -1
    taken_matches: list[Match] = field(default_factory=list)

    def copy(self) -> PartialAlignment:
        return PartialAlignment(
            dict(self.matches),
            set(self.used),
            self.total,
            self.chunks,
            self.distance,
            self.next,
            self.end,
            [*self.taken_matches],
        )

    def take(self, match: Match) -> None:
        self.taken_matches.append(match)
        self.used |= covered_words(match)
        weight = 1.0 if match.kind == 0 else 0.5
        self.total += int(match.length * weight) + int(match.candidate_length * weight)
        if self.end not in (-1, match.candidate_start):
            self.chunks += 1
        self.next = match.start + match.length
        self.end = match.candidate_start + match.candidate_length


def covered_words(match: Match) -> set[tuple[str, int]]:
    reference_words = {("reference", k) for k in range(match.start, match.start + match.length)}
    return reference_words | {
        ("candidate", k) for k in range(match.candidate_start, match.candidate_start + match.candidate_length)
    }


def find_matches(
    candidate: list[str], reference: list[str], language: MeteorResources, pairs: list[tuple[str, str]]
) -> list[list[Match]]:
    lists: list[list[Match]] = [[] for _ in reference]
    words = [*{*candidate, *reference}]
    hashes = dict(zip(words, java_hashes(words).tolist(), strict=True))
    stems = {word: language.stem(word) for word in words}
    synsets = {word: set(language.synonyms.synsets([word]).values.tolist()) for word in words}
    identical = [hashes[word] for word in candidate] == [hashes[word] for word in reference]
    for kind in range(1 if identical else 4):
        for start, word in enumerate(reference if kind < 3 else ()):
            for candidate_start, other in enumerate(candidate):
                same = hashes[word] == hashes[other]
                if kind == 0:
                    matched = same
                elif kind == 1:
                    matched = not same and stems[word] == stems[other]
                else:
                    matched = not same and bool(synsets[word] & synsets[other])
                if matched:
                    lists[start].append(Match(kind, start, 1, candidate_start, 1))
    if not identical:
        for start, length, right in find_left_sides(reference, pairs):
            for candidate_start in find_phrase(right, candidate):
                lists[start].append(Match(3, start, length, candidate_start, len(right)))
        for candidate_start, candidate_length, right in find_left_sides(candidate, pairs):
            for start in find_phrase(right, reference):
                lists[start].append(Match(3, start, len(right), candidate_start, candidate_length))
    return lists


def find_left_sides(sentence: list[str], pairs: list[tuple[str, str]]) -> list[tuple[int, int, list[str]]]:
    matches = []
    for start in range(len(sentence)):
        for length in range(1, len(sentence) - start + 1):
            phrase = " ".join(sentence[start : start + length])
            matches += [(start, length, right.split()) for left, right in pairs if left == phrase]
    return matches


def find_phrase(phrase: list[str], sentence: list[str]) -> list[int]:
    return [k for k in range(len(sentence)) if sentence[k : k + len(phrase)] == phrase]


def align_in_plain_python(
    candidate: list[str], reference: list[str], language: MeteorResources, pairs: list[tuple[str, str]], beam: int = 40
) -> list[Match]:
    lists = find_matches(candidate, reference, language, pairs)
    every = [match for row in lists for match in row]
    settled = {
        match.start: match
        for row in lists
        for match in row
        if len(row) == 1
        and not any(covered_words(match) & covered_words(other) for other in every if other is not match)
    }
    # Two equal matches cover their words twice.
    settled = {at: match for at, match in settled.items() if every.count(match) == 1}
    start = PartialAlignment(settled, set().union(*map(covered_words, settled.values())))
    paths = [start]
    for current in range(len(reference)):
        paths.sort(key=lambda path: (-path.total, path.chunks, path.distance))
        later: list[PartialAlignment] = []
        for path in paths[:beam]:
            if path.next > current:
                later.append(path)
            elif current in path.matches:
                path.distance += abs(current - path.matches[current].candidate_start)
                path.take(path.matches[current])
                later.append(path)
            else:
                for match in lists[current]:
                    if not covered_words(match) & path.used:
                        child = path.copy()
                        child.take(match)
                        path.distance += abs(match.start - match.candidate_start)
                        later.append(child)
                if path.end != -1:
                    path.chunks += 1
                    path.end = -1
                path.next = current + 1
                later.append(path)
        paths = later
    paths.sort(key=lambda path: (-path.total, path.chunks, path.distance))
    paths = paths[:beam]
    for path in paths:
        path.chunks += path.end != -1
    paths.sort(key=lambda path: (-path.total, path.chunks, path.distance))
    return paths[0].taken_matches
