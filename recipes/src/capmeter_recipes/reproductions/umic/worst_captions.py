"""The worst-rated captions of a benchmark by type of error (Lee et al. 2021, section 3.2).

The paper read the hundred captions with the lowest human ratings of Composite and of Flickr8k, found three types of
main error, and made UMIC's negatives after them. It prints no counts. Here the same captions are listed, each with the
type that its words suggest; a sheet of them is for a person, whose labels are counted beside.

    irrelevant   no content word of the caption (by its stem) is in any reference
    grammar      otherwise, if the bundled detector of fluency errors finds one (P(error) > .9)
    keywords     otherwise: about the image, but wrong in what it says

>>> suggest_type("two cats sleep", ["a dog runs", "the dog is fast"], error=0.1)
'irrelevant'
>>> suggest_type("a dog is", ["a dog runs"], error=0.99), suggest_type("a dog sleeps", ["a dog runs"], error=0.1)
('grammar', 'keywords')
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.sources import read_text
from capmeter.core.csv_text import csv_text
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten
from capmeter.core.output_files import write_atomic
from capmeter.core.settings import Settings
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import Points
from capmeter.metrics.audio.detector import KIND
from capmeter.metrics.audio.error_probabilities import error_probabilities
from capmeter.metrics.audio.fluency import FluencyErrorRate
from capmeter.report.tables import Table
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.stop_words import STOP_WORDS
from capmeter.text.tokenization.token_tables import tokenise_sentences

TYPES = {
    "keywords": "about the image, but with wrong keywords",
    "irrelevant": "about something else",
    "grammar": "grammatically incorrect",
}
_EXAMPLE_LENGTH = 60


@dataclass(frozen=True)
class WorstCaption:
    """A caption with a low rating: the mean of its ratings, the type of error that its words suggest, and the type
    that a person gave it (empty: none)."""

    id: str
    image_id: str
    rating: float
    candidate: str
    references: tuple[str, ...]
    suggested: str
    type: str = ""


def suggest_type(candidate: str, references: Sequence[str], error: float) -> str:
    """The type of error that a caption's words suggest.

    Args:
        candidate: the caption.
        references: of its image.
        error: the probability that it is faulty as a sentence.
    """
    own, *others = (_content_stems(words) for words in tokenise_sentences("ptb", [candidate, *references]))
    if own.isdisjoint(set[str]().union(*others)):
        return "irrelevant"
    return "grammar" if error > FluencyErrorRate().threshold else "keywords"


def _content_stems(words: Sequence[str]) -> set[str]:
    return {stem(word) for word in words if word not in STOP_WORDS}


def worst_captions(
    name: str,
    path: str,
    number: int,
    *,
    protocol: str | None = None,
    sample: bool = False,
    seed: int = 0,
    settings: Settings | None = None,
) -> list[WorstCaption]:
    """The captions of a benchmark with the lowest mean rating, the lowest first; the seed orders equal ones.

    Args:
        name: of the benchmark.
        path: its file.
        number: of captions.
        protocol: which captions it has (default: the benchmark's own).
        sample: whether the file may be a subset.
        seed: of the order of captions with the same rating.
        settings: of the detector of fluency errors.

    Raises:
        InputError: the benchmark has no rated captions.
    """
    benchmark = find_benchmark(name)
    judgments = benchmark.load(path, protocol, sample=sample)
    if not isinstance(judgments, Points) or not judgments.ratings:
        raise InputError(f"{benchmark.name}: has {judgments.unit}, expected a benchmark of rated captions")
    if judgments.owners is not None:
        raise InputError(f"{judgments.protocol.name}: has one reference each; choose a protocol with all references")
    ratings = [float(np.mean(each)) for each in judgments.ratings]
    order = sorted(range(len(ratings)), key=lambda k: (ratings[k], _digest(seed, judgments.ids[k])))[:number]
    captions = [judgments.captions[judgments.captions.ids[k]] for k in order]
    errors = error_probabilities(KIND, [each.candidate for each in captions], settings or Settings())
    return [
        WorstCaption(
            id=judgments.ids[k],
            image_id=caption.image_id,
            rating=ratings[k],
            candidate=caption.candidate,
            references=caption.references,
            suggested=suggest_type(caption.candidate, caption.references, error),
        )
        for k, caption, error in zip(order, captions, errors.tolist(), strict=True)
    ]


def _digest(seed: int, id: str) -> bytes:
    return hashlib.sha256(f"{seed} {id}".encode("utf-8", "surrogatepass")).digest()


def write_error_sheet(captions: Sequence[WorstCaption], path: str | os.PathLike[str]) -> None:
    """Writes the captions as CSV, atomically, with an empty column `type` for a person."""
    rows = [
        {**asdict(each), "rating": f"{each.rating:.3f}", "references": " | ".join(each.references)} for each in captions
    ]
    write_atomic(path, csv_text(rows))


def read_error_sheet(path: str | os.PathLike[str]) -> dict[str, str]:
    """The types that a person gave, by the caption's id.

    Raises:
        InputError: there is no column `id` or `type`, or an unknown type.
    """
    text = read_text(Path(path))
    first = text.partition("\n")[0]
    # European spreadsheets write semicolons
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=";" if first.count(";") > first.count(",") else ","
    )
    missing = [name for name in ("id", "type") if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{path}: there is no column {missing[0]!r}; expected what `study errors --sheet` writes")
    labels = {}
    for number, row in enumerate(reader, 2):
        label = (row["type"] or "").strip().lower()
        if label and label not in TYPES:
            raise InputError(f"{path}, row {number}: unknown type {label!r}; expected {', '.join(TYPES)}, or nothing")
        if label:
            labels[row["id"]] = label
    return labels


def with_labels(captions: Sequence[WorstCaption], labels: Mapping[str, str]) -> list[WorstCaption]:
    """The captions with the types that a person gave them, by id.

    Raises:
        InputError: a label is of another caption.
    """
    others = [id for id in labels if id not in {each.id for each in captions}]
    if others:
        raise InputError(
            f"the sheet labels {list_names(others)}, not among the {len(captions):,} worst-rated captions; give the "
            "protocol, number and seed with which it was written"
        )
    return [replace(each, type=labels.get(each.id, "")) for each in captions]


def error_table(captions: Sequence[WorstCaption]) -> Table:
    """One row per type: how many captions suggest it, how many a person gave it, and of these how many suggest it."""
    suggested = Counter(each.suggested for each in captions)
    labelled = Counter(each.type for each in captions if each.type)
    agreed = Counter(each.type for each in captions if each.type == each.suggested)
    rows = []
    for name, meaning in TYPES.items():
        examples = [each.candidate for each in captions if (each.type or each.suggested) == name]
        person = [f"{labelled[name]:,}", f"{agreed[name]:,}"] if labelled else ["-", "-"]
        rows.append(
            [name, meaning, f"{suggested[name]:,}", *person, shorten(examples[0], _EXAMPLE_LENGTH) if examples else "-"]
        )
    highest = max((each.rating for each in captions), default=0.0)
    note = f"suggested: by the words of the caption, not by a person; ratings up to {highest:.3g}"
    columns = ["type", "meaning", "suggested", "labelled", "both", "example"]
    return Table(
        f"main errors of the {len(captions):,} worst-rated captions",
        columns,
        rows,
        [False, False, True, True, True, False],
        note,
    )


def errors_to_dict(captions: Sequence[WorstCaption]) -> dict[str, Any]:
    """The same for a program, with every caption."""
    counts: Mapping[str, int] = Counter(each.suggested for each in captions)
    labels: Mapping[str, int] = Counter(each.type for each in captions if each.type)
    return {
        "suggested": {name: counts.get(name, 0) for name in TYPES},
        "labelled": {name: labels.get(name, 0) for name in TYPES},
        "captions": [asdict(each) for each in captions],
    }
