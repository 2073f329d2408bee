"""METEOR's paraphrase table as a small index in the user's cache: built once, then memory-mapped.

A METEOR paraphrase table is a gzip file of line triples (probability, phrase, paraphrase); the probability is not used.
The English table has 5.3 million pairs of 2.6 million phrases and takes 272 MB. The index identifies every phrase by
its node in a trie of words, so that the phrases of a sentence are found by walking the trie from each of its words, and
has the paraphrases of each left-hand phrase in the table's order (METEOR's aligner depends on that order).

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
from typing import IO

import numpy as np

from capmeter.core import progress
from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.assets import cache_folder
from capmeter.core.errors import AssetError
from capmeter.text.meteor.word_matches import Ints, expand_ranges

_FORMAT = 2


@dataclass(frozen=True, eq=False)
class Paraphrases:
    """The index: `phrases` finds a table's phrases in sentences, `rights` returns a phrase's paraphrases.

    A node of the trie is a phrase or the beginning of one. The node of a single word is the word's id.
    """

    text: bytes  # the words of the table, one a line, in the order of their ids
    levels: tuple[Ints, ...]  # level k - 2: nodes of k words, sorted, as (parent node) * words + last word
    lefts: Ints  # (left-hand phrases,): their nodes, sorted
    offsets: Ints  # (left-hand phrases + 1,): where their paraphrases begin in `right`
    right: Ints  # (pairs,): nodes of paraphrases

    @cached_property
    def words(self) -> dict[str, int]:
        """Every word in the table's phrases, and its id."""
        lines = self.text.decode("utf-8").split("\n")
        return dict(zip(lines, range(len(lines)), strict=True))

    def phrases(self, words: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
        """Finds all prefixes of phrases in sentences.

        Args:
            words: the word ids of all sentences, -1 for a word that is not in the table.
            offsets: sentence i is `words[offsets[i] : offsets[i + 1]]`.

        Returns:
            Their positions in `words`, their numbers of words, and their nodes.
        """
        remaining = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(words))
        start = np.flatnonzero(words >= 0)
        node = words[start].astype(np.int64)
        prefixes = [(start, node)]
        for length, level in enumerate(self.levels, 2):
            longer = remaining[start] >= length
            start, node = start[longer], node[longer]
            last = words[start + length - 1]
            start, node, last = start[last >= 0], node[last >= 0], last[last >= 0]
            key = node * len(self.words) + last
            order = np.argsort(key)  # searching in order reads the level sequentially
            start, key = start[order], key[order]
            positions = np.minimum(np.searchsorted(level, key), max(len(level) - 1, 0))
            in_level = level[positions] == key if len(level) else np.zeros(len(key), bool)
            start, node = start[in_level], self._first_node(length) + positions[in_level]
            prefixes.append((start, node))
        lengths = np.repeat(np.arange(1, len(prefixes) + 1), [len(start) for start, _ in prefixes])
        return np.concatenate([s for s, _ in prefixes]), lengths, np.concatenate([n for _, n in prefixes])

    def rights(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns all pairs with these left sides: their indices in `nodes`, the right nodes, ranks in the table."""
        positions = np.minimum(np.searchsorted(self.lefts, nodes), max(len(self.lefts) - 1, 0))
        left = np.flatnonzero(self.lefts[positions] == nodes) if len(self.lefts) else np.zeros(0, np.int64)
        begin, end = self.offsets[positions[left]], self.offsets[positions[left] + 1]
        rank = expand_ranges(begin, end - begin)
        return np.repeat(left, end - begin), self.right[rank], rank

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._first_node(len(self.levels) + 2)

    def _first_node(self, length: int) -> int:
        """Returns the first node of this number of words."""
        return len(self.words) + sum(len(level) for level in self.levels[: length - 2])


def index_path(table: Path, version: str, cache: Path | None = None) -> Path:
    """Returns the path of the index for this version of this table."""
    return (cache or cache_folder()) / f"{table.name.removesuffix('.gz')}-{version}-{_FORMAT}.index"


def load_paraphrases(table: Path, version: str, cache: Path | None = None) -> Paraphrases:
    """Loads the index of a paraphrase table; it is built if absent or damaged.

    Args:
        table: the table.
        version: the table's version.
        cache: the folder of the index; None: the user's cache folder.

    Raises:
        AssetError: the table is damaged, or the index cannot be written.
    """
    path = index_path(table, version, cache)
    index = read_index(path)
    if index is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _exclusive(path.with_suffix(".lock")):
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


def build_index(table: Path, chunk_bytes: int = 1 << 24) -> Paraphrases:
    """Builds the index of a table in memory; `chunk_bytes` of text are processed at a time."""
    word_ids: dict[bytes, int] = {}
    lefts, rights, is_new_parts = [], [], []
    last: bytes | None = None
    for left, right in _read_pairs(table, chunk_bytes):
        # A left-hand phrase is repeated before each of its paraphrases.
        is_new = np.fromiter(map(ne, left, chain((last,), left)), bool, len(left))
        last = left[-1]
        is_new_parts.append(is_new)
        lefts.append(_index_words(list(compress(left, is_new.tolist())), word_ids))
        rights.append(_index_words(right, word_ids))
    if not is_new_parts:
        raise AssetError(f"{table} has no paraphrases; expected lines of probability, phrase, paraphrase in turn")
    words, sizes = (np.concatenate(parts) for parts in zip(*lefts, *rights, strict=True))
    levels, nodes = _build_trie(words, sizes, len(word_ids))
    is_new = np.concatenate(is_new_parts)
    left_nodes, right_nodes = nodes[np.cumsum(is_new) - 1], nodes[int(is_new.sum()) :]
    order = np.argsort(left_nodes, kind="stable")
    distinct_lefts, begins = np.unique(left_nodes[order], return_index=True)
    offsets = np.append(begins, len(left_nodes)).astype(np.int32)
    text = b"\n".join(word_ids)
    return Paraphrases(text, levels, distinct_lefts.astype(np.int32), offsets, right_nodes[order].astype(np.int32))


def _index_words(phrases: list[bytes], word_ids: dict[bytes, int]) -> tuple[Ints, Ints]:
    """Returns the word ids of these phrases, concatenated, and the number of words of each phrase."""
    text = b"\n".join(phrases)
    words = text.split()
    for word in sorted(set(words) - word_ids.keys()):
        word_ids[word] = len(word_ids)
    breaks = np.frombuffer(text, np.uint8)
    breaks = breaks[(breaks == ord(" ")) | (breaks == ord("\n"))]
    if len(words) == len(breaks) + 1:
        sizes = np.diff(np.concatenate([[-1], np.flatnonzero(breaks == ord("\n")), [len(breaks)]]))
    else:
        sizes = np.array([len(phrase.split()) for phrase in phrases], np.int64)
    if not sizes.all():
        raise AssetError("a paraphrase table has an empty phrase: it is damaged, or not a METEOR 1.5 table")
    return np.fromiter(map(word_ids.__getitem__, words), np.int32, len(words)), sizes.astype(np.int8)


def _read_pairs(table: Path, chunk_bytes: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yields the left and right sides of a table in chunks."""
    size = table.stat().st_size
    with (
        table.open("rb") as raw,
        gzip.open(raw) as file,
        progress.task("building the paraphrase index", size) as advance,
    ):
        rest, before = b"", 0
        try:
            while chunk := file.read(chunk_bytes):
                lines = (rest + chunk).split(b"\n")
                complete = (len(lines) - 1) // 3 * 3
                rest = b"\n".join(lines[complete:])
                if complete:
                    yield lines[1:complete:3], lines[2:complete:3]
                advance(raw.tell() - before)
                before = raw.tell()
            lines = rest.split(b"\n")
            if len(lines) >= 3:
                yield lines[1:2], lines[2:3]
        except (EOFError, zlib.error, OSError) as error:
            raise AssetError(f"{table} is damaged or cannot be read ({error}); install it again") from error


def _build_trie(words: Ints, sizes: Ints, word_count: int) -> tuple[tuple[Ints, ...], Ints]:
    """Returns the levels of the trie of phrases, whose words are concatenated, and each phrase's node."""
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    node = words[starts].astype(np.int64)
    first, levels = word_count, []
    for length in range(2, int(sizes.max(initial=1)) + 1):
        long = np.flatnonzero(sizes >= length)
        level, positions = np.unique(node[long] * word_count + words[starts[long] + length - 1], return_inverse=True)
        node[long] = first + positions
        first += len(level)
        levels.append(level)
    return tuple(levels), node


def read_index(path: Path) -> Paraphrases | None:
    """Reads the index in this file, memory-mapped; None if it is absent or damaged."""
    saved = read_arrays(path)
    if saved is None:
        return None
    try:
        text, lefts, offsets, right, *levels = saved[0].values()
    except ValueError:
        return None
    return Paraphrases(text.tobytes(), tuple(levels), lefts, offsets, right)


def _write_index(index: Paraphrases, path: Path) -> None:
    parts = {"text": np.frombuffer(index.text, np.uint8), "lefts": index.lefts, "offsets": index.offsets}
    levels = {f"level {length}": level for length, level in enumerate(index.levels, 2)}
    write_arrays(path, {**parts, "right": index.right, **levels})


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Holds a lock file, for which other processes wait. The system releases it if the process exits or crashes."""
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
