"""capmeter's metrics as a `torchmetrics.Metric`: update with batches, compute once, in one process or in many.

    from capmeter.integrations.torchmetrics import CaptionMetric     # was: from torchmetrics.text import BLEUScore

>>> metric = CaptionMetric("bleu-1,rouge-l")
>>> metric.update(["a dog runs"], [["a dog runs", "a dog is running"]], ids=[7])
>>> metric.update(["two cats"], [["two cats sleep"]], ids=[9])
>>> {name: round(float(score), 4) for name, score in metric.compute().items()}
{'bleu-1': 0.8187, 'rouge-l': 0.8861}
>>> metric.results["rouge-l"].items["7"]
1.0

The scores are those of `capmeter.score` on the same captions in the same order, float64. With `ids` this order is that
of the ids, and a caption that is given again under its id (a padded sampler does so) counts once: the scores do not
depend on how captions were divided into batches and processes. Without ids it is the order of arrival, process by
process.

In several processes each has all captions after the states are synchronised, as text, and measures its share of them;
corpus states (document frequencies …) are merged before, rows of statistics after. All of it travels through
torchmetrics' own `dist_sync_fn`.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torchmetrics
from torchmetrics.utilities import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.rows import caption_text, image_key, optional_text, reference_list
from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse_list
from capmeter.metrics.scores import Results
from capmeter.settings import Settings

Result = TypeVar("Result")
Gather = Callable[[torch.Tensor], list[torch.Tensor]]


class CaptionMetric(torchmetrics.Metric):
    """Caption metrics with torchmetrics' interface.

    Args:
        metrics: names or metrics, in a list or one comma-separated text, as for `capmeter.score`.
        settings: device, precision, threads, cache: `capmeter.Settings(device="cuda")`.
        options: those of `torchmetrics.Metric` (`process_group`, `sync_on_compute` …).

    `results` has everything that `capmeter.score` returns (every caption's score, signatures), once computed.
    `forward` scores each batch alone: CIDEr's idf is then that of the batch.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    captions: Any  # uint8 tensors of JSON lines; one tensor once they are synchronised

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
        *,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.metrics = parse_list(metrics)
        self.settings = settings
        self.results: Results | None = None
        self._shared: Results | None = None  # measured together with the other processes
        self.add_state("captions", default=[], dist_reduce_fx="cat")

    def update(
        self,
        preds: Sequence[str],
        target: Sequence[Sequence[str]],
        ids: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
    ) -> None:
        """Adds a batch: candidates, each one's references, and if at hand their ids and pictures (paths).

        Raises:
            InputError: lists of different lengths, a caption that is no text, an id that is no text or whole number.
        """
        given = {"preds": preds, "target": target, "ids": ids, "images": images}
        for name, values in given.items():
            if isinstance(values, str):
                raise InputError(
                    f"{name}: expected one entry for each caption of the batch, got the text {values!r:.80}"
                )
        counts = {name: len(values) for name, values in given.items() if values is not None}
        if len(set(counts.values())) > 1:
            raise InputError(
                f"expected as many of each, but got {', '.join(f'{n} {name}' for name, n in counts.items())}"
            )
        lines = []
        for k, candidate in enumerate(preds):
            row = [
                None if ids is None else image_key(_plain(ids[k]), f"ids[{k}]", "the id"),
                caption_text(candidate, f"preds[{k}]", "the candidate"),
                list(reference_list(target[k], f"target[{k}]", "the list")),
                None if images is None else optional_text(images[k], f"images[{k}]", "the picture"),
            ]
            lines.append(json.dumps(row) + "\n")
        self.captions.append(_to_bytes("".join(lines).encode()).to(self.device))

    def compute(self) -> dict[str, torch.Tensor]:
        """The score of each metric over everything that was given, by name: float64."""
        self.results = self._shared if self._is_synced and self._shared else self._measured(1)
        return {
            name: torch.tensor(scores.score, dtype=torch.float64, device=self.device)
            for name, scores in self.results.items()
        }

    def reset(self) -> None:
        """Forgets everything that was given."""
        super().reset()
        self.results = self._shared = None

    def _measured(self, workers: int | Shares) -> Results:
        held = self.captions if isinstance(self.captions, torch.Tensor) else _joined(self.captions)
        return evaluate(_caption_set(_from_bytes(held).decode()), self.metrics, workers=workers, settings=self.settings)

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        """Gives every process all captions, and all scores: each measures a share. torchmetrics calls it in `sync`."""
        group = process_group or self.process_group
        self.captions = [_joined(self.captions).to(self.device)]  # never an empty list, which would become a float
        super()._sync_dist(dist_sync_fn, process_group)
        self._shared = None
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            gather = functools.partial(dist_sync_fn, group=group)
            rank, workers = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
            self._shared = self._measured(Shares(gather, rank, workers, self.device))


class Shares:
    """The processes of a torch process group as an executor: each measures every `workers`-th part, all get all."""

    def __init__(self, gather: Gather, rank: int, workers: int, device: Any) -> None:
        self._gather, self._rank, self.workers, self._device = gather, rank, workers, device

    def share(self, settings: Settings) -> Settings:
        """The settings, unchanged: whoever started the processes gave each its threads and device."""
        return settings

    def map(self, work: Callable[[CaptionSet], Result], parts: Iterator[CaptionSet]) -> Iterator[Result]:
        """`work(part)` for each part, in order; an error in one process is raised in all, so that none waits for it."""
        mine: list[tuple[int, Result]] | Exception
        try:
            mine = [(k, work(part)) for k, part in enumerate(parts) if k % self.workers == self._rank]
        except Exception as problem:  # noqa: BLE001 (raised below, in every process)
            mine = problem
        gathered = self._gather(_to_bytes(pickle.dumps(mine)).to(self._device))
        found = [pickle.loads(_from_bytes(each)) for each in gathered]  # from processes of this very job
        for each in found:
            if isinstance(each, Exception):
                raise each
        yield from (result for _, result in sorted((one for each in found for one in each), key=lambda one: one[0]))


def _caption_set(lines: str) -> CaptionSet:
    """The captions of these JSON lines, in the order of their ids where they have ids, each id once."""
    rows = [json.loads(line) for line in lines.split("\n") if line]
    named = [row for row in rows if row[0] is not None]
    if not named:
        rows = [[str(k), *row[1:]] for k, row in enumerate(rows)]
    elif len(named) != len(rows):
        raise InputError(
            f"{len(rows) - len(named):,} of {len(rows):,} captions came without ids; give all ids, or none"
        )
    else:
        rows = sorted({tuple(map(_frozen, row)): row for row in rows}.values(), key=_in_order([row[0] for row in rows]))
    return CaptionSet.from_captions(
        Caption(id, id, candidate, tuple(references), image=image) for id, candidate, references, image in rows
    )


def _in_order(ids: Sequence[str]) -> Callable[[list[Any]], Any]:
    """The order of rows by id: of whole numbers as numbers, of any other ids as text."""
    if all(id.isascii() and id.isdigit() for id in ids):
        return lambda row: (int(row[0]), row[0])
    return lambda row: row[0]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(id: Any) -> Any:
    return id.item() if isinstance(id, torch.Tensor) else id


def _joined(held: Sequence[torch.Tensor]) -> torch.Tensor:
    return dim_zero_cat(list(held)) if len(held) else torch.zeros(0, dtype=torch.uint8)


def _to_bytes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _from_bytes(held: torch.Tensor) -> bytes:
    return held.cpu().numpy().tobytes()


__all__ = ["CaptionMetric"]
