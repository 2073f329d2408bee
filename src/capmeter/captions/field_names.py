"""Names of fields: one table for every file alike, paths to nested values, and layouts, the names of one program.

>>> resolve_path({"en": {"caption": ["a dog"]}, "s": [{"raw": "a"}, {"raw": "b"}]}, "en.caption", "row 0")
['a dog']
>>> resolve_path({"turns": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "a dog"}]},
...              "turns[from=gpt].value", "row 0")
['a dog']
>>> suggest_names(["imageid", "score"])
'imageid (image_id?), score'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral
from typing import Any

from capmeter.captions.rows import LONGEST_ID
from capmeter.core.errors import InputError
from capmeter.core.json_text import read_bundled_json
from capmeter.core.messages import describe, list_names, shorten

Record = Mapping[Any, Any]
FIELDS = ("id", "image_id", "candidate", "references", "image", "system", "human", "split")
"""The fields of a native row."""
TIMES = ("start", "end")
"""Start and end in seconds of a row that is one event of its video."""
ALL_FIELDS = (*FIELDS, *TIMES, "box", "annotator")
NAMES: dict[str, Any] = read_bundled_json("field_names.json")
"""The names that programs give to fields, and to the lists that hold them."""
OTHER_NAMES: dict[str, str] = NAMES["other"]
"""Other names of fields."""
SHORT_NAMES: dict[str, str] = NAMES["short"]
"""Names that hold a field, as text, where no name of the file's records above does."""
IMAGE_NAMES: list[str] = NAMES["image"]
"""Names of what a caption is of, in the order of preference."""
KNOWN_NAMES = dict.fromkeys((*FIELDS, *OTHER_NAMES, "captions"))
_NUMBER = re.compile(r"(.*?)_?(\d{1,9})")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
LONGEST_NAME = 100
_SEVERAL = ("candidate", "references")  # fields that several columns may hold
OMITTED = "__omitted__"
"""The name by which a layout says why a record's reference is left out."""
IN_PYTHON = '(in Python columns={"NAME": FIELD})'
"""What follows a message that names `--column FIELD=NAME`: functions raise it, too."""


@dataclass(frozen=True)
class Layout:
    """The records of one program or data set.

    name, holds: its short name, and what its files hold.
    marks: the names that its records have; `caption_#` stands for `caption_1`, `caption_02` …
    fields: the path of each of its fields, as in `--column FIELD=PATH`; all others have the names of native rows.
    convert: turns a record, read at a location, into one with native names.
    without: names that its records do not have.
    single: each record holds one of several references of its image.
    are_references: the records hold references and never candidates.
    numbered: records that name no image (clip, video) are numbered.
    only: a name, the pattern of its value in records that are read, and the note on the others, which are left out.
    """

    name: str
    holds: str
    marks: frozenset[str]
    fields: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[Record, str], dict[Any, Any]] | None = None
    without: frozenset[str] = frozenset()
    single: bool = False
    are_references: bool = False
    numbered: bool = False
    only: tuple[str, str, str] | None = None

    def accepts(self, names: frozenset[str]) -> bool:
        """Whether a record with these names, those of numbers as `caption_#`, is of this layout."""
        return self.marks <= names and not self.without & names

    def reads(self, record: Record) -> bool:
        """Whether a record of this layout is read, by `only`."""
        return self.only is None or re.fullmatch(self.only[1], str(record.get(self.only[0]))) is not None


def names_of(record: Record) -> frozenset[str]:
    """The names of a record, with `caption_#` for each that ends in a number."""
    names = {name for name in record if isinstance(name, str)}
    return frozenset(names | {without_number(name) for name in names if name[-1:].isdigit()})


@lru_cache(maxsize=1024)  # called for every row
def without_number(name: str) -> str:
    """`caption_#` for `caption_1`; a name that ends in no number as it is."""
    match = _NUMBER.fullmatch(name[:LONGEST_NAME])
    return f"{match[1]}_#" if match else name


