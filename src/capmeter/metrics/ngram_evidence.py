"""Evidence of n-gram metrics for a caption: the longest n-grams shared with each reference."""

from __future__ import annotations

from collections.abc import Iterable

from capmeter.captions.model import CaptionSet, SentencePool
from capmeter.metrics.document_frequencies import DocumentFrequencies
from capmeter.metrics.evidence import Evidence, Link, Mark
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokens import TokenTable, Words

Gram = tuple[str, ...]
Place = tuple[int, int, int]  # start in the candidate, which reference, start in it


def ngram_evidence(
    part: CaptionSet, n: int, tokenizer: str, frequencies: DocumentFrequencies | None = None
) -> list[Evidence]:
    """For each caption: its n-grams (longest first, not inside a longer one) that occur in each reference.

    A link's weight is the n-gram's idf if there are document frequencies, else 1.
    """
    words: TokenTable = part.pool.analyse(Words(tokenizer))
    candidates = [words.row(int(i)) for i in part.candidates]
    references = [tuple(words.row(int(i)) for i in part.references[row]) for row in range(len(part))]
    shared = [
        [(gram, place) for k, reference in enumerate(theirs) for gram, place in _shared(mine, reference, k, n)]
        for mine, theirs in zip(candidates, references, strict=True)
    ]
    weight = _weights({gram for grams in shared for gram, _ in grams}, n, frequencies)
    return [
        _evidence(mine, theirs, grams, weight)
        for mine, theirs, grams in zip(candidates, references, shared, strict=True)
    ]


def _shared(candidate: Gram, reference: Gram, index: int, n: int) -> Iterable[tuple[Gram, Place]]:
    covered: set[tuple[int, int]] = set()
    for order in range(n, 0, -1):
        places: dict[Gram, int] = {}
        for at in range(len(reference) - order + 1):
            places.setdefault(reference[at : at + order], at)
        for at in range(len(candidate) - order + 1):
            gram = candidate[at : at + order]
            if gram in places and not any(a <= at and at + order <= b for a, b in covered):
                covered.add((at, at + order))
                yield gram, (at, index, places[gram])


def _weights(grams: set[Gram], n: int, frequencies: DocumentFrequencies | None) -> dict[Gram, float]:
    """Each n-gram's idf, looked up by the same hashes as in the metrics."""
    if frequencies is None or not grams:
        return dict.fromkeys(grams, 1.0)
    pool = SentencePool([" ".join(gram) for gram in grams])
    table: NGramTable = pool.analyse(NGrams(n, "whitespace"))
    entries = table.entries
    whole = entries.values[table.order[entries.values] == table.lengths[entries.rows]]
    return dict(zip(grams, frequencies.idf(table.hashes[whole]).tolist(), strict=True))


def _evidence(
    candidate: Gram, references: tuple[Gram, ...], shared: list[tuple[Gram, Place]], weight: dict[Gram, float]
) -> Evidence:
    links = tuple(
        Link((at, at + len(gram)), index, (there, there + len(gram)), f"{len(gram)}-gram", weight[gram])
        for gram, (at, index, there) in shared
    )
    covered = {i for link in links for i in range(*link.candidate)}
    marks = tuple(Mark("candidate", None, i, i + 1, "unmatched") for i in range(len(candidate)) if i not in covered)
    facts: dict[str, float | str] = {"words": float(len(candidate)), "words matched": float(len(covered))}
    return Evidence(candidate, references, links, marks, facts)
