"""METEOR's synonyms: words that share a WordNet synset, directly or by their base forms.

A word has its own synsets and those of its base forms: the bases of which it is listed as an irregular form, else the
first word of the dictionary that WordNet's suffix rules give. The list of synsets has pairs of lines: a word (lower
case, `_` for a space), then the numbers of its synsets for all parts of speech. The list of exceptions has pairs of
lines: a base form, then its irregular forms.

`Synonyms` looks single words up. `SynonymIndex` looks up all words of a set at once: it is built once from the lists
and then memory-mapped. It identifies words by 64-bit hashes, so that nothing has to be read into memory first (147,000
words; among them and 100,000 others the chance of any collision is 1 in a billion).

>>> lists = "car\\n1\\nautomobile\\n1 2\\ngoose\\n3\\n", "goose\\ngeese\\n"
>>> sorted(Synonyms(*lists).synsets("automobiles")), sorted(Synonyms(*lists).synsets("geese"))
([1, 2], [3])
>>> table = SynonymIndex.from_lists(*lists).synsets(["automobiles", "geese", "dog"])
>>> [table[row].tolist() for row in range(3)]
[[1, 2], [3], []]

METEOR's paraphrase table as a small index in the user's cache: built once, then memory-mapped.

A METEOR paraphrase table is a gzip file of line triples (probability, phrase, paraphrase); the probability is not used.
The English table has 5.3 million pairs of 2.6 million phrases and takes 272 MB. The index identifies every phrase by
its node in a trie of words, so that the phrases of a sentence are found by walking the trie from each of its words, and
has the paraphrases of each left-hand phrase in the table's order (METEOR's aligner depends on that order).

The index is one file, renamed into place on success; concurrent builders wait for each other. Its name contains the
version of the table. An index that cannot be read is rebuilt.

Base forms of tagged words (`base_form`) are those of WordNet's `morphy` (Miller 1995; Fellbaum 1998), as in NLTK's
WordNetLemmatizer.

A word that is listed as an irregular form has its bases; another loses a suffix of its part of speech. Of several
forms in the dictionary, the word itself included, the shortest counts. The dictionary is METEOR's (WordNet 3.0), which
has all parts of speech in one list: a few rare words differ.

>>> dictionary = Synonyms("glass\\n1\\nglasses\\n2\\nseat\\n3\\nman\\n4\\n", "man\\nmen\\n")
>>> [base_form(*word, dictionary) for word in (("glasses", "NNS"), ("seated", "VBN"), ("seated", "NN"), ("men", "NNS"))]
['glass', 'seat', 'seated', 'man']
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, compress
from operator import ne
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core import progress
from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.errors import AssetError
from capmeter.core.output_files import lock_file
from capmeter.core.ragged import Ragged, expand_ranges
from capmeter.core.settings import cache_folder

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.integer[Any]]
_FORMAT = 2
_HASH_FACTOR = 0x9E3779B97F4A7C15  # odd, as the factor of a hash modulo 2⁶⁴ must be
# WordNet's rules for nouns, verbs and adjectives: suffix:replacement
_RULES = "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y s: ies:y es:e es: ed:e ed: ing:e ing: er: est: er:e est:e"
_SUFFIXES = [(rule.partition(":")[0], rule.partition(":")[2]) for rule in _RULES.split()]
_SUFFIXES_BY_LETTER = {
    last: tuple(rule for rule in _SUFFIXES if rule[0].endswith(last))
    for last in {suffix[-1] for suffix, _ in _SUFFIXES}
}


def _base_candidates(word: str) -> list[str]:
    """Applies WordNet's suffix rules in their order: the first result that is a word is the base form."""
    if word.endswith("ss") or len(word) <= 2:
        return []
    suffix_rules = _SUFFIXES_BY_LETTER.get(word[-1], ())
    return [word[: -len(suffix)] + replacement for suffix, replacement in suffix_rules if word.endswith(suffix)]


