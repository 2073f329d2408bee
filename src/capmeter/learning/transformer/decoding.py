"""Captions from the network: the likeliest subword at each step, beam search, or sampling.

Every function takes a batch of sources and returns, for each, the subwords that were written (without the end) and the
sum of their log-probabilities and that of the end. A caption that reaches the module's `longest` stops there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from capmeter.learning.transformer.network import Cache

PAD, BEGIN, END = 0, 1, 2
"""The ids of padding, begin and end in every vocabulary."""
_FULL = 0.75  # captions that have ended are dropped from the batch when no more than this share is left


class Sources(Protocol):
    """A batch of what is read: a tensor [B, S], or pictures' regions."""

    def __len__(self) -> int:
        """The number of sources."""

    @property
    def device(self) -> Any:
        """Where they are."""


Source = TypeVar("Source", bound=Sources, contravariant=True)


class WritingModule(Protocol[Source]):
    """A network that reads sources and writes captions."""

    longest: int

    def __call__(self, sources: Source, targets: Tensor) -> Tensor:
        """Scores [B, T, subwords] of the subword after each of the targets [B, T]."""

    def start(self, sources: Source) -> Cache:
        """An empty cache for captions of these sources."""

    def step(self, pieces: Tensor, cache: Cache) -> Tensor:
        """Scores [R, subwords] of the subword after these [R], which are added to the cache."""


@dataclass(frozen=True)
class Written:
    """A caption as subwords, and its log-probability."""

    pieces: tuple[int, ...]
    log_probability: float


def greedy(module: WritingModule[Source], sources: Source) -> list[Written]:
    """The likeliest subword at each step."""
    return _one_by_one(module, sources, None, 1.0)


def sampled(
    module: WritingModule[Source], sources: Source, uniform: npt.NDArray[np.float32], temperature: float = 1.0
) -> list[Written]:
    """Subwords drawn from p(subword)^(1 / temperature), normalised.

    Args:
        module: in evaluation mode.
        sources: B of them.
        uniform: numbers in [0, 1), [B, longest], one for each draw: what is drawn for a source depends on its
            row only, not on the batch.
        temperature: above 0; the log-probability returned is that of the network, at temperature 1.
    """
    return _one_by_one(module, sources, uniform, temperature)


def _one_by_one(
    module: WritingModule[Source], sources: Source, uniform: npt.NDArray[np.float32] | None, temperature: float
) -> list[Written]:
    import torch

    count, device = len(sources), sources.device
    draws = None if uniform is None else torch.from_numpy(uniform).to(device)
    written = torch.full((count, module.longest), PAD, dtype=torch.int64, device=device)
    sums = torch.zeros(count, device=device)
    live = torch.arange(count, device=device)
    going = torch.ones(count, dtype=torch.bool, device=device)  # of the live rows
    pieces = torch.full((count,), BEGIN, dtype=torch.int64, device=device)
    cache = module.start(sources)
    for step in range(module.longest):
        scores = _log_softmax(module.step(pieces, cache))
        if draws is None:
            pieces = scores.argmax(-1)
        else:
            below = torch.softmax(scores.double() / temperature, -1).cumsum(-1)
            drawn = draws[live, step].double() * below[:, -1]
            pieces = torch.searchsorted(below, drawn[:, None], right=True)[:, 0].clamp_max(scores.shape[-1] - 1)
        gain = scores.gather(1, pieces[:, None])[:, 0]
        sums[live] += torch.where(going, gain, 0)
        pieces = torch.where(going, pieces, PAD)
        written[live, step] = pieces
        going = going & (pieces != END)
        left = int(going.sum())
        if not left:
            break
        if left <= _FULL * len(live):
            live, pieces, cache = live[going], pieces[going], cache.take(going)
            going = going[going]
    rows = zip(written.tolist(), sums.tolist(), strict=True)
    return [Written(_inner(row), total) for row, total in rows]


def beam(module: WritingModule[Source], sources: Source, width: int, *, per_token: bool = False) -> list[Written]:
    """The likeliest caption that beam search finds, or the greedy one where that is likelier.

    A search ends when no open hypothesis can become better than the best ended one.

    Args:
        module: in evaluation mode.
        sources: B of them.
        width: hypotheses per source.
        per_token: ended captions are compared by their log-probability per token (with the end), so that short ones,
            the empty one before all, are not preferred; else by their log-probability.
    """
    import torch

    count, device = len(sources), sources.device
    best = greedy(module, sources)
    if width == 1:
        return best
    longest = module.longest
    cache = module.start(sources).take(torch.arange(count, device=device).repeat_interleave(width))
    live = torch.arange(count, device=device)
    sizes = [min(len(each.pieces) + 1, longest) if per_token else 1 for each in best]
    bound = torch.tensor([each.log_probability / size for each, size in zip(best, sizes, strict=True)], device=device)
    sums = torch.full((count, width), -torch.inf, device=device)
    sums[:, 0] = 0  # all hypotheses of a source are the same before the first step
    written = torch.full((count, width, longest), PAD, dtype=torch.int64, device=device)
    pieces = torch.full((count * width,), BEGIN, dtype=torch.int64, device=device)
    for step in range(longest):
        scores = _log_softmax(module.step(pieces, cache)).view(len(live), width, -1) + sums[:, :, None]
        size = scores.shape[-1]
        value, place = scores[:, :, END].max(1)
        worth = value / (step + 1) if per_token else value
        for row in torch.nonzero(worth > bound)[:, 0].tolist():
            best[int(live[row])] = Written(tuple(written[row, place[row], :step].tolist()), float(value[row]))
        bound = torch.maximum(bound, worth)
        scores[:, :, END] = -torch.inf
        sums, chosen = scores.flatten(1).topk(width, dim=1)
        origin, piece = chosen // size, chosen % size
        going = sums[:, 0] / (longest if per_token else 1) > bound  # at most, as sums only fall
        if not going.any():
            break
        live, bound, sums, origin, piece = live[going], bound[going], sums[going], origin[going], piece[going]
        kept = torch.nonzero(going)[:, :1]
        written = written[kept, origin]
        written[:, :, step] = piece
        rows = (kept * width + origin).flatten()
        cache = cache.reordered(rows) if going.all() else cache.take(rows)
        pieces = piece.flatten()
    return best


def log_probabilities(module: WritingModule[Source], sources: Source, targets: Tensor) -> Tensor:
    """The log-probability of each target [B, T] (each ended, then padded) given its source [B, S]: float64[B]."""
    import torch
    from torch.nn.functional import pad

    scores = _log_softmax(module(sources, pad(targets[:, :-1], (1, 0), value=BEGIN)))
    taken = scores.gather(2, targets[:, :, None])[:, :, 0].double()
    return torch.where(targets != PAD, taken, 0).sum(1)


def _log_softmax(scores: Tensor) -> Tensor:
    """Log-probabilities of text and end; the special subwords and marks before the end have none."""
    scores = scores.float()
    scores[..., :END] = -float("inf")
    return scores.log_softmax(-1)


def _inner(pieces: list[int]) -> tuple[int, ...]:
    """What was written before the end."""
    return tuple(pieces[: pieces.index(END)] if END in pieces else [each for each in pieces if each != PAD])
