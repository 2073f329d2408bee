"""UMIC: throughput against the bare forward pass at UNITER-base's size with 36 regions.

    python benchmarks/umic.py [--pictures 12] [--captions 4] [--repeats 3] [--tiny]

Random weights: the time is that of the real ones. The bare forward pass is the transformers library's BERT encoder (12
layers, width 768) on embeddings of the same lengths, in batches of equal length as capmeter makes them; capmeter's
time is that of `score`: reading regions from .npz files, tokenizing, embedding, scoring. Processor time of one thread
each, so that other programs on the machine do not matter; the best of the repeats.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from capmeter_research.common.region_files import write_npz_regions
from capmeter_research.papers.umic.training.weights import initial_weights, uniter_checkpoint
from capmeter_research.papers.umic.uniter import UniterShape
from capmeter_research.papers.umic.word_piece import SPECIAL

import capmeter
from capmeter.core.settings import Settings
from capmeter.images.regions import Regions

REGIONS = 36
SETTINGS = Settings(device="cpu", precision="float32", threads=1, cache=None)
TOKENS = 2048  # per batch, as by default


def prepare(folder: Path, shape: UniterShape, pictures: int, captions: int) -> list[dict[str, str]]:
    """A checkpoint, regions of each picture, and captions of 8 to 14 words."""
    random = np.random.default_rng(0)
    words = [*SPECIAL, *(f"w{k}" for k in range(shape.vocabulary - len(SPECIAL)))]
    uniter_checkpoint(initial_weights(shape, 0), shape, words, lowercase=False).save(folder / "model")
    corners = np.sort(random.random((REGIONS, 2, 2), np.float32), axis=1)
    boxes = corners.reshape(REGIONS, 4)
    output = ((str(k), Regions(random.random((REGIONS, shape.features), np.float32), boxes)) for k in range(pictures))
    write_npz_regions(folder / "regions", output)
    names = np.array(words[len(SPECIAL) :])
    return [
        {"image_id": str(k % pictures), "candidate": " ".join(random.choice(names, int(random.integers(8, 15))))}
        for k in range(pictures * captions)
    ]


def bare(shape: UniterShape, lengths: list[int]) -> Callable[[], None]:
    """The encoder alone, in batches of equal length."""
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=8,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False).eval().encoder
    batches = []
    for length, count in Counter(lengths).items():
        step = max(1, TOKENS // length)
        batches += [torch.randn(min(step, count - start), length, shape.width) for start in range(0, count, step)]

    def run() -> None:
        with torch.inference_mode():
            for batch in batches:
                encoder(batch)

    return run


def best(work: Callable[[], object], repeats: int) -> float:
    """The least processor time of several runs, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--captions", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="a tiny network, to see that this runs")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    shape = UniterShape(2000, 32, 2, 2, 64, 128, 64) if arguments.tiny else UniterShape(vocabulary=2000)
    with tempfile.TemporaryDirectory() as folder:
        rows = prepare(Path(folder), shape, arguments.pictures, arguments.captions)
        captions = capmeter.load(rows, on_missing="keep", regions=Path(folder, "regions"))
        name = f'umic(checkpoint="{Path(folder, "model")}")'
        lengths = [len(row["candidate"].split()) + 2 + REGIONS for row in rows]
        ours = best(lambda: capmeter.score(captions, name, settings=SETTINGS), arguments.repeats)
        other_values = best(bare(shape, lengths), arguments.repeats)
    print(
        json.dumps(
            {
                "captions": len(rows),
                "captions_per_second": round(len(rows) / ours, 2),
                "bare_per_second": round(len(rows) / other_values, 2),
                "share_of_bare": round(other_values / ours, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
