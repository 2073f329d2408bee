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
from capmeter.evaluation.results import Results


def table(systems: Results | Mapping[str, Results]) -> wandb.Table:
    """One row for each caption: id, image, (system,) caption, references line by line, and each metric's score.

    Streamed results have no texts; a metric that a system lacks is empty.
    """
    named_results = {"": systems} if isinstance(systems, Results) else dict(systems)
    has_texts = all(results.captions is not None for results in named_results.values())
    metric_names = dict.fromkeys(metric_name for results in named_results.values() for metric_name in results)
    system_column = [] if "" in named_results else ["system"]
    heads = ["id", "image_id", *system_column, *(["candidate", "references"] if has_texts else []), *metric_names]
    table_rows: list[list[Any]] = []
    for system_name, results in named_results.items():
        columns = results.to_columns(system_name or None, texts=has_texts)
        if has_texts:
            columns["references"] = ["\n".join(reference_texts) for reference_texts in columns["references"]]
        columns |= {metric_name: metric_scores.items.array.tolist() for metric_name, metric_scores in results.items()}
        blank_column = [None] * len(results.ids.names)
        table_rows.extend(map(list, zip(*(columns.get(head, blank_column) for head in heads), strict=True)))
    return wandb.Table(columns=heads, data=table_rows)


def log(results: Results, run: Any = None, *, prefix: str = "captions/", step: int | None = None) -> None:
    """Logs scores, captions and signatures into a run.

    Args:
        Scores are `captions/METRIC`, the table is `captions/table`, and the run's config has `captions/signatures`.
        results: of `capmeter.score`.
        run: what `wandb.init` returned; None: the active run.
        prefix: of the names.
        step: of the run.

    Raises:
        InputError: there is no active run.
    """
    active_run = wandb.run if run is None else run
    if active_run is None:
        raise InputError("there is no active run of wandb; call wandb.init() first, or pass the run")
    scores: dict[str, Any] = {f"{prefix}{metric_name}": each.score for metric_name, each in results.items()}
    active_run.log({**scores, f"{prefix}table": table(results)}, step=step)
    signatures = {metric_name: each.signature for metric_name, each in results.items()}
    active_run.config.update({f"{prefix}signatures": signatures}, allow_val_change=True)


__all__ = ["log", "table"]
