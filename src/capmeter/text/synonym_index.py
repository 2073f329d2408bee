"""METEOR's synonyms as a small index in the user's cache: built once from the word lists, then memory-mapped.

Words are known by a 64-bit hash, so that the synsets of all words of a set are looked up at once, and nothing has to be
read into memory first (147,000 words; among them and 100,000 others the chance of any collision is 1 in a billion).
The rules are those of `capmeter.text.wordnet`: a word has its own synsets and those of its base forms.

>>> index = SynonymIndex.of("car\\n1\\nautomobile\\n1 2\\ngoose\\n3\\n", "goose\\ngeese\\n")
>>> [row.tolist() for row in map(index.synsets(["automobiles", "geese", "dog"]).__getitem__, range(3))]
[[1, 2], [3], []]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from capmeter.arrays import read_arrays, write_arrays
from capmeter.assets import cache_folder
from capmeter.ragged import Ragged
from capmeter.text.wordnet import bases_by_rule, read_pairs

Hashes = npt.NDArray[np.uint64]
_FORMAT = 1
_FACTOR = 0x9E3779B97F4A7C15  # odd, as the factor of a hash modulo 2⁶⁴ must be


@dataclass(frozen=True, eq=False)
class SynonymIndex:
    """Words by hash (sorted) with their synsets, and irregular forms by hash (sorted) with the hashes of their bases.

    Word k has the synsets `numbers[starts[k] : starts[k + 1]]`, form k the bases `bases[base_starts[k] : …]`.
    """

    words: Hashes
    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]
    forms: Hashes
    base_starts: npt.NDArray[np.int64]
    bases: Hashes

    @classmethod
    def of(cls, synsets: str, exceptions: str) -> SynonymIndex:
        """The index of these lists, which are those that `Synonyms` takes."""
        known = read_pairs(synsets)
        bases: dict[str, list[str]] = {}
        for base, forms in read_pairs(exceptions).items():
            for form in forms.split():
                bases.setdefault(form, []).append(base)
        words, numbers = _sorted(list(known), [[*map(int, each.split())] for each in known.values()], np.int32)
        hashed = [word_hashes(each).tolist() for each in bases.values()]
        forms_, of_forms = _sorted(list(bases), hashed, np.uint64)
        return cls(words, numbers.offsets, numbers.values, forms_, of_forms.offsets, of_forms.values)

    def synsets(self, words: Sequence[str]) -> Ragged:
        """The numbers of the synsets of each word and of its base forms, in no order; a number may occur twice."""
        own = word_hashes(words)
        irregular, form = _found(self.forms, own)
        bases = Ragged(self.bases, self.base_starts).take(form)
        # a word that is no irregular form has the first that is known of the bases that the rules give
        tried = [bases_by_rule(word) for word in words]
        row = np.repeat(np.arange(len(words)), [len(each) for each in tried])
        is_regular = np.ones(len(words), bool)
        is_regular[irregular] = False
        regular = np.flatnonzero(is_regular[row])
        hashes = word_hashes([base for each in tried for base in each])[regular]
        known, _ = _found(self.words, hashes)
        first = known[np.unique(row[regular][known], return_index=True)[1]]
        others = np.concatenate([irregular[bases.rows], row[regular][first]])
        asked = np.concatenate([bases.values, hashes[first]])
        new = asked != own[others]  # a form may be its own base
        owner = np.concatenate([np.arange(len(words)), others[new]])
        which, place = _found(self.words, np.concatenate([own, asked[new]]))
        numbers = Ragged(self.numbers, self.starts).take(place)
        of = owner[which][numbers.rows]
        order = np.argsort(of, kind="stable")
        return Ragged.from_lengths(numbers.values[order], np.bincount(of, minlength=len(words)))


def load_synonyms(name: str, version: str, lists: Callable[[], tuple[str, str]]) -> SynonymIndex:
    """The index of this version of the lists, made and kept in the user's cache where absent or damaged."""
    path = cache_folder(f"{name}-{version}-{_FORMAT}.index")
    names = [each.name for each in fields(SynonymIndex)]
    found = read_arrays(path)
    if found is not None and list(found[0]) == names:
        return SynonymIndex(**found[0])
    made = SynonymIndex.of(*lists())
    with suppress(OSError):  # then it is made again in the next run
        write_arrays(path, {each: getattr(made, each) for each in names})
    return made


def word_hashes(words: Sequence[str]) -> Hashes:
    """A 64-bit hash of each word: Σ unitᵢ fⁿ⁻¹⁻ⁱ over its n units of UTF-16, modulo 2⁶⁴."""
    return polynomials(words, _FACTOR)


def polynomials(words: Sequence[str], factor: int) -> Hashes:
    """Σ unitᵢ factorⁿ⁻¹⁻ⁱ over the n units of UTF-16 of each word, modulo 2⁶⁴."""
    encoded = [word.encode("utf-16-le", "surrogatepass") for word in words]
    units = np.frombuffer(b"".join(encoded), "<u2").astype(np.uint64)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded)) // 2
    ends = np.cumsum(lengths)
    powers = np.full(int(lengths.max(initial=0)) + 1, factor, np.uint64)
    powers[0] = 1
    powers = np.cumprod(powers)
    place = np.repeat(ends, lengths) - np.arange(len(units)) - 1
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(units * powers[place])])
    hashes: Hashes = sums[ends] - sums[ends - lengths]
    return hashes


def _sorted(words: Sequence[str], rows: Sequence[Sequence[int]], kind: npt.DTypeLike) -> tuple[Hashes, Ragged]:
    """The words' hashes, sorted, and their rows in that order."""
    hashes = word_hashes(words)
    order = np.argsort(hashes)
    return hashes[order], Ragged.from_rows([rows[k] for k in order.tolist()], kind)


def _found(keys: Hashes, asked: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of the hashes asked for are among the sorted keys, and where."""
    place = np.searchsorted(keys, asked)
    known = place < len(keys)
    known[known] = keys[place[known]] == asked[known]
    which = np.flatnonzero(known)
    return which, place[which]
