"""Greedy search, beam search and sampling of captions from an encoder-decoder.

Every function takes a batch of sources and returns a caption for each: its subwords without the end token, and the sum
of their log-probabilities and that of the end token. A caption that reaches the module's `longest` is truncated there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from capmeter_research.common.transformer.network import CaptionTransformer

PAD, BEGIN, END = 0, 1, 2
"""The ids of the padding, begin and end tokens in every vocabulary."""
_COMPACT_BELOW = 0.75  # finished captions are dropped from the batch when at most this share is unfinished


@dataclass(frozen=True)
class DecodedCaption:
    """A caption as subwords, and its log-probability."""

    pieces: tuple[int, ...]
    log_probability: float


def greedy_search(module: CaptionTransformer, sources: Any) -> list[DecodedCaption]:
    """The most probable subword at each step."""
    return _decode_stepwise(module, sources, None, 1.0)


def sample(
    module: CaptionTransformer, sources: Any, uniform: npt.NDArray[np.float32], temperature: float = 1.0
) -> list[DecodedCaption]:
    """Subwords sampled from p(subword)^(1 / temperature), normalised.

    Args:
        module: in evaluation mode.
        sources: (batch).
        uniform: (batch, longest), numbers in [0, 1), one per step: the sample of a source depends on its row only, not
            on the batch.
        temperature: above 0; the returned log-probability is that of the network, at temperature 1.
    """
    return _decode_stepwise(module, sources, uniform, temperature)


def _decode_stepwise(
    module: CaptionTransformer, sources: Any, uniform: npt.NDArray[np.float32] | None, temperature: float
) -> list[DecodedCaption]:
    import torch

    source_count, device = len(sources), sources.device
    thresholds = None if uniform is None else torch.from_numpy(uniform).to(device)
    captions = torch.full((source_count, module.longest), PAD, dtype=torch.int64, device=device)
    totals = torch.zeros(source_count, device=device)
    live_rows = torch.arange(source_count, device=device)  # the rows of the batch
    unfinished = torch.ones(source_count, dtype=torch.bool, device=device)  # of the live rows
    pieces = torch.full((source_count,), BEGIN, dtype=torch.int64, device=device)
    cache = module.start(sources)
    for step in range(module.longest):
        log_probs = _log_softmax(module.step(pieces, cache))
        if thresholds is None:
            pieces = log_probs.argmax(-1)
        else:
            cumulative = torch.softmax(log_probs.double() / temperature, -1).cumsum(-1)
            threshold = thresholds[live_rows, step].double() * cumulative[:, -1]
            pieces = torch.searchsorted(cumulative, threshold[:, None], right=True)[:, 0]
            pieces = pieces.clamp_max(log_probs.shape[-1] - 1)
        totals[live_rows] += torch.where(unfinished, log_probs.gather(1, pieces[:, None])[:, 0], 0)
        pieces = torch.where(unfinished, pieces, PAD)
        captions[live_rows, step] = pieces
        unfinished = unfinished & (pieces != END)
        unfinished_count = int(unfinished.sum())
        if not unfinished_count:
            break
        if unfinished_count <= _COMPACT_BELOW * len(live_rows):
            live_rows, pieces, cache = live_rows[unfinished], pieces[unfinished], cache.take(unfinished)
            unfinished = unfinished[unfinished]
    decoded_rows = zip(captions.tolist(), totals.tolist(), strict=True)
    return [DecodedCaption(_strip_end(caption_pieces), log_prob) for caption_pieces, log_prob in decoded_rows]


def beam_search(
    module: CaptionTransformer, sources: Any, width: int, *, per_token: bool = False
) -> list[DecodedCaption]:
    """The most probable caption in a beam, or the greedy one if that is more probable.

    The search of a source ends when no open hypothesis can exceed the best finished one.

    Args:
        module: in evaluation mode.
        sources: (batch).
        width: hypotheses per source.
        per_token: rank finished captions by log-probability per token (with the end token), so that short ones, above
            all the empty one, are not preferred; else by log-probability.
    """
    import torch

    source_count, device = len(sources), sources.device
    best_captions = greedy_search(module, sources)
    if width == 1:
        return best_captions
    longest = module.longest
    cache = module.start(sources).take(torch.arange(source_count, device=device).repeat_interleave(width))
    live_rows = torch.arange(source_count, device=device)
    lengths = [min(len(caption.pieces) + 1, longest) if per_token else 1 for caption in best_captions]
    bound = torch.tensor(
        [caption.log_probability / n for caption, n in zip(best_captions, lengths, strict=True)], device=device
    )
    totals = torch.full((source_count, width), -torch.inf, device=device)
    totals[:, 0] = 0  # all hypotheses of a source are equal before the first step
    prefixes = torch.full((source_count, width, longest), PAD, dtype=torch.int64, device=device)
    pieces = torch.full((source_count * width,), BEGIN, dtype=torch.int64, device=device)
    for step in range(longest):
        scores = _log_softmax(module.step(pieces, cache)).view(len(live_rows), width, -1) + totals[:, :, None]
        vocabulary_size = scores.shape[-1]
        finished_log_probs, hypothesis = scores[:, :, END].max(1)
        finished_score = finished_log_probs / (step + 1) if per_token else finished_log_probs
        for row in torch.nonzero(finished_score > bound)[:, 0].tolist():
            caption_pieces = tuple(prefixes[row, hypothesis[row], :step].tolist())
            best_captions[int(live_rows[row])] = DecodedCaption(caption_pieces, float(finished_log_probs[row]))
        bound = torch.maximum(bound, finished_score)
        scores[:, :, END] = -torch.inf
        totals, top_indices = scores.flatten(1).topk(width, dim=1)
        origin, piece = top_indices // vocabulary_size, top_indices % vocabulary_size
        open_rows = totals[:, 0] / (longest if per_token else 1) > bound  # an upper bound: totals only fall
        if not open_rows.any():
            break
        live_rows, bound, totals = live_rows[open_rows], bound[open_rows], totals[open_rows]
        origin, piece, open_indices = origin[open_rows], piece[open_rows], torch.nonzero(open_rows)[:, :1]
        prefixes = prefixes[open_indices, origin]
        prefixes[:, :, step] = piece
        hypothesis_rows = (open_indices * width + origin).flatten()
        cache = cache.reordered(hypothesis_rows) if open_rows.all() else cache.take(hypothesis_rows)
        pieces = piece.flatten()
    return best_captions


def log_probabilities(module: CaptionTransformer, sources: Any, targets: Tensor) -> Tensor:
    """Log-probabilities of targets given their sources, float64 (batch,).

    Args:
        module: the encoder and decoder.
        sources: what is read, in the module's form.
        targets: token ids, (batch, length), padded after the end token.
    """
    import torch
    from torch.nn.functional import pad

    log_probs = _log_softmax(module(sources, pad(targets[:, :-1], (1, 0), value=BEGIN)))
    target_log_probs = log_probs.gather(2, targets[:, :, None])[:, :, 0].double()
    return torch.where(targets != PAD, target_log_probs, 0).sum(1)


def _log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of text and end token; tokens before the end token have none."""
    logits = logits.float()
    logits[..., :END] = -float("inf")
    return logits.log_softmax(-1)


def _strip_end(pieces: list[int]) -> tuple[int, ...]:
    """The pieces before the end token."""
    return tuple(pieces[: pieces.index(END)] if END in pieces else [piece for piece in pieces if piece != PAD])
