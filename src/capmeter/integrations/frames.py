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

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.fields import FieldMap
from capmeter.captions.load import load
from capmeter.captions.load_options import Source
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import is_needed, parse_list
from capmeter.evaluation.runner import evaluate

Frame = TypeVar("Frame")


def read(frame: Any, references: Source | None = None, **options: Any) -> CaptionSet:
    """Reads captions from the rows of a frame, as `capmeter.load` reads those of a file, with the same options.

    Args:
        frame: of pandas, polars, Arrow or `datasets`.
        references: as in `capmeter.load`, if they are not in the frame.
        options: fields of `LoadOptions`.

    Raises:
        InputError: the object is not a frame, or its columns are not recognised.
    """
    frame_rows = _rows(frame)
    fields = FieldMap(options.get("columns") or {}, numbered=False)
    fields.learn(frame_rows[:100])
    if fields.image_name is None:
        frame_rows = [{**frame_row, "image_id": str(row_index)} for row_index, frame_row in enumerate(frame_rows)]
    return load(frame_rows, references, format="json", **options)


def with_scores(
    frame: Frame,
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Source | None = None,
    columns: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Frame:
    """The frame with one more column for each metric: every row's score.

    Args:
        frame: a pandas or polars DataFrame, a `pyarrow.Table`, or a `datasets.Dataset`.
        metrics: names or metrics, in a list or one comma-separated text.
        references: a file, a dict or a list of references, where they are not in the rows.
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


def _rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame, through Arrow; missing cells are left out."""
    import pyarrow

    try:
        # a `datasets.Dataset` has a table as its `data`, in another order if it has indices
        if getattr(frame, "data", None) is not None and hasattr(frame, "with_format"):
            arrow_table = frame.with_format("arrow")[:]
        elif type(frame).__module__.partition(".")[0] == "pandas":
            arrow_table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        else:
            arrow_table = pyarrow.table(frame)
    except (TypeError, ValueError, pyarrow.ArrowException) as problem:
        raise InputError(
            f"expected a data frame of pandas or polars, an Arrow table or a dataset, got {type(frame).__name__} "
            f"({problem})"
        ) from None
    return [{name: value for name, value in row.items() if value is not None} for row in arrow_table.to_pylist()]


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
