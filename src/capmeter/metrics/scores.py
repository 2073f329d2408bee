"""What comes out of a run: `Results`, the scores of all its metrics, saved in one layout for one system or many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions import reference_digests
from capmeter.captions.files import atomic_writer, read_text
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError, MissingBackend
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.items import Ids, Items, Scores
from capmeter.metrics.registry import parse
from capmeter.metrics.results_file import EXPECTED, enclosed, read_system, saved_system, systems_of
from capmeter.stats.bootstrap import percentile, resample_blocks


class Results(Mapping[str, Scores]):
    """The scores of a run, by metric name. `results["cider-d(n=4)"]` finds `cider-d`: names are compared as values."""

    def __init__(
        self,
        scores: Sequence[Scores],
        ids: Ids,
        notes: dict[str, list[str]] | None = None,
        *,
        captions: CaptionSet | None = None,
        command: str | None = None,
        references: reference_digests.Digests | None = None,
    ) -> None:
        self._scores = {each.name: each for each in scores}
        self.ids = ids
        self.notes = notes or {}
        self.captions = captions  # the scored captions, unless they were streamed
        self.command = command  # the command line that produced these results
        self._references = references

    @cached_property
    def references(self) -> dict[str, int] | None:
        """A digest of each image's references, which a streamed run keeps too; None if unknown."""
        digests = self._references
        if digests is None and self.captions is not None:
            digests = reference_digests.of_captions(self.captions)
        if digests is None:
            return None
        of_images = reference_digests.of_images(digests, self.ids.images)
        return dict(zip(dict.fromkeys(self.ids.images), of_images.tolist(), strict=True))

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
        return f"Results({len(self.ids.names)} captions; {scores})"

    def intervals(self, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> dict[str, tuple[float, float]]:
        """For each metric the confidence interval of its corpus score.

        Images are resampled with replacement, with all their captions (a cluster bootstrap, percentile interval); all
        metrics see the same resamples.
        """
        clusters = self.ids.clusters
        drawn: dict[str, list[Floats]] = {name: [] for name in self._scores}
        for counts in resample_blocks(len(clusters), resamples, seed):
            weights = counts.astype(np.float64)
            for name, scores in self._scores.items():
                drawn[name].append(scores.resampled(weights, clusters))
        return {name: percentile(np.concatenate(values), level) for name, values in drawn.items()}

    def to_columns(
        self, system: str | None = None, *, texts: bool = False, rows: slice = slice(None)
    ) -> dict[str, Any]:
        """One row per caption, as columns that any data frame takes; with `texts` also the caption and its references.

        `rows` asks for some of them: `rows=slice(0, 1000)`.

        Raises:
            InputError: the texts are asked for and not known, because the captions were streamed.
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
        """One row per caption as a `pyarrow.Table`, which polars takes without a copy: `polars.from_arrow(table)`."""
        import pyarrow

        return pyarrow.table(self.to_columns(texts=texts))

    def to_pandas(self, *, texts: bool = False) -> Any:
        """One row per caption as a `pandas.DataFrame` with the ids as index."""
        try:
            import pandas
        except ImportError:
            raise MissingBackend("to_pandas needs pandas: pip install pandas (to_arrow needs nothing more)") from None
        return pandas.DataFrame(self.to_columns(texts=texts)).set_index("id")

    def _repr_html_(self) -> str:
        """A table of the scores, for notebooks."""
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{each.score:.4f}</td><td><code>{escape(each.signature)}</code></td></tr>"
            for name, each in self._scores.items()
        )
        heads = "<tr><th>metric</th><th>score</th><th>signature</th></tr>"
        return f"<table><caption>{len(self.ids.names):,} captions</caption>{heads}{rows}</table>"

    def to_dict(self, system: str = "captions") -> dict[str, Any]:
        """The results in the layout of `--output` (docs/formats.md), with this name for the system."""
        return to_dict({system: self})

    def save(self, path: str | Path) -> None:
        """Writes the results as JSON, whole or not at all; the system is called by the file's name."""
        save_all({Path(path).name.split(".")[0]: self}, path)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str = "results") -> Results:
        """The results of the one system that `to_dict` gave; a wrong shape is an `InputError`."""
        return _only(from_dict(saved, where), where)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Reads what `save` wrote."""
        return _only(read_all(path), str(path))


def to_dict(systems: Mapping[str, Results]) -> dict[str, Any]:
    """All that is known of these systems' results, in the one layout."""
    return enclosed(
        {
            name: saved_system(
                results,
                results.ids,
                results.notes,
                results.captions,
                results.command,
                None if results._references is None else results.references,
            )
            for name, results in systems.items()
        }
    )


def from_dict(saved: Any, where: str = "results") -> dict[str, Results]:
    """The results of every system, as `to_dict` gave them; a wrong shape is an `InputError`."""
    systems = systems_of(saved, where)
    found = {}
    for name, each in systems.items():
        read = read_system(each, where if len(systems) == 1 else f"{where}, system {name}")
        found[name] = Results(
            read.scores, read.ids, read.notes, captions=read.captions, command=read.command, references=read.references
        )
    return found


def save_all(systems: Mapping[str, Results], path: str | Path) -> None:
    """Writes the systems' results, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(json.dumps(to_dict(systems), ensure_ascii=True).encode())


def read_all(path: str | Path) -> dict[str, Results]:
    """The results of every system in a file that `Results.save` or `save_all` wrote, by name."""
    try:
        saved = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path}: not JSON ({problem}); {EXPECTED}") from problem
    return from_dict(saved, str(path))


def _only(systems: Mapping[str, Results], where: str) -> Results:
    if len(systems) != 1:
        raise InputError(f"{where}: contains {len(systems)} systems, {', '.join(systems)}; read them with read_all")
    return next(iter(systems.values()))


__all__ = ["Ids", "Items", "Results", "Scores", "from_dict", "read_all", "save_all", "to_dict"]
