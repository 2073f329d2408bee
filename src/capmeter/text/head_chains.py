"""Head-word chains of captions (Liu and Gildea 2005): paths down a dependency tree, from a head to its dependents.

A chain of length u is u words, each the head of the next; length 1 is the words themselves. A chain is spelled by its
words (in lower case), lemmas, part-of-speech tags, or by the labels of the relations to the words' governors.
Punctuation is left out: whether a caption ends in a full stop says nothing about what it says.

>>> parse = Parse(("a", "dog", "runs"), ("DT", "NN", "VBZ"), ("a", "dog", "run"), (2, 3, 0), ("det", "nsubj", "root"))
>>> sorted(chains(parse, "lemma", 3))
[('a',), ('dog',), ('dog', 'a'), ('run',), ('run', 'dog'), ('run', 'dog', 'a')]

`joined_chains` are those of the released code of LCEval: longer chains are joined from pairs wherever the *text* of one
ends as a pair begins, so that repeated words multiply chains.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from capmeter.captions.model import Life
from capmeter.ragged import Ragged
from capmeter.store import Store
from capmeter.text.ngrams import NGramTable
from capmeter.text.parsers import Parses, ParseTable
from capmeter.text.parses import Parse

ChainKind = Literal["word", "lemma", "tag", "dep"]
LONGEST = 4
Chain = tuple[str, ...]

_PUNCTUATION = "punct"
_MOST_JOINED = 100_000  # chains of one caption: a hostile one of equal words has as many as its words to the 4th power


class _Pool(Protocol):
    def analyse(self, analysis: Any) -> Any: ...


def _texts(parse: Parse, kind: ChainKind) -> Sequence[str]:
    if kind == "word":
        return [word.lower() for word in parse.words]
    return {"lemma": parse.lemmas, "tag": parse.tags, "dep": parse.labels}[kind]


def chains(parse: Parse, kind: ChainKind, longest: int = LONGEST) -> Counter[Chain]:
    """How often each chain of up to `longest` words occurs in the tree of a sentence."""
    texts = _texts(parse, kind)
    found: Counter[Chain] = Counter()
    for k, label in enumerate(parse.labels):
        if label == _PUNCTUATION:
            continue
        chain: Chain = (texts[k],)
        found[chain] += 1
        head = parse.heads[k]
        while head and len(chain) < longest:
            if parse.labels[head - 1] == _PUNCTUATION:
                break
            chain = (texts[head - 1], *chain)
            found[chain] += 1
            head = parse.heads[head - 1]
    return found


def joined_chains(parse: Parse, kind: ChainKind, longest: int = LONGEST) -> Counter[Chain]:
    """The chains of the released code: of length 3 and more, joined wherever texts are equal."""
    found = chains(parse, kind, min(longest, 2))
    pairs: dict[str, list[tuple[str, int]]] = {}
    last: Mapping[Chain, int] = {chain: count for chain, count in found.items() if len(chain) == 2}
    for chain, count in last.items():
        pairs.setdefault(chain[0], []).append((chain[1], count))
    for _ in range(3, longest + 1):
        longer: Counter[Chain] = Counter()
        for chain, count in last.items():
            for dependent, times in pairs.get(chain[-1], ()):
                joined = (*chain, dependent)
                longer[joined] += count * times
            if len(longer) > _MOST_JOINED:
                break
        found.update(longer)
        last = longer
    return found


@dataclass(frozen=True)
class HeadWordChains:
    """Analysis: the head-word chains of each sentence of a pool, in the form of a table of n-grams (`order`: length).

    `joined`: the released code's chains, of the caption's first sentence alone.
    """

    parser: str
    kind: ChainKind
    joined: bool = False
    store: Store | None = None
    life: ClassVar[Life] = "part"

    def run(self, pool: _Pool) -> NGramTable:
        """The chain table of this pool."""
        table: ParseTable = pool.analyse(Parses(self.parser, self.store))
        counted = []
        for parse in table.parses:
            sentences = () if parse is None else parse.sentences
            if self.joined:
                counted.append(joined_chains(sentences[0], self.kind) if sentences else Counter())
            else:
                counted.append(sum((chains(sentence, self.kind) for sentence in sentences), Counter[Chain]()))
        return chain_table(counted)


def chain_table(counted: Sequence[Counter[Chain]]) -> NGramTable:
    """The table of each sentence's counted chains."""
    index: dict[Chain, int] = {}
    rows = [sorted((index.setdefault(chain, len(index)), count) for chain, count in each.items()) for each in counted]
    return NGramTable(
        entries=Ragged.from_lengths(
            np.array([number for row in rows for number, _ in row], np.int64), np.array([len(row) for row in rows])
        ),
        counts=np.array([count for row in rows for _, count in row], np.int64),
        order=np.array([len(chain) for chain in index], np.int64),
        hashes=np.array([_hash(chain) for chain in index], np.uint64),
        lengths=np.array([sum(n for chain, n in each.items() if len(chain) == 1) for each in counted], np.int64),
    )


def _hash(chain: Chain) -> int:
    text = "\0".join(chain).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
