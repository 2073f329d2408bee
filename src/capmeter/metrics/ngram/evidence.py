"""Evidence of n-gram metrics for a caption: the longest n-grams shared with each reference."""

from __future__ import annotations

from collections.abc import Iterable

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.evaluation.evidence import Evidence, Link, Mark
from capmeter.metrics.ngram.document_frequencies import DocumentFrequencies
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokenization.token_tables import TokenTable, WhitespaceTokens

Gram = tuple[str, ...]
Occurrence = tuple[int, int, int]  # start in the candidate, index of the reference, start in it


def ngram_evidence(
    part: CaptionSet, n: int, tokenizer: str, frequencies: DocumentFrequencies | None = None
) -> list[Evidence]:
    """For each caption, its n-grams that occur in each reference: longest first, not inside a longer one.

    A link's weight is the n-gram's idf if there are document frequencies, else 1.
    """
    words: TokenTable = part.pool.analyse(WhitespaceTokens(tokenizer))
    candidates = [words.row(int(i)) for i in part.candidates]
    references = [tuple(words.row(int(i)) for i in part.references[row]) for row in range(len(part))]
    shared = [
        [match for k, sentence in enumerate(sentences) for match in _shared(candidate, sentence, k, n)]
        for candidate, sentences in zip(candidates, references, strict=True)
    ]
    weights = _weights({gram for matches in shared for gram, _ in matches}, n, frequencies)
    return [
        _evidence(candidate, sentences, matches, weights)
        for candidate, sentences, matches in zip(candidates, references, shared, strict=True)
    ]


def _shared(candidate: Gram, reference: Gram, index: int, n: int) -> Iterable[tuple[Gram, Occurrence]]:
    covered: set[tuple[int, int]] = set()
    for order in range(n, 0, -1):
        starts: dict[Gram, int] = {}
        for at in range(len(reference) - order + 1):
            starts.setdefault(reference[at : at + order], at)
        for at in range(len(candidate) - order + 1):
            gram = candidate[at : at + order]
            if gram in starts and not any(a <= at and at + order <= b for a, b in covered):
                covered.add((at, at + order))
                yield gram, (at, index, starts[gram])


def _weights(grams: set[Gram], n: int, frequencies: DocumentFrequencies | None) -> dict[Gram, float]:
    """Each n-gram's idf, looked up by the same hashes as in the metrics."""
    if frequencies is None or not grams:
        return dict.fromkeys(grams, 1.0)
    pool = SentencePool([" ".join(gram) for gram in grams])
    table: NGramTable = pool.analyse(NGrams(n, "whitespace"))
    entries = table.entries
    longest = entries.values[table.order[entries.values] == table.lengths[entries.rows]]
    return dict(zip(grams, frequencies.idf(table.hashes[longest]).tolist(), strict=True))


def _evidence(
    candidate: Gram, references: tuple[Gram, ...], matches: list[tuple[Gram, Occurrence]], weights: dict[Gram, float]
) -> Evidence:
    links = tuple(
        Link((at, at + len(gram)), index, (start, start + len(gram)), f"{len(gram)}-gram", weights[gram])
        for gram, (at, index, start) in matches
    )
    covered = {i for link in links for i in range(*link.candidate)}
    marks = tuple(Mark("candidate", None, i, i + 1, "unmatched") for i in range(len(candidate)) if i not in covered)
    facts: dict[str, float | str] = {"words": float(len(candidate)), "words matched": float(len(covered))}
    return Evidence(candidate, references, links, marks, facts)