def _read_lists(synsets: str, exceptions: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns the numbers of each word's synsets, as text, and the base forms of each irregular form."""

    def pairs(text: str) -> Iterable[tuple[str, str]]:
        lines = text.split("\n")
        return zip(lines[0::2], lines[1::2], strict=False)

    base_forms: dict[str, list[str]] = {}
    for base_form, irregular_forms in dict(pairs(exceptions)).items():
        for irregular_form in irregular_forms.split():
            base_forms.setdefault(irregular_form, []).append(base_form)
    return dict(pairs(synsets)), base_forms


class Synonyms:
    """The synsets of words.

    Args:
        synsets: the list of synsets.
        exceptions: the list of exceptions.
    """

    def __init__(self, synsets: str, exceptions: str) -> None:
        self._synsets, self._bases = _read_lists(synsets, exceptions)

    def synsets(self, word: str) -> frozenset[int]:
        """Returns the numbers of the synsets of a word and of its base forms."""
        synset_numbers = self._synsets.get(word, "")
        for base_form in self._bases.get(word) or (self._find_base(word),):
            if base_form != word and base_form in self._synsets:
                synset_numbers = f"{synset_numbers} {self._synsets[base_form]}"
        return frozenset(map(int, synset_numbers.split()))

    def synonyms(self, word: str) -> frozenset[str]:
        """Returns all words that share a synset with the word or one of its base forms; both included."""
        return frozenset(chain.from_iterable(self._synset_words[number] for number in self.synsets(word)))

    @cached_property
    def _synset_words(self) -> dict[int, list[str]]:
        """The words of each synset."""
        synset_words: dict[int, list[str]] = {}
        for word, synset_numbers in self._synsets.items():
            for number in map(int, synset_numbers.split()):
                synset_words.setdefault(number, []).append(word)
        return synset_words

    @property
    def words(self) -> Iterable[str]:
        """All words of the dictionary, with `_` for a space."""
        return self._synsets.keys()

    def knows(self, word: str) -> bool:
        """Whether the word is in the dictionary."""
        return word in self._synsets

    def bases(self, word: str) -> list[str]:
        """Returns the base forms of an irregular form."""
        return list(self._bases.get(word, ()))

    def _find_base(self, word: str) -> str:
        return next((base_form for base_form in _base_candidates(word) if base_form in self._synsets), "")


@dataclass(frozen=True, eq=False)
class SynonymIndex:
    """Words with their synsets, and irregular forms with their bases, by hash.

    Word k has the synsets `numbers[starts[k] : starts[k + 1]]`, form k the bases `bases[base_starts[k] : …]`.
    """

    words: Hashes  # (words,): sorted
    starts: npt.NDArray[np.int64]  # (words + 1,)
    numbers: npt.NDArray[np.int32]
    forms: Hashes  # (forms,): sorted
    base_starts: npt.NDArray[np.int64]  # (forms + 1,)
    bases: Hashes

    @classmethod
    def from_lists(cls, synsets: str, exceptions: str) -> SynonymIndex:
        """Builds the index of these lists, which are those of `Synonyms`."""
        numbers_of_word, base_forms = _read_lists(synsets, exceptions)
        number_rows = [[*map(int, text.split())] for text in numbers_of_word.values()]
        words, synset_numbers = _sort_by_hash(list(numbers_of_word), number_rows, np.int32)
        base_rows = [word_hashes(bases).tolist() for bases in base_forms.values()]
        forms, base_hashes = _sort_by_hash(list(base_forms), base_rows, np.uint64)
        return cls(words, synset_numbers.offsets, synset_numbers.values, forms, base_hashes.offsets, base_hashes.values)

    def synsets(self, words: Sequence[str]) -> Ragged:
        """Looks words up.

        Returns:
            The numbers of the synsets of each word and of its base forms, in no order; a number may occur twice.
        """
        query_hashes = word_hashes(words)
        irregular, form_positions = _find_hashes(self.forms, query_hashes)
        irregular_bases = Ragged(self.bases, self.base_starts).take(form_positions)
        # the base of a word that is not an irregular form is the first word of the dictionary that the rules give
        rule_bases = [_base_candidates(word) for word in words]
        candidate_rows = np.repeat(np.arange(len(words)), [len(word_bases) for word_bases in rule_bases])
        is_regular = np.ones(len(words), bool)
        is_regular[irregular] = False
        regular_indices = np.flatnonzero(is_regular[candidate_rows])
        rule_hashes = word_hashes([base for word_bases in rule_bases for base in word_bases])[regular_indices]
        in_dictionary, _ = _find_hashes(self.words, rule_hashes)
        first_bases = in_dictionary[np.unique(candidate_rows[regular_indices][in_dictionary], return_index=True)[1]]
        base_rows = np.concatenate([irregular[irregular_bases.rows], candidate_rows[regular_indices][first_bases]])
        base_hashes = np.concatenate([irregular_bases.values, rule_hashes[first_bases]])
        is_new = base_hashes != query_hashes[base_rows]  # a form may be its own base
        all_rows = np.concatenate([np.arange(len(words)), base_rows[is_new]])
        known_words, word_positions = _find_hashes(self.words, np.concatenate([query_hashes, base_hashes[is_new]]))
        synset_numbers = Ragged(self.numbers, self.starts).take(word_positions)
        number_rows = all_rows[known_words][synset_numbers.rows]
        row_order = np.argsort(number_rows, kind="stable")
        return Ragged.from_lengths(synset_numbers.values[row_order], np.bincount(number_rows, minlength=len(words)))


def load_synonym_index(name: str, version: str, read_lists: Callable[[], tuple[str, str]]) -> SynonymIndex:
    """Returns the index of this version of the lists, from the user's cache, or built and stored there.

    Args:
        name: of the index's file.
        version: of the lists.
        read_lists: gives the synsets and the exceptions, if the index must be built.
    """
    path = cache_folder(f"{name}-{version}-{_FORMAT}.index")
    field_names = [index_field.name for index_field in fields(SynonymIndex)]
    saved_arrays = read_arrays(path)
    if saved_arrays is not None and saved_arrays[0].keys() == set(field_names):
        return SynonymIndex(**saved_arrays[0])
    synonym_index = SynonymIndex.from_lists(*read_lists())
    with suppress(OSError):  # then it is built again in the next run
        write_arrays(path, {field_name: getattr(synonym_index, field_name) for field_name in field_names})
    return synonym_index


def word_hashes(words: Sequence[str]) -> Hashes:
    """Returns a 64-bit hash of each word."""
    return polynomial_hashes(words, _HASH_FACTOR)


def polynomial_hashes(words: Sequence[str], factor: int) -> Hashes:
    """Returns Σ unitᵢ factorⁿ⁻¹⁻ⁱ over the n units of UTF-16 of each word, modulo 2⁶⁴."""
    encoded_words = [word.encode("utf-16-le", "surrogatepass") for word in words]
    code_units = np.frombuffer(b"".join(encoded_words), "<u2").astype(np.uint64)
    word_lengths = np.fromiter(map(len, encoded_words), np.int64, len(encoded_words)) // 2
    word_ends = np.cumsum(word_lengths)
    factor_powers = np.full(int(word_lengths.max(initial=0)) + 1, factor, np.uint64)
    factor_powers[0] = 1
    factor_powers = np.cumprod(factor_powers)
    unit_exponents = np.repeat(word_ends, word_lengths) - np.arange(len(code_units)) - 1
    prefix_sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(code_units * factor_powers[unit_exponents])])
    hashes: Hashes = prefix_sums[word_ends] - prefix_sums[word_ends - word_lengths]
    return hashes


