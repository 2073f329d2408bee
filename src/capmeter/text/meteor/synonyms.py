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
The English table has 5.3 million pairs of 2.6 million phrases of up to seven words and takes 272 MB. The index
identifies every phrase by a 64-bit hash of its bytes, which follows from those of its words (the chance that any two of
its phrases and ten million others share one is 4 in a million), and has the paraphrases of each left-hand phrase in the
table's order (METEOR's aligner depends on that order).

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
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.core import progress
from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.errors import AssetError
from capmeter.core.output_files import lock_file
from capmeter.core.ragged import Ragged, differ, expand_ranges, row_offsets
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
    if (synonym_index := read_index(path, SynonymIndex)) is None:
        synonym_index = SynonymIndex.from_lists(*read_lists())
        with suppress(OSError):  # then it is built again in the next run
            write_arrays(path, vars(synonym_index))
    return synonym_index


def word_hashes(words: Sequence[str]) -> Hashes:
    """Returns a 64-bit hash of each word."""
    return polynomial_hashes(words, _HASH_FACTOR)


def polynomial_hashes(words: Sequence[str], factor: int) -> Hashes:
    """Returns Σ unitᵢ factorⁿ⁻¹⁻ⁱ over the n units of UTF-16 of each word, modulo 2⁶⁴; the factor is odd."""
    units = np.frombuffer("".join(words).encode("utf-16-le", "surrogatepass"), "<u2")
    unit_counts = [
        len(word) if word.isascii() else len(word.encode("utf-16-le", "surrogatepass")) // 2 for word in words
    ]
    return _row_hashes(units, row_offsets(unit_counts), factor)


def _row_hashes(units: Ints, offsets: Ints, factor: int) -> Hashes:
    """Returns the polynomial hash of each row of units: differences of one sum of unitⱼ factor⁻ʲ, times a power."""
    inverse_powers, powers = (_powers(base, len(units).bit_length()) for base in (pow(factor, -1, 1 << 64), factor))
    sums = np.zeros(len(units) + 1, np.uint64)
    np.cumsum(units * inverse_powers[: len(units)], out=sums[1:])
    row_hashes: Hashes = (sums[offsets[1:]] - sums[offsets[:-1]]) * powers[np.maximum(offsets[1:] - 1, 0)]
    return row_hashes


@lru_cache(maxsize=2)  # for chunks of a table; those of a large vocabulary are large
def _powers(base: int, bits: int) -> Hashes:
    """Returns the first 2 ** bits powers of a number, modulo 2⁶⁴."""
    powers = np.full(1 << bits, base, np.uint64)
    powers[0] = 1
    return np.cumprod(powers)


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


_PARAPHRASES_FORMAT = 5
_MARK_BITS = 25


