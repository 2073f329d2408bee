"""Column names of caption rows: capmeter's own, common alternatives, and those that the user maps to fields.

>>> columns = Columns({"photo": "image_id"})
>>> [columns.field(name) for name in ("photo", "prediction", "ref0", "ground_truth", "score")]
['image_id', 'candidate', 'references', 'references', None]
>>> suggest_names(["imageid", "score"])
'imageid (image_id?), score'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from capmeter.captions.layouts import OTHER_NAMES, RowLayout, find_layout
from capmeter.captions.rows import CaptionRow
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten

FIELDS = ("id", "image_id", "candidate", "references", "image", "system", "human", "split")
"""The fields of a native row."""
TIMES = ("start", "end")
"""Start and end in seconds of a row that is one event of its video."""
_EVENT_FIELDS = (*TIMES, "box", "annotator")
_IMAGE_IDS = ("video_id", "audio_id", "clip_id", "youtube_id")
_IMAGE_NAMES = dict.fromkeys(_IMAGE_IDS, "image_id")
_IMAGE_NAMES |= dict.fromkeys(("image_path", "img_path", "image_name", "image_file"), "image")
_IMAGE_NAMES |= dict.fromkeys(
    ("video", "audio", "video_name", "audio_name", "video_path", "audio_path", "file_name", "filename"), "image_id"
)
"""Names of what a caption is of, and their fields, in rows without `image_id` and `image`; the first is used."""
_NUMBERED = re.compile(r"(?:ref|reference)s?_?(\d{1,9})")
_KNOWN = dict.fromkeys((*FIELDS, *OTHER_NAMES, "captions"))
_LONGEST_NAME = 100
IN_PYTHON = '(in Python columns={"NAME": FIELD})'
"""What follows a message that names `--column FIELD=NAME`: functions raise it, too."""
_SEVERAL = ("candidate", "references")  # fields that several columns may hold


@dataclass
class Columns:
    """Which column holds which field.

    mapping: the user's columns and their fields, which come before the known names.
    numbered: whether rows with a candidate and references, but without an image, are numbered.
    ignored: the unknown columns met so far.
    used: the columns of `mapping` met so far.
    notes: what was assumed about the rows read so far, for the notes of the captions.
    layout: the layout of another program, if the rows have one.
    image_field: the field that names the image in every row, decided by the first; "" if rows are numbered.
    keep: the columns whose values are carried through with the rows; None: neither values nor numbers are.
    names: with `keep`, the names of all columns met so far.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    numbered: bool = True
    ignored: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    notes: dict[str, list[str]] = field(default_factory=dict)
    layout: RowLayout | None = None
    image_field: str | None = None
    keep: tuple[str, ...] | None = None
    names: dict[str, None] = field(default_factory=dict)
    _fields: dict[str, str | None] = field(default_factory=dict)
    _first_names: set[str] | None = None
    _image_name: str | None = None
    _noted: set[tuple[str, str]] = field(default_factory=set)

    def detect_layout(self, names: Iterable[Any]) -> RowLayout | None:
        """The layout of the rows, decided by the names in the first; None where the user maps any of these."""
        if self._first_names is None:
            first_row = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
            self._first_names = {column_name for column_name in first_row if isinstance(column_name, str)}
            any_mapped = not self._first_names.isdisjoint(self.mapping)
            self.layout = None if any_mapped else find_layout(self._first_names)
            self._image_name = self._find_image_name(first_row)
        return self.layout

    def _find_image_name(self, first_row: Mapping[Any, Any]) -> str | None:
        """The field of this row that names its image; None where a native field, the user or a layout does."""
        column_names = [name for name in first_row if isinstance(name, str) and len(name) <= _LONGEST_NAME]
        native_names = {self.mapping.get(name, name.strip().casefold().replace(" ", "_")) for name in column_names}
        if self.layout is not None or native_names & {"image_id", "image"}:
            return None
        known_names = _IMAGE_IDS if "id" in native_names else _IMAGE_NAMES
        present_names = (name for name in known_names if name in first_row and name not in self.mapping)
        return next((name for name in present_names if isinstance(first_row[name], str | int | None)), None)

    def native(self, names: Iterable[str]) -> list[str]:
        """The native names of these columns, as far as their layout has them."""
        names = list(names)
        layout = self.detect_layout(names)
        return names if layout is None else [layout.renamed.get(column_name, column_name) for column_name in names]

    def field(self, name: str) -> str | None:
        """The field that a column of this name holds; None where the name is not known."""
        if name not in self._fields:
            self._fields[name] = self._field(name)
        return self._fields[name]

    def carry(self, row: CaptionRow, fields: Any, number: int) -> CaptionRow:
        """Adds what is carried through: the row's number in its file and its values of the columns in `keep`."""
        row.number = number
        if self.keep and isinstance(fields, Mapping):
            self.names.update(dict.fromkeys(fields))
            row.kept = tuple(fields.get(column_name) for column_name in self.keep)
        return row

    def note(self, assumption: str, detail: str) -> None:
        """Adds a note, once."""
        if (assumption, detail) not in self._noted:
            self._noted.add((assumption, detail))
            self.notes.setdefault(assumption, []).append(detail)

    def _field(self, column_name: str) -> str | None:
        if column_name == self._image_name:
            self.note("images_by", column_name)
            return _IMAGE_NAMES[column_name]
        for known_name in (column_name, *self._equal_without_case(column_name)):
            field_name = self.mapping.get(known_name)
            if field_name is not None:
                self.used.add(known_name)
            else:
                field_name = _known_field(known_name)
                field_name = None if field_name in self.mapping.values() else field_name
            if field_name is not None:
                if known_name != column_name:
                    self.note("headings_read_without_case", f"{shorten(column_name)[1:-1]} as {known_name}")
                return field_name
        return None

    def _equal_without_case(self, column_name: str) -> list[str]:
        """The names that this one equals but for its case, unless the rows have these names, too."""
        if len(column_name) > _LONGEST_NAME or column_name in _KNOWN:
            return []
        folded_name = column_name.strip().casefold().replace(" ", "_")
        equal_names = [known for known in self.mapping if known.casefold() in (folded_name, column_name.casefold())]
        equal_names += [folded_name] if _known_field(folded_name) is not None else []
        return [known for known in equal_names if known != column_name and known not in (self._first_names or ())]


