"""Rows of a benchmark's file, with their place in it, and files of judgments as their authors distribute them.

A file is JSON lines, a JSON list, CSV, TSV, Excel or Parquet, recognised by its content; every field is checked when it
is read. Of Parquet only text, numbers and lists are read, never pictures. Where fields by other names cannot say it:

`FILES` are whole files and folders, `CONVERTERS` records that become other ones. A benchmark names those that it has.

* `flickr8k_experts`, `flickr8k_crowd`: the folder of Flickr8k_text.zip, ExpertAnnotations.txt or
  CrowdFlowerAnnotations.txt with Flickr8k.token.txt, as its readme describes them;
* `clipscore_json`: what CLIPScore's flickr8k_example writes (flickr8k.json, crowdflower_flickr8k.json): image →
  `ground_truth` and `human_judgement` [{caption, rating}]. Own captions are already excluded there, and each expert is
  one entry;
* `pascal_folder`: pair_pascal.mat and consensus_pascal.mat of pyCIDErConsensus: all 48 references; 24 votes against 24
  are a tie. The direct votes are not read from it;
* `fleur_json`: FLEUR's and EXPERT's pascal_50s.json: category → [{image, captions, label, references}];
* `thumb_file`: mscoco_THumB-1.0.jsonl (SYS, hyp, image, P, R, human_score …) with mscoco_references.json or .jsonl
  (seg_id, refs) in the same folder;
* `valse_json`: VALSE's foil-it.json (id → caption, foil, image_file, mturk), without references;
* `foil_folder`: foilv1.0_test_2017.json and COCO's captions_val2014.json; references are the image's other captions;
* `rated_table`: rated captions as `capmeter.load` reads them (CSV, TSV, Parquet, Excel, JSON).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from capmeter.captions.containers import Container, DelimitedRows, JsonLines, ParquetRows, Workbook
from capmeter.captions.load import load
from capmeter.captions.matching import final_ids
from capmeter.captions.rows import MAX_NUMBER, CaptionRow, is_finite, nested_value
from capmeter.captions.sources import CaptionSource, report_damage
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

_WINNERS = {"a": 1.0, "b": -1.0, "tie": 0.0}


@dataclass(frozen=True)
class JudgmentRow:
    """One row: its fields, its place in the file, and what the file calls a field (both for messages)."""

    fields: Mapping[str, Any]
    place: str
    file_names: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def text(self, key: str) -> str:
        """A field that must be text (ids may be numbers)."""
        field_value = self.fields.get(key)
        if isinstance(field_value, int) and not isinstance(field_value, bool) and key in ("id", "image_id"):
            return str(field_value)
        if not isinstance(field_value, str):
            raise self.error_at(key, "text")
        return field_value

    def value(self, key: str) -> Any:
        """The field; a list or a number where a cell of a table holds it as text, as JSON or Python writes it."""
        cell = self.fields.get(key)
        if isinstance(cell, str):
            with suppress(InputError, ValueError):
                return nested_value(cell) or decode_json(cell, "") if cell[:1] == "[" else float(cell)
        return cell

    def texts(self, key: str) -> tuple[str, ...]:
        """A field that must be a list of texts, which may be the text of a cell."""
        field_value = self.value(key)
        if not isinstance(field_value, list) or not all(isinstance(each, str) for each in field_value):
            raise self.error_at(key, "a list of texts")
        return tuple(field_value)

    def number(self, key: str) -> float:
        """A field that must be a number."""
        (number, *others) = self.numbers(key) or (None,)
        if number is None or others or isinstance(self.fields[key], bool | list):
            raise self.error_at(key, "a number")
        return number

    def numbers(self, key: str) -> tuple[float, ...]:
        """A field that must be a number, which may be the text of a cell, or a list of numbers."""
        field_value = self.value(key)
        field_values: list[Any] = field_value if isinstance(field_value, list) else [field_value]
        if not all(isinstance(one, bool) or is_finite(one, MAX_NUMBER) for one in field_values):
            raise self.error_at(key, "a number or a list of numbers up to 1e100")
        return tuple(float(one) for one in field_values)

    def flag(self, key: str, default: bool) -> bool:
        """A field that may be absent, or must be true or false."""
        field_value = self.fields.get(key, default)
        if not isinstance(field_value, bool):
            raise self.error_at(key, "true or false")
        return field_value

    def preference(self, key: str) -> float:
        """A field that says which of two captions is better: positive for a, negative for b, 0 for a tie.

        It is "a", "b" or "tie"; votes, 1 for a and -1 for b, which are summed; or a degree of preference.
        """
        field_value = self.value(key)
        if isinstance(field_value, str) and field_value in _WINNERS:
            return _WINNERS[field_value]
        votes = field_value if isinstance(field_value, list) else [field_value]
        if not all(is_finite(vote) for vote in votes):
            raise self.error_at(key, "a, b or tie (or votes, 1 for a and -1 for b, or a degree of preference)")
        return float(sum(votes))

    def labelled_texts(self, key: str, example: str) -> list[tuple[str, bool]]:
        """A field that must be a list of texts, each with true or false."""
        field_value = self.fields.get(key)
        if not isinstance(field_value, list):
            raise self.error_at(key, f"a list such as {example}")
        for labelled_text in field_value:
            match labelled_text:
                case [str(), bool()]:
                    continue
            raise self.error_at(key, f"a list such as {example}, but {labelled_text!r:.60} is in it")
        return [(text, label) for text, label in field_value]

    def groups(self) -> dict[str, str]:
        """The fields by which a protocol can group rows: texts and whole numbers."""
        return {name: str(value) for name, value in self.fields.items() if isinstance(value, str | int)}

    def error_at(self, key: str, expected: str) -> InputError:
        """The error for a field with a wrong value."""
        name = self.file_names.get(key, key)
        if key not in self.fields:
            return InputError(
                f"{self.place}: there is no {name!r}; expected {expected} (fields: {', '.join(self.fields)})"
            )
        return InputError(f"{self.place}: {name!r} is {self.fields[key]!r:.60}; expected {expected}")


def read_records(path: Path) -> list[JudgmentRow]:
    """The records of a file, plain or gzipped.

    Raises:
        InputError: the file is damaged, not of records, or has none.
    """
    source, names = CaptionSource.resolve(path), None
    start = source.first_lines()[0]
    container: Container
    if start.startswith(b"PAR1"):
        from pyarrow import types

        container = parquet = ParquetRows(source)
        are_pictures = types.is_binary, types.is_large_binary, types.is_struct
        names = [each.name for each in parquet.schema if not any(is_picture(each.type) for is_picture in are_pictures)]
    elif start.startswith(b"PK\x03\x04"):
        container = Workbook(source)
    elif start[:1] in (b"{", b"[", b""):
        container = JsonLines(source)
    else:
        container = DelimitedRows(source, "tsv" if b"\t" in start else "csv")
    if start[:1] == b"[":
        items = decode_json(source.read_text(), str(path))
        records: Iterable[tuple[str, Any]] = ((f"{path}, item {k}", item) for k, item in enumerate(items))
    else:
        records = container.records(names)
    rows = [JudgmentRow(value, place) for place, value in records]
    if others := [row for row in rows if not isinstance(row.fields, dict)]:
        found = describe(others[0].fields)
        raise InputError(f'{others[0].place}: expected an object such as {{"image_id": …}}, but got {found}')
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def rename_columns(rows: list[JudgmentRow], columns: Mapping[str, str], path: Path) -> list[JudgmentRow]:
    """The rows with the fields that these columns hold (column → field); several of `references` make one list.

    Args:
        rows: of the file.
        columns: column → field.
        path: for messages.
    """
    absent_columns = [name for name in columns if not any(name in row for row in rows)]
    if absent_columns:
        raise InputError(f"{path} has no column {absent_columns[0]!r}; its first row has {', '.join(rows[0].fields)}")
    renamed_rows = []
    for row in rows if columns else ():
        fields = {name: value for name, value in row.fields.items() if name not in (*columns, *columns.values())}
        for name, field_name in columns.items():
            value = row.fields.get(name)
            if field_name == "references":
                texts = value if isinstance(value, list) else [value] * (name in row)
                fields[field_name] = [*fields.get(field_name, ()), *texts]
            elif name in row:
                fields[field_name] = value
        renamed_rows.append(JudgmentRow(fields, row.place))
    return renamed_rows or rows


def row_ids(rows: Iterable[JudgmentRow]) -> list[str]:
    """Each row's own `id`; else its image's where that is unique; else `image#k` for the k-th row of the image."""
    captions = [CaptionRow(row.place, row.text("image_id"), id=row.text("id") if "id" in row else None) for row in rows]
    return final_ids(captions, Counter(row.image_id for row in captions))


TOKENS = "Flickr8k.token.txt"
FOIL_FILES = ("foilv1.0_test_2017.json", "captions_val2014.json")
PASCAL_FILES = ("pair_pascal.mat", "consensus_pascal.mat")
TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".json")
_CATEGORIES, _VOTES = ("HC", "HI", "HM", "MM"), 48


@dataclass(frozen=True)
class FileLayout:
    """A file or folder that one function reads; `names_columns`: its columns may be chosen (column → field)."""

    what: str
    accepts: Callable[[Path], bool]
    read: Callable[..., Iterable[JudgmentRow]]
    names_columns: bool = False


def _read_flickr8k(folder: Path, annotation_file: str, crowd: bool) -> Iterator[JudgmentRow]:
    captions: dict[str, str] = {}  # image#k → caption
    images: dict[str, list[str]] = {}
    for line_number, line in CaptionSource.resolve(folder / TOKENS).lines():
        caption_id, tab, caption_text = line.rstrip("\n").partition("\t")
        if not tab:
            raise InputError(f"{folder / TOKENS}, line {line_number}: expected an id, a tab and a caption")
        captions[caption_id] = caption_text
        images.setdefault(caption_id.split("#")[0], []).append(caption_text)
    for line_number, line in CaptionSource.resolve(folder / annotation_file).lines():
        if not line.strip():
            continue
        location = f"{folder / annotation_file}, line {line_number}"
        try:
            image, caption_id, *rating_texts = line.split()
            values = [float(value) for value in rating_texts]
            ratings = [1] * int(values[1]) + [0] * int(values[2]) if crowd else [int(value) for value in values]
        except (ValueError, IndexError, OverflowError, MemoryError):
            expected_ratings = "share, yes and no votes" if crowd else "three ratings"
            raise InputError(f"{location}: expected an image, a caption id and {expected_ratings}") from None
        if caption_id not in captions or image not in images:
            raise InputError(f"{location}: {TOKENS} has no caption {caption_id!r} or no image {image!r}")
        row_fields: dict[str, Any] = {
            "image_id": image,
            "candidate": captions[caption_id],
            "references": images[image],
            "human": ratings,
            "candidate_in_references": caption_id.split("#")[0] == image or captions[caption_id] in images[image],
        }
        yield JudgmentRow(row_fields, location)


def _read_clipscore_json(path: Path) -> Iterator[JudgmentRow]:
    for image_id, image_entry in _entries(path, "an object of images, as CLIPScore's download script writes it"):
        location = f"{path}, image {image_id!r}"
        ratings_by_caption: dict[str, list[float]] = {}
        try:
            references = list(image_entry["ground_truth"])
            for judgment in image_entry["human_judgement"]:
                if judgment["rating"] == judgment["rating"]:  # some copies write nan where no expert answered
                    ratings_by_caption.setdefault(judgment["caption"], []).append(float(judgment["rating"]))
        except (TypeError, KeyError, ValueError, OverflowError):
            raise InputError(f"{location}: expected ground_truth and human_judgement") from None
        for caption, caption_ratings in ratings_by_caption.items():
            fields = {"image_id": image_id, "candidate": caption, "references": references, "human": caption_ratings}
            yield JudgmentRow({**fields, "candidate_in_references": caption in references}, location)


def _entries(path: Path, expected: str) -> list[tuple[str, Any]]:
    """The items of a JSON object."""
    content = decode_json(CaptionSource.resolve(path).read_text(), str(path))
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path}: expected {expected}")
    return list(content.items())


def _leaf(cell: Any) -> Any:
    """The text or number inside MATLAB's nested cells; an empty cell is an empty text."""
    while isinstance(cell, np.ndarray | np.void):
        inner_cell: Any = cell
        cell = next(iter(inner_cell), "")
    return cell


