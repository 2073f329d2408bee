"""Scores as columns of a data frame: pandas, polars, Arrow, Hugging Face `datasets`.

    from capmeter.integrations.frames import with_scores
    frame = with_scores(frame, "cider-d,rouge-l")                    # a column for each metric

>>> import pyarrow
>>> frame = pyarrow.table({"caption": ["a dog runs", "two cats"], "references": [["a dog runs"], ["two cats sleep"]]})
>>> with_scores(frame, "rouge-l")["rouge-l"].to_pylist()[0]
1.0
>>> read(frame)["1"].references
('two cats sleep',)

The result has the type and the row order of the frame. Columns are recognised as in a file of rows (docs/formats.md:
`candidate` or `caption`, `references`, `reference_1` …; `columns` names others); without a column `image_id` each row
is an image of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.fields import FieldMap
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import is_needed, parse_list
from capmeter.evaluation.runner import evaluate

Frame = TypeVar("Frame")
_ADVICE = {
    "DatasetDict": 'choose one of its splits: dataset["test"]',
    "IterableDataset": "make a Dataset of its rows",
    "LazyFrame": "call its collect()",
    "Series": "make a data frame of it with to_frame()",
}


def read(frame: Any, references: Any = None, **options: Any) -> CaptionSet:
    """Reads captions from the rows of a frame, as `capmeter.load` reads those of a file, with the same options.

    Args:
        frame: of pandas, polars, Arrow or `datasets`.
        references: a frame, or as in `capmeter.load`, if they are not in the frame.
        options: fields of `LoadOptions`.

    Raises:
        InputError: the object is not a frame, or its columns are not recognised.
    """
    frame_rows, reference_rows = _rows(frame), _rows(references)
    if frame_rows is None:
        kind = type(frame).__name__
        advice = f"; {_ADVICE[kind]}" if kind in _ADVICE else ""
        raise InputError(f"expected a data frame of pandas or polars, an Arrow table or a dataset, got {kind}{advice}")
    fields = FieldMap(options.get("columns") or {}, numbered=False)
    fields.learn(frame_rows[:100])
    if fields.image_name is None:
        frame_rows = [{**frame_row, "image_id": str(row_index)} for row_index, frame_row in enumerate(frame_rows)]
    return load(frame_rows, references if reference_rows is None else reference_rows, format="json", **options)


def with_scores(
    frame: Frame,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Any = None,
    columns: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Frame:
    """The frame with one more column for each metric: every row's score.

    Args:
        frame: a pandas or polars DataFrame, a `pyarrow.Table`, or a `datasets.Dataset`.
        metrics: names or metrics, in a list or one comma-separated text.
        references: a frame, a file, a dict or a list of references, where they are not in the rows.
        columns: other columns' names → fields: `{"hyp": "candidate", "gt": "references"}`.
        settings: device, precision, threads, cache of neural metrics.

    The scores of the set as a whole are those of `capmeter.score(read(frame), metrics)`.
    """
    parsed_metrics = parse_list(metrics)
    on_missing = "error" if is_needed("references", parsed_metrics) else "keep"
    captions = read(frame, references, columns=columns, on_missing=on_missing)
    results = evaluate(captions, parsed_metrics, settings=settings)
    scored: Frame = _add_columns(frame, {metric_name: scores.items.array for metric_name, scores in results.items()})
    return scored


def _rows(frame: Any) -> list[dict[str, Any]] | None:
    """The rows of a frame without missing cells; None for another object.

    No value of pandas goes through Arrow, which takes one type a column and crashes at a list that holds itself.
    """
    if hasattr(frame, "notna") and hasattr(frame, "columns"):  # pandas
        names, rows = frame.columns, frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
        rows = [dict(zip(map(str, names), map(_without_arrays, row), strict=True)) for row in rows]
    elif hasattr(frame, "to_dicts"):  # polars
        names, rows = frame.columns, frame.to_dicts()
    elif hasattr(frame, "num_rows") and (
        to_list := getattr(frame, "to_pylist", None) or getattr(frame, "to_list", None)
    ):
        names, rows = frame.column_names, to_list()  # Arrow, `datasets`
    else:
        return None
    if repeated_names := [name for name, count in Counter(map(str, names)).items() if count > 1]:
        raise InputError(f"several columns of the data frame are called {list_names(repeated_names)}; rename them")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _without_arrays(value: Any, depth: int = 9) -> Any:
    """The value with lists for numpy's arrays, which pandas reads from Parquet, as deep as rows of a chat go."""
    if depth and isinstance(value, np.ndarray):
        return [_without_arrays(each, depth - 1) for each in value.tolist()]
    if depth and isinstance(value, dict):
        return {name: _without_arrays(each, depth - 1) for name, each in value.items()}
    return value


def _add_columns(frame: Any, scores: Mapping[str, Any]) -> Any:
    """The frame with these columns, which replace those of the same names."""
    package_name = type(frame).__module__.partition(".")[0]
    if package_name == "pandas":
        return frame.assign(**scores)
    if package_name == "polars":
        import polars

        return frame.with_columns(*(polars.Series(metric_name, values) for metric_name, values in scores.items()))
    if package_name == "datasets":
        extended = frame.remove_columns([metric_name for metric_name in scores if metric_name in frame.column_names])
        for metric_name, values in scores.items():
            extended = extended.add_column(metric_name, values)
        return extended
    for metric_name, values in scores.items():
        frame = frame.drop_columns(metric_name) if metric_name in frame.column_names else frame
        frame = frame.append_column(metric_name, [values])
    return frame


__all__ = ["read", "with_scores"]
