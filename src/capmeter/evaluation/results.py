"""The outcome of a run: `Results`, the scores of all its metrics, and the file that keeps them.

One JSON layout for one system or many, which `capmeter schema` describes:

    {"capmeter": version, "schema": 1, "systems": {SYSTEM: {"metrics": {NAME: {"score", "signature", "parts", "items",
    "notes", …}}}}}

A metric whose corpus score is not a mean of captions also has its "rows", so that intervals can be computed from the
file. A system has the "images" of its captions, its "notes", its "captions" with every sentence once, and
the "command".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.captions.layouts import is_results
from capmeter.captions.rows import MAX_NUMBER
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import CapmeterError, InputError, MetricError, MissingBackend
from capmeter.core.json_text import decode_json, read_bundled_json
from capmeter.core.messages import describe, describe_failure, format_count
from capmeter.core.output_files import atomic_writer
from capmeter.core.ragged import Ragged
from capmeter.core.settings import home_path
from capmeter.evaluation.base import ABSENT, Answers, Floats, Metric
from capmeter.evaluation.registry import check_scores, parse
from capmeter.stats.bootstrap import Clusters, percentile_interval, resample_blocks

SCHEMA = 1
EXPECTED = "expected what `capmeter score --output` writes"


class Items(Mapping[str, float]):
    """One number per caption, keyed by id in input order.

    Ids are text; an integer finds the id that it is written as: `items[391895]`.

    Args:
        ids: the ids of the captions.
        array: the numbers (captions).
    """

    def __init__(self, ids: Ids, array: Floats) -> None:
        self.ids, self.array = ids, array

    def __getitem__(self, id: str | int) -> float:
        caption_id = str(int(id)) if isinstance(id, int | np.integer) and not isinstance(id, bool) else id
        if caption_id not in self.ids.positions:
            raise KeyError(f"no caption has the id {id!r}; ids are such as {', '.join(map(repr, self.ids.names[:3]))}")
        return float(self.array[self.ids.positions[str(caption_id)]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.names)

    def __len__(self) -> int:
        return len(self.ids.names)

    def __repr__(self) -> str:
        examples = ", ".join(f"{id!r}: {value:.4f}" for id, value in zip(self.ids.names[:3], self.array, strict=False))
        return f"Items({len(self)}: {{{examples}{', …' if len(self) > 3 else ''}}})"


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of the scored captions."""

    names: Sequence[str]  # (captions)
    images: Sequence[str]  # (captions): the id of each caption's image

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each id."""
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def clusters(self) -> Clusters:
        """The captions grouped by image: those of one image are resampled together."""
        return Clusters(self.images)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one metric."""

    name: str
    score: float  # of the whole set
    items: Items  # the score of each caption
    parts: dict[str, float]  # components of the score (precision, lower orders …), of the whole set
    part_items: dict[str, Items]  # the same of each caption
    notes: dict[str, list[str]]  # reason → ids of captions that were empty, truncated …
    signature: str  # everything that affects the score
    metric: Metric | None = None  # None if this installation lacks it
    answers: Answers = field(default_factory=dict)  # of a judge
    values: Floats | None = None  # (captions, columns), whose sums `metric.from_sums` turns into scores

    def __repr__(self) -> str:
        return f"Scores({self.name}: {self.score:.4f}; {format_count(len(self.items), 'caption')})"

    @classmethod
    def from_rows(cls, metric: Metric, ids: Ids, values: Floats, notes: dict[str, list[str]], signature: str) -> Scores:
        """Computes the scores from the rows of all captions (captions, columns); those noted as absent have zeros.

        Args:
            metric: the metric.
            ids: of the captions.
            values: the rows (captions, columns).
            notes: reason → ids.
            signature: of the metric.
        """
        corpus_scores = metric.from_sums(values.sum(axis=0), np.float64(len(values) + len(notes.get(ABSENT, ()))))
        caption_scores = metric.from_sums(values, np.ones(len(values)))
        check_scores(metric, caption_scores, corpus_scores, ids.names)
        part_names = [part_name for part_name in corpus_scores if part_name != "score"]
        return cls(
            name=str(metric),
            score=float(corpus_scores["score"]),
            items=Items(ids, caption_scores["score"]),
            parts={part_name: float(corpus_scores[part_name]) for part_name in part_names},
            part_items={part_name: Items(ids, caption_scores[part_name]) for part_name in part_names},
            notes=notes,
            signature=signature,
            metric=metric,
            values=values,
        )

    @property
    def lower_is_better(self) -> bool:
        """Whether better captions have lower scores; scores of a metric that is not installed: no."""
        return self.metric is not None and self.metric.lower_is_better

    def select(self, rows: Sequence[int], ids: Ids) -> Scores:
        """The scores of the captions in these rows, which have these ids.

        Raises:
            InputError: the scores were read from a file without rows.
        """
        metric, values = self._metric_and_rows()
        selected_positions = ids.positions
        notes = {reason: [id for id in noted if id in selected_positions] for reason, noted in self.notes.items()}
        scores = Scores.from_rows(
            metric, ids, values[list(rows)], {k: v for k, v in notes.items() if v}, self.signature
        )
        return replace(
            scores, answers={id: answers for id, answers in self.answers.items() if id in selected_positions}
        )

    def sum_by_cluster(self, clusters: Clusters) -> tuple[Floats, Floats]:
        """The rows summed within each cluster (clusters, columns), and its captions with a share of the absent ones."""
        _, values = self._metric_and_rows()
        share = 1 + len(self.notes.get(ABSENT, ())) / len(values)
        return clusters.sums(values), clusters.sums(np.full(len(values), share))

    def score_from_sums(self, sums: Floats, counts: Floats) -> Floats:
        """The corpus scores (...) from summed rows (..., columns) and numbers of captions (...)."""
        return self._metric_and_rows()[0].from_sums(sums, counts)["score"]

    def _metric_and_rows(self) -> tuple[Metric, Floats]:
        if self.metric is None or self.values is None:
            raise InputError(f"{self.name}: read from a file without rows to resample; score the captions again")
        return self.metric, self.values


