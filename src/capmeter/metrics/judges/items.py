"""Questions about images, from a file: JSON, JSON lines or Parquet.

Each row has the name of an image (`image_id`, `id`, `img_path`, `image_name`, `video_id` …), or the file is an object
of rows by image. A row has `questions`, a list of questions, or it is one; a question is a text, or an
object with `question`, and maybe `choices`, `answer` and `kind`. What rows of another layout hold says the protocol of
the judge that asks about them (`JudgeProtocol.list_items`).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from capmeter.captions.containers import JsonLines, ParquetRows, Records
from capmeter.captions.matching import file_stem
from capmeter.captions.rows import image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, list_names
from capmeter.core.settings import home_path

_IDS = (
    *("image_id", "img_path", "image_name", "image_path", "video_id", "video_name", "file_id", "image", "img", "vid"),
    *("id", "idx"),
)
_EXPECTED = "expected rows of images with their questions, as JSON, JSON lines or Parquet"
_MAX_ITEMS = 10_000  # of one image

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not empty."""
Plain = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value),
    StringConstraints(strip_whitespace=True),
]
_Word = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]


def describe_problem(error: ValidationError) -> str:
    """The first problem that pydantic found, in one sentence: where, what was found, what was expected."""
    problem = error.errors(include_url=False)[0]
    place, reason = ": ".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        reason = "unknown field; see docs/judges.md for those of a task"
    elif problem["type"] != "value_error":
        reason = f"got {describe(problem['input'])}; {reason}"
        if isinstance(problem["input"], bool) and "string" in reason:
            reason += " (yes and no are not text in YAML: write them in quotes)"
    return f"{place}: {reason}" if place else reason


class Item(BaseModel):
    """A question about an image, or something else that a judge asks about.

    Attributes:
        text: of it (in files `question`).
        choices: of a question with several; answer: the right one, or any expected answer.
        kind: what it asks about.
        tag: its label in a checklist.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    text: Text = Field(validation_alias="question")
    choices: tuple[Plain, ...] = ()
    answer: Plain = ""
    kind: _Word = ""
    tag: _Word = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: each for name, each in value.items() if each is not None or name == "question"}
        return {"question": value} if isinstance(value, str) else value

    @property
    def is_answerable(self) -> bool:
        """Whether the right answer is among several choices that have letters."""
        return len(self.choices) > 1 and self.answer in self.choices[: len(ascii_uppercase)]

    @property
    def lettered(self) -> list[str]:
        """The choices with their letters."""
        return [f"{letter}. {choice}" for letter, choice in zip(ascii_uppercase, self.choices, strict=False)]

    @property
    def description(self) -> str:
        """The question with its choices and the right one.

        >>> Item(text="Which?", choices=("blue", "red"), answer="red").description
        'Which? [A. blue; B. red (right)]'
        """
        right = f" [right: {self.answer}]" if self.answer else ""
        marked = [f"{each} (right)" if each[3:] == self.answer else each for each in self.lettered]
        return f"{self.text} [{'; '.join(marked)}]" if marked else f"{self.text}{right}"


def list_questions(row: Mapping[str, Any]) -> dict[str, Any]:
    """The lists of questions of a row, by field, and the question that it is."""
    listed = {"questions": row["questions"]} if row.get("questions") is not None else {}
    return {**listed, "row": [row]} if "question" in row else listed


ListItems = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What lists the items of a row by field."""


@dataclass(frozen=True, eq=False)
class ItemFile:
    """The items of each image of a file.

    Args:
        path: of the file.
        sha256: of its content.
        by_image: items by the image's name in the file, in the order of the file; "" stands for every image.
        aliases: names of images, with and without folder and ending, that fit one image.
    """

    path: str
    sha256: str
    by_image: Mapping[str, tuple[Item, ...]]
    aliases: Mapping[str, str]

    def key(self, image_id: str) -> str:
        """The name of an image in the file: the same, else the one without folder and ending; empty if absent."""
        names = (image_id, self.aliases.get(image_id, ""), self.aliases.get(file_stem(image_id), ""))
        return next((name for name in names if name in self.by_image), "")

    def of(self, image_id: str) -> tuple[Item, ...]:
        """The items of an image; empty without any."""
        return self.by_image.get(self.key(image_id), ())


