"""Captions inside another JSON file: every sentence once, everything else keyed by id.

>>> from capmeter.captions.model import Caption
>>> captions = CaptionSet.from_captions([Caption("7", "7", "a dog", ("a dog", "the dog"))])
>>> captions_to_dict(captions)
{'sentences': ['a dog', 'the dog'], 'candidates': {'7': 0}, 'references': {'7': [0, 1]}}
>>> captions_from_dict(captions_to_dict(captions), ["7"], ["7"])["7"].references
('a dog', 'the dog')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.captions.model import CaptionSet, SentencePool
from capmeter.ragged import Ragged


def captions_to_dict(captions: CaptionSet) -> dict[str, Any]:
    """The captions as JSON values; ids and image ids are left to the file that they go into."""
    rows = range(len(captions))
    images = {id: image for id, image in zip(captions.ids, captions.images, strict=True) if image is not None}
    humans = {id: list(human) for id, human in zip(captions.ids, captions.humans, strict=True) if human is not None}
    return {
        "sentences": list(captions.pool.sentences),
        "candidates": dict(zip(captions.ids, captions.candidates.tolist(), strict=True)),
        "references": {captions.ids[row]: captions.references[row].tolist() for row in rows},
        **({"pictures": images} if images else {}),
        **({"human": humans} if humans else {}),
    }


def captions_from_dict(saved: Mapping[str, Any], ids: Sequence[str], image_ids: Sequence[str]) -> CaptionSet:
    """The captions that `captions_to_dict` saved; `KeyError`, `TypeError` or `ValueError` where they are damaged."""
    sentences = tuple(saved["sentences"])
    candidates = np.array([saved["candidates"][id] for id in ids], np.int32)
    references = Ragged.from_rows([saved["references"][id] for id in ids], np.int32)
    pictures, humans = saved.get("pictures", {}), saved.get("human", {})
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError("a sentence is not text")
    used = np.concatenate([candidates, references.values])
    if len(used) and not (used.min() >= 0 and used.max() < len(sentences)):
        raise ValueError("a caption points at a sentence that is not there")
    return CaptionSet(
        ids=tuple(ids),
        image_ids=tuple(image_ids),
        pool=SentencePool(sentences),
        candidates=candidates,
        references=references,
        images=tuple(pictures.get(id) for id in ids),
        humans=tuple(None if humans.get(id) is None else tuple(map(float, humans[id])) for id in ids),
    )