def _read_pascal_folder(folder: Path) -> Iterator[JudgmentRow]:
    """pair_pascal.mat (new_input, new_data, category) with consensus_pascal.mat (triplets: 48 rows for each pair)."""
    from scipy.io import loadmat

    with report_damage(str(folder), "MATLAB", Exception):  # loadmat raises errors of many types
        pair_data, consensus_data = (loadmat(str(folder / name)) for name in PASCAL_FILES)
        pair_inputs, categories = pair_data["new_input"].ravel(), pair_data["category"].ravel()
        triplets = consensus_data["triplets"].ravel()
        if len(triplets) != _VOTES * len(pair_inputs) or len(categories) != len(pair_inputs):
            raise InputError(f"{folder}: {len(triplets)} triplets, not {_VOTES} for each of {len(pair_inputs)} pairs")
        pairs = zip(pair_inputs, triplets.reshape(-1, _VOTES), strict=True)
        for pair_index, (pair_entry, pair_triplets) in enumerate(pairs):
            vote_sum = sum(int(_leaf(triplet[3])) for triplet in pair_triplets)  # 1 for a, -1 for b
            row_fields = {
                "image_id": str(_leaf(pair_entry[0])).rsplit(".", 1)[0],
                "category": _CATEGORIES[int(categories[pair_index]) - 1],
                "candidate_a": str(_leaf(pair_entry[1])).strip(),
                "candidate_b": str(_leaf(pair_entry[2])).strip(),
                "references": [str(_leaf(triplet[0])).strip() for triplet in pair_triplets],
                "consensus_winner": "a" if vote_sum > 0 else "b" if vote_sum < 0 else "tie",
            }
            yield JudgmentRow(row_fields, f"{folder}, pair {pair_index}")


