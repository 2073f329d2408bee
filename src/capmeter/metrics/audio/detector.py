"""Probabilities of fluency errors: the bundled detector, a linear classifier of tags, function words and repetitions.

    P(error) = sigmoid( Σ w(f) + b )        over the features f of a caption

Features are read off the words in lower case and the bundled parser's tags: n-grams of tags up to four, the same with
function words in place of their tags, the last words, numbers of verbs, nouns and conjunctions, and repeated words.
Their names are hashed into a table of weights. It was trained on captions of photos and on captions of sounds that a
small grammar wrote, with errors made in them; `capmeter/data/weights/fluency/README.md` is its model card.

Probabilities also come from other sources: a file (JSON, JSON lines, CSV or TSV) has that of every caption, `{text:
probability}`, or rows with `text` and `error`; a folder has what `capmeter train fluency` wrote, or a sequence
classifier of the transformers library (such as FENSE's BERT, converted to safetensors), whose label `error`, or else
its last, is read through a sigmoid.

>>> "end1 and >" in features([("a", "DT"), ("dog", "NN"), ("barks", "VBZ"), ("and", "CC")])
True
"""

from __future__ import annotations

import csv
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.rows import is_finite
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp, find_checkpoint, sha256
from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, format_count, list_names, shorten
from capmeter.core.settings import Settings
from capmeter.text.parsing.parsers import find_parser, parse_captions

KIND = "fluency"
Floats = npt.NDArray[np.float64]
TaggedWords = Sequence[tuple[str, str]]
_CONTENT = ("NN", "VB", "JJ", "RB", "CD", "FW")
_LONGEST_GRAM, _LONGEST_REPEATED, _LONGEST_END = 4, 6, 5


def features(words: TaggedWords) -> set[str]:
    """The names of a caption's features.

    Args:
        words: each word in lower case with its tag, punctuation left out.
    """
    tags = ["<", *(tag for _, tag in words), ">"]
    mixed_tokens = ["<", *(tag if tag.startswith(_CONTENT) else word for word, tag in words), ">"]
    feature_names: set[str] = set()
    for n in range(1, _LONGEST_GRAM + 1):
        for kind, tokens in (("tags", tags), ("mixed", mixed_tokens)):
            feature_names.update(f"{kind} {' '.join(tokens[k : k + n])}" for k in range(len(tokens) - n + 1))
    feature_names.update(f"end{n} {' '.join(mixed_tokens[-n - 1 :])}" for n in range(1, _LONGEST_END + 1))
    for kind in ("VB", "NN", "CC", "RB"):
        feature_names.add(f"{kind} {min(sum(tag.startswith(kind) for tag in tags), 5)}")
    feature_names.add(f"finite {any(tag in ('VBZ', 'VBP', 'VBD') for tag in tags)} {'VBG' in tags}")
    feature_names.add(f"words {min(len(words), 20)}")
    return feature_names | _repetitions(words)


def _repetitions(words: TaggedWords) -> set[str]:
    """What a caption says twice: words next to each other, n-grams and content words anywhere."""
    feature_names = {f"twice {words[k][1]}" for k in range(1, len(words)) if words[k][0] == words[k - 1][0]}
    plain_words = [word for word, _ in words]
    for n in range(1, _LONGEST_REPEATED + 1):
        gram_counts = Counter(tuple(plain_words[k : k + n]) for k in range(len(plain_words) - n + 1))
        feature_names.add(
            f"repeated{n} {min(sum(count > 1 for count in gram_counts.values()), 3)} of {min(len(plain_words) // 5, 4)}"
        )
    word_counts = Counter(word for word, tag in words if tag.startswith(_CONTENT))
    return feature_names | {f"repeated {tag[:2]}" for word, tag in words if word_counts[word] > 1}


def feature_indices(words: TaggedWords, size: int) -> npt.NDArray[np.int64]:
    """The features' places in a table of this size, each once, ascending."""
    return np.unique(np.array([zlib.crc32(feature_name.encode()) % size for feature_name in features(words)], np.int64))


def tag_words(texts: Sequence[str], settings: Settings | None = None) -> list[list[tuple[str, str]]]:
    """The words of each text in lower case, with the bundled parser's tags; without punctuation."""
    parses = parse_captions(find_parser("caption"), [text.lower().strip(" .") for text in texts], settings)
    return [
        [
            (word.lower(), tag)
            for sentence in (() if parse is None else parse.sentences)
            for word, tag in zip(sentence.words, sentence.tags, strict=True)
            if tag[:1].isalpha()
        ]
        for parse in parses
    ]


