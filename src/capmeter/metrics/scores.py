"""The results of a run: the scores of one metric (`Scores`) and of all metrics (`Results`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions import reference_digests
from capmeter.captions.files import atomic_writer, read_text
from capmeter.captions.model import CaptionSet
from capmeter.captions.saved import captions_from_dict, captions_to_dict
from capmeter.errors import CapmeterError, InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.checks import checked_scores
from capmeter.metrics.registry import parse
from capmeter.stats.bootstrap import Clusters, percentile, resample_blocks


class Items(Mapping[str, float]):
    """One number per caption, keyed by id in input order; `array` has all of them."""

    def __init__(self, ids: Ids, array: Floats) -> None:
        self.ids, self.array = ids, array

    def __getitem__(self, id: str) -> float:
        return float(self.array[self.ids.position[id]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.names)

    def __len__(self) -> int:
        return len(self.ids.names)

    def __repr__(self) -> str:
        shown = ", ".join(f"{id!r}: {value:.4f}" for id, value in zip(self.ids.names[:3], self.array, strict=False))
        return f"Items({len(self)}: {{{shown}{', …' if len(self) > 3 else ''}}})"


@dataclass(frozen=True, eq=False)
class Ids:
    """The scored captions: their ids, and the image of each."""

    names: Sequence[str]
    images: Sequence[str]

    @cached_property
    def position(self) -> dict[str, int]:
        """Each id's position."""
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def clusters(self) -> Clusters:
        """The captions grouped by image: they are resampled together."""
        return Clusters(self.images)


@dataclass(frozen=True, eq=False)
class Scores:
    """One metric's scores.

    `score`: of the whole set; `items`: of each caption; `parts` and `part_items`: the score's components (precision,
    lower orders …), of the set and of each caption; `notes`: reason → ids of captions that were empty, truncated …;
    `signature`: everything that affects the score; `values`: the rows that `metric.finish` turns into scores.
    """

    name: str
    score: float
    items: Items
    parts: dict[str, float]
    part_items: dict[str, Items]
    notes: dict[str, list[str]]
    signature: str
    metric: Metric | None = field(default=None, repr=False)
    values: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, metric: Metric, ids: Ids, values: Floats, notes: dict[str, list[str]], signature: str) -> Scores:
        """The scores computed from these rows."""
        each = metric.finish(values, np.ones(len(values)))
        whole = metric.finish(values.sum(axis=0), np.float64(len(values)))
        checked_scores(metric, each, whole, ids.names)
        parts = [name for name in each if name != "score"]
        return cls(
            name=str(metric),
            score=float(whole["score"]),
            items=Items(ids, each["score"]),
            parts={name: float(whole[name]) for name in parts},
            part_items={name: Items(ids, each[name]) for name in parts},
            notes=notes,
            signature=signature,
            metric=metric,
            values=values,
        )

    def resampled(self, weights: npt.NDArray[Any], clusters: Clusters) -> Floats:
        """The corpus score of each resample d, where cluster c's captions count `weights[d, c]` times: [resamples]."""
        sums, counts = self.by_cluster(clusters)
        return self.finish(weights @ sums, weights @ counts)

    def by_cluster(self, clusters: Clusters) -> tuple[Floats, Floats]:
        """The captions' rows summed within each cluster, [clusters, k], and the number of captions, [clusters]."""
        if self.metric is None or self.values is None:
            raise InputError(f"{self.name}: read from a file without rows to resample; score the captions again")
        return clusters.sums(self.values), clusters.sums(np.ones(len(self.values)))

    def finish(self, sums: Floats, counts: Floats) -> Floats:
        """The corpus score from summed rows [..., k] and numbers of captions [...]."""
        if self.metric is None:
            raise InputError(f"{self.name}: read from a file without the rows of captions; score the captions again")
        return self.metric.finish(sums, counts)["score"]


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
            digests = reference_digests.of_images(reference_digests.of_captions(self.captions), self.ids.images)
        return None if digests is None else dict(zip(dict.fromkeys(self.ids.images), digests.tolist(), strict=True))

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

    def to_columns(self, system: str | None = None) -> dict[str, Any]:
        """One row per caption, as columns for any data frame: `pandas.DataFrame(results.to_columns())`."""
        names = {} if system is None else {"system": [system] * len(self.ids.names)}
        scores = {name: each.items.array for name, each in self._scores.items()}
        return {"id": list(self.ids.names), "image_id": list(self.ids.images), **names, **scores}

    def to_dict(self) -> dict[str, Any]:
        """The results as `--output` writes them."""
        return {
            "capmeter": __version__,
            "metrics": {
                name: {
                    "score": each.score,
                    "signature": each.signature,
                    "parts": each.parts,
                    "items": dict(zip(each.items.ids.names, each.items.array.tolist(), strict=True)),
                    "part_items": {
                        part: dict(zip(items.ids.names, items.array.tolist(), strict=True))
                        for part, items in each.part_items.items()
                    },
                    "notes": each.notes,
                    **_saved_rows(each),
                }
                for name, each in self._scores.items()
            },
            "images": dict(zip(self.ids.names, self.ids.images, strict=True)),
            "notes": self.notes,
            **({} if self.captions is None else {"captions": captions_to_dict(self.captions)}),
            **({} if self._references is None else {"references": _hexadecimal(self.references or {})}),
            **({} if self.command is None else {"command": self.command}),
        }

    def save(self, path: str | Path) -> None:
        """Writes the results as JSON, whole or not at all."""
        with atomic_writer(path) as file:
            file.write(json.dumps(self.to_dict(), ensure_ascii=True).encode())

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str = "results") -> Results:
        """The results from what `to_dict` returned; a wrong shape is an `InputError`."""
        try:
            images = {id: str(image) for id, image in saved.get("images", {}).items()}
            scores = []
            ids: Ids | None = None
            for name, each in saved["metrics"].items():
                if ids is None or list(each["items"]) != ids.names:
                    names = list(each["items"])
                    ids = Ids(names, [images.get(one, one) for one in names])
                part_items = {
                    part: Items(ids, _read_numbers(items, ids.names))
                    for part, items in each.get("part_items", {}).items()
                }
                items = Items(ids, _read_numbers(each["items"], ids.names))
                named = list(each["parts"].keys())
                parts = dict(zip(named, _read_numbers(each["parts"], named).tolist(), strict=True))
                metric, values = _read_rows(name, each, [items, *part_items.values()])
                scores.append(
                    Scores(
                        name,
                        float(_read_numbers(each, ["score"])[0]),
                        items,
                        parts,
                        part_items,
                        each["notes"],
                        each["signature"],
                        metric,
                        values,
                    )
                )
            captions = None
            if ids is not None and saved.get("captions") is not None:
                captions = captions_from_dict(saved["captions"], ids.names, ids.images)
            references = None
            if ids is not None and saved.get("references") is not None:
                digests = [int(saved["references"][image], 16) for image in dict.fromkeys(ids.images)]
                references = np.array(digests, np.uint64)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as problem:
            raise InputError(
                f"{where}: not a results file of capmeter ({type(problem).__name__}: {problem}); expected what "
                "`capmeter score --output` writes"
            ) from problem
        if ids is None:
            raise InputError(f"{where}: the results file has no metrics; score the captions again")
        command = saved.get("command")
        return cls(scores, ids, saved.get("notes"), captions=captions, command=command, references=references)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Reads what `save` wrote."""
        systems = read_all(path)
        if len(systems) != 1:
            raise InputError(f"{path}: contains {len(systems)} systems, {', '.join(systems)}; read them with read_all")
        return next(iter(systems.values()))


def save_all(systems: Mapping[str, Results], path: str | Path) -> None:
    """Writes one or several systems' results by name; one system in the same layout as `Results.save`."""
    saved: dict[str, Any]
    if len(systems) == 1:
        ((name, results),) = systems.items()
        saved = {**results.to_dict(), "system": name}
    else:
        each = {name: results.to_dict() for name, results in systems.items()}
        saved = {"capmeter": __version__, "systems": each}
    with atomic_writer(path) as file:
        file.write(json.dumps(saved, ensure_ascii=True).encode())


