"""LEIC's critic: captions per second, with references of their own and with references that ten candidates share.

    python benchmarks/leic.py captions.jsonl.gz [--rows 5000] [--checkpoint leic]

The file has one JSON row per image: {"references": [...], "captions": {system: caption}}, or with one "candidate".
`own`: as many images, each with one candidate and five references. `shared`: a tenth of the images, each with ten
candidates: its systems' captions, and captions of other images. Tokenising is part of both; the checkpoint is read
before. Printed is also how many sentences the LSTM read: each distinct one once. Processor seconds are the ones to
believe on a busy machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from capmeter_research.papers.leic.forward import CriticNetwork
from capmeter_research.papers.leic.leic import Leic

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.runner import Evaluation

_CANDIDATES = 10
Rows = list[tuple[list[str], list[str]]]


def read(path: Path, rows: int) -> Rows:
    """Candidates and five references of so many images."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = [json.loads(line) for _, line in zip(range(rows), file, strict=False)]
    return [
        (
            list(dict.fromkeys(line["captions"].values())) if "captions" in line else [line["candidate"]],
            line["references"][:5],
        )
        for line in lines
    ]


def own(rows: Rows) -> CaptionSet:
    """One candidate per image."""
    return CaptionSet.from_captions(
        Caption(str(k), str(k), candidates[0], tuple(references)) for k, (candidates, references) in enumerate(rows)
    )


def shared(rows: Rows) -> CaptionSet:
    """Ten candidates for each of a tenth of the images."""
    result = []
    for k, (candidates, references) in enumerate(rows[: max(1, len(rows) // _CANDIDATES)]):
        others = (rows[(k + step) % len(rows)][0][0] for step in range(1, len(rows)))
        selection = candidates[:_CANDIDATES]
        while len(selection) < _CANDIDATES:
            selection.append(next(others))
        result += [Caption(f"{k}/{n}", str(k), each, tuple(references)) for n, each in enumerate(selection)]
    return CaptionSet.from_captions(result)


def counted(metric: Leic, captions: CaptionSet) -> tuple[float, float, int]:
    """Seconds by the clock and of the processor, and how many sentences the LSTM read."""
    sentences = 0
    before: Callable[..., Any] = CriticNetwork.encode

    def counted_encode(self: CriticNetwork, sentences_read: Any) -> Any:
        nonlocal sentences
        sentences += len(sentences_read)
        return before(self, sentences_read)

    CriticNetwork.encode = counted_encode  # type: ignore[method-assign,assignment]
    try:
        clock, processor = time.perf_counter(), time.process_time()
        Evaluation((metric,)).with_collected_states(captions).run(captions)
        return time.perf_counter() - clock, time.process_time() - processor, sentences
    finally:
        CriticNetwork.encode = before  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--checkpoint", default="leic")
    arguments = parser.parse_args()
    metric, rows = Leic(checkpoint=arguments.checkpoint), read(arguments.file, arguments.rows)
    warm = own(rows[:2])
    Evaluation((metric,)).with_collected_states(warm).run(warm)
    for name, captions in (("own", own(rows)), ("shared", shared(rows))):
        distinct = len({sentence for row in captions for sentence in (row.candidate, *row.references)})
        clock, processor, sentences = counted(metric, captions)
        print(
            f"{name}: {len(captions):,} captions, {distinct:,} distinct sentences, {sentences:,} read by the LSTM; "
            f"{len(captions) / processor:,.0f} captions per processor second, {len(captions) / clock:,.0f} by the clock"
        )


if __name__ == "__main__":
    main()
