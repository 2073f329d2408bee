"""Head-word chains of captions (Liu and Gildea 2005): paths down a dependency tree, from a head to its dependents.

A chain of length u is u words, each the head of the next; length 1 is the words themselves. A chain consists of
words (in lower case), lemmas, part-of-speech tags, or labels of the relations to the words' governors. Punctuation is
left out, so that a final full stop makes no difference.

>>> parse = Parse(("a", "dog", "runs"), ("DT", "NN", "VBZ"), ("a", "dog", "run"), (2, 3, 0), ("det", "nsubj", "root"))
>>> sorted(count_chains(parse, "lemma", 3))
[('a',), ('dog',), ('dog', 'a'), ('run',), ('run', 'dog'), ('run', 'dog', 'a')]

`count_joined_chains` follows the released code of LCEval: longer chains are joined from pairs wherever the *text* of
one ends as a pair begins, so that repeated words multiply chains.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.text.ngrams import NGramTable
from capmeter.text.parsing.dependency_parse import Parse
from capmeter.text.parsing.parsers import Parses, ParseTable
from capmeter.text.tokenization.token_tables import SentenceSource

ChainKind = Literal["word", "lemma", "tag", "dep"]
MAX_LENGTH = 4
Chain = tuple[str, ...]

_PUNCTUATION = "punct"
_MAX_JOINED = 100_000  # chains of one caption: n equal words have n⁴ of them


def _texts(parse: Parse, chain_kind: ChainKind) -> Sequence[str]:
    if chain_kind == "word":
        return [word.lower() for word in parse.words]
    return {"lemma": parse.lemmas, "tag": parse.tags, "dep": parse.labels}[chain_kind]


def count_chains(parse: Parse, kind: ChainKind, longest: int = MAX_LENGTH) -> Counter[Chain]:
    """Counts the chains in the tree of a sentence.

    Args:
        parse: the sentence.
        kind: what chains consist of.
        longest: the largest number of words in a chain.
    """
    word_texts = _texts(parse, kind)
    chain_counts: Counter[Chain] = Counter()
    for word_index, label in enumerate(parse.labels):
        if label == _PUNCTUATION:
            continue
        chain: Chain = (word_texts[word_index],)
        chain_counts[chain] += 1
        head = parse.heads[word_index]
        while head and len(chain) < longest:
            if parse.labels[head - 1] == _PUNCTUATION:
                break
            chain = (word_texts[head - 1], *chain)
            chain_counts[chain] += 1
            head = parse.heads[head - 1]
    return chain_counts


def count_joined_chains(parse: Parse, kind: ChainKind) -> Counter[Chain]:
    """Counts chains like the released code: those of 3 and more words are joined wherever texts are equal."""
    chain_counts = count_chains(parse, kind, 2)
    dependent_counts: dict[str, list[tuple[str, int]]] = {}
    last_chains: Mapping[Chain, int] = {
        chain: chain_count for chain, chain_count in chain_counts.items() if len(chain) == 2
    }
    for chain, chain_count in last_chains.items():
        dependent_counts.setdefault(chain[0], []).append((chain[1], chain_count))
    for _ in range(3, MAX_LENGTH + 1):
        longer_chains: Counter[Chain] = Counter()
        for chain, chain_count in last_chains.items():
            for dependent, pair_count in dependent_counts.get(chain[-1], ()):
                joined_chain = (*chain, dependent)
                longer_chains[joined_chain] += chain_count * pair_count
            if len(longer_chains) > _MAX_JOINED:
                break
        chain_counts.update(longer_chains)
        last_chains = longer_chains
    return chain_counts


@dataclass(frozen=True)
class HeadWordChains:
    """Analysis: the head-word chains of each sentence of a pool, as a table of n-grams (`order`: length).

    joined: count chains like the released code, of the caption's first sentence alone.
    """

    parser: str
    kind: ChainKind
    joined: bool = False
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentenceSource) -> NGramTable:
        """Counts the chains of this pool's sentences."""
        parse_table: ParseTable = pool.analyse(Parses(self.parser, self.settings))
        chain_counts = []
        for parse in parse_table.parses:
            sentences = () if parse is None else parse.sentences
            if self.joined:
                chain_counts.append(count_joined_chains(sentences[0], self.kind) if sentences else Counter())
            else:
                chain_counts.append(
                    sum((count_chains(sentence, self.kind) for sentence in sentences), Counter[Chain]())
                )
        return build_chain_table(chain_counts)


def build_chain_table(chain_counts: Sequence[Counter[Chain]]) -> NGramTable:
    """Builds the table of the chains of sentences, which are counted."""
    ids: dict[Chain, int] = {}
    rows = [
        sorted((ids.setdefault(chain, len(ids)), count) for chain, count in counts.items()) for counts in chain_counts
    ]
    return NGramTable(
        entries=Ragged.from_lengths(
            np.array([chain_id for chain_row in rows for chain_id, _ in chain_row], np.int64),
            np.array([len(chain_row) for chain_row in rows]),
        ),
        counts=np.array([count for chain_row in rows for _, count in chain_row], np.int64),
        order=np.array([len(chain) for chain in ids], np.int64),
        hashes=np.array([_hash(chain) for chain in ids], np.uint64),
        lengths=np.array(
            [sum(n for chain, n in counts.items() if len(chain) == 1) for counts in chain_counts], np.int64
        ),
    )


def _hash(chain: Chain) -> int:
    chain_bytes = "\0".join(chain).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(chain_bytes, digest_size=8).digest(), "little")
