"""What `capmeter` finds of errors made on purpose, and how fast it is.

    python benchmarks/own_metric.py words REFERENCES [--images 1000]
    python benchmarks/own_metric.py speed REFERENCES --key SYSTEM [--rows 2000]

`words`: one caption of each image stands against the others; one of its words is replaced by another that fills the
same slot (an *exchange*: a number, a colour, a person, a thing …), by one that fits the sentence, or by one of the same
part of speech (`substitution` and `pos-substitution` of `capmeter.transforms`). Of exchanges, those that are FOIL's
(a thing for another of its kind that no reference names) are told apart. How many of these are among the words
that `explain` marks, how many of all words of the unchanged captions are marked, and how many changed captions score
lower; and how many of the content words of captions of other photos are marked.

`speed`: captions per second with everything kept but the candidates, and with these kept as well; then what the encoder
alone takes for the candidates, and the network of that.
REFERENCES are gzipped JSON lines with `references` and, under the system's name, `captions`. The states are kept in
CAPMETER_VECTOR_CACHE, or in a temporary folder. OMP_NUM_THREADS sets the number of cores.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from capmeter_research.networks.own_metric.perturbations import PLAUSIBLE_KINDS, Perturbation, substitute_one_word
from rich.console import Console
from rich.table import Table
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load_reference_table
from capmeter.core.progress import show_progress
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.batches import torch_threads
from capmeter.evaluation.base import RunContext
from capmeter.meta.robustness import leave_one_out
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.inputs import strip_final_punctuation
from capmeter.metrics.own.network import Matcher
from capmeter.metrics.own.words import bare_word
from capmeter.text.concepts import find_slot, token_concept

THINGS = frozenset(
    (
        "vehicle",
        "outdoor object",
        "animal",
        "accessory",
        "sports equipment",
        "tableware",
        "food",
        "furniture",
        "electronics",
        "appliance",
        "indoor object",
    )
)
"""Slots that are COCO's supercategories."""


def words(references: Path, images: int) -> None:
    """Prints what is words of wrong words."""
    captions = leave_one_out(load_reference_table(references).references, images=images)
    metric, context = Capmeter(), RunContext()
    scores = metric.measure(captions, context).values[:, 0]
    marked = sum(len(marked_words(each)) for each in metric.explain(captions, context))
    total = sum(len(each.candidate.split()) for each in captions)
    table = Table(title=f"{len(captions):,} captions; {100 * marked / total:.1f} % of their words are marked")
    for name in ("one word wrong", "captions", "marked, %", "score lower, %"):
        table.add_column(name, justify="left" if name == "one word wrong" else "right")
    everything = list(substitute_one_word(captions, range(len(captions)), seed=0))
    for kind in PLAUSIBLE_KINDS:
        output = [wrong for wrong in everything if wrong.kind == kind]
        originals = [captions[captions.ids[wrong.row]] for wrong in output]
        others = CaptionSet.from_captions(
            Caption(caption.id, caption.image_id, wrong.text, caption.references)
            for wrong, caption in zip(output, originals, strict=True)
        )
        told = zip(output, metric.explain(others, context), strict=True)
        words = [wrong.wrong_words[0] in marked_words(each) for wrong, each in told]
        lower = metric.measure(others, context).values[:, 0] < scores[[wrong.row for wrong in output]]
        table.add_row(kind, f"{len(output):,}", f"{100 * np.mean(words):.1f}", f"{100 * lower.mean():.1f}")
        foiled = np.array([is_foil(wrong, caption) for wrong, caption in zip(output, originals, strict=True)])
        if foiled.any():
            shares = (100 * np.mean(each, where=foiled) for each in (words, lower))
            table.add_row(f"{kind}, FOIL's", f"{foiled.sum():,}", *(f"{share:.1f}" for share in shares))
    others = of_other_photos(captions)
    words = [
        word in marks
        for caption, marks in zip(others, map(marked_words, metric.explain(others, context)), strict=True)
        for word, text in enumerate(caption.candidate.split())
        if bare_word(text) and token_concept(bare_word(text)) is not None
    ]
    table.caption = f"of other photos' content words {100 * np.mean(words):.1f} % are marked"
    Console().print(table)


