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
of the ids, and a caption that is repeated under its id (as by a padded sampler) counts once: the scores do not depend
on how captions are divided into batches and processes. Without ids it is the order of arrival, process by process.

After the states are synchronised, each of several processes has all captions as text, and measures its share; corpus
states (document frequencies …) are merged before, rows of statistics after. Everything is exchanged by torchmetrics'
`dist_sync_fn`.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
import torchmetrics
from torchmetrics.utilities import dim_zero_cat
from torchmetrics.utilities.distributed import gather_all_tensors

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.rows import image_key, optional_text
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import evaluate
from capmeter.integrations.texts import entries_of, plain_number, reference_lists_of, texts_of

Item = TypeVar("Item")
Result = TypeVar("Result")
Gather = Callable[[torch.Tensor], list[torch.Tensor]]


class CaptionMetric(torchmetrics.Metric):
    """Caption metrics with torchmetrics' interface.

    Args:
        metrics: names or metrics, in a list or one comma-separated text, as for `capmeter.score`.
        settings: device, precision, threads, cache: `capmeter.Settings(device="cuda")`.
        options: those of `torchmetrics.Metric` (`process_group`, `sync_on_compute` …).

    `results` has everything that `capmeter.score` returns (scores of captions, signatures), after `compute`.
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
        is_higher_better = not any(metric.lower_is_better for metric in self.metrics)
        object.__setattr__(self, "higher_is_better", is_higher_better)  # which torchmetrics takes for a constant
        self.settings = settings
        self.results: Results | None = None
        self._shared_results: Results | None = None  # measured together with the other processes
        self.add_state("captions", default=[], dist_reduce_fx="cat")

    def update(
        self,
        preds: Sequence[str],
        target: Sequence[Sequence[str]],
        ids: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
    ) -> None:
        """Adds a batch.

        Args:
            preds: the candidates.
            target: the references of each candidate.
            ids: text or integers, if there are any.
            images: paths of the pictures, if there are any.

        Raises:
            InputError: lists of different lengths, a caption that is not text, an id that is not text or an integer.
        """
        batch: dict[str, list[Any]] = {
            "preds": texts_of(preds, "preds"),
            "target": reference_lists_of(target, "target"),
        }
        batch |= {
            name: entries_of(values, name) for name, values in (("ids", ids), ("images", images)) if values is not None
        }
        entry_counts = {name: len(values) for name, values in batch.items()}
        if len(set(entry_counts.values())) > 1:
            raise InputError(
                f"expected as many of each, but got {', '.join(f'{n} {name}' for name, n in entry_counts.items())}"
            )
        json_lines = []
        for k, candidate in enumerate(batch["preds"]):
            caption_row = [
                None if ids is None else image_key(plain_number(batch["ids"][k]), f"ids[{k}]", "the id"),
                candidate,
                batch["target"][k],
                None if images is None else optional_text(batch["images"][k], f"images[{k}]", "the picture"),
            ]
            json_lines.append(json.dumps(caption_row) + "\n")
        self.captions.append(_to_bytes("".join(json_lines).encode()).to(self.device))

    def compute(self) -> dict[str, torch.Tensor]:
        """The score of each metric on all captions added, by name: float64."""
        self.results = (self._shared_results if self._is_synced else None) or self._evaluate(1)
        return {
            metric_name: torch.tensor(metric_scores.score, dtype=torch.float64, device=self.device)
            for metric_name, metric_scores in self.results.items()
        }

    def reset(self) -> None:
        """Removes all captions."""
        super().reset()
        self.results = self._shared_results = None

    def _evaluate(self, workers: int | ProcessGroupPool) -> Results:
        line_bytes = self.captions if isinstance(self.captions, torch.Tensor) else _concatenate(self.captions)
        captions = _read_captions(_from_bytes(line_bytes).decode())
        return evaluate(captions, self.metrics, workers=workers, settings=self.settings)

    def _sync_dist(self, dist_sync_fn: Any = gather_all_tensors, process_group: Any = None) -> None:
        """Shares all captions with every process, and all scores, of which each computes a part; called by `sync`."""
        group = process_group or self.process_group
        self.captions = [_concatenate(self.captions).to(self.device)]  # an empty list would become a float
        super()._sync_dist(dist_sync_fn, process_group)
        self._shared_results = None
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            gather = functools.partial(dist_sync_fn, group=group)
            rank, world_size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
            self._shared_results = self._evaluate(ProcessGroupPool(gather, rank, world_size, self.device))


class ProcessGroupPool:
    """A torch process group as a pool: each process works on every `workers`-th part, and gets all results."""

    def __init__(self, gather: Gather, rank: int, workers: int, device: Any) -> None:
        self._gather, self._rank, self.workers, self._device = gather, rank, workers, device

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields `function(item)` for each item, in order; an error in one process is raised in all: none waits."""
        own_results: list[tuple[int, Result]] | Exception
        try:
            own_results = [(k, function(item)) for k, item in enumerate(items) if k % self.workers == self._rank]
        except Exception as problem:  # noqa: BLE001 (raised below, in every process)
            own_results = problem
        gathered_bytes = self._gather(_to_bytes(pickle.dumps(own_results)).to(self._device))
        shares = [pickle.loads(_from_bytes(each)) for each in gathered_bytes]  # from processes of the same job
        for each in shares:
            if isinstance(each, Exception):
                raise each
        yield from (result for _, result in sorted(chain.from_iterable(shares), key=lambda numbered: numbered[0]))


def _read_captions(json_lines: str) -> CaptionSet:
    """Reads captions from JSON lines: in the order of their ids, if they have ids, each once."""
    caption_rows = [json.loads(line) for line in json_lines.split("\n") if line]
    missing_count = sum(caption_row[0] is None for caption_row in caption_rows)
    if missing_count == len(caption_rows):
        caption_rows = [[str(k), *caption_row[1:]] for k, caption_row in enumerate(caption_rows)]
    elif missing_count:
        raise InputError(f"{missing_count:,} of {len(caption_rows):,} captions came without ids; give all ids, or none")
    else:
        distinct_rows = {json.dumps(caption_row): caption_row for caption_row in caption_rows}.values()
        are_numbers = all(id.isascii() and id.isdigit() for id, *_ in caption_rows)
        caption_rows = sorted(distinct_rows, key=lambda row: (int(row[0]) if are_numbers else 0, row[0]))
    return CaptionSet.from_captions(
        Caption(id, id, candidate, tuple(references), image=image) for id, candidate, references, image in caption_rows
    )


def _concatenate(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return dim_zero_cat(list(tensors)) if len(tensors) else torch.zeros(0, dtype=torch.uint8)


def _to_bytes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _from_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.cpu().numpy().tobytes()


__all__ = ["CaptionMetric"]