@dataclass(frozen=True, eq=False)
class Paraphrases:
    """The index: `phrases` finds a table's phrases in sentences, `rights` returns a phrase's paraphrases.

    A phrase is identified by the place of its hash.
    """

    hashes: Hashes  # (phrases,): sorted
    marks: npt.NDArray[np.uint8]  # 2^25 bits: whether the hash of any phrase begins with these 25 bits
    lefts: Ints  # (left-hand phrases,): sorted
    offsets: Ints  # (left-hand phrases + 1,): where their paraphrases begin in `right`
    right: Ints  # (pairs,): paraphrases
    longest: Ints  # (1,): the largest number of words of a phrase

    def phrases(self, words: Sequence[str], word_ids: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Finds the phrases in sentences.

        Args:
            words: the vocabulary.
            word_ids: the words of all sentences, as indices of the vocabulary.
            offsets: sentence i is `word_ids[offsets[i] : offsets[i + 1]]`.

        Returns:
            Each word of the vocabulary as a phrase, -1 if it is none; and of all phrases of two or more words their
            positions in `word_ids`, in ascending order, their numbers of words, and the phrases.
        """
        encoded_words = [word.encode("utf-8", "surrogatepass") + b" " for word in words]  # a blank ends every phrase
        byte_offsets = row_offsets([len(word) for word in encoded_words])
        word_bytes = np.frombuffer(b"".join(encoded_words), np.uint8)
        vocabulary_hashes = _row_hashes(word_bytes, byte_offsets, _HASH_FACTOR)
        word_phrases = np.full(len(words), -1)
        phrase_words, single_words = _find_hashes(self.hashes, vocabulary_hashes)
        word_phrases[phrase_words] = single_words
        byte_lengths = np.diff(byte_offsets)
        shifts = _powers(_HASH_FACTOR, int(byte_lengths.max(initial=0)).bit_length())[byte_lengths]
        remaining = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(word_ids))
        word_shifts, word_hashes, no_phrases = shifts[word_ids], vocabulary_hashes[word_ids], np.zeros(0, np.int64)
        hashes, matches = word_hashes, [(no_phrases, no_phrases, no_phrases)]
        for length in range(2, int(self.longest[0]) + 1):  # the hash of the words from each position on
            hashes = hashes[:-1] * word_shifts[length - 1 :] + word_hashes[length - 1 :]
            starts = np.flatnonzero(remaining[: len(hashes)] >= length)
            queries = hashes.take(starts)
            beginnings = (queries >> np.uint64(64 - _MARK_BITS)).view(np.int64)
            is_marked = self.marks.take(beginnings >> 3) >> (beginnings & 7).astype(np.uint8) & np.uint8(1)
            possible = np.flatnonzero(is_marked.view(np.bool_))
            starts, queries = starts.take(possible), queries.take(possible)
            order = np.argsort(queries)  # searching in order reads the index sequentially
            present, phrases = _find_hashes(self.hashes, queries.take(order))
            starts = starts.take(order)
            matches.append((starts[present], np.full(len(present), length), phrases))
        positions, lengths, phrases = (np.concatenate(column) for column in zip(*matches, strict=True))
        order = np.argsort(positions * (self.longest[0] + 1) + lengths)
        return word_phrases, positions[order], lengths[order], phrases[order]

    def rights(self, phrases: Ints) -> tuple[Ints, Ints, Ints]:
        """Returns all pairs with these left sides: their indices in `phrases`, the right sides, ranks in the table."""
        positions = np.minimum(np.searchsorted(self.lefts, phrases), len(self.lefts) - 1)
        left_indices = np.flatnonzero(self.lefts[positions] == phrases)
        range_begins, range_ends = self.offsets[positions[left_indices]], self.offsets[positions[left_indices] + 1]
        table_ranks = expand_ranges(range_begins, range_ends - range_begins)
        return np.repeat(left_indices, range_ends - range_begins), self.right[table_ranks], table_ranks


Index = TypeVar("Index", SynonymIndex, Paraphrases)


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
    paraphrase_index = read_index(path, Paraphrases)
    if paraphrase_index is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".lock").open("ab") as lock:
                lock_file(lock, wait=True)  # until other processes have built the index
                paraphrase_index = read_index(path, Paraphrases)
                if paraphrase_index is None:
                    write_arrays(path, vars(_build_index(table)))
                    paraphrase_index = read_index(path, Paraphrases)
        except OSError as error:
            raise AssetError(
                f"the paraphrase index could not be written to {path.parent} ({error.strerror or error}); "
                "set the environment variable CAPMETER_CACHE to a writable folder"
            ) from error
    if paraphrase_index is None:
        raise AssetError(f"the paraphrase index {path} cannot be read back; is the disk full or failing?")
    return paraphrase_index


def _build_index(table: Path, chunk_bytes: int = 100_000) -> Paraphrases:
    """Builds the index of a table in memory; `chunk_bytes` of text, whose powers are kept, are processed at a time."""
    left_parts, right_parts, longest, line_count = [], [], 1, 0
    for line_hashes, word_counts in _read_lines(table, chunk_bytes):
        left_parts.append(line_hashes[(1 - line_count) % 3 :: 3])
        right_parts.append(line_hashes[(2 - line_count) % 3 :: 3])
        longest = max(longest, int(word_counts.max(initial=1)))
        line_count += len(line_hashes)
    if line_count < 3:
        raise AssetError(f"{table} has no paraphrases; expected lines of probability, phrase, paraphrase in turn")
    left_hashes, right_hashes = (np.concatenate(parts)[: line_count // 3] for parts in (left_parts, right_parts))
    if ord(" ") in left_hashes or ord(" ") in right_hashes:
        raise AssetError("a paraphrase table has an empty phrase: it is damaged, or not a METEOR 1.5 table")
    # A left-hand phrase is repeated before each of its paraphrases.
    run_begins = np.flatnonzero(differ(left_hashes))
    run_lengths = np.diff(np.append(run_begins, len(left_hashes)))
    hashes, phrases = np.unique(np.concatenate([left_hashes[run_begins], right_hashes]), return_inverse=True)
    run_lefts, rights = phrases[: len(run_begins)], phrases[len(run_begins) :].astype(np.int32)
    order = np.argsort(run_lefts, kind="stable")
    first_runs = np.flatnonzero(differ(run_lefts[order]))
    marks = np.zeros(1 << _MARK_BITS, bool)
    marks[hashes >> np.uint64(64 - _MARK_BITS)] = True
    return Paraphrases(
        hashes=hashes,
        marks=np.packbits(marks, bitorder="little"),
        lefts=run_lefts[order][first_runs].astype(np.int32),
        offsets=row_offsets(run_lengths[order])[np.append(first_runs, len(order))].astype(np.int32),
        right=rights[expand_ranges(run_begins[order], run_lengths[order])],
        longest=np.array([longest]),
    )


def _read_lines(table_path: Path, chunk_bytes: int) -> Iterator[tuple[Hashes, Ints]]:
    """Yields the hash of each line of a table, with a blank for its line break, and its number of words."""
    table_size = table_path.stat().st_size
    with (
        table_path.open("rb") as raw_file,
        gzip.open(raw_file) as gzip_file,
        progress.task("building the paraphrase index", table_size) as advance,
    ):
        remaining_bytes, last_position = b"", 0
        try:
            # the last line may lack its line break
            while chunk := gzip_file.read(chunk_bytes) or b"\n"[: len(remaining_bytes)]:
                lines, line_break, remaining_bytes = (remaining_bytes + chunk).rpartition(b"\n")
                line_bytes = np.frombuffer(lines + line_break, np.uint8)
                words = np.frombuffer((lines + line_break).replace(b"\n", b" "), np.uint8)
                breaks = np.flatnonzero(words == ord(" "))
                line_breaks = np.flatnonzero(line_bytes[breaks] == ord("\n"))
                offsets = np.append(0, breaks[line_breaks] + 1)
                yield _row_hashes(words, offsets, _HASH_FACTOR), np.diff(line_breaks, prepend=-1)
                advance(raw_file.tell() - last_position)
                last_position = raw_file.tell()
        except (EOFError, zlib.error, OSError) as error:
            raise AssetError(f"{table_path} is damaged or cannot be read ({error}); install it again") from error


def read_index(path: Path, kind: type[Index]) -> Index | None:
    """Reads the index of this kind in this file, memory-mapped; None if it is absent or damaged."""
    saved_arrays = read_arrays(path)
    if saved_arrays is None or saved_arrays[0].keys() != {field.name for field in fields(kind)}:
        return None
    return kind(**saved_arrays[0])


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