def _known_field(column_name: str) -> str | None:
    field_name = column_name if column_name in (*FIELDS, *_EVENT_FIELDS) else OTHER_NAMES.get(column_name)
    return "references" if field_name is None and reference_number(column_name) is not None else field_name


def parse_columns(texts: Sequence[str], flag: str = "--column") -> dict[str, str]:
    """`FIELD=NAME` texts of this option as column → field; `references=NAME,NAME` stands for several columns.

    Several columns of candidates are systems of their names.

    A column that holds both the candidate and the references is, in one file, the candidate, and in the other the
    reference: it is stored as the candidate's, which files of references are read by, too.
    """
    column_mapping: dict[str, str] = {}
    for option_text in texts:
        field, equals, column_names = option_text.partition("=")
        if not equals or not column_names or field not in (*FIELDS, *_EVENT_FIELDS):
            raise InputError(
                f"{flag} {option_text}: expected FIELD=NAME, such as candidate=output; the fields are "
                f"{', '.join((*FIELDS, *_EVENT_FIELDS))}"
            )
        for column_name in filter(None, column_names.split(",")) if field in _SEVERAL else [column_names]:
            if {field, column_mapping.get(column_name)} == {"candidate", "references"}:
                column_mapping[column_name] = "candidate"
            elif column_name in column_mapping or (field in column_mapping.values() and field not in _SEVERAL):
                raise InputError(
                    f"{flag} {option_text}: {shorten(column_name)} or {field} was given before; give each once"
                )
            else:
                column_mapping[column_name] = field
    return column_mapping


def reference_number(name: Any) -> int | None:
    """The number in `reference_1`, `ref0` and similar names."""
    return _parse_number(name) if isinstance(name, str) else None


@lru_cache(maxsize=1024)  # called for every row
def _parse_number(column_name: str) -> int | None:
    match = _NUMBERED.fullmatch(column_name)
    return int(match[1]) if match else None


def close_name(name: Any) -> str | None:
    """The known name that was probably meant by an unknown one."""
    from difflib import get_close_matches  # which only mistakes need

    if not isinstance(name, str) or name in _KNOWN or reference_number(name) is not None:
        return None
    return next(iter(get_close_matches(name[:40].strip().lower().replace(" ", "_"), _KNOWN, 1, 0.75)), None)


class KeyedFields(dict[Any, Any]):
    """The fields of a row that stands under its image's key, and that key as `image_id`."""

    def __init__(self, fields: Mapping[Any, Any], image_id: str) -> None:
        super().__init__({**fields, "image_id": image_id})
        self.own_names = list(fields)


def suggest_names(names: Iterable[Any], most: int = 8) -> str:
    """The first names, each unknown one followed by the known name that was probably meant."""
    names, shown_names = names.own_names if isinstance(names, KeyedFields) else list(names), []
    for column_name in names[:most]:
        similar_name = close_name(column_name)
        shown_name = column_name if isinstance(column_name, str) else f"({type(column_name).__name__})"
        shown_names.append(f"{shown_name} ({similar_name}?)" if similar_name else shown_name)
    return list_names([*shown_names, *[""] * (len(names) - most)], most)