def _read_fleur_json(path: Path) -> Iterator[JudgmentRow]:
    for category, pair_entries in _entries(path, "category → list of pairs, as FLEUR writes it"):
        for pair_index, pair_entry in enumerate(pair_entries if isinstance(pair_entries, list) else [None]):
            location = f"{path}, {category} {pair_index}"
            try:
                (a, b), label = pair_entry["captions"], pair_entry["label"]
                row_fields = {
                    "image_id": PurePosixPath(pair_entry["image"]).stem,
                    "category": category,
                    "candidate_a": a,
                    "candidate_b": b,
                    "references": pair_entry["references"],
                    "consensus_winner": {0: "a", 1: "b"}[label],
                }
            except (KeyError, TypeError, ValueError):
                raise InputError(f"{location}: expected image, two captions, label 0 or 1, and references") from None
            yield JudgmentRow(row_fields, location)


def _read_thumb(path: Path) -> Iterator[JudgmentRow]:
    possible_files = [path.with_name(f"mscoco_references.{file_ending}") for file_ending in ("json", "jsonl")]
    reference_files = [possible_file for possible_file in possible_files if possible_file.is_file()]
    if not reference_files:
        raise InputError(f"{path} has no references; put THumB's {possible_files[0].name} in the same folder")
    references_by_segment = {
        str(row.fields.get("seg_id")): row.texts("refs") for row in read_records(reference_files[0])
    }
    for row in read_records(path):
        segment_id = str(row.fields.get("seg_id"))
        if segment_id not in references_by_segment:
            raise row.error_at("seg_id", f"a segment of {reference_files[0].name}")
        row_fields = {
            "image_id": row.text("image"),
            "system": row.text("SYS"),
            "candidate": row.text("hyp"),
            "references": list(references_by_segment[segment_id]),
            "human": [row.number("human_score")],
            "precision": row.number("P"),
            "recall": row.number("R"),
        }
        yield JudgmentRow(row_fields, row.place)


