"""Caption tasks of lmms-eval: `process_results` and `aggregate` for a task's YAML file, without Java.

    # utils.py beside the YAML file                                  # examples/lmms_eval has whole tasks
    from capmeter.integrations.lmms_eval import CaptionTask
    task = CaptionTask("coco", image_id="question_id", references="answer")
    doc_to_text, process_results, aggregate = task.doc_to_text, task.process_results, task.aggregate

In the YAML file, `doc_to_text: !function utils.doc_to_text`, which checks each document before the model runs,
`process_results: !function utils.process_results`, and `aggregation: !function utils.aggregate` for each entry of
`metric_list`: `coco_CIDEr`, its 95 % interval `coco_CIDEr_low` and `coco_CIDEr_high`, and so on. The first entry that
is aggregated scores the captions with all metrics, each sentence tokenised once; the others take their numbers from
that run. Every number is that of `capmeter score` on the same captions.

>>> task = CaptionTask("coco", ["CIDEr", "ROUGE_L"], image_id="id", references="answer")
>>> documents = [{"id": 7, "answer": ["a dog runs", "the dog is running"]}, {"id": 9, "answer": ["two cats"]}]
>>> answers = ["a dog runs", "two cats"]
>>> entries = [task.process_results(document, [text]) for document, text in zip(documents, answers)]
>>> task.aggregate([each["coco_ROUGE_L"] for each in entries])
1.0

The whole results (scores of captions, intervals, signatures) are written to `submissions/coco_capmeter.json` in the
framework's output folder, where `capmeter report` and `capmeter compare` read them. If the references cannot be those
of the captions, nothing is scored, and the captions are kept in `submissions/coco_captions.jsonl`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.captions.rows import image_key, reference_field
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names
from capmeter.core.output_files import write_atomic
from capmeter.core.settings import MemoryCache, Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.results import Results
from capmeter.integrations.model_answers import ENDS, OnMismatch, parse_metrics, score_answers
from capmeter.integrations.texts import plain_number

Document = Mapping[str, Any]
Field = str | Callable[[Document], Any]
"""The name of a document's field, or a function of the document."""
COCO = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr")
"""What lmms-eval's own caption tasks report."""
# lmms-eval loads utils.py anew for each function that the YAML file names, so that no task object lives long enough
_Run = tuple[Results, dict[str, tuple[float, float]]]
_RUNS = MemoryCache(capacity=1 << 15)  # the last sixteen


