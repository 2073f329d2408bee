"""METEOR's paraphrase table as a small index in the user's cache: built once, then memory-mapped.

A METEOR paraphrase table is a gzip file of line triples (probability, phrase, paraphrase); the probability is not used.
The English table has 5.3 million pairs of 2.6 million phrases and takes 272 MB. The index identifies every phrase by
its node in a trie of words, so that the phrases of a sentence are found by walking the trie from each of its words, and
has the paraphrases of each left-hand phrase in the table's order (METEOR's aligner depends on that order).

The index is one file, renamed into place on success; concurrent builders wait for each other. Its name contains the
version of the table. An index that cannot be read is rebuilt.
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
from capmeter.core.ragged import expand_ranges
from capmeter.text.meteor.word_matches import Ints

_FORMAT = 3


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
        table_words = self.text.decode("utf-8").split("\n")
        return dict(zip(table_words, range(len(table_words)), strict=True))

    def phrases(self, words: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
        """Finds all prefixes of phrases in sentences.

        Args:
            words: the word ids of all sentences, -1 for a word that is not in the table.
            offsets: sentence i is `words[offsets[i] : offsets[i + 1]]`.

        Returns:
            Their positions in `words`, their numbers of words, and their nodes.
        """
        remaining = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(words))
        phrase_starts = np.flatnonzero(words >= 0)
        phrase_nodes = words[phrase_starts].astype(np.int64)
        prefixes = [(phrase_starts, phrase_nodes)]
        for prefix_length, level in enumerate(self.levels, 2):
            is_longer = remaining[phrase_starts] >= prefix_length
            phrase_starts, phrase_nodes = phrase_starts[is_longer], phrase_nodes[is_longer]
            last = words[phrase_starts + prefix_length - 1]
            phrase_starts, phrase_nodes, last = phrase_starts[last >= 0], phrase_nodes[last >= 0], last[last >= 0]
            node_keys = phrase_nodes * len(self.words) + last
            key_order = np.argsort(node_keys)  # searching in order reads the level sequentially
            phrase_starts, node_keys = phrase_starts[key_order], node_keys[key_order]
            positions = np.minimum(np.searchsorted(level, node_keys), max(len(level) - 1, 0))
            in_level = level[positions] == node_keys if len(level) else np.zeros(len(node_keys), bool)
            phrase_starts, phrase_nodes = phrase_starts[in_level], self._first_node(prefix_length) + positions[in_level]
            prefixes.append((phrase_starts, phrase_nodes))
        lengths = np.repeat(np.arange(1, len(prefixes) + 1), [len(phrase_starts) for phrase_starts, _ in prefixes])
        return np.concatenate([s for s, _ in prefixes]), lengths, np.concatenate([n for _, n in prefixes])

    def rights(self, nodes: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns all pairs with these left sides: their indices in `nodes`, the right nodes, ranks in the table."""
        positions = np.minimum(np.searchsorted(self.lefts, nodes), max(len(self.lefts) - 1, 0))
        left_indices = np.flatnonzero(self.lefts[positions] == nodes) if len(self.lefts) else np.zeros(0, np.int64)
        range_begins, range_ends = self.offsets[positions[left_indices]], self.offsets[positions[left_indices] + 1]
        table_ranks = expand_ranges(range_begins, range_ends - range_begins)
        return np.repeat(left_indices, range_ends - range_begins), self.right[table_ranks], table_ranks

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._first_node(len(self.levels) + 2)

    def _first_node(self, phrase_length: int) -> int:
        """Returns the first node of this number of words."""
        return len(self.words) + sum(len(level) for level in self.levels[: phrase_length - 2])


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
    paraphrase_index = read_index(path)
    if paraphrase_index is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _exclusive(path.with_suffix(".lock")):
                paraphrase_index = read_index(path)
                if paraphrase_index is None:
                    _write_index(build_index(table), path)
                    paraphrase_index = read_index(path)
        except OSError as error:
            raise AssetError(
                f"the paraphrase index could not be written to {path.parent} ({error.strerror or error}); "
                "set the environment variable CAPMETER_CACHE to a writable folder"
            ) from error
    if paraphrase_index is None:
        raise AssetError(f"the paraphrase index {path} cannot be read back; is the disk full or failing?")
    return paraphrase_index


def build_index(table: Path, chunk_bytes: int = 1 << 24) -> Paraphrases:
    """Builds the index of a table in memory; `chunk_bytes` of text are processed at a time."""
    word_ids: dict[bytes, int] = {}
    left_parts, right_parts, is_new_parts = [], [], []
    last_left: bytes | None = None
    for left_phrases, right_phrases in _read_pairs(table, chunk_bytes):
        # A left-hand phrase is repeated before each of its paraphrases.
        is_new = np.fromiter(map(ne, left_phrases, chain((last_left,), left_phrases)), bool, len(left_phrases))
        last_left = left_phrases[-1]
        is_new_parts.append(is_new)
        left_parts.append(_index_words(list(compress(left_phrases, is_new.tolist())), word_ids))
        right_parts.append(_index_words(right_phrases, word_ids))
    if not is_new_parts:
        raise AssetError(f"{table} has no paraphrases; expected lines of probability, phrase, paraphrase in turn")
    phrase_words, phrase_sizes = (np.concatenate(parts) for parts in zip(*left_parts, *right_parts, strict=True))
    trie_levels, phrase_nodes = _build_trie(phrase_words, phrase_sizes, len(word_ids))
    is_new = np.concatenate(is_new_parts)
    left_nodes, right_nodes = phrase_nodes[np.cumsum(is_new) - 1], phrase_nodes[int(is_new.sum()) :]
    node_order = np.argsort(left_nodes, kind="stable")
    distinct_lefts, left_begins = np.unique(left_nodes[node_order], return_index=True)
    offsets = np.append(left_begins, len(left_nodes)).astype(np.int32)
    word_text = b"\n".join(word_ids)
    return Paraphrases(
        word_text, trie_levels, distinct_lefts.astype(np.int32), offsets, right_nodes[node_order].astype(np.int32)
    )