def _read_valse_json(path: Path) -> Iterator[JudgmentRow]:
    for foil_id, foil_entry in _entries(path, "id → caption and foil, as VALSE writes it"):
        location = f"{path}, {foil_id!r}"
        try:
            votes = foil_entry["mturk"]
            row_fields = {
                "id": str(foil_id),
                "image_id": foil_entry["image_file"],
                "category": "foil",
                "candidate_a": foil_entry["caption"],
                "candidate_b": foil_entry["foil"],
                "references": [],
                "correct": "a",
                "human": votes,
                "valid": votes["caption"] >= 2,  # VALSE keeps what two of three annotators got right
            }
        except (KeyError, TypeError):
            raise InputError(f"{location}: expected caption, foil, image_file and mturk") from None
        yield JudgmentRow(row_fields, location)


def _read_foil_folder(folder: Path) -> list[JudgmentRow]:
    """FOIL's annotations: one entry with `foil` false per original caption, and those made of it with the same id."""
    foil_data, caption_data = (
        decode_json(CaptionSource.resolve(folder / name).read_text(), str(folder / name)) for name in FOIL_FILES
    )
    rows: list[JudgmentRow] = []
    try:
        file_names = {image_entry["id"]: image_entry["file_name"] for image_entry in foil_data["images"]}
        references_by_image: dict[int, list[str]] = {}
        for entry in caption_data["annotations"]:
            references_by_image.setdefault(entry["image_id"], []).append(entry["caption"])
        original_captions = {entry["id"]: entry["caption"] for entry in foil_data["annotations"] if not entry["foil"]}
        for entry in foil_data["annotations"]:
            if entry["foil"]:
                original_caption, image_id = original_captions[entry["id"]], entry["image_id"]
                row_fields = {
                    "id": str(entry.get("foil_id", f"{entry['id']}#{len(rows)}")),
                    "image_id": str(file_names.get(image_id, image_id)),
                    "candidate_a": original_caption,
                    "candidate_b": entry["caption"],
                    "references": [text for text in references_by_image.get(image_id, []) if text != original_caption],
                    "correct": "a",
                    "valid": True,
                }
                rows.append(JudgmentRow(row_fields, f"{folder}, foil of caption {entry['id']}"))
    except (KeyError, TypeError):
        expected_fields = "annotations with id, image_id, caption and foil, and COCO's captions of the same images"
        raise InputError(f"{folder}: expected {expected_fields}") from None
    return rows


