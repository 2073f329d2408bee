"""UMIC's pairwise accuracy: true captions against their negatives of every kind, and against other pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capmeter.core.settings import Settings
from capmeter.encoders.batches import in_order
from capmeter_research.papers.umic.pairs import PairEncoder, PairStates
from capmeter_research.papers.umic.training.examples import RegionExamples
from capmeter_research.papers.umic.training.negatives import KINDS, NegativeSampler

SWAPPED = "swapped picture"


def score_pairs(
    encoder: PairEncoder,
    texts: Sequence[str],
    pictures: npt.NDArray[np.int64],
    examples: RegionExamples,
    heads: Sequence[str],
) -> npt.NDArray[np.float64]:
    """The scores of texts with pictures, (heads, pairs), from one pass through the network.

    Args:
        Those of the ranking head are its sigmoid, those of the matching head the probability of a match.
        encoder: of the pairs.
        texts: a caption per pair.
        pictures: number of each pair's picture.
        examples: with the pictures' regions.
        heads: names.
    """
    distinct_pictures, inverse = np.unique(pictures, return_inverse=True)
    embedded_pictures = [encoder.embed(*examples.bank.get(int(picture_number))) for picture_number in distinct_pictures]
    text_numbers = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    captions = np.array([text_numbers[text] for text in texts], np.int64)

    def score(batch: PairStates) -> list[tuple[float, ...]]:
        pooled, scores_by_head = encoder.uniter.pooled(batch.states), []
        for head in heads:
            output = encoder.uniter.head(pooled, head).float()
            scores = output[:, 0].sigmoid() if head == "rank_output" else output.softmax(dim=1)[:, 1]
            scores_by_head.append(scores.tolist())
        return list(zip(*scores_by_head, strict=True))

    settings = Settings(device=encoder.device)
    results = encoder.run_pairs(
        encoder.pieces(list(text_numbers)), captions, embedded_pictures, inverse, score, settings
    )
    by_pair = np.array(in_order(results, len(texts)), np.float64).reshape(len(texts), len(heads))
    return np.transpose(by_pair)


def pairwise_accuracy(
    encoder: PairEncoder,
    examples: RegionExamples,
    sampler: NegativeSampler,
    *,
    heads: Sequence[str],
    max_captions: int = 2000,
    seed: int = 0,
) -> list[dict[str, float]]:
    """For each head, by kind of negative, the percentage of cases in which the true caption scores above it.

    Negatives that equal their caption are left out. `repetition` and `removal`: of the negatives of
    `repetition-removal`, those in which no word is removed, and those in which none is repeated. `swapped picture`:
    how often the score falls with another picture.

    Args:
        encoder: of the pairs.
        examples: true captions with pictures.
        sampler: of the negatives.
        heads: names.
        max_captions: number of sampled captions at most.
        seed: of captions, negatives and other pictures.
    """
    random = np.random.default_rng(seed)
    caption_rows = np.sort(random.permutation(len(examples))[:max_captions])
    texts = [sampler.captions.pool[int(sampler.captions.candidates[row])] for row in caption_rows.tolist()]
    pictures = examples.picture[caption_rows]
    true_scores = score_pairs(encoder, texts, pictures, examples, heads)
    accuracy = {}
    for number, kind in enumerate(KINDS):
        negative_texts = [
            sampler.sample_kind(kind, row, np.random.default_rng((seed, number, row))) for row in caption_rows.tolist()
        ]
        is_changed = np.array(
            [negative_text != caption_text for negative_text, caption_text in zip(negative_texts, texts, strict=True)]
        )
        is_below = true_scores > score_pairs(encoder, negative_texts, pictures, examples, heads)
        accuracy[kind] = _percentages(is_below[:, is_changed])
        if kind == "repetition-removal":
            counts = [
                (Counter(negative_text.split()), Counter(caption_text.split()))
                for negative_text, caption_text in zip(negative_texts, texts, strict=True)
            ]
            for name, subset in (("repetition", [a > b for a, b in counts]), ("removal", [a < b for a, b in counts])):
                if any(subset):
                    accuracy[name] = _percentages(is_below[:, np.array(subset)])
    picture_count = pictures.max(initial=0) + 1
    other_pictures = (pictures + 1 + random.integers(0, max(1, picture_count - 1), len(pictures))) % picture_count
    swapped_scores = score_pairs(encoder, texts, other_pictures, examples, heads)
    accuracy[SWAPPED] = _percentages(true_scores > swapped_scores)
    return [{kind: by_head[k] for kind, by_head in accuracy.items()} for k in range(len(heads))]


def _percentages(is_below: npt.NDArray[np.bool_]) -> list[float]:
    """How often each row is true, in per cent."""
    return [100 * float(row.mean()) for row in is_below]
