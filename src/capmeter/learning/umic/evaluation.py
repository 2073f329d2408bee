"""How often UMIC tells a caption from what is worse: from its negatives of every kind, and from a swapped picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capmeter.encoders.batches import in_order
from capmeter.encoders.pairs import PairEncoder, PairStates
from capmeter.learning.umic.examples import Examples
from capmeter.settings import Settings
from capmeter.transforms.negatives import KINDS, Sampler

SWAPPED = "swapped picture"


def pair_scores(
    encoder: PairEncoder, texts: Sequence[str], pictures: npt.NDArray[np.int64], examples: Examples, head: str
) -> npt.NDArray[np.float64]:
    """The scores of captions with numbered pictures: sigmoid of the ranking head, or the probability of a match."""
    distinct, which = np.unique(pictures, return_inverse=True)
    embedded = [encoder.embed(*examples.bank.get(int(each))) for each in distinct]
    known = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    captions = np.array([known[text] for text in texts], np.int64)

    def scores(batch: PairStates) -> list[float]:
        output = encoder.uniter.head(encoder.uniter.pooled(batch.states), head).float()
        read = output[:, 0].sigmoid() if head == "rank_output" else output.softmax(dim=1)[:, 1]
        found: list[float] = read.tolist()
        return found

    made = encoder.run(encoder.pieces(list(known)), captions, embedded, which, scores, Settings(device=encoder.device))
    return np.array(in_order(made, len(texts)), np.float64)


def told_apart(
    encoder: PairEncoder,
    examples: Examples,
    sampler: Sampler,
    *,
    head: str = "rank_output",
    most: int = 2000,
    seed: int = 0,
) -> dict[str, float]:
    """For each kind of negative, in what share of cases (per cent) the true caption scores above it.

    A negative that equals its caption is left out. `repetition` and `removal`: of the negatives of
    `repetition-removal`, those in which no word is left out, and those in which none is repeated. `swapped picture`:
    how often the score falls with another picture.
    """
    random = np.random.default_rng(seed)
    rows = np.sort(random.permutation(len(examples))[:most])
    texts = [sampler.captions.pool[int(sampler.captions.candidates[row])] for row in rows.tolist()]
    pictures = examples.picture[rows]
    right = pair_scores(encoder, texts, pictures, examples, head)
    found = {}
    for number, kind in enumerate(KINDS):
        worse = [sampler.one(kind, row, np.random.default_rng((seed, number, row))) for row in rows.tolist()]
        changed = np.array([one != other for one, other in zip(worse, texts, strict=True)])
        scores = pair_scores(encoder, worse, pictures, examples, head)
        found[kind] = 100 * float((right > scores)[changed].mean())
        if kind == "repetition-removal":
            counted = [(Counter(one.split()), Counter(other.split())) for one, other in zip(worse, texts, strict=True)]
            for name, only in (("repetition", [a > b for a, b in counted]), ("removal", [a < b for a, b in counted])):
                if any(only):
                    found[name] = 100 * float((right > scores)[np.array(only)].mean())
    others = pictures.max(initial=0) + 1
    shifted = (pictures + 1 + random.integers(0, max(1, others - 1), len(pictures))) % others
    found[SWAPPED] = 100 * float((right > pair_scores(encoder, texts, shifted, examples, head)).mean())
    return found
