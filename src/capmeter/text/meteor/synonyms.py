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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.assets import cache_folder
from capmeter.core.ragged import Ragged

Hashes = npt.NDArray[np.uint64]
_FORMAT = 2
_HASH_FACTOR = 0x9E3779B97F4A7C15  # odd, as the factor of a hash modulo 2⁶⁴ must be
# WordNet's rules for nouns, verbs and adjectives: suffix:replacement
_RULES = "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y s: ies:y es:e es: ed:e ed: ing:e ing: er: est: er:e est:e"
_SUFFIXES = [(rule.partition(":")[0], rule.partition(":")[2]) for rule in _RULES.split()]
_SUFFIXES_BY_LETTER = {
    last: tuple(rule for rule in _SUFFIXES if rule[0].endswith(last))
    for last in {suffix[-1] for suffix, _ in _SUFFIXES}
}


def base_candidates(word: str) -> list[str]:
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
        return next((base_form for base_form in base_candidates(word) if base_form in self._synsets), "")


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
        rule_bases = [base_candidates(word) for word in words]
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
    """Returns the index of this version of the lists, from the user's cache, or built and stored there."""
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
