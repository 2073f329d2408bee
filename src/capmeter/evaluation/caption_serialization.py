"""Captions as part of a JSON file: every sentence once, everything else keyed by id.

>>> from capmeter.captions.caption_set import Caption
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

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.ragged import Ragged


def captions_to_dict(captions: CaptionSet) -> dict[str, Any]:
    """The captions as JSON values, without ids and image ids, which the file has elsewhere."""
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
    """Reads what `captions_to_dict` returned; `KeyError`, `TypeError` or `ValueError` if it is damaged."""
    sentences = tuple(saved["sentences"])
    candidates = np.array([saved["candidates"][id] for id in ids], np.int32)
    references = Ragged.from_rows([saved["references"][id] for id in ids], np.int32)
    pictures, humans = saved.get("pictures", {}), saved.get("human", {})
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError("a sentence is not text")
    sentence_indices = np.concatenate([candidates, references.values])
    if len(sentence_indices) and not (sentence_indices.min() >= 0 and sentence_indices.max() < len(sentences)):
        raise ValueError("a caption refers to a missing sentence")
    return CaptionSet(
        ids=tuple(ids),
        image_ids=tuple(image_ids),
        pool=SentencePool(sentences),
        candidates=candidates,
        references=references,
        images=tuple(pictures.get(id) for id in ids),
        humans=tuple(None if humans.get(id) is None else tuple(map(float, humans[id])) for id in ids),
    )
