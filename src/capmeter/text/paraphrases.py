"""METEOR's paraphrase table as a small index in the user's cache: built once, then memory-mapped.

A METEOR paraphrase table is a gzip file of line triples (probability, phrase, paraphrase); the probability is not used.
The English table has 5.3 million pairs of 2.6 million phrases and takes 272 MB. The index numbers every phrase by its
node in a trie of words, so that the phrases of a sentence are found by walking the trie from each of its words, and
keeps for each left-hand phrase its paraphrases in the table's order (METEOR's aligner depends on that order).

The index is one file, renamed into place on success; concurrent builders wait for each other. Its name contains the
version of the table, and it is checksummed as a whole: a damaged index is rebuilt.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from operator import ne
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from capmeter import progress
from capmeter.arrays import read_arrays, write_arrays
from capmeter.assets import cache_folder
from capmeter.errors import AssetError

Ints = npt.NDArray[np.integer[Any]]
_FORMAT = 2
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class Paraphrases:
    """The index: `phrases` finds a table's phrases in sentences of words, `rights` gives a phrase's paraphrases.

    Words are numbered by their line in `text`; a node of the trie is a phrase or the beginning of one. Nodes of one
    word are that word's number; those of k words lie, sorted, in `levels[k - 2]` as (parent node) * words + last word.
    """

    text: bytes
    levels: tuple[Ints, ...]
    lefts: Ints
    offsets: Ints
    right: Ints

    @cached_property
    def words(self) -> dict[str, int]:
        """Every word in the table's phrases, and its number."""
        lines = self.text.decode("utf-8").split("\n")
        return dict(zip(lines, range(len(lines)), strict=True))

    def phrases(self, words: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
        """All prefixes of phrases in sentences: their position in `words`, their length in words, and the node.

        `words` are word numbers (-1 for a word that is not in the table); sentence i is
        `words[offsets[i] : offsets[i + 1]]`.
        """
        room = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(words))
        start = np.flatnonzero(words >= 0)
        node = words[start].astype(np.int64)
        found = [(start, node)]
        for length, level in enumerate(self.levels, 2):
            longer = room[start] >= length
            start, node = start[longer], node[longer]
            last = words[start + length - 1]
            start, node, last = start[last >= 0], node[last >= 0], last[last >= 0]
            key = node * len(self.words) + last
            order = np.argsort(key)  # searching in order reads the level once, instead of here and there
            start, key = start[order], key[order]
            where = np.minimum(np.searchsorted(level, key), max(len(level) - 1, 0))
            known = level[where] == key if len(level) else np.zeros(len(key), bool)
            start, node = start[known], self._first(length) + where[known]
            found.append((start, node))
        lengths = np.repeat(np.arange(1, len(found) + 1), [len(start) for start, _ in found])
        return np.concatenate([s for s, _ in found]), lengths, np.concatenate([n for _, n in found])

    def rights(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """All pairs whose left side is one of these nodes: its index in `nodes`, the right node, the pair's rank."""
        where = np.minimum(np.searchsorted(self.lefts, nodes), max(len(self.lefts) - 1, 0))
        left = np.flatnonzero(self.lefts[where] == nodes) if len(self.lefts) else np.zeros(0, np.int64)
        begin, end = self.offsets[where[left]], self.offsets[where[left] + 1]
        count = end - begin
        rank = np.arange(int(count.sum())) + np.repeat(begin - (np.cumsum(count) - count), count)
        return np.repeat(left, count), self.right[rank], rank

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._first(len(self.levels) + 2)

    def _first(self, length: int) -> int:
        """The number of the first node of so many words."""
        return len(self.words) + sum(len(level) for level in self.levels[: length - 2])


def index_path(table: Path, version: str, cache: Path | None = None) -> Path:
    """The path of the index for this version of this table."""
    return (cache or cache_folder()) / f"{table.name.removesuffix('.gz')}-{version}-{_FORMAT}.index"


def load_paraphrases(table: Path, version: str, cache: Path | None = None) -> Paraphrases:
    """The index of a paraphrase table, built if absent or damaged."""
    path = index_path(table, version, cache)
    index = read_index(path)
    if index is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(path.with_suffix(".lock")):
                index = read_index(path)
                if index is None:
                    _write_index(build_index(table), path)
                    index = read_index(path)
        except OSError as error:
            raise AssetError(
                f"the paraphrase index could not be written to {path.parent} ({error.strerror or error}); "
                "set the environment variable CAPMETER_CACHE to a writable folder"
            ) from error
    if index is None:
        raise AssetError(f"the paraphrase index {path} cannot be read back; is the disk full or failing?")
    return index


def build_index(table: Path) -> Paraphrases:
    """The index of a table, in memory."""
    numbers: dict[bytes, int] = {}
    lefts, rights, news = [], [], []
    last: bytes | None = None
    for left, right in _pairs(table):
        # A left-hand phrase precedes each of its paraphrases; it is kept once.
        new = np.fromiter(map(ne, left, chain((last,), left)), bool, len(left))
        last = left[-1]
        news.append(new)
        lefts.append(_numbered(list(compress(left, new.tolist())), numbers))
        rights.append(_numbered(right, numbers))
    if not news:
        raise AssetError(f"{table} has no paraphrases; expected lines of probability, phrase, paraphrase in turn")
    words, sizes = (np.concatenate(parts) for parts in zip(*lefts, *rights, strict=True))
    levels, nodes = _trie(words, sizes, len(numbers))
    new = np.concatenate(news)
    count = int(new.sum())
    return _index(b"\n".join(numbers), levels, nodes[np.cumsum(new) - 1], nodes[count:])


def _numbered(phrases: list[bytes], numbers: dict[bytes, int]) -> tuple[Ints, Ints]:
    """The words of these phrases as numbers, concatenated, and the number of words of each phrase."""
    text = b"\n".join(phrases)
    words = text.split()
    for word in sorted(set(words) - numbers.keys()):
        numbers[word] = len(numbers)
    breaks = np.frombuffer(text, np.uint8)
    breaks = breaks[(breaks == ord(" ")) | (breaks == ord("\n"))]
    if len(words) == len(breaks) + 1:
        sizes = np.diff(np.concatenate([[-1], np.flatnonzero(breaks == ord("\n")), [len(breaks)]]))
    else:
        sizes = np.array([len(phrase.split()) for phrase in phrases], np.int64)
    if not sizes.all():
        raise AssetError("a paraphrase table has an empty phrase: it is damaged, or not a METEOR 1.5 table")
    return np.fromiter(map(numbers.__getitem__, words), np.int32, len(words)), sizes.astype(np.int8)


def _index(text: bytes, levels: tuple[Ints, ...], left: Ints, right: Ints) -> Paraphrases:
    order = np.argsort(left, kind="stable")
    lefts, begins = np.unique(left[order], return_index=True)
    offsets = np.append(begins, len(left)).astype(np.int32)
    return Paraphrases(text, levels, lefts.astype(np.int32), offsets, right[order].astype(np.int32))


def _pairs(table: Path) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The left and right sides of a table, a few hundred thousand at a time."""
    size = table.stat().st_size
    with (
        table.open("rb") as raw,
        gzip.open(raw) as file,
        progress.task("building the paraphrase index", size) as advance,
    ):
        rest, before = b"", 0
        try:
            while chunk := file.read(_CHUNK):
                lines = (rest + chunk).split(b"\n")
                whole = (len(lines) - 1) // 3 * 3
                rest = b"\n".join(lines[whole:])
                if whole:
                    yield lines[1:whole:3], lines[2:whole:3]
                advance(raw.tell() - before)
                before = raw.tell()
            lines = rest.split(b"\n")
            if len(lines) >= 3:
                yield lines[1:2], lines[2:3]
        except (EOFError, zlib.error, OSError) as error:
            raise AssetError(f"{table} is damaged or cannot be read ({error}); install it again") from error


def _trie(words: Ints, sizes: Ints, known: int) -> tuple[tuple[Ints, ...], Ints]:
    """The levels of the trie of these phrases (their words concatenated), and each phrase's node."""
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    node = words[starts].astype(np.int64)
    first, levels = known, []
    for length in range(2, int(sizes.max(initial=1)) + 1):
        long = np.flatnonzero(sizes >= length)
        level, where = np.unique(node[long] * known + words[starts[long] + length - 1], return_inverse=True)
        node[long] = first + where
        first += len(level)
        levels.append(level)
    return tuple(levels), node


def read_index(path: Path) -> Paraphrases | None:
    """The index in this file, memory-mapped; None if there is none or it is damaged."""
    found = read_arrays(path)
    if found is None:
        return None
    try:
        text, lefts, offsets, right, *levels = found[0].values()
    except ValueError:
        return None
    return Paraphrases(text.tobytes(), tuple(levels), lefts, offsets, right)


def _write_index(index: Paraphrases, path: Path) -> None:
    parts = {"text": np.frombuffer(index.text, np.uint8), "lefts": index.lefts, "offsets": index.offsets}
    levels = {f"level {length}": level for length, level in enumerate(index.levels, 2)}
    write_arrays(path, {**parts, "right": index.right, **levels})


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock file, for which other processes wait. The system releases it when its holder exits or crashes."""
    with path.open("ab") as file:
        _lock(file)
        yield


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            with suppress(OSError):  # raised after ten tries of a second each
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                break
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
