"""A trained parser's two files: weights (float16, safetensors) and everything else (JSON)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.caption_parser import SETTINGS, WEIGHTS
from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import ParserVocabulary


def write_parser(
    folder: Path,
    *,
    weights: Mapping[str, npt.NDArray[np.floating]],
    shape: NetworkShape,
    vocabulary: ParserVocabulary,
    lemmas: Mapping[str, Any],
    training: Mapping[str, Any],
) -> None:
    """Writes what `capmeter.text.caption_parser.CaptionParser` reads; each file whole or not at all.

    Args:
        folder: to write to.
        weights: by name.
        shape: of the network.
        vocabulary: features, tags and labels in the order of the weights.
        lemmas: from `lemma_rules`.
        training: what the parser was trained on, how, and how well it did.
    """
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    blob = save({name: np.ascontiguousarray(values, np.float16) for name, values in weights.items()})
    settings = {
        "sha256": hashlib.sha256(blob).hexdigest(),
        "shape": {"heads": shape.heads, "layers": shape.layers, "tags_after": shape.tags_after},
        "training": dict(training),
        "tags": vocabulary.tags,
        "labels": vocabulary.labels,
        "lemmas": dict(lemmas),
        "features": sorted(vocabulary.features, key=vocabulary.features.__getitem__),
    }
    _write(folder / WEIGHTS, blob)
    _write(folder / SETTINGS, json.dumps(settings, ensure_ascii=False).encode())


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)