def _read_rated_table(path: Path, columns: Mapping[str, str] | None = None) -> Iterator[JudgmentRow]:
    columns = dict(columns or {})
    captions = load(path, on_missing="keep", columns=columns)
    if all(caption.human is None for caption in captions) and "human" not in columns.values():
        with suppress(InputError):  # a sheet may call them so
            captions = load(path, on_missing="keep", columns=columns | {"rating": "human"})
    for caption in captions:
        if caption.human is None:
            raise InputError(
                f"{path}: the caption {caption.id!r} has no human rating; expected a column `human` or `rating`, "
                "or --column human=NAME"
            )
        row_fields = {
            "id": caption.id,
            "image_id": caption.image_id,
            "candidate": caption.candidate,
            "references": list(caption.references),
            "human": list(caption.human),
            "system": caption.system or "",
        }
        yield JudgmentRow(row_fields, f"{path}, caption {caption.id!r}")


def _holds_files(folder: Path, *names: str) -> bool:
    return all((folder / name).is_file() for name in names)


def _flickr8k_layout(annotation_file: str, crowd: bool) -> FileLayout:
    return FileLayout(
        f"the folder with {annotation_file} and {TOKENS}",
        lambda path: _holds_files(path, annotation_file, TOKENS),
        partial(_read_flickr8k, annotation_file=annotation_file, crowd=crowd),
    )


