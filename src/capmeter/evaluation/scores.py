"""The outcome of a run: `Results`, the scores of all its metrics; results files of one system or many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.json_text import decode_json
from capmeter.core.messages import format_count
from capmeter.core.output_files import atomic_writer
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.items import Ids, Items, Scores
from capmeter.evaluation.reference_digests import Digests, digest_images, digest_references
from capmeter.evaluation.registry import parse
from capmeter.evaluation.results_file import check_systems, enclose_systems, read_system, system_to_dict
from capmeter.stats.bootstrap import percentile_interval, resample_blocks


class Results(Mapping[str, Scores]):
    """The scores of a run by metric name; `results["cider-d(n=4)"]` finds `cider-d`: names are compared as values.

    Args:
        scores: of each metric.
        ids: of the captions.
        notes: what was adjusted when the captions were read: reason → ids.
        captions: the scored captions, unless they were streamed.
        command: the command line that produced these results.
        reference_digests: of a streamed run, a digest of each caption's references (captions).
    """

    def __init__(
        self,
        scores: Sequence[Scores],
        ids: Ids,
        notes: dict[str, list[str]] | None = None,
        *,
        captions: CaptionSet | None = None,
        command: str | None = None,
        reference_digests: Digests | None = None,
    ) -> None:
        self._scores = {metric_scores.name: metric_scores for metric_scores in scores}
        self.ids, self.notes = ids, notes or {}
        self.captions, self.command, self.reference_digests = captions, command, reference_digests

    @cached_property
    def references(self) -> dict[str, int] | None:
        """A digest of each image's references, by image id; None if unknown."""
        digests = self.reference_digests
        if digests is None and self.captions is not None:
            digests = digest_references(self.captions)
        if digests is None:
            return None
        by_image = digest_images(digests, self.ids.images)
        return dict(zip(dict.fromkeys(self.ids.images), by_image.tolist(), strict=True))

    def __getitem__(self, name: str | Metric) -> Scores:
        if str(name) in self._scores:
            return self._scores[str(name)]
        try:
            return self._scores[str(parse(name))]
        except (InputError, KeyError):
            raise KeyError(f"{name} was not scored; scored were {', '.join(self._scores)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}: {each.score:.4f}" for name, each in self._scores.items())
        return f"Results({format_count(len(self.ids.names), 'caption')}; {scores})"

    def intervals(self, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> dict[str, tuple[float, float]]:
        """The confidence interval of each metric's corpus score: low and high by metric name.

        Images are resampled with replacement, with all their captions (a cluster bootstrap, percentile interval); all
        metrics see the same resamples.

        Args:
            level: the probability that the interval covers, such as .95.
            resamples: the number of resamples.
            seed: determines the resamples.

        Raises:
            InputError: the scores were read from a file without rows, or the level is not between 0 and 1.
        """
        clusters = self.ids.clusters
        resampled: dict[str, list[Floats]] = {name: [] for name in self._scores}
        for counts in resample_blocks(len(clusters), resamples, seed):
            weights = counts.astype(np.float64)
            for name, metric_scores in self._scores.items():
                resampled[name].append(metric_scores.score_resamples(weights, clusters))
        return {name: percentile_interval(np.concatenate(values), level) for name, values in resampled.items()}

    def to_columns(
        self, system: str | None = None, *, texts: bool = False, rows: slice = slice(None)
    ) -> dict[str, Any]:
        """One row per caption, as columns that any data frame accepts: `id`, `image_id`, and one score per metric.

        Args:
            system: a name for the column `system`; None: no such column.
            texts: whether to add the columns `candidate` and `references`.
            rows: which captions, such as `slice(0, 1000)`.

        Raises:
            InputError: there are no texts, because the captions were streamed.
        """
        columns: dict[str, Any] = {"id": list(self.ids.names[rows]), "image_id": list(self.ids.images[rows])}
        if system is not None:
            columns["system"] = [system] * len(columns["id"])
        if texts:
            if self.captions is None:
                raise InputError("the captions' texts are not known: they were streamed; load them whole (--no-stream)")
            captions = self.captions.select(range(len(self.captions))[rows])
            columns["candidate"] = [each.candidate for each in captions]
            columns["references"] = [list(each.references) for each in captions]
        return columns | {name: each.items.array[rows] for name, each in self._scores.items()}

    def to_arrow(self, *, texts: bool = False) -> Any:
        """One row per caption as a `pyarrow.Table`, which polars reads without a copy: `polars.from_arrow(table)`."""
        import pyarrow

        return pyarrow.table(self.to_columns(texts=texts))

    def to_pandas(self, *, texts: bool = False) -> Any:
        """One row per caption as a `pandas.DataFrame`, with the ids as index; a `MissingBackend` without pandas."""
        try:
            import pandas
        except ImportError:
            raise MissingBackend("to_pandas needs pandas: pip install pandas (to_arrow needs nothing more)") from None
        return pandas.DataFrame(self.to_columns(texts=texts)).set_index("id")

    def _repr_html_(self) -> str:
        """A table of the scores, for notebooks."""
        from html import escape

        table_rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{each.score:.4f}</td><td><code>{escape(each.signature)}</code></td></tr>"
            for name, each in self._scores.items()
        )
        table_head = "<tr><th>metric</th><th>score</th><th>signature</th></tr>"
        return (
            f"<table><caption>{format_count(len(self.ids.names), 'caption')}</caption>{table_head}{table_rows}</table>"
        )

    def to_dict(self, system: str = "captions") -> dict[str, Any]:
        """The results as JSON values in the layout of `--output` (docs/formats.md), under this name of the system."""
        return to_dict({system: self})

    def save(self, path: str | Path) -> None:
        """Writes a results file, whole or not at all; the system is named after the file."""
        save_all({Path(path).name.split(".")[0]: self}, path)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str = "results") -> Results:
        """Reads what `to_dict` returned; an `InputError`, which names `where`, if the values are not as expected."""
        return _single(from_dict(saved, where), where)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Reads a results file of one system; an `InputError` if it is not one."""
        return _single(read_all(path), str(path))


def to_dict(systems: Mapping[str, Results]) -> dict[str, Any]:
    """The results of several systems as JSON values."""
    saved = {}
    for system_name, results in systems.items():
        references = None if results.reference_digests is None else results.references
        details = results.captions, results.command, references
        saved[system_name] = system_to_dict(results, results.ids, results.notes, *details)
    return enclose_systems(saved)


def from_dict(saved: Any, where: str = "results") -> dict[str, Results]:
    """Reads what `to_dict` returned; an `InputError`, which names `where`, if the values are not as expected."""
    systems = check_systems(saved, where)
    places = {name: where if len(systems) == 1 else f"{where}, system {name}" for name in systems}
    return {name: Results(**read_system(system, places[name])) for name, system in systems.items()}


def save_all(systems: Mapping[str, Results], path: str | Path) -> None:
    """Writes the results of several systems to one file, whole or not at all.

    Args:
        systems: the results by name of the system.
        path: the JSON file; gzipped if its name ends in `.gz`.

    Raises:
        InputError: the file cannot be written.
    """
    with atomic_writer(path) as file:
        file.write(json.dumps(to_dict(systems), ensure_ascii=True).encode())


def read_all(path: str | Path) -> dict[str, Results]:
    """Reads a results file that `Results.save`, `save_all` or `capmeter score --output` wrote.

    Returns:
        The results of each system, by name.

    Raises:
        InputError: the file cannot be read, or is not a results file of this version.
    """
    return from_dict(decode_json(read_text(path), str(path)), str(path))


def _single(systems: Mapping[str, Results], where: str) -> Results:
    if len(systems) != 1:
        raise InputError(f"{where}: contains {len(systems)} systems, {', '.join(systems)}; read them with read_all")
    return next(iter(systems.values()))


__all__ = ["Ids", "Items", "Results", "Scores", "from_dict", "read_all", "save_all", "to_dict"]