class Results(Mapping[str, Scores]):
    """The scores of a run by metric name; `results["cider-d(n=4)"]` finds `cider-d`: names are compared as values.

    Args:
        scores: of each metric.
        ids: of the captions.
        notes: what was adjusted when the captions were read: reason → ids.
        captions: the scored captions, if they are known.
        command: the command line that produced these results.
    """

    def __init__(
        self,
        scores: Sequence[Scores],
        ids: Ids,
        notes: dict[str, list[str]] | None = None,
        *,
        captions: CaptionSet | None = None,
        command: str | None = None,
    ) -> None:
        self._scores = {metric_scores.name: metric_scores for metric_scores in scores}
        self.ids, self.notes = ids, notes or {}
        self.captions, self.command = captions, command

    @cached_property
    def references(self) -> dict[str, set[tuple[str, ...]]] | None:
        """The lists of references of each image, sorted, by image id; None if unknown."""
        if self.captions is None:
            return None
        sentences, reference_sets = self.captions.pool.sentences, self.captions.reference_sets
        lists = [tuple(sorted(sentences[k] for k in reference_sets[row])) for row in range(len(reference_sets))]
        by_image: dict[str, set[tuple[str, ...]]] = {}
        for image_id, set_index in zip(self.ids.images, self.captions.reference_set_indices.tolist(), strict=True):
            by_image.setdefault(image_id, set()).add(lists[set_index])
        return by_image

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
        resampled = resample_scores(self.values(), self.ids.clusters, resamples, seed)
        return {name: percentile_interval(parts["score"], level) for name, parts in resampled.items()}

    def to_columns(
        self, system: str | None = None, *, texts: bool = False, rows: slice = slice(None)
    ) -> dict[str, Any]:
        """One row per caption, as columns that any data frame accepts: `id`, `image_id`, and one score per metric.

        Args:
            system: a name for the column `system`; None: no such column.
            texts: whether to add the columns `candidate` and `references`.
            rows: which captions, such as `slice(0, 1000)`.

        Raises:
            InputError: the texts are not known.
        """
        columns: dict[str, Any] = {"id": list(self.ids.names[rows]), "image_id": list(self.ids.images[rows])}
        if system is not None:
            columns["system"] = [system] * len(columns["id"])
        if texts:
            if self.captions is None:
                raise InputError("the captions' texts are not known; score them from their file")
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
        save_all({home_path(path).name.split(".")[0]: self}, path)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], where: str = "results") -> Results:
        """Reads what `to_dict` returned; an `InputError`, which names `where`, if the values are not as expected."""
        systems = from_dict(saved, where)
        if len(systems) != 1:
            raise InputError(f"{where}: contains {len(systems)} systems, {', '.join(systems)}; read them with read_all")
        return next(iter(systems.values()))

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """Reads a results file of one system; an `InputError` if it is not one."""
        return cls.from_dict(decode_json(CaptionSource.resolve(path).read_text(), str(path)), str(path))