def _is_json(path: Path) -> bool:
    return path.is_file() and path.suffix == ".json"


FILES: Mapping[str, FileLayout] = {
    "flickr8k_experts": _flickr8k_layout("ExpertAnnotations.txt", crowd=False),
    "flickr8k_crowd": _flickr8k_layout("CrowdFlowerAnnotations.txt", crowd=True),
    "clipscore_json": FileLayout("the json of CLIPScore's flickr8k_example", _is_json, _read_clipscore_json),
    "pascal_folder": FileLayout(
        f"the folder with {' and '.join(PASCAL_FILES)}",
        lambda path: _holds_files(path, *PASCAL_FILES),
        _read_pascal_folder,
    ),
    "fleur_json": FileLayout("FLEUR's pascal_50s.json", _is_json, _read_fleur_json),
    "thumb_file": FileLayout(
        "THumB's mscoco_THumB-1.0.jsonl", lambda path: path.name == "mscoco_THumB-1.0.jsonl", _read_thumb
    ),
    "valse_json": FileLayout("VALSE's foil-it.json", _is_json, _read_valse_json),
    "foil_folder": FileLayout(
        f"the folder with {' and '.join(FOIL_FILES)}", lambda path: _holds_files(path, *FOIL_FILES), _read_foil_folder
    ),
    "rated_table": FileLayout(
        "a table of captions with human ratings (CSV, TSV, Parquet, JSON)",
        lambda path: path.is_file() and bool(set(path.suffixes[-2:]) & set(TABLES)),
        _read_rated_table,
        names_columns=True,
    ),
}


def _convert_caparena(row: JudgmentRow) -> list[dict[str, Any]]:
    """A battle; `winner` is a source, or equal, skip or bad, which count as ties as in the authors' code."""
    first_system, second_system, winner = row.text("source1"), row.text("source2"), row.text("winner")
    side_of_winner = {first_system: "a", second_system: "b", "equal": "tie", "skip": "tie", "bad": "tie"}
    if winner not in side_of_winner:
        raise row.error_at("winner", f"{first_system}, {second_system}, equal, skip or bad")
    row_fields = {
        "image_id": row.text("img"),
        "system_a": first_system,
        "system_b": second_system,
        "candidate_a": row.text("caption1"),
        "candidate_b": row.text("caption2"),
        "references": [row.text("ref")],
        "correct": side_of_winner[winner],
    }
    return [row_fields | ({"cluster": row.text("cluster")} if "cluster" in row else {})]


def _convert_detailcaps(row: JudgmentRow) -> list[dict[str, Any]]:
    """A caption of each of three models. The authors leave out images without ratings; here these are counted."""
    rating_text = row.fields.get("GPT4_Eval")
    references = [row.text(f"GT_Caption_{model_name}") for model_name in ("GPT4O", "GPT4V", "Gemini15Pro")]
    model_ratings = {} if rating_text is None else decode_json(row.text("GPT4_Eval"), f"{row.place}, GPT4_Eval")
    if not isinstance(model_ratings, dict) or not all(is_finite(value) for value in model_ratings.values()):
        raise row.error_at("GPT4_Eval", "JSON, each model with its rating")
    return [
        {
            "image_id": row.text("image"),
            "candidate": row.text(model_name),
            "references": references,
            "human": [float(model_ratings[model_name])] if model_name in model_ratings else [],
            "system": model_name,
        }
        for model_name in ("CogVLM", "ShareCaptioner", "LLaVA_v15")
    ]


CONVERTERS: Mapping[str, Callable[[JudgmentRow], list[dict[str, Any]]]] = {
    "caparena": _convert_caparena,
    "detailcaps": _convert_detailcaps,
}
