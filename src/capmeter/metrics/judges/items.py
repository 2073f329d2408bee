"""Questions about images, from a file: JSON, JSON lines or Parquet.

Each row has the name of an image (`image_id`, `id`, `img_path`, `image_name`, `video_id` …), or the file is an object
of rows by image. A row has `questions` or a `checklist`, a list of questions, or it is one; a question is a text, or an
object with `question`, and maybe `choices`, `answer` and `kind`. What rows of another layout hold says the protocol of
the judge that asks about them (`JudgeProtocol.read_row`).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.containers.binary import ParquetRows
from capmeter.captions.containers.container import Records
from capmeter.captions.containers.lines import JsonLines
from capmeter.captions.matching import file_stem
from capmeter.captions.rows import caption_text, image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, list_names
from capmeter.metrics.judges.reading import LETTERS

_IDS = (
    *("image_id", "img_path", "image_name", "image_path", "video_id", "video_name", "file_id", "image", "img", "vid"),
    *("id", "idx"),
)
_EXPECTED = "expected rows of images with their questions, as JSON, JSON lines or Parquet"
_MAX_ITEMS = 10_000  # of one image


@dataclass(frozen=True, slots=True)
class Item:
    """A question about an image, or something else that a judge asks about.

    Attributes:
        text: of it.
        choices: of a question with several; answer: the right one, or any expected answer.
        kind: what it asks about.
        tag: its label in a checklist.
    """

    text: str
    choices: tuple[str, ...] = ()
    answer: str = ""
    kind: str = ""
    tag: str = ""

    def describe(self, options: Sequence[str]) -> str:
        """The question with its options in the order in which they are offered, and the right one.

        >>> Item("Which?", ("red", "blue"), "red").describe(("blue", "red"))
        'Which? [A. blue; B. red (right)]'
        """
        right = f" [right: {self.answer}]" if self.answer else ""
        lettered = (
            f"{LETTERS[k]}. {each}{' (right)' if each.strip() == self.answer else ''}" for k, each in enumerate(options)
        )
        return f"{self.text} [{'; '.join(lettered)}]" if options else f"{self.text}{right}"


ReadRow = Callable[[Mapping[str, Any], str], list[Item]]
"""What reads the items of a row, and for messages its place."""


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
        if image_id in self.by_image:
            return image_id
        return self.aliases.get(image_id) or self.aliases.get(file_stem(image_id)) or ""

    def of(self, image_id: str) -> tuple[Item, ...]:
        """The items of an image; empty without any."""
        return self.by_image.get(self.key(image_id), ())

    def used_entries(self, image_ids: Iterable[str]) -> UsedEntries:
        """The entries about these images; an `InputError` if two of them fit one."""
        keys = ((self.key(image_id), image_id) for image_id in image_ids)
        return UsedEntries().include((f"{self.path}: the items of image {key!a}", image) for key, image in keys if key)


class UsedEntries(dict[str, str]):
    """The image that each used entry of a file is about, by the entry; two images never share one."""

    def __add__(self, other: UsedEntries) -> UsedEntries:
        return UsedEntries(self).include(other.items())

    def include(self, entries: Iterable[tuple[str, str]]) -> UsedEntries:
        """Adds entries; an `InputError` if two images fit one of them."""
        for entry, image_id in entries:
            if self.setdefault(entry, image_id) != image_id:
                raise InputError(
                    f"{entry} fit {self[entry]!a} and {image_id!a}; name the images in this file as in the captions"
                )
        return self


def read_questions(row: Mapping[str, Any], location: str) -> list[Item]:
    """The questions of a row: those of its list, or the one that it is.

    Args:
        row: of a file.
        location: for messages.

    Raises:
        InputError: it has none, or one is malformed.
    """
    listed_questions = [each for name in ("questions", "checklist") for each in list_of(row, name, location)]
    if "question" in row:
        listed_questions.append(row)
    elif "questions" not in row and "checklist" not in row:
        raise no_items(row, location, "questions")
    return [read_question(each, location) for each in listed_questions]


def read_question(value: Any, location: str) -> Item:
    """A question: a text, or an object with `question`, and maybe `choices`, `answer` and `kind`.

    Args:
        value: in a file.
        location: for messages.

    Raises:
        InputError: it is something else.
    """
    if isinstance(value, str):
        return Item(text_of(value, location, "a question"))
    if not isinstance(value, dict):
        raise InputError(f"{location}: a question is {describe(value)}, expected an object or text")
    choices = value.get("choices") or ()
    if not isinstance(choices, list | tuple):
        raise InputError(f"{location}: choices is {describe(choices)}, expected a list of texts")
    answer, kind = value.get("answer"), value.get("kind")
    return Item(
        text_of(value.get("question"), location, "question"),
        tuple(_plain(choice, location, "a choice") for choice in choices),
        "" if answer is None else _plain(answer, location, "answer"),
        kind if isinstance(kind, str) else "",
    )


def list_of(row: Mapping[str, Any], field_name: str, location: str) -> list[Any]:
    """The list in a field of a row; empty without the field.

    Args:
        row, field_name: which has the field.
        location: for messages.
    """
    value = row.get(field_name)
    if value is not None and not isinstance(value, list):
        raise InputError(f"{location}: {field_name} is {describe(value)}, expected a list")
    return value or []


def text_of(value: Any, location: str, field_name: str) -> str:
    """A text that is not empty.

    Args:
        value: in a file.
        location, field_name: for messages.
    """
    text = caption_text(value, location, field_name).strip()
    if not text:
        raise InputError(f"{location}: {field_name} is empty; remove it or write its text")
    return text


def no_items(row: Mapping[str, Any], location: str, expected: str) -> InputError:
    """That a row has nothing of what a judge asks about.

    Args:
        row, location: the row and its place.
        expected: what the judge asks about.
    """
    field_names = list_names(map(str, row), 5) if row else "none"
    return InputError(f"{location}: has no {expected} (its fields: {field_names}); see docs/judges.md for the layouts")


def read_items(path: str, read_row: ReadRow = read_questions) -> ItemFile:
    """The items in a file, read once per content.

    Args:
        path: of the file.
        read_row: what reads the items of a row.

    Raises:
        InputError: the file cannot be read, has no items, or a row is malformed; the row is named.
    """
    full_path = str(Path(path).expanduser())
    return _read_items(path, full_path, file_stamp("questions", full_path, _EXPECTED), read_row)


@functools.lru_cache(maxsize=8)
def _read_items(path: str, full_path: str, stamp: tuple[int, int], read_row: ReadRow) -> ItemFile:
    items: dict[str, list[Item]] = {}
    aliases: dict[str, set[str]] = {}
    for location, row in _records(CaptionSource.resolve(full_path)):
        for image_names, fields in _images_of(row, location):
            image_items = items.setdefault(image_names[0], [])
            image_items += read_row(fields, location)
            if len(image_items) > _MAX_ITEMS:
                raise InputError(f"{location}: more than {_MAX_ITEMS:,} questions about image {image_names[0]!a}")
            for alias in {alias for name in image_names for alias in (name, file_stem(name))}:
                aliases.setdefault(alias, set()).add(image_names[0])
    if not any(items.values()):
        raise InputError(f"{path}: has nothing to ask about; {_EXPECTED}")
    unique_aliases = {alias: next(iter(images)) for alias, images in aliases.items() if len(images) == 1}
    by_image = {image_name: tuple(image_items) for image_name, image_items in items.items()}
    return ItemFile(path, hashlib.sha256(Path(full_path).read_bytes()).hexdigest(), by_image, unique_aliases)


def _records(source: CaptionSource) -> Records:
    """The rows of a file with their places; of an object of rows by image, each as an object of one."""
    first_line, second_line = source.first_lines()
    if first_line.startswith(b"PAR1"):
        rows = ParquetRows(source)
        yield from rows.records([name for name in rows.header or () if name not in ("images", "image")])
    elif first_line[:1] == b"{" and first_line[-1:] == b"}" and second_line:
        yield from JsonLines(source).records()
    elif first_line[:1] in (b"{", b"["):
        value = decode_json(source.read_text(), source.name)
        if isinstance(value, dict) and not any(key in value for key in _IDS):
            yield from ((f"{source.name}, image {name!a}", {name: row}) for name, row in value.items())
        else:
            rows_of_list = value if isinstance(value, list) else [value]
            yield from ((f"{source.name}, row {number}", row) for number, row in enumerate(rows_of_list, 1))
    else:
        raise InputError(f"{source.name}: neither JSON nor Parquet; {_EXPECTED}")


def _images_of(row: Any, location: str) -> Iterator[tuple[list[str], Mapping[str, Any]]]:
    """The images of a row: their names, and the fields about them."""
    if not isinstance(row, dict):
        raise InputError(f"{location}: expected an object with an image and its questions, got {describe(row)}")
    image_names = [image_key(row[key], location, key) for key in _IDS if isinstance(row.get(key), str | int)]
    if image_names:
        yield image_names, row
    elif {"questions", "checklist"} & row.keys() or not all(isinstance(each, dict | list) for each in row.values()):
        raise InputError(f"{location}: has no image's name; expected one of {', '.join(_IDS)}")
    else:  # by image
        for image_name, fields in row.items():
            yield [image_key(image_name, location)], fields if isinstance(fields, dict) else {"questions": fields}


def _plain(value: Any, location: str, field_name: str) -> str:
    """A text, or a number or truth value as Python writes it."""
    if not isinstance(value, str | int | float):
        raise InputError(f"{location}: {field_name} is {describe(value)}, expected text or a number")
    return str(value).strip()
