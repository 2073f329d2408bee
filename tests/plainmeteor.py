"""METEOR's alignment written out plainly, pair by pair, path by path, and a small METEOR release to test with."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capmeter.text.meteor_resources import MeteorLanguage, meteor_language
from capmeter.text.meteor_texts import java_hash

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
    ("on the", "on"),  # found twice, a match stands twice in the program's list
    ("the red car", "it"),
]


def pairs_text(table: dict[str, str]) -> str:
    return "".join(f"{one}\n{other}\n" for one, other in table.items())


def paraphrase_bytes(pairs: list[tuple[str, str]]) -> bytes:
    return gzip.compress("".join(f"0.5\n{left}\n{right}\n" for left, right in pairs).encode())


def small_release(folder: Path) -> Path:
    """A directory as a METEOR release has it, with a few words."""
    (folder / "data").mkdir(parents=True)
    with zipfile.ZipFile(folder / "meteor-1.5.jar", "w") as jar:
        jar.writestr("function/english.words", FUNCTION_WORDS)
        for language in ("english", "french"):
            jar.writestr(f"nonbreaking/{language}.prefixes", PREFIXES)
        jar.writestr("synonym/english.synsets", pairs_text(SYNSETS))
        jar.writestr("synonym/english.exceptions", pairs_text(EXCEPTIONS))
    (folder / "data" / "paraphrase-en.gz").write_bytes(paraphrase_bytes(PARAPHRASES))
    return folder


def small_language(folder: Path) -> MeteorLanguage:
    """English as this release has it; what is made of it stays in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPMETER_CACHE", str(folder / "cache"))
        return meteor_language("en", str(small_release(folder / "release")))


@dataclass(frozen=True)
class Found:
    kind: int
    start: int
    length: int
    far: int
    far_length: int


@dataclass
class Path_:
    matches: dict[int, Found]
    used: set[tuple[str, int]]
    total: int = 0
    chunks: int = 0
    distance: int = 0
    next: int = 0
    end: int = -1
    took: list[Found] = field(default_factory=list)

    def copy(self) -> Path_:
        return Path_(
            dict(self.matches),
            set(self.used),
            self.total,
            self.chunks,
            self.distance,
            self.next,
            self.end,
            [*self.took],
        )

    def take(self, found: Found) -> None:
        self.took.append(found)
        self.used |= words(found)
        weight = 1.0 if found.kind == 0 else 0.5
        self.total += int(found.length * weight) + int(found.far_length * weight)
        if self.end not in (-1, found.far):
            self.chunks += 1
        self.next = found.start + found.length
        self.end = found.far + found.far_length


def words(found: Found) -> set[tuple[str, int]]:
    mine = {("reference", k) for k in range(found.start, found.start + found.length)}
    return mine | {("hypothesis", k) for k in range(found.far, found.far + found.far_length)}


def all_found(
    hypothesis: list[str], reference: list[str], language: MeteorLanguage, pairs: list[tuple[str, str]]
) -> list[list[Found]]:
    lists: list[list[Found]] = [[] for _ in reference]
    identical = [*map(java_hash, hypothesis)] == [*map(java_hash, reference)]
    for kind in range(1 if identical else 4):
        for start, word in enumerate(reference if kind < 3 else ()):
            for far, other in enumerate(hypothesis):
                same = java_hash(word) == java_hash(other)
                if kind == 0:
                    matched = same
                elif kind == 1:
                    matched = not same and language.stem(word) == language.stem(other)
                else:
                    one, two = (set(language.synonyms.synsets([each]).values.tolist()) for each in (word, other))
                    matched = not same and bool(one & two)
                if matched:
                    lists[start].append(Found(kind, start, 1, far, 1))
    if not identical:
        for start, length, right in sides(reference, pairs):
            for far in places(right, hypothesis):
                lists[start].append(Found(3, start, length, far, len(right)))
        for far, far_length, right in sides(hypothesis, pairs):
            for start in places(right, reference):
                lists[start].append(Found(3, start, len(right), far, far_length))
    return lists


def sides(sentence: list[str], pairs: list[tuple[str, str]]) -> list[tuple[int, int, list[str]]]:
    found = []
    for start in range(len(sentence)):
        for length in range(1, len(sentence) - start + 1):
            phrase = " ".join(sentence[start : start + length])
            found += [(start, length, right.split()) for left, right in pairs if left == phrase]
    return found


def places(phrase: list[str], sentence: list[str]) -> list[int]:
    return [k for k in range(len(sentence)) if sentence[k : k + len(phrase)] == phrase]


def align_plainly(
    hypothesis: list[str],
    reference: list[str],
    language: MeteorLanguage,
    pairs: list[tuple[str, str]],
    beam: int = 40,
) -> list[Found]:
    lists = all_found(hypothesis, reference, language, pairs)
    every = [found for row in lists for found in row]
    settled = {
        found.start: found
        for row in lists
        for found in row
        if len(row) == 1 and not any(words(found) & words(other) for other in every if other is not found)
    }
    # Found twice is covered twice, though the two are equal.
    settled = {at: found for at, found in settled.items() if every.count(found) == 1}
    start = Path_(settled, set().union(*map(words, settled.values())))
    paths = [start]
    for current in range(len(reference)):
        paths.sort(key=lambda path: (-path.total, path.chunks, path.distance))
        later: list[Path_] = []
        for path in paths[:beam]:
            if path.next > current:
                later.append(path)
            elif current in path.matches:
                path.distance += abs(current - path.matches[current].far)
                path.take(path.matches[current])
                later.append(path)
            else:
                for found in lists[current]:
                    if not words(found) & path.used:
                        child = path.copy()
                        child.take(found)
                        path.distance += abs(found.start - found.far)
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
    return paths[0].took
