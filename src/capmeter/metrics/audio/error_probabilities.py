"""The probability that a caption has a fluency error: from a detector, a file, or a network on this machine.

`fluency` is the bundled detector; the folder of another that `capmeter train fluency` wrote does as well. A file (JSON,
JSON lines, CSV or TSV) has the probability of every caption: `{text: probability}`, or rows with `text` and `error`. A
folder has a sequence classifier of the transformers library (such as FENSE's BERT, converted to safetensors), whose
label `error`, or else its last, is read through a sigmoid.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.rows import is_finite
from capmeter.captions.sources import read_text
from capmeter.core.assets import find_checkpoint, sha256
from capmeter.core.csv_text import csv_lines
from capmeter.core.errors import InputError
from capmeter.core.file_stamps import file_stamp
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, format_count, list_names, shorten
from capmeter.core.settings import Settings
from capmeter.metrics.audio.detector import KIND, load_detector

Floats = npt.NDArray[np.float64]


def error_probabilities(source: str, texts: Sequence[str], settings: Settings) -> Floats:
    """The probability of an error in each text, (texts,), 0 to 1.

    Raises:
        InputError: there is no such source, or a file lacks a text or has a number outside 0 to 1.
    """
    path = Path(source)
    if find_checkpoint(source) is not None:
        return load_detector(source).probabilities(texts, settings)
    if source and path.is_dir():
        return _classifier(source, str(settings.device)).probabilities(texts)
    if not path.is_file():
        raise InputError(
            f"errors={source or 'none'}: there is no such file or folder; expected {KIND}, the bundled detector, a "
            "file with the probability of an error by caption, or the folder of a classifier (docs/audio.md)"
        )
    known_probabilities = _read_probabilities(source, file_stamp("errors", source, f"expected {KIND}, or a file"))
    missing_texts = list(dict.fromkeys(text for text in texts if text not in known_probabilities))
    if missing_texts:
        raise InputError(
            f"{source}: no probability for {format_count(len(missing_texts), 'caption')}: "
            f"{list_names(map(shorten, missing_texts), 3)}; it needs one for every caption, as written"
        )
    return np.array([known_probabilities[text] for text in texts], np.float64)


def source_label(source: str) -> str:
    """The source in signatures: its name and hash."""
    if find_checkpoint(source) is not None:
        return load_detector(source).label
    source_path = Path(source)
    files = sorted(source_path.glob("*.safetensors")) if source_path.is_dir() else [source_path]
    return f"{source_path.name}@{sha256(*files)[:12]}" if files and all(map(Path.is_file, files)) else source


@lru_cache(maxsize=4)
def _read_probabilities(source: str, stamp: tuple[int, int]) -> dict[str, float]:
    source_path, file_text = Path(source), read_text(source)
    endings = {ending for ending in source_path.suffixes if ending != ".gz"}
    if endings & {".csv", ".tsv"}:
        csv_rows = csv.DictReader(csv_lines(file_text), delimiter="\t" if ".tsv" in endings else ",")
        entries: Iterable[Any] = (
            {"text": csv_row.get("text"), "error": _as_number(csv_row.get("error"))} for csv_row in csv_rows
        )
    elif file_text.lstrip()[:1] == "{" and "\n{" in file_text.strip():
        lines = (line for line in file_text.split("\n"))
        entries = (decode_json(line, source, number) for number, line in enumerate(lines, 1) if line.strip())
    else:
        document = decode_json(file_text, source)
        entries = document if isinstance(document, list) else [document]
        if isinstance(document, Mapping) and "text" not in document:
            entries = ({"text": caption, "error": error_probability} for caption, error_probability in document.items())
    probabilities: dict[str, float] = {}
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("text"), str):
            raise InputError(f"{source}, entry {number}: {describe(entry)}, expected an object with text and error")
        error_probability = entry.get("error")
        if not is_finite(error_probability) or not 0 <= error_probability <= 1:
            raise InputError(
                f"{source}, {shorten(entry['text'])}: error is {describe(error_probability)}, "
                "expected a probability from 0 to 1"
            )
        if probabilities.setdefault(entry["text"], float(error_probability)) != error_probability:
            raise InputError(f"{source}: {shorten(entry['text'])} has two different probabilities; keep one")
    return probabilities


def _as_number(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


@lru_cache(maxsize=1)
def _classifier(folder: str, device: str) -> _Classifier:
    return _Classifier(Path(folder), Settings(device=device))


class _Classifier:
    """A sequence classifier of the transformers library."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        from capmeter.encoders.devices import Precision
        from capmeter.encoders.handle import EncoderHandle
        from capmeter.encoders.hub_model import load_complete_model, load_errors

        if not (folder / "config.json").is_file():
            raise InputError(
                f"errors={folder}: no config.json in this folder; expected a sequence classifier in safetensors"
            )
        with load_errors(EncoderHandle(folder.name, folder, ""), " as a sequence classifier"):
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            precision = Precision.of(settings)
            self._model: Any = load_complete_model(
                AutoModelForSequenceClassification, folder, precision, use_safetensors=True
            )
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        label_indices = {str(label).lower(): int(k) for k, label in self._model.config.id2label.items()}
        self._label = label_indices.get("error", len(label_indices) - 1)

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """The probability of an error in each text."""
        import torch

        batch_probabilities = []
        for batch_start in range(0, len(texts), 32):
            batch_texts = list(texts[batch_start : batch_start + 32])
            inputs = self._tokenizer(batch_texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
            with torch.inference_mode():
                logits = self._model(**inputs.to(self._model.device)).logits[:, self._label]
            batch_probabilities.append(torch.sigmoid(logits.double()).cpu().numpy())
        return np.concatenate(batch_probabilities) if batch_probabilities else np.zeros(0)