def resample_scores(
    scores: Iterable[Scores], clusters: Clusters, resamples: int, seed: int, order: Any = slice(None)
) -> dict[str, dict[str, Floats]]:
    """The "score" and parts of each metric in each resample of images (resamples), by metric name.

    Args:
        scores: of one system, with their rows.
        clusters: its captions grouped by image.
        resamples: their number.
        seed: of the resamples.
        order: the place of each cluster in a resample, where systems have the same images in different orders.
    """
    sums = {each.name: (each._metric_and_rows()[0], *each.sum_by_cluster(clusters)) for each in scores}
    return resample_sums(sums, len(clusters), resamples, seed, order)


def resample_sums(
    sums: Mapping[str, tuple[Metric, Floats, Floats]], images: int, resamples: int, seed: int, order: Any = slice(None)
) -> dict[str, dict[str, Floats]]:
    """The "score" and parts of each metric in each resample of images (resamples), by metric name.

    Args:
        sums: of each metric its rows summed by image (images, columns), and the number of captions (images).
        images: their number.
        resamples, seed, order: as of `resample_scores`.
    """
    blocks: dict[str, list[Mapping[str, Floats]]] = {name: [] for name in sums}
    for block in resample_blocks(images, resamples, seed) if sums else ():
        weights = np.ascontiguousarray(block[:, order], np.float64)  # once, not in each product
        for name, (metric, values, counts) in sums.items():
            blocks[name].append(metric.from_sums(weights @ values, weights @ counts))
    return {
        name: {part: np.concatenate([each[part] for each in of_metric]) for part in of_metric[0]}
        for name, of_metric in blocks.items()
    }


def to_dict(systems: Mapping[str, Results]) -> dict[str, Any]:
    """The results of several systems as JSON values."""
    check_results(systems)
    return enclose_systems({system_name: _system_to_dict(results) for system_name, results in systems.items()})


def check_results(systems: Any) -> None:
    """An `InputError` unless these are the results of at least one system, by its name."""
    is_one = isinstance(systems, Mapping) and len(systems) > 0
    if not is_one or not all(isinstance(results, Results) for results in systems.values()):
        raise InputError(f'expected results by system, {{"ours": capmeter.score(…)}}, but got {describe(systems)}')


def from_dict(saved: Any, where: str = "results") -> dict[str, Results]:
    """Reads what `to_dict` returned; an `InputError`, which names `where`, if the values are not as expected."""
    systems = check_systems(saved, where)
    places = {name: where if len(systems) == 1 else f"{where}, system {name}" for name in systems}
    return {name: _read_system(system, places[name]) for name, system in systems.items()}


def save_all(systems: Mapping[str, Results], path: str | Path) -> None:
    """Writes the results of several systems to one file, whole or not at all.

    Args:
        systems: the results by name of the system.
        path: the JSON file; gzipped if its name ends in `.gz`.

    Raises:
        InputError: the file cannot be written.
    """
    with atomic_writer(home_path(path)) as file:
        file.write(json.dumps(to_dict(systems), ensure_ascii=True).encode())


def read_all(path: str | Path) -> dict[str, Results]:
    """Reads a results file that `Results.save`, `save_all` or `capmeter score --output` wrote.

    Returns:
        The results of each system, by name.

    Raises:
        InputError: the file cannot be read, or is not a results file of this version.
    """
    text = CaptionSource.resolve(path).read_text()
    try:
        saved = decode_json(text, str(path))
    except InputError as problem:  # of JSON lines, too, which are captions
        raise InputError(f"{problem}; {EXPECTED}") from None
    return from_dict(saved, str(path))


def load_json_schema() -> dict[str, Any]:
    """Loads the JSON Schema (2020-12) of the layout."""
    schema: dict[str, Any] = read_bundled_json("results.schema.json")
    return schema


