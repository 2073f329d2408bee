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

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten
from capmeter.core.output_files import write_table
from capmeter.core.settings import Settings
from capmeter.judgments.benchmarks import find_benchmark
from capmeter.judgments.prepared import Points
from capmeter.metrics.audio.detector import KIND, error_probabilities
from capmeter.metrics.audio.fluency import FluencyErrorRate
from capmeter.report.tables import Table
from capmeter.text.tokenization.porter import stem
from capmeter.text.tokenization.stop_words import STOP_WORDS
from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter_research.common.labelled_sheets import labelled_rows

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
    candidate_stems, *reference_stems = (
        _content_stems(words) for words in tokenise_sentences("ptb", [candidate, *references])
    )
    if candidate_stems.isdisjoint(set[str]().union(*reference_stems)):
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
) -> list[WorstCaption]:
    """The captions of a benchmark with the lowest mean rating, the lowest first; the seed orders equal ones.

    Args:
        name: of the benchmark.
        path: its file.
        number: of captions.
        protocol: which captions it has (default: the benchmark's own).
        sample: whether the file may be a subset.
        seed: of the order of captions with the same rating.

    Raises:
        InputError: the benchmark has no rated captions.
    """
    benchmark = find_benchmark(name)
    judgments = benchmark.load(path, protocol, sample=sample)
    if not isinstance(judgments, Points) or not judgments.ratings:
        raise InputError(f"{benchmark.name}: has {judgments.unit}, expected a benchmark of rated captions")
    if judgments.owners is not None:
        raise InputError(f"{judgments.protocol.name}: has one reference each; choose a protocol with all references")
    ratings = [float(np.mean(caption_ratings)) for caption_ratings in judgments.ratings]
    rating_order = sorted(range(len(ratings)), key=lambda k: (ratings[k], _digest(seed, judgments.ids[k])))[:number]
    captions = [judgments.captions[judgments.captions.ids[k]] for k in rating_order]
    errors = error_probabilities(KIND, [caption.candidate for caption in captions], Settings())
    return [
        WorstCaption(
            id=judgments.ids[k],
            image_id=caption.image_id,
            rating=ratings[k],
            candidate=caption.candidate,
            references=caption.references,
            suggested=suggest_type(caption.candidate, caption.references, error),
        )
        for k, caption, error in zip(rating_order, captions, errors.tolist(), strict=True)
    ]


def _digest(seed: int, id: str) -> bytes:
    return hashlib.sha256(f"{seed} {id}".encode("utf-8", "surrogatepass")).digest()


def write_error_sheet(captions: Sequence[WorstCaption], path: str | os.PathLike[str]) -> None:
    """Writes the captions as CSV, atomically, with an empty column `type` for a person."""
    import pyarrow

    sheet_rows = [
        {**asdict(caption), "rating": f"{caption.rating:.3f}", "references": " | ".join(caption.references)}
        for caption in captions
    ]
    write_table(pyarrow.Table.from_pylist(sheet_rows), Path(path))


def read_error_sheet(path: str | os.PathLike[str]) -> dict[str, str]:
    """The types that a person gave, by the caption's id.

    Raises:
        InputError: there is no column `id` or `type`, or an unknown type.
    """
    labels = {}
    for row_number, row in labelled_rows(path, ("id", "type"), "study errors --sheet"):
        label = (row["type"] or "").strip().lower()
        if label and label not in TYPES:
            raise InputError(
                f"{path}, row {row_number}: unknown type {label!r}; expected {', '.join(TYPES)}, or nothing"
            )
        if label:
            labels[row["id"]] = label
    return labels


def with_labels(captions: Sequence[WorstCaption], labels: Mapping[str, str]) -> list[WorstCaption]:
    """The captions with the types that a person gave them, by id.

    Raises:
        InputError: a label is of another caption.
    """
    unknown = [caption_id for caption_id in labels if caption_id not in {caption.id for caption in captions}]
    if unknown:
        raise InputError(
            f"the sheet labels {list_names(unknown)}, not among the {len(captions):,} worst-rated captions; give the "
            "protocol, number and seed with which it was written"
        )
    return [replace(caption, type=labels.get(caption.id, "")) for caption in captions]


def error_table(captions: Sequence[WorstCaption]) -> Table:
    """One row per type: how many captions suggest it, how many a person gave it, and of these how many suggest it."""
    suggested_counts = Counter(caption.suggested for caption in captions)
    labelled_counts = Counter(caption.type for caption in captions if caption.type)
    agreed_counts = Counter(caption.type for caption in captions if caption.type == caption.suggested)
    table_rows = []
    for type_name, meaning in TYPES.items():
        example_texts = [caption.candidate for caption in captions if (caption.type or caption.suggested) == type_name]
        person = [f"{labelled_counts[type_name]:,}", f"{agreed_counts[type_name]:,}"] if labelled_counts else ["-", "-"]
        table_rows.append(
            [
                type_name,
                meaning,
                f"{suggested_counts[type_name]:,}",
                *person,
                shorten(example_texts[0], _EXAMPLE_LENGTH) if example_texts else "-",
            ]
        )
    highest_rating = max((caption.rating for caption in captions), default=0.0)
    note = f"suggested: by the words of the caption, not by a person; ratings up to {highest_rating:.3g}"
    columns = ["type", "meaning", "suggested", "labelled", "both", "example"]
    return Table(
        f"main errors of the {len(captions):,} worst-rated captions",
        columns,
        table_rows,
        [False, False, True, True, True, False],
        note,
    )


def errors_to_dict(captions: Sequence[WorstCaption]) -> dict[str, Any]:
    """The same for a program, with every caption."""
    suggested_counts: Mapping[str, int] = Counter(caption.suggested for caption in captions)
    labelled_counts: Mapping[str, int] = Counter(caption.type for caption in captions if caption.type)
    return {
        "suggested": {type_name: suggested_counts.get(type_name, 0) for type_name in TYPES},
        "labelled": {type_name: labelled_counts.get(type_name, 0) for type_name in TYPES},
        "captions": [asdict(caption) for caption in captions],
    }
