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

    Args:
        part: the captions.
        n: the longest n-grams.
        tokenizer: the metric's.
        frequencies: document frequencies, of a metric that has them.
    """
    token_table: TokenTable = part.pool.analyse(WhitespaceTokens(tokenizer))
    candidates = [token_table.row(int(i)) for i in part.candidates]
    references = [
        tuple(token_table.row(int(i)) for i in part.references[caption_index]) for caption_index in range(len(part))
    ]
    shared_ngrams = [
        [match for k, sentence in enumerate(sentences) for match in _shared(candidate, sentence, k, n)]
        for candidate, sentences in zip(candidates, references, strict=True)
    ]
    ngram_weights = _weights({gram for matches in shared_ngrams for gram, _ in matches}, n, frequencies)
    return [
        _evidence(candidate, sentences, matches, ngram_weights)
        for candidate, sentences, matches in zip(candidates, references, shared_ngrams, strict=True)
    ]


def _shared(candidate: Gram, reference: Gram, reference_index: int, n: int) -> Iterable[tuple[Gram, Occurrence]]:
    covered_spans: set[tuple[int, int]] = set()
    for ngram_order in range(n, 0, -1):
        reference_starts: dict[Gram, int] = {}
        for start_position in range(len(reference) - ngram_order + 1):
            reference_starts.setdefault(reference[start_position : start_position + ngram_order], start_position)
        for start_position in range(len(candidate) - ngram_order + 1):
            gram = candidate[start_position : start_position + ngram_order]
            if gram in reference_starts and not any(
                a <= start_position and start_position + ngram_order <= b for a, b in covered_spans
            ):
                covered_spans.add((start_position, start_position + ngram_order))
                yield gram, (start_position, reference_index, reference_starts[gram])


def _weights(grams: set[Gram], n: int, frequencies: DocumentFrequencies | None) -> dict[Gram, float]:
    """Each n-gram's idf, looked up by the same hashes as in the metrics."""
    if frequencies is None or not grams:
        return dict.fromkeys(grams, 1.0)
    pool = SentencePool([" ".join(gram) for gram in grams])
    ngram_table: NGramTable = pool.analyse(NGrams(n, "whitespace"))
    entries = ngram_table.entries
    longest_entries = entries.values[ngram_table.order[entries.values] == ngram_table.lengths[entries.rows]]
    return dict(zip(grams, frequencies.idf(ngram_table.hashes[longest_entries]).tolist(), strict=True))


def _evidence(
    candidate: Gram,
    references: tuple[Gram, ...],
    matches: list[tuple[Gram, Occurrence]],
    ngram_weights: dict[Gram, float],
) -> Evidence:
    links = tuple(
        Link(
            (at, at + len(gram)), reference_index, (start, start + len(gram)), f"{len(gram)}-gram", ngram_weights[gram]
        )
        for gram, (at, reference_index, start) in matches
    )
    matched_positions = {i for link in links for i in range(*link.candidate)}
    marks = tuple(
        Mark("candidate", None, i, i + 1, "unmatched") for i in range(len(candidate)) if i not in matched_positions
    )
    facts: dict[str, float | str] = {"words": float(len(candidate)), "words matched": float(len(matched_positions))}
    return Evidence(candidate, references, links, marks, facts)