def enclose_systems(systems: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with these systems: with the version and the schema."""
    return {"capmeter": __version__, "schema": SCHEMA, "systems": dict(systems)}


def check_systems(saved: Any, where: str) -> Mapping[str, Any]:
    """Returns the saved systems by name; an `InputError` if this is not a results file of this schema."""
    if not is_results(saved):
        raise InputError(f"{where}: not a results file of capmeter; {EXPECTED}")
    if saved.get("schema") != SCHEMA:
        raise InputError(
            f"{where}: its layout is schema {saved.get('schema')!r} (of capmeter {saved['capmeter']}), but this "
            f"version reads schema {SCHEMA}; score the captions again"
        )
    systems: Mapping[str, Any] = saved["systems"]
    if not systems:
        raise InputError(f"{where}: the results file holds no system")
    return systems


def _system_to_dict(results: Results) -> dict[str, Any]:
    """The results of one system as JSON values."""
    saved: dict[str, Any] = {
        "metrics": {
            metric_name: {
                "score": scores.score,
                "signature": scores.signature,
                "parts": scores.parts,
                "items": _by_id(scores.items),
                "part_items": {part: _by_id(items) for part, items in scores.part_items.items()},
                "notes": scores.notes,
                **({"answers": scores.answers} if scores.answers else {}),
                # of a mean the rows are the scores and parts of single captions
                **(
                    {"rows": dict(zip(scores.items.ids.names, scores.values.tolist(), strict=True))}
                    if scores.metric is not None and scores.values is not None and not scores.metric.is_mean
                    else {}
                ),
            }
            for metric_name, scores in results.items()
        },
        "images": dict(zip(results.ids.names, results.ids.images, strict=True)),
        "notes": results.notes,
    }
    if results.captions is not None:
        saved["captions"] = _captions_to_dict(results.captions)
    return saved | ({} if results.command is None else {"command": results.command})


def _by_id(items: Items) -> dict[str, float]:
    return dict(zip(items.ids.names, items.array.tolist(), strict=True))


def _read_system(saved: Any, where: str) -> Results:
    """Reads what `_system_to_dict` returned.

    Raises:
        InputError: the values are not as expected; `where` says where they are from.
    """
    location = where
    try:
        metrics = saved["metrics"]
        if not metrics:
            raise InputError(f"{where}: the results file has no metrics; score the captions again")
        if not all("items" in saved_metric for saved_metric in metrics.values()):
            raise InputError(
                f"{where}: it lacks the scores of single captions (`items`), as `--format json` prints; {EXPECTED}"
            )
        images = {id: str(image) for id, image in saved.get("images", {}).items()}
        ids = Ids([], [])
        scores = []
        for metric_name, saved_metric in metrics.items():
            location = f"{where}, {metric_name}"
            if list(saved_metric["items"]) != ids.names:
                caption_ids = list(saved_metric["items"])
                ids = Ids(caption_ids, [images.get(id, id) for id in caption_ids])
            scores.append(_read_scores(metric_name, saved_metric, ids))
        location = where
        captions = None
        if saved.get("captions") is not None:
            captions = _captions_from_dict(saved["captions"], ids.names, ids.images)
        notes = _read_notes(saved.get("notes") or {})
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, MetricError) as problem:
        raise InputError(
            f"{location}: not a results file of capmeter ({describe_failure(problem)}); {EXPECTED}"
        ) from problem
    return Results(scores, ids, notes, captions=captions, command=saved.get("command"))


def _read_scores(metric_name: str, saved_metric: Mapping[str, Any], ids: Ids) -> Scores:
    items = Items(ids, _read_numbers(saved_metric["items"], ids.names))
    saved_parts = saved_metric.get("part_items", {})
    part_items = {part: Items(ids, _read_numbers(saved_parts[part], ids.names)) for part in saved_parts}
    names = ["score", *saved_metric["parts"]]
    saved_scores = _read_numbers({**saved_metric["parts"], "score": saved_metric["score"]}, names)
    corpus_scores = dict(zip(names, saved_scores.tolist(), strict=True))
    metric, values = _read_rows(metric_name, saved_metric, [items, *part_items.values()])
    answers, signature = saved_metric.get("answers", {}), saved_metric["signature"]
    texts = [signature, *(text for by_question in answers.values() for text in by_question.values())]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its signature is not text, or its answers are not texts by caption and question")
    stored = Scores(
        name=metric_name,
        score=corpus_scores.pop("score"),
        items=items,
        parts=corpus_scores,
        part_items=part_items,
        notes=_read_notes(saved_metric["notes"]),
        signature=signature,
        answers=answers,
        metric=metric,
    )
    if metric is None or values is None:
        return stored
    with np.errstate(all="ignore"):  # rows that are damaged may give no finite score
        computed = Scores.from_rows(metric, ids, values, stored.notes, stored.signature)
    if not np.allclose(_all_numbers(computed), _all_numbers(stored), rtol=1e-9, atol=1e-15):
        raise ValueError("its rows do not give its scores")  # no resample of them would mean anything
    return replace(computed, answers=answers)


def _read_notes(saved: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    return {reason: list(map(str, ids)) for reason, ids in saved.items()}


def _all_numbers(scores: Scores) -> Floats:
    """The score, its parts, and both of each caption, in the order of the parts' names."""
    items = [scores.items, *(scores.part_items[part] for part in sorted(scores.part_items))]
    corpus_scores = [scores.score, *(scores.parts[part] for part in sorted(scores.parts))]
    return np.concatenate([corpus_scores, *(each.array for each in items)])


def _read_rows(
    metric_name: str, saved_metric: Mapping[str, Any], items: Sequence[Items]
) -> tuple[Metric | None, Floats | None]:
    """The metric and its rows (captions, columns); None if this installation lacks the metric, or the file the rows."""
    try:
        metric = parse(metric_name)
    except CapmeterError:
        return None, None
    if metric.is_mean:
        is_complete = len(items) == 1 + len(saved_metric["parts"]) >= len(metric.columns)
        return (metric, np.column_stack([part_items.array for part_items in items])) if is_complete else (None, None)
    if "rows" not in saved_metric:
        return None, None
    return metric, _read_numbers(saved_metric["rows"], items[0].ids.names)


def _read_numbers(saved: Mapping[str, Any], caption_ids: Sequence[str]) -> Floats:
    """The numbers saved under these ids, in order; a `KeyError` or `ValueError` if one is missing or not finite."""
    numbers: Floats = np.array([saved[caption_id] for caption_id in caption_ids], np.float64)
    for caption_id, number in zip(caption_ids, numbers, strict=True):
        if not (np.abs(number) <= MAX_NUMBER).all():
            raise ValueError(f"{caption_id} has no finite number of at most {MAX_NUMBER:g}")
    return numbers


def _captions_to_dict(captions: CaptionSet) -> dict[str, Any]:
    """The captions as JSON values, without ids and image ids, which the file has elsewhere."""
    rows = range(len(captions))
    images = {id: image for id, image in zip(captions.ids, captions.images, strict=True) if image is not None}
    humans = {id: list(human) for id, human in zip(captions.ids, captions.humans, strict=True) if human is not None}
    return {
        "sentences": list(captions.pool.sentences),
        "candidates": dict(zip(captions.ids, captions.candidates.tolist(), strict=True)),
        "references": {captions.ids[row]: captions.references[row].tolist() for row in rows},
        **({"pictures": images} if images else {}),
        **({"human": humans} if humans else {}),
    }


def _captions_from_dict(saved: Mapping[str, Any], ids: Sequence[str], image_ids: Sequence[str]) -> CaptionSet:
    """Reads what `_captions_to_dict` returned; `KeyError`, `TypeError` or `ValueError` if it is damaged."""
    sentences = tuple(saved["sentences"])
    candidates = np.array([saved["candidates"][id] for id in ids], np.int32)
    references = Ragged.from_rows([saved["references"][id] for id in ids], np.int32)
    pictures, humans = saved.get("pictures", {}), saved.get("human", {})
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError("a sentence is not text")
    sentence_indices = np.concatenate([candidates, references.values])
    if len(sentence_indices) and not (sentence_indices.min() >= 0 and sentence_indices.max() < len(sentences)):
        raise ValueError("a caption refers to a missing sentence")
    return CaptionSet(
        ids=tuple(ids),
        image_ids=tuple(image_ids),
        pool=SentencePool(sentences),
        candidates=candidates,
        references=references,
        images=tuple(pictures.get(id) for id in ids),
        humans=tuple(None if humans.get(id) is None else tuple(map(float, humans[id])) for id in ids),
    )