class CaptionTask:
    """What scores the documents of one task.

    Args:
        name: the beginning of every metric's name in the YAML file.
        metrics: names or metrics, or a mapping of names in the YAML file to them; lmms-eval's names (`CIDEr`, `Bleu_4`)
            are understood.
        image_id: the field (or function) with a document's id.
        references: the field (or function) with its references: a list, or the text of one.
        group: the field (or function) with the part of the data set that a document belongs to.
        groups: the parts that are also scored each for itself, such as `("in-domain", "near-domain", "out-domain")`;
            their entries are `NAME_METRIC_GROUP`, scored as if the part were the whole set (its own idf).
        parts: parts of metrics that have entries of their own (without intervals): name in the YAML file → the name
            of the metric and that of its part, such as `{"recall": ("i", "recall")}`.
        prompt: what the model is asked; the framework's `lmms_eval_specific_kwargs` may have another.
        on_mismatch: what happens if the references cannot be those of the captions: "error" or "warn".
        settings: device, precision, threads, cache; None: from the environment.
    """

    def __init__(
        self,
        name: str,
        metrics: str | Iterable[str | Metric] | Mapping[str, str | Metric] = COCO,
        *,
        image_id: Field,
        references: Field,
        group: Field | None = None,
        groups: Sequence[str] = (),
        parts: Mapping[str, tuple[str, str]] | None = None,
        prompt: str = "Provide a one-sentence caption for the provided image.",
        on_mismatch: OnMismatch = "error",
        settings: Settings | None = None,
    ) -> None:
        if bool(groups) != (group is not None):
            raise InputError(f"task {name}: expected both group (the field) and groups (its values), or neither")
        self.name, self.metrics, self.parts = name, parse_metrics(metrics), dict(parts or {})
        self.image_id, self.references, self.group, self.groups = image_id, references, group, tuple(groups)
        self.prompt, self.on_mismatch, self.settings = prompt, on_mismatch, settings

    def doc_to_text(self, doc: Document, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
        """The prompt, for the framework's `doc_to_text`; an `InputError` if the document could not be scored later."""
        self._read(doc)
        return str((lmms_eval_specific_kwargs or {}).get("prompt", self.prompt))

    def process_results(self, doc: Document, results: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """One entry for each metric, interval and part: the framework's `process_results`.

        Args:
            doc: the document.
            results: the model's answers: one text, or several with `repeats`, which count as candidates of one image.
        """
        image_id, references, part = self._read(doc)
        listed = results if isinstance(results, list | tuple) else [results]
        answers = [text for each in listed for text in (each if isinstance(each, list | tuple) else [each])]
        if others := [each for each in answers or [None] if not isinstance(each, str)]:
            raise InputError(
                f"task {self.name}, image {image_id}: the model's answer is {describe(others[0])}, expected a caption "
                "as text"
            )
        content = {"pred": answers[0] if len(answers) == 1 else answers, "answer": references}
        every = {"image_id": image_id, "digest": _digest([image_id, content])}  # by which intervals find their run
        entries: dict[str, dict[str, Any]] = {}
        for metric_name in (*self.metrics, *self.parts):
            for group_name in (None, *self.groups):
                entry_key = f"{self.name}_{metric_name}" + (f"_{group_name}" if group_name else "")
                label_fields = {"metric": metric_name} | ({"group": group_name} if group_name else {})
                is_member = group_name in (None, part)
                entries[entry_key] = every | label_fields | (content if is_member else {})
                interval_ends = ENDS[1:] if metric_name in self.metrics else ()
                entries |= {entry_key + end: {**every, **label_fields, "end": end} for end in interval_ends}
        return entries

    def aggregate(self, items: Sequence[Mapping[str, Any]], args: Any = None) -> float:
        """The score, or the end of its interval, that these entries stand for: the framework's `aggregation`.

        Args:
            items: what `process_results` returned under one name, for all documents.
            args: the framework's arguments; the results are written below its `output_path`, if there is one.
        """
        if not items:
            raise InputError(f"task {self.name}: there are no documents to score")
        metric, group_name, interval_end = (items[0].get(field_name) for field_name in ("metric", "group", "end"))
        metric, part_name = self.parts.get(metric, (metric, "")) if isinstance(metric, str) else (None, "")
        if metric not in self.metrics:
            raise InputError(
                f"task {self.name}: {describe(metric)} is not among its metrics ({list_names(self.metrics, 20)}); "
                "process_results and aggregate must be those of one CaptionTask"
            )
        output_folder = None if getattr(args, "output_path", None) is None else Path(args.output_path) / "submissions"
        results, intervals = self._run(items, group_name, interval_end is not None, output_folder)
        metric_name = str(self.metrics[metric])
        if part_name:
            return results[metric_name].parts[part_name]
        return (results[metric_name].score, *intervals[metric_name])[ENDS.index(interval_end or "")]

    def _run(
        self, items: Sequence[Mapping[str, Any]], group_name: str | None, is_interval: bool, output_folder: Path | None
    ) -> _Run:
        """All metrics on these captions, computed at the first call."""
        task_name = self.name + (f"_{group_name}" if group_name else "")
        by_content = _digest([task_name, list(map(str, self.metrics.values())), [entry["digest"] for entry in items]])
        run: _Run | None
        if is_interval:
            run = _RUNS.get(by_content)
            if run is None:
                raise InputError(
                    f"task {task_name}: an interval is asked for before any score; list {self.name}_METRIC beside "
                    f"{self.name}_METRIC_low and {self.name}_METRIC_high in metric_list"
                )
            return run
        answer_rows = [
            {"image_id": entry["image_id"], "candidate": answer_text, "references": entry["answer"]}
            for entry in items
            if "pred" in entry
            for answer_text in ([entry["pred"]] if isinstance(entry["pred"], str) else entry["pred"])
        ]
        in_folder = _digest([by_content, str(output_folder)])
        run = _RUNS.get(in_folder)
        if run is None:
            run = self._score(answer_rows, task_name, output_folder)
            _RUNS.put(in_folder, run)
        _RUNS.put(by_content, run)
        return run

    def _score(self, rows: list[dict[str, Any]], task_name: str, output_folder: Path | None) -> _Run:
        """Scores the captions and writes the results; captions that are refused are written as they are."""
        if output_folder is not None:
            output_folder.mkdir(parents=True, exist_ok=True)
        try:
            results = score_answers(rows, self.metrics.values(), on_mismatch=self.on_mismatch, settings=self.settings)
        except InputError as error:
            if output_folder is None:
                raise InputError(f"task {task_name}: {error}") from error
            path = output_folder / f"{task_name}_captions.jsonl"
            write_atomic(path, "".join(json.dumps(answer_row) + "\n" for answer_row in rows))
            raise InputError(f"task {task_name}: {error}; the captions are in {path}, for `capmeter score`") from error
        if output_folder is not None:
            results.save(output_folder / f"{task_name}_capmeter.json")
        return results, results.intervals()

    def _read(self, doc: Document) -> tuple[str, list[Any], Any]:
        """A document's id, its references and its part of the data set."""
        place = f"task {self.name}"
        image_id = image_key(plain_number(self._value(self.image_id, doc)), place, "the id of a document")
        place = f"{place}, image {image_id}"
        references = list(reference_field(self._value(self.references, doc), place, "the references"))
        part = None if self.group is None else self._value(self.group, doc)
        if self.groups and part not in self.groups:
            raise InputError(f"{place}: its part is {describe(part)}, expected one of {', '.join(self.groups)}")
        return image_id, references, part

    def _value(self, field: Field, doc: Document) -> Any:
        if not isinstance(field, str):
            return field(doc)
        if field not in doc:
            raise InputError(f"task {self.name}: a document has no field {field!r}; it has {list_names(doc, 20)}")
        return doc[field]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()


__all__ = ["COCO", "CaptionTask"]