def is_foil(wrong: Perturbation, original: Caption) -> bool:
    """Whether the error is FOIL's: a thing for another of its supercategory, which no reference names."""
    if wrong.kind != "exchange":
        return False
    old, new = (bare_word(text.split()[wrong.wrong_words[0]]) for text in (original.candidate, wrong.text))
    concepts = {token_concept(bare_word(word)) for reference in original.references for word in reference.split()}
    return find_slot(old) == find_slot(new) and find_slot(new) in THINGS and token_concept(new) not in concepts


def of_other_photos(captions: CaptionSet) -> CaptionSet:
    """Each photo's references with the caption of another."""
    each = list(captions)
    half = len(each) // 2
    later = each[half:] + each[:half]
    return CaptionSet.from_captions(
        Caption(own.id, own.image_id, other.candidate, own.references) for own, other in zip(each, later, strict=True)
    )


def marked_words(evidence: object) -> set[int]:
    """The numbers of the candidate's words that are marked."""
    marks = getattr(evidence, "marks", ())
    return {word for mark in marks if mark.side == "candidate" for word in range(mark.start, mark.end)}


def speed(references: Path, key: str | None, rows: int) -> None:
    """Prints captions per second, and what share of the time is the network's."""
    with gzip.open(references, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for _, line in zip(range(rows), file, strict=False)]
    texts = [line["captions"][key] if key else line["candidate"] for line in lines]
    captions = capmeter.load(texts, [line["references"][:5] for line in lines])
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("CAPMETER_VECTOR_CACHE", folder)
        for_references = CaptionSet.from_captions(
            Caption(each.id, each.image_id, each.references[0], each.references) for each in captions
        )
        capmeter.score(for_references, metrics="capmeter")
        started = time.perf_counter()
        capmeter.score(captions, metrics="capmeter")
        first = time.perf_counter() - started
        started = time.perf_counter()
        with timed(Matcher) as passes:
            capmeter.score(captions, metrics="capmeter")
        again = time.perf_counter() - started
    network = sum(passes) / torch_threads()  # passes run on a core each, as do the encoder's own
    encoder = load_encoder(find_encoder("minilm-captions"))
    candidates = sorted({strip_final_punctuation(text) for text in texts})
    started = time.perf_counter()
    deque(encoder.encode_ids(encoder.pieces(candidates), hidden=encoder.layers), maxlen=0)
    encoding = time.perf_counter() - started
    table = Table(title=f"{len(captions):,} captions, {captions.references.lengths.mean():.1f} references each")
    for name in ("kept", "seconds", "captions per second"):
        table.add_column(name, justify="left" if name == "kept" else "right")
    for name, selection in (
        ("the references' states", first),
        ("the candidates' as well", again),
        (f"encoder alone, {len(candidates):,} distinct candidates", encoding),
        (f"network alone: {100 * network / encoding:.0f} % of the encoder", network),
    ):
        table.add_row(name, f"{selection:.1f}", f"{len(captions) / selection:.0f}")
    Console().print(table)


@contextmanager
def timed(kind: type[Module]) -> Iterator[list[float]]:
    """The seconds of each pass through modules of this kind, in any thread."""
    started = threading.local()
    passes: list[float] = []

    def before(module: Module, _: object) -> None:
        if isinstance(module, kind):
            started.at = time.perf_counter()

    def after(module: Module, _: object, __: object) -> None:
        if isinstance(module, kind):
            passes.append(time.perf_counter() - started.at)

    hooks = register_module_forward_pre_hook(before), register_module_forward_hook(after)
    try:
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


def main() -> None:
    """Runs one of both."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("words", "speed"))
    options.add_argument("references", type=Path)
    options.add_argument("--images", type=int, default=1000)
    options.add_argument("--key", help="the candidates' column")
    options.add_argument("--rows", type=int, default=2000)
    arguments = options.parse_args()
    with show_progress():
        if arguments.what == "words":
            words(arguments.references, arguments.images)
        else:
            speed(arguments.references, arguments.key, arguments.rows)


if __name__ == "__main__":
    main()