def read_items(path: str, list_items: ListItems = list_questions, form: type[Item] = Item) -> ItemFile:
    """The items in a file, read once per content.

    Args:
        path: of the file.
        list_items: which lists of items a row has, by field.
        form: of the items.

    Raises:
        InputError: the file cannot be read, has no items, or a row is malformed; the row is named.
    """
    path = str(home_path(path))
    return _read_items(path, file_stamp("questions", path, _EXPECTED), list_items, form)


@functools.lru_cache(maxsize=8)
def _read_items(path: str, stamp: tuple[int, int], list_items: ListItems, form: type[Item]) -> ItemFile:
    items: dict[str, list[Item]] = {}
    aliases: dict[str, set[str]] = {}
    lists = TypeAdapter(dict[str, list[form]])  # type: ignore[valid-type]
    for row_location, row in _records(CaptionSource.resolve(path)):
        for location, image_names, fields in _images_of(row, row_location):
            if not (listed := list_items(fields)):
                field_names = list_names(map(str, fields)) or "none"
                raise InputError(
                    f"{location}: has no questions for this judge (its fields: {field_names}); see docs/judges.md for "
                    "the layouts"
                )
            try:
                row_items: list[Item] = [*chain.from_iterable(lists.validate_python(listed).values())]
            except ValidationError as error:
                raise InputError(f"{location}: {describe_problem(error)}") from None
            image_items = items.setdefault(image_names[0], [])
            image_items += row_items
            if len(image_items) > _MAX_ITEMS:
                raise InputError(f"{location}: more than {_MAX_ITEMS:,} questions about image {image_names[0]!a}")
            for alias in {alias for name in image_names for alias in (name, file_stem(name))}:
                aliases.setdefault(alias, set()).add(image_names[0])
    if not any(items.values()):
        raise InputError(f"{path}: has nothing to ask about; {_EXPECTED}")
    unique_aliases = {alias: next(iter(images)) for alias, images in aliases.items() if len(images) == 1}
    by_image = {image_name: tuple(image_items) for image_name, image_items in items.items()}
    return ItemFile(path, hashlib.sha256(Path(path).read_bytes()).hexdigest(), by_image, unique_aliases)


def _records(source: CaptionSource) -> Records:
    """The rows of a file with their places; an object of rows by image is one."""
    first_line, second_line = source.first_lines()
    if first_line.startswith(b"PAR1"):
        rows = ParquetRows(source)
        return rows.records([name for name in rows.header or () if name not in ("images", "image")])
    if first_line[:1] == b"{" and first_line[-1:] == b"}" and second_line:
        return JsonLines(source).records()
    if first_line[:1] not in (b"{", b"["):
        raise InputError(f"{source.name}: neither JSON nor Parquet; {_EXPECTED}")
    document = decode_json(source.read_text(), source.name)
    listed_rows = document if isinstance(document, list) else [document]
    return ((f"{source.name}, row {number}", row) for number, row in enumerate(listed_rows, 1))


def _images_of(row: Any, location: str) -> Iterator[tuple[str, list[str], Mapping[str, Any]]]:
    """The images of a row: their places, their names, and the fields about them."""
    if not isinstance(row, dict):
        raise InputError(f"{location}: expected an object with an image and its questions, got {describe(row)}")
    image_names = [image_key(row[key], location, key) for key in _IDS if isinstance(row.get(key), str | int)]
    if image_names:
        yield location, image_names, row
    elif {"questions", "checklist"} & row.keys() or not all(isinstance(each, dict | list) for each in row.values()):
        raise InputError(f"{location}: has no image's name; expected one of {', '.join(_IDS)}")
    else:  # by image
        for name, fields in row.items():
            place = f"{location}, image {name!a}"
            yield place, [image_key(name, location)], fields if isinstance(fields, dict) else {"questions": fields}