def _index_words(phrases: list[bytes], word_ids: dict[bytes, int]) -> tuple[Ints, Ints]:
    """Returns the word ids of these phrases, concatenated, and the number of words of each phrase."""
    phrase_text = b"\n".join(phrases)
    phrase_words = phrase_text.split()
    for word in sorted(set(phrase_words) - word_ids.keys()):
        word_ids[word] = len(word_ids)
    break_bytes = np.frombuffer(phrase_text, np.uint8)
    break_bytes = break_bytes[(break_bytes == ord(" ")) | (break_bytes == ord("\n"))]
    if len(phrase_words) == len(break_bytes) + 1:
        sizes = np.diff(np.concatenate([[-1], np.flatnonzero(break_bytes == ord("\n")), [len(break_bytes)]]))
    else:
        sizes = np.array([len(phrase.split()) for phrase in phrases], np.int64)
    if not sizes.all():
        raise AssetError("a paraphrase table has an empty phrase: it is damaged, or not a METEOR 1.5 table")
    return np.fromiter(map(word_ids.__getitem__, phrase_words), np.int32, len(phrase_words)), sizes.astype(np.int8)


def _read_pairs(table_path: Path, chunk_bytes: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yields the left and right sides of a table in chunks."""
    table_size = table_path.stat().st_size
    with (
        table_path.open("rb") as raw_file,
        gzip.open(raw_file) as gzip_file,
        progress.task("building the paraphrase index", table_size) as advance,
    ):
        remaining_bytes, last_position = b"", 0
        try:
            while chunk := gzip_file.read(chunk_bytes):
                table_lines = (remaining_bytes + chunk).split(b"\n")
                complete_count = (len(table_lines) - 1) // 3 * 3
                remaining_bytes = b"\n".join(table_lines[complete_count:])
                if complete_count:
                    yield table_lines[1:complete_count:3], table_lines[2:complete_count:3]
                advance(raw_file.tell() - last_position)
                last_position = raw_file.tell()
            table_lines = remaining_bytes.split(b"\n")
            if len(table_lines) >= 3:
                yield table_lines[1:2], table_lines[2:3]
        except (EOFError, zlib.error, OSError) as error:
            raise AssetError(f"{table_path} is damaged or cannot be read ({error}); install it again") from error


def _build_trie(phrase_words: Ints, phrase_sizes: Ints, word_count: int) -> tuple[tuple[Ints, ...], Ints]:
    """Returns the levels of the trie of phrases, whose words are concatenated, and each phrase's node."""
    phrase_starts = np.cumsum(phrase_sizes, dtype=np.int64) - phrase_sizes
    phrase_nodes = phrase_words[phrase_starts].astype(np.int64)
    first_node, levels = word_count, []
    for prefix_length in range(2, int(phrase_sizes.max(initial=1)) + 1):
        long = np.flatnonzero(phrase_sizes >= prefix_length)
        level, level_positions = np.unique(
            phrase_nodes[long] * word_count + phrase_words[phrase_starts[long] + prefix_length - 1], return_inverse=True
        )
        phrase_nodes[long] = first_node + level_positions
        first_node += len(level)
        levels.append(level)
    return tuple(levels), phrase_nodes


def read_index(path: Path) -> Paraphrases | None:
    """Reads the index in this file, memory-mapped; None if it is absent or damaged."""
    saved_arrays = read_arrays(path)
    if saved_arrays is None:
        return None
    try:
        arrays = dict(saved_arrays[0])
        word_text, lefts, offsets, right = (arrays.pop(name) for name in ("text", "lefts", "offsets", "right"))
        levels = tuple(arrays[f"level {phrase_length}"] for phrase_length in range(2, len(arrays) + 2))
    except KeyError:
        return None
    return Paraphrases(word_text.tobytes(), levels, lefts, offsets, right)


def _write_index(index: Paraphrases, path: Path) -> None:
    parts = {"text": np.frombuffer(index.text, np.uint8), "lefts": index.lefts, "offsets": index.offsets}
    level_arrays = {f"level {phrase_length}": level for phrase_length, level in enumerate(index.levels, 2)}
    write_arrays(path, {**parts, "right": index.right, **level_arrays})


@contextmanager
def _exclusive(lock_path: Path) -> Iterator[None]:
    """Holds a lock file, for which other processes wait. The system releases it if the process exits or crashes."""
    with lock_path.open("ab") as lock_file:
        _lock(lock_file)
        yield


def _lock(lock_file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            with suppress(OSError):  # raised after ten tries of a second each
                lock_file.seek(0)
                msvcrt.locking(lock_file.fileno(), msvcrt.LK_LOCK, 1)
                break
    else:
        import fcntl

        fcntl.flock(lock_file, fcntl.LOCK_EX)
