"""Detailed captions: time and peak memory of a metric on thousands of texts, streamed from a file.

    python benchmarks/detailed_captions.py --captions vlm_long_captions.jsonl.gz --references long_references.jsonl.gz
                                           [--count 5000] [--words 200] [--metric capmeter] [--threads 2] [--real]

Each caption and its only reference are sentences of different texts, in a random order, until they have `--words`
words; in each sentence one word comes from another one, so that hardly a sentence is twice in the file. `--real` takes
the texts as they are instead, a caption of one system with the other's of the same photo, and again in the other
direction, then a text of the references with the next one. Prints the wall time, the processor time, and the peak
memory of the process that scores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from capmeter.text.tokenization.document_splitting import document_sentences


def read_texts(path: Path, field: str) -> list[tuple[str, str]]:
    """The photo and the text of each row."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [
        (str(row.get("image_id", k)), text)
        for k, row in enumerate(rows)
        for text in (row[field] if isinstance(row[field], list) else [row[field]])
    ]


def real_pairs(captions: list[tuple[str, str]], references: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Texts of one photo in both directions, then texts of people with the next one."""
    photos: dict[str, list[str]] = defaultdict(list)
    for photo, text in captions:
        photos[photo].append(text)
    for texts in photos.values():
        if len(texts) == 2:
            yield texts[0], texts[1]
            yield texts[1], texts[0]
    for (_, one), (_, other) in pairwise(references):
        yield one, other


def composed_pairs(sentences: list[str], words: int) -> Iterator[tuple[str, str]]:
    """Texts of random sentences, each with one word of another sentence."""
    random = np.random.default_rng(0)

    def compose() -> str:
        parts: list[str] = []
        while sum(len(part.split()) for part in parts) < words:
            local, other = (sentences[k].split() for k in random.integers(len(sentences), size=2))
            local[int(random.integers(len(local)))] = other[int(random.integers(len(other)))].strip(".,")
            parts.append(" ".join(local).rstrip(".,") + ".")
        return " ".join(parts)

    while True:
        yield compose(), compose()


def main() -> None:
    """Writes the file and scores it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="rows {image_id, candidate}")
    parser.add_argument("--references", type=Path, required=True, help="rows {references}")
    parser.add_argument("--count", type=int, default=5000, help="number of captions")
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--metric", default="capmeter")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--real", action="store_true", help="texts as they are")
    options = parser.parse_args()
    captions, references = read_texts(options.captions, "candidate"), read_texts(options.references, "references")
    sentences = [each for _, text in captions + references for each in document_sentences(text)]
    pairs = real_pairs(captions, references) if options.real else composed_pairs(sentences, options.words)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        lengths = []
        for k, (candidate, reference) in zip(range(options.count), pairs, strict=False):
            file.write(json.dumps({"image_id": k, "candidate": candidate, "references": [reference]}) + "\n")
            lengths.append((len(candidate.split()), len(reference.split())))
        file.flush()
        del captions, references, sentences, pairs
        import torch

        import capmeter
        from capmeter.core.settings import Settings

        torch.set_num_threads(options.threads)
        start, processor = time.perf_counter(), time.process_time()
        result = capmeter.score(capmeter.load(file.name), options.metric, settings=Settings(threads=options.threads))
        (scores,) = result.values()
        wall, processor = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    words, reference_words = np.mean(lengths, axis=0)
    print(f"{len(lengths):,} captions of {words:.0f} words, one reference of {reference_words:.0f}; {options.metric}")
    print(f"{wall:,.0f} s, processor time {processor:,.0f} s; peak {peak:.2f} GB; score {scores.score:.4f}")


if __name__ == "__main__":
    main()