def read_all(path: str | Path) -> dict[str, Results]:
    """The results of every system in a file that `save` or `save_all` wrote, by name (else by the file's name)."""
    try:
        saved = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path}: not JSON ({problem}); expected what `capmeter score --output` writes") from problem
    if not isinstance(saved, dict) or not ("metrics" in saved or isinstance(saved.get("systems"), dict)):
        raise InputError(f"{path}: not a results file of capmeter; expected what `capmeter score --output` writes")
    if "metrics" in saved:
        return {str(saved.get("system", Path(path).name.split(".")[0])): Results.from_dict(saved, str(path))}
    return {name: Results.from_dict(each, f"{path}, system {name}") for name, each in saved["systems"].items()}


def _hexadecimal(digests: Mapping[str, int]) -> dict[str, str]:
    return {image: f"{digest:016x}" for image, digest in digests.items()}  # JSON numbers are exact only to 53 bits


def _saved_rows(scores: Scores) -> dict[str, Any]:
    """The rows that the corpus score is computed from, unless they equal the caption scores and parts."""
    if scores.metric is None or scores.values is None or scores.metric.is_mean:
        return {}
    return {"rows": dict(zip(scores.items.ids.names, scores.values.tolist(), strict=True))}


def _read_rows(name: str, saved: Mapping[str, Any], items: Sequence[Items]) -> tuple[Metric | None, Floats | None]:
    """The metric and its rows, for confidence intervals; None if the metric is not installed."""
    try:
        metric = parse(name)
    except CapmeterError:
        return None, None
    if metric.is_mean:
        whole = len(items) == 1 + len(saved["parts"])
        return (metric, np.column_stack([each.array for each in items])) if whole else (None, None)
    if "rows" not in saved:
        return None, None
    return metric, _read_numbers(saved["rows"], items[0].ids.names)


def _read_numbers(saved: Mapping[str, Any], ids: Sequence[str]) -> Floats:
    """The numbers saved under these ids, in order; a `ValueError` if one is missing or not finite."""
    numbers: Floats = np.array([saved[id] for id in ids], np.float64)
    for id, number in zip(ids, numbers, strict=True):
        if not np.isfinite(number).all():
            raise ValueError(f"{id} has no finite number")
    return numbers


__all__ = ["Ids", "Items", "Results", "Scores", "read_all", "save_all"]
