"""One of two processes that compute a metric together; prints its numbers as JSON.

python -m support.two_processes MEETING RANK
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from capmeter.core.errors import CapmeterError
from capmeter.evaluation.runner import Evaluation
from capmeter.integrations.scst import reward
from capmeter.integrations.torchmetrics import CaptionMetric
from support.thousand_captions import METRICS, REWARDS, thousand

MEASURED = [0]


def counted(self: Any, part: Any, complete: Any = Evaluation.measure) -> Any:
    MEASURED[0] += len(part)
    return complete(self, part)


def divide_rows(rank: int) -> dict[str, list[int]]:
    """How the rows may be divided among two processes."""
    rows = list(range(1000))
    return {
        "alternating": rows[rank::2],
        "halves": rows[:500] if rank == 0 else rows[500:],
        "padded": [*rows[rank::2], *([0, 2, 4] if rank else [998])],  # as samplers do to make all shares equal
        "one has none": rows if rank else [],
    }


def main(meeting: str, rank: int) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    candidates, references, ids = thousand()
    Evaluation.measure = counted  # type: ignore[method-assign]
    metric = CaptionMetric(METRICS)
    outputs: dict[str, Any] = {}
    for division, share in divide_rows(rank).items():
        metric.reset()
        MEASURED[0] = 0
        batch = 48 if rank else 100
        for start in range(0, len(share), batch):
            part = share[start : start + batch]
            metric.update([candidates[k] for k in part], [references[k] for k in part], [ids[k] for k in part])
        if not share:
            metric.update([], [], [])
        result = {name: float(score).hex() for name, score in metric.compute().items()}
        assert metric.results is not None
        outputs[division] = {"scores": result, "measured": MEASURED[0], "items": len(metric.results["cider-d"].items)}
        metric.update(candidates[:1], references[:1], ids[:1])  # known already: nothing changes
        outputs[division]["again"] = float(metric.compute()["cider-d"]).hex()
    metric.reset()
    metric.update([f"caption {rank}"], [["a dog"]], [7])
    try:
        metric.compute()
    except CapmeterError as error:
        outputs["contradiction"] = str(error)
    outputs["rewards"] = {}
    for name in REWARDS:
        scorer = reward(name, references=dict(zip(ids, references, strict=True)))
        shares: list[Any] = [None, None]
        rows = divide_rows(rank)["padded"]
        values = scorer([candidates[k] for k in rows], [ids[k] for k in rows]).tolist()
        torch.distributed.all_gather_object(shares, {k: value.hex() for k, value in zip(rows, values, strict=True)})
        outputs["rewards"][name] = [{**shares[0], **shares[1]}[k] for k in range(1000)]
    print(json.dumps(outputs))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
