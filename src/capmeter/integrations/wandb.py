"""Results in Weights & Biases: each score as a number of the run, all captions with their scores as a table.

    from capmeter.integrations.wandb import log
    log(capmeter.score(captions, "cider-d,rouge-l"), run)

Nothing is sent that `wandb` would not send: with `WANDB_MODE=offline` it stays in the run's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wandb

from capmeter.core.errors import InputError
from capmeter.evaluation.scores import Results


def table(systems: Results | Mapping[str, Results]) -> wandb.Table:
    """One row for each caption: id, image, (system,) caption, references line by line, and each metric's score.

    Streamed results have no texts; a metric that a system lacks is empty.
    """
    named = {"": systems} if isinstance(systems, Results) else dict(systems)
    texts = all(results.captions is not None for results in named.values())
    metrics = dict.fromkeys(name for results in named.values() for name in results)
    system = [] if "" in named else ["system"]
    heads = ["id", "image_id", *system, *(["candidate", "references"] if texts else []), *metrics]
    rows: list[list[Any]] = []
    for name, results in named.items():
        columns = results.to_columns(name or None, texts=texts)
        if texts:
            columns["references"] = ["\n".join(each) for each in columns["references"]]
        columns |= {metric: each.items.array.tolist() for metric, each in results.items()}
        blank = [None] * len(results.ids.names)
        rows.extend(map(list, zip(*(columns.get(head, blank) for head in heads), strict=True)))
    return wandb.Table(columns=heads, data=rows)


def log(results: Results, run: Any = None, *, prefix: str = "captions/", step: int | None = None) -> None:
    """Logs each score as `captions/METRIC`, the table as `captions/table`, and keeps the signatures in the run's
    config, under `captions/signatures`.

    `run` is what `wandb.init` returned; None: the run that is active.
    """
    active = wandb.run if run is None else run
    if active is None:
        raise InputError("there is no active run of wandb; call wandb.init() first, or pass the run")
    scores: dict[str, Any] = {f"{prefix}{name}": each.score for name, each in results.items()}
    active.log({**scores, f"{prefix}table": table(results)}, step=step)
    signatures = {name: each.signature for name, each in results.items()}
    active.config.update({f"{prefix}signatures": signatures}, allow_val_change=True)


__all__ = ["log", "table"]