def _sort_by_hash(
    words: Sequence[str], value_rows: Sequence[Sequence[int]], kind: npt.DTypeLike
) -> tuple[Hashes, Ragged]:
    """Returns the words' hashes, sorted, and their rows in that order."""
    hashes = word_hashes(words)
    hash_order = np.argsort(hashes)
    return hashes[hash_order], Ragged.from_rows([value_rows[word_index] for word_index in hash_order.tolist()], kind)


def _find_hashes(sorted_hashes: Hashes, query_hashes: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the indices of the queries that are among sorted hashes, and their positions there."""
    hash_positions = np.searchsorted(sorted_hashes, query_hashes)
    is_present = hash_positions < len(sorted_hashes)
    is_present[is_present] = sorted_hashes[hash_positions[is_present]] == query_hashes[is_present]
    present_queries = np.flatnonzero(is_present)
    return present_queries, hash_positions[present_queries]


_PARAPHRASES_FORMAT = 3


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
    """Returns the path of the index for this version of this table.

    Args:
        table: the paraphrase table.
        version: of the table.
        cache: the folder; None: the user's.
    """
    return (cache or cache_folder()) / f"{table.name.removesuffix('.gz')}-{version}-{_PARAPHRASES_FORMAT}.index"


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
            with path.with_suffix(".lock").open("ab") as lock:
                lock_file(lock, wait=True)  # until other processes have built the index
                paraphrase_index = read_index(path)
                if paraphrase_index is None:
                    built = _build_index(table)
                    arrays = {"text": np.frombuffer(built.text, np.uint8), "lefts": built.lefts, "right": built.right}
                    levels = {f"level {length}": level for length, level in enumerate(built.levels, 2)}
                    write_arrays(path, {**arrays, "offsets": built.offsets, **levels})
                    paraphrase_index = read_index(path)
        except OSError as error:
            raise AssetError(
                f"the paraphrase index could not be written to {path.parent} ({error.strerror or error}); "
                "set the environment variable CAPMETER_CACHE to a writable folder"
            ) from error
    if paraphrase_index is None:
        raise AssetError(f"the paraphrase index {path} cannot be read back; is the disk full or failing?")
    return paraphrase_index


def _build_index(table: Path, chunk_bytes: int = 1 << 24) -> Paraphrases:
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


_VERB = "s: ies:y es:e es: ed:e ed: ing:e ing:"
_NOUN = "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y"
_MORPHY_RULES = {
    kind: [(rule.partition(":")[0], rule.partition(":")[2]) for rule in rules.split()]
    for kind, rules in {"N": _NOUN, "V": _VERB, "J": "er: est: er:e est:e", "R": ""}.items()
}

# METEOR's dictionary does not say which part of speech a word or an irregular form is; this stands in for it.
_IRREGULAR: dict[str, Callable[[str], bool]] = {
    "N": lambda word: not word.endswith(("ed", "ing")),
    "V": lambda word: True,
    "J": lambda word: word.endswith(("er", "est")),
    "R": lambda word: word.endswith(("er", "est")),
}
# words of the dictionary that are not of this part of speech
_OTHER_WORDS = {"N": ("scissor", "clothe"), "V": ("ti", "car")}


def base_form(word: str, tag: str, dictionary: Synonyms) -> str:
    """The base form of a word.

    Args:
        word: in lower case.
        tag: its Penn Treebank tag; a word that is not a verb, adjective or adverb is treated as a noun.
        dictionary: the words of WordNet, with their irregular forms.

    Returns:
        The base form, or the word itself if the dictionary has none.
    """
    word_class = tag[:1] if tag[:1] in _MORPHY_RULES else "N"
    forms = dictionary.bases(word) if _IRREGULAR[word_class](word) else []
    if not forms:
        forms = [word[: -len(suffix)] + ending for suffix, ending in _MORPHY_RULES[word_class] if word.endswith(suffix)]
        forms = [form for form in forms if form not in _OTHER_WORDS.get(word_class, ())]
    return min((form for form in (word, *forms) if dictionary.knows(form)), key=len, default=word)