@dataclass(frozen=True, eq=False)
class FluencyDetector:
    """A trained detector.

    weights: of the table of features, (size,).
    bias: of every caption.
    label: name and hash, for signatures.
    """

    weights: Floats
    bias: float
    label: str

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> FluencyDetector:
        """The detector of a checkpoint; an `AssetError` if its weights are not those of one."""
        try:
            weights, bias = checkpoint.weights["weights"].astype(np.float64), float(checkpoint.parameters["bias"])
        except (KeyError, TypeError, ValueError) as error:
            raise AssetError(f"{checkpoint.label}: not a detector of fluency errors ({error})") from error
        if weights.ndim != 1 or not len(weights) or not np.isfinite([*weights, bias]).all():
            raise AssetError(f"{checkpoint.label}: its weights are not one row of finite numbers")
        return cls(weights, bias, checkpoint.label)

    def probabilities(self, texts: Sequence[str], settings: Settings | None = None) -> Floats:
        """The probability of an error in each text; of a text without words 1."""
        text_probabilities = np.ones(len(texts))
        for text_index, tagged_words in enumerate(tag_words(texts, settings)):
            if tagged_words:
                logit = self.weights[feature_indices(tagged_words, len(self.weights))].sum() + self.bias
                text_probabilities[text_index] = 1 / (1 + np.exp(-np.clip(logit, -500, 500)))
        return text_probabilities


@lru_cache(maxsize=4)
def load_detector(name: str) -> FluencyDetector:
    """The detector of this name or in this folder."""
    return FluencyDetector.from_checkpoint(load_checkpoint(name, KIND))


def error_probabilities(source: str, texts: Sequence[str], settings: Settings) -> Floats:
    """The probability of a fluency error in each text, (texts,), 0 to 1.

    Args:
        source: the bundled detector's name, a file with probabilities by caption, or a classifier's folder.
        texts: to look up or classify.
        settings: where a classifier runs.

    Raises:
        InputError: there is no such source, or a file lacks a text or has a number outside 0 to 1.
    """
    path = Path(source)
    if find_checkpoint(source) is not None:
        return load_detector(source).probabilities(texts, settings)
    if source and path.is_dir():
        return _load_classifier(path, str(settings.device))(texts)
    expected = f"expected {KIND}, a file with probabilities by caption, or a classifier's folder (docs/audio.md)"
    known_probabilities = _read_probabilities(source, file_stamp("errors", source or "none", expected))
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
    source_path, file_text = Path(source), CaptionSource.resolve(source).read_text()
    endings = {ending for ending in source_path.suffixes if ending != ".gz"}
    if endings & {".csv", ".tsv"}:
        csv_rows = csv.DictReader(io.StringIO(file_text, newline=""), delimiter="\t" if ".tsv" in endings else ",")
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
def _load_classifier(folder: Path, device: str) -> Callable[[Sequence[str]], Floats]:
    """The probability of an error in each text, by a sequence classifier of the transformers library."""
    from capmeter.encoders.batches import Precision
    from capmeter.encoders.handle import EncoderHandle
    from capmeter.encoders.text.encoder import load_complete_model, load_errors

    if not (folder / "config.json").is_file():
        raise InputError(
            f"errors={folder}: no config.json in this folder; expected a sequence classifier in safetensors"
        )
    with load_errors(EncoderHandle(folder.name, folder, ""), " as a sequence classifier"):
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        precision = Precision.from_settings(Settings(device=device))
        model: Any = load_complete_model(AutoModelForSequenceClassification, folder, precision, use_safetensors=True)
        tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    label_indices = {str(label).lower(): int(k) for k, label in model.config.id2label.items()}
    label_index = label_indices.get("error", len(label_indices) - 1)

    def probabilities(texts: Sequence[str]) -> Floats:
        batch_probabilities = [np.zeros(0)]
        for batch_start in range(0, len(texts), 32):
            batch_texts = list(texts[batch_start : batch_start + 32])
            inputs = tokenizer(batch_texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
            with torch.inference_mode():
                logits = model(**inputs.to(model.device)).logits[:, label_index]
            batch_probabilities.append(torch.sigmoid(logits.double()).cpu().numpy())
        return np.concatenate(batch_probabilities)

    return probabilities
