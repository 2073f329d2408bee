"""The official codes' scores on tokenised captions."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet

SETS = ("karp1000_s0", "karp1000_s1", "flickr5822")


@dataclass(frozen=True)
class Official:
    """Captions, and their scores by the official codes: of the corpus and of each caption."""

    captions: CaptionSet
    corpus: dict
    items: dict[str, np.ndarray]


def tokenised(candidates: list[str], references: list[list[str]]) -> CaptionSet:
    rows = zip(candidates, references, strict=True)
    return CaptionSet.from_captions(Caption(str(i), str(i), one, tuple(many)) for i, (one, many) in enumerate(rows))


def official(shared: Path, name: str) -> Official:
    folder = shared / "oracles"
    saved = json.loads(gzip.decompress((folder / f"classic_{name}.json.gz").read_bytes()))
    items = dict(np.load(folder / f"classic_{name}_scores.npz"))
    references = saved["tokens_refs"]
    if isinstance(references, str):  # "same as classic_karp1000_s0"
        same = json.loads(gzip.decompress((folder / f"{references.split()[-1]}.json.gz").read_bytes()))
        references = same["tokens_refs"]
    return Official(tokenised(saved["tokens_cand"], references), saved["corpus"], items)
