"""Results in MLflow: each score as a metric of the run, all captions with their scores as a table.

    from capmeter.integrations.mlflow import log
    log(capmeter.score(captions, "cider-d,rouge-l"))

The table is an artifact, `captions.json`, which `mlflow.load_table` reads back as a data frame. MLflow rounds numbers
in tables to ten decimals; the run's metrics are exact.
"""

from __future__ import annotations

import re

import mlflow

from capmeter.evaluation.results import Results

_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")


def log(results: Results, *, artifact_file: str = "captions.json", step: int | None = None) -> None:
    """Logs the scores, signatures and captions into the active run (MLflow starts one if there is none).

    MLflow's names hold no parentheses, commas or equals signs: `cider-d(sigma=5.0)` is called `cider-d_sigma_5.0_`.
    Signatures are tags, `signature.METRIC`. The table has id, image_id, the texts where they are known, and a column
    for each metric.

    Args:
        results: of `capmeter.score`.
        artifact_file: the table's name in the run, .json or .parquet.
        step: of the run, for the scores.
    """
    logged_names = {metric_name: _NOT_IN_NAMES.sub("_", metric_name) for metric_name in results}
    mlflow.log_metrics({logged_names[metric_name]: each.score for metric_name, each in results.items()}, step=step)
    mlflow.set_tags({f"signature.{logged_names[metric_name]}": each.signature for metric_name, each in results.items()})
    columns = results.to_columns(texts=results.captions is not None)
    table = {name: values.tolist() if hasattr(values, "tolist") else values for name, values in columns.items()}
    mlflow.log_table(table, artifact_file=artifact_file)


__all__ = ["log"]
