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
            first = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
            self._first_names = {name for name in first if isinstance(name, str)}
            named = not self._first_names.isdisjoint(self.mapping)
            self.layout = None if named else find_layout(self._first_names)
            self._image_name = self._find_image_name(first)
        return self.layout

    def _find_image_name(self, row: Mapping[Any, Any]) -> str | None:
        """The field of this row that names its image; None where a native field, the user or a layout does."""
        names = [name for name in row if isinstance(name, str) and len(name) <= _LONGEST_NAME]
        fields = {self.mapping.get(name, name.strip().casefold().replace(" ", "_")) for name in names}
        if self.layout is not None or fields & {"image_id", "image"}:
            return None
        known = _IMAGE_IDS if "id" in fields else _IMAGE_NAMES
        named = (name for name in known if name in row and name not in self.mapping)
        return next((name for name in named if isinstance(row[name], str | int | None)), None)

    def native(self, names: Iterable[str]) -> list[str]:
        """The native names of these columns, as far as their layout has them."""
        names = list(names)
        layout = self.detect_layout(names)
        return names if layout is None else [layout.renamed.get(name, name) for name in names]

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
            row.kept = tuple(fields.get(name) for name in self.keep)
        return row

    def note(self, assumption: str, detail: str) -> None:
        """Adds a note, once."""
        if (assumption, detail) not in self._noted:
            self._noted.add((assumption, detail))
            self.notes.setdefault(assumption, []).append(detail)

    def _field(self, name: str) -> str | None:
        if name == self._image_name:
            self.note("images_by", name)
            return _IMAGE_NAMES[name]
        for known in (name, *self._equal_without_case(name)):
            field = self.mapping.get(known)
            if field is not None:
                self.used.add(known)
            else:
                field = _known_field(known)
                field = None if field in self.mapping.values() else field
            if field is not None:
                if known != name:
                    self.note("headings_read_without_case", f"{shorten(name)[1:-1]} as {known}")
                return field
        return None

    def _equal_without_case(self, name: str) -> list[str]:
        """The names that this one equals but for its case, unless the rows have these names, too."""
        if len(name) > _LONGEST_NAME or name in _KNOWN:
            return []
        folded = name.strip().casefold().replace(" ", "_")
        names = [known for known in self.mapping if known.casefold() in (folded, name.casefold())]
        names += [folded] if _known_field(folded) is not None else []
        return [known for known in names if known != name and known not in (self._first_names or ())]


def _known_field(name: str) -> str | None:
    field = name if name in (*FIELDS, *_EVENT_FIELDS) else OTHER_NAMES.get(name)
    return "references" if field is None and reference_number(name) is not None else field


def parse_columns(texts: Sequence[str], flag: str = "--column") -> dict[str, str]:
    """`FIELD=NAME` texts of this option as column → field; `references=NAME,NAME` stands for several columns.

    Several columns of candidates are systems of their names.

    A column that holds both the candidate and the references is, in one file, the candidate, and in the other the
    reference: it is stored as the candidate's, which files of references are read by, too.
    """
    mapping: dict[str, str] = {}
    for text in texts:
        field, equals, names = text.partition("=")
        if not equals or not names or field not in (*FIELDS, *_EVENT_FIELDS):
            raise InputError(
                f"{flag} {text}: expected FIELD=NAME, such as candidate=output; the fields are "
                f"{', '.join((*FIELDS, *_EVENT_FIELDS))}"
            )
        for name in filter(None, names.split(",")) if field in _SEVERAL else [names]:
            if {field, mapping.get(name)} == {"candidate", "references"}:
                mapping[name] = "candidate"
            elif name in mapping or (field in mapping.values() and field not in _SEVERAL):
                raise InputError(f"{flag} {text}: {shorten(name)} or {field} was given before; give each once")
            else:
                mapping[name] = field
    return mapping


def reference_number(name: Any) -> int | None:
    """The number in `reference_1`, `ref0` and similar names."""
    return _parse_number(name) if isinstance(name, str) else None


@lru_cache(maxsize=1024)  # called for every row
def _parse_number(name: str) -> int | None:
    match = _NUMBERED.fullmatch(name)
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
    names, texts = names.own_names if isinstance(names, KeyedFields) else list(names), []
    for name in names[:most]:
        close = close_name(name)
        text = name if isinstance(name, str) else f"({type(name).__name__})"
        texts.append(f"{text} ({close}?)" if close else text)
    return list_names([*texts, *[""] * (len(names) - most)], most)