def resolve_path(record: Any, path: str, location: str) -> Any:
    """The value at a path such as `en.caption`, `sentences[].raw`, `conversations[from=gpt].value` or `choices[0]`.

    Args:
        record: a row as JSON holds it.
        path: names joined by dots; `[]` takes all elements of a list, `[k]` one, `[name=value]` those with this value.
        location: of the row, for messages.

    Returns:
        The value, a list of values where the path takes several elements, or None where the record has no such name.

    Raises:
        InputError: one of several elements lacks a name of the path.
    """
    values, are_many = [record], False
    for name, selector in _STEP.findall(path):
        if name:
            missing = [value for value in values if not isinstance(value, Mapping) or name not in value]
            if missing and are_many:
                raise InputError(f"{location}: {path}: an element has no {name}, it is {describe(missing[0])}")
            values = [] if missing else [value[name] for value in values]
            continue
        lists = [value for value in values if isinstance(value, Sequence) and not isinstance(value, str)]
        if selector.lstrip("-").isdigit():
            lists = [values] if are_many else lists
            position = int(selector)
            values = [each[position] for each in lists if -len(each) <= position < len(each)]
            are_many = False
        else:
            key, equals, wanted_value = selector.partition("=")
            values = [element for each in lists for element in each]
            if equals:
                values = [e for e in values if isinstance(e, Mapping) and str(e.get(key)) == wanted_value]
            are_many = True
    return values if are_many else values[0] if values else None


def path_root(path: str) -> str:
    """The name that a path begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def parse_columns(texts: Sequence[str], flag: str = "--column") -> dict[str, str]:
    """`FIELD=PATH` texts of this option as path → field; `references=PATH,PATH` stands for several columns.

    Several columns of candidates are systems of their names.

    A column that holds both the candidate and the references is, in one file, the candidate, and in the other the
    reference: it is stored as the candidate's, which files of references are read by, too.
    """
    column_mapping: dict[str, str] = {}
    for option_text in texts:
        field, equals, column_names = option_text.partition("=")
        if not equals or not column_names or field not in ALL_FIELDS:
            raise InputError(
                f"{flag} {option_text}: expected FIELD=NAME, such as candidate=output or references=sentences[].raw; "
                f"the fields are {', '.join(ALL_FIELDS)}"
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


def known_field(name: str) -> str | None:
    """The field that a name holds in files alike: its own one, another's, or references for `ref1`, `reference_2` …"""
    field_name = name if name in ALL_FIELDS else OTHER_NAMES.get(name)
    return "references" if field_name is None and is_numbered_reference(name) else field_name


def is_numbered_reference(name: str) -> bool:
    """Whether this is the name of one of several columns of references."""
    return name[-1:].isdigit() and without_number(name) in NAMES["numbered"]


def close_name(name: Any) -> str | None:
    """The known name that was probably meant by an unknown one."""
    from difflib import get_close_matches  # which only mistakes need

    if not isinstance(name, str) or name in KNOWN_NAMES or name in IMAGE_NAMES:
        return None
    if without_number(name) in ("caption_#", *NAMES["numbered"]):
        return None
    return next(iter(get_close_matches(name[:40].strip().lower().replace(" ", "_"), KNOWN_NAMES, 1, 0.75)), None)


def suggest_names(names: Iterable[Any], most: int = 8) -> str:
    """The first names, each unknown one followed by the known name that was probably meant."""
    names, shown_names = list(getattr(names, "own_names", names)), []
    for column_name in names[:most]:
        similar_name = close_name(column_name)
        shown_name = column_name if isinstance(column_name, str) else f"({type(column_name).__name__})"
        shown_names.append(f"{shown_name} ({similar_name}?)" if similar_name else shown_name)
    return list_names([*shown_names, *[""] * (len(names) - most)], most)


def fold_name(name: str) -> str:
    """A name in lower case with underscores, unless it is known as it is."""
    return name if name in IMAGE_NAMES else name[:LONGEST_NAME].strip().casefold().replace(" ", "_")


def number_of(name: str) -> int:
    """The number at the end of a name, -1 without one."""
    match = _NUMBER.fullmatch(name[:LONGEST_NAME])
    return int(match[2]) if match else -1


def can_name_image(value: Any, name: str) -> bool:
    """Whether a value can name an image: any value of `image_id`, else a text or a number that is not a picture."""
    if name == "image_id":
        return value is not None
    if isinstance(value, str):
        return bool(value.strip()) and len(value) <= LONGEST_ID
    is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
    return is_whole and type(value) is not bool
