"""Questions, checklists, facts, events and other captions of images, from the files of the benchmarks that ask them.

A file is JSON, JSON lines or Parquet. Each row has the name of an image (`image_id`, `id`, `img_path`, `image_name`,
`video_id` …), or the file is an object of rows by image. What a row holds is recognised by its fields:

| fields | from |
|---|---|
| `questions`: [{`question`, `choices`, `answer`}], or one question per row | CaptionQA |
| `…_checklist`: [{`Question`, `Tags`}], or `checklist`: [[part, tag, question]] | CAPEval |
| image: [{`question`, `answer`}] | VDC |
| `prompt`, `answer` | CapRL |
| `task`, `annotation` | CAPability |
| `oracle_facts` or `facts`: texts | DeCapBench, FaithScore |
| `events`: texts | DREAM-1K |
| `ref_model`, `captions`: {system: caption} | CapArena-Auto |
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from capmeter.captions.rows import caption_text
from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, list_names, shorten
from capmeter.metrics.judges.reading import LETTERS

_IDS = (
    *("image_id", "img_path", "image_name", "image_path", "video_id", "video_name", "file_id", "image", "img", "vid"),
    *("id", "idx"),
)
_FIELDS = ("questions", "question", "prompt", "annotation", "oracle_facts", "facts", "events", "captions")
QUESTION, FACT, EVENT, CAPTION = "question", "fact", "event", "caption"
"""The kinds of items."""
_TABLES = (".csv", ".tsv", ".xlsx", ".txt")
_MAX_BYTES = 1 << 30
_MAX_ITEMS = 10_000  # of one image
_YES_NO = re.compile(r"(is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might|must) ")
_VISION = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<image>")


@dataclass(frozen=True, slots=True)
class Item:
    """A question, fact, event or other caption of an image.

    Attributes:
        text: of it.
        choices: of a question with several; answer: the right one, or any expected answer.
        tags: part and kind, of a checklist; of another caption its system and the human caption.
        kind: what it is: `QUESTION`, `FACT`, `EVENT` or `CAPTION`.
    """

    text: str
    choices: tuple[str, ...] = ()
    answer: str = ""
    tags: tuple[str, str] = ("", "")
    kind: str = QUESTION


@dataclass(frozen=True, eq=False)
class ItemFile:
    """The items of each image of a file.

    Args:
        path: of the file.
        sha256: of its content.
        by_image: items by the image's name in the file, in the order of the file.
        aliases: names of images, with and without folder and extension, that fit one image.
    """

    path: str
    sha256: str
    by_image: Mapping[str, tuple[Item, ...]]
    aliases: Mapping[str, str]

    def key(self, image_id: str) -> str:
        """The name of an image in the file: the same, else the one without folder and extension; empty if absent."""
        if image_id in self.by_image:
            return image_id
        return self.aliases.get(image_id) or self.aliases.get(stem(image_id)) or ""

    def of(self, image_id: str) -> tuple[Item, ...]:
        """The items of an image; empty without any."""
        return self.by_image.get(self.key(image_id), ())


@dataclass(frozen=True)
class UsedEntries:
    """The image that each used entry of a file is about; two images never share one.

    Args:
        path: of the file.
        images: the image of the captions by the image's name in the file.
    """

    path: str
    images: dict[str, str]

    def __add__(self, other: UsedEntries) -> UsedEntries:
        for key in self.images.keys() & other.images.keys():
            if self.images[key] != other.images[key]:
                raise shared_entry(self.path, key, self.images[key], other.images[key])
        return UsedEntries(self.path, self.images | other.images)


def shared_entry(path: str, key: str, *image_ids: str) -> InputError:
    """The error that two images fit one entry."""
    images = " and ".join(f"{each!a}" for each in image_ids)
    return InputError(
        f"{path}: the items of image {key!a} fit {images}; name the images in this file as in the captions"
    )


def stem(name: str) -> str:
    """A name without folder and a short extension."""
    path = PurePosixPath(name)
    return path.name[: -len(path.suffix)] if 1 < len(path.suffix) <= 5 else path.name


def read_items(path: str) -> ItemFile:
    """The items in a file, read once per content.

    Raises:
        InputError: the file cannot be read, has no items, or a row is malformed; the row is named.
    """
    try:
        file_status = Path(path).expanduser().stat()
        if not Path(path).expanduser().is_file():  # a device would never end
            raise InputError(f"{path}: is not a file; expected a file of questions, facts or events")
        if file_status.st_size > _MAX_BYTES:
            raise InputError(f"{path}: {file_status.st_size:,} bytes; expected a file of questions of at most 1 GB")
        return _read_items(path, file_status.st_mtime_ns, file_status.st_size)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read ({reason}); expected a file of questions, facts or events") from None


@functools.lru_cache(maxsize=8)
def _read_items(path: str, modified: int, size: int) -> ItemFile:
    content = Path(path).expanduser().read_bytes()
    items: dict[str, list[Item]] = {}
    aliases: dict[str, set[str]] = {}
    for location, row in _rows(path, content):
        for image_name, row_names, row_items in _items_of(row, location):
            image_items = items.setdefault(image_name, [])
            image_items += row_items
            if len(image_items) > _MAX_ITEMS:
                raise InputError(f"{location}: more than {_MAX_ITEMS:,} questions about image {image_name!a}")
            for alias in {alias for row_name in row_names for alias in (row_name, stem(row_name))}:
                aliases.setdefault(alias, set()).add(image_name)
    if not any(items.values()):
        raise InputError(f"{path}: has no questions, checklist, facts or events; see docs/judges.md for the layouts")
    unique_aliases = {alias: next(iter(images)) for alias, images in aliases.items() if len(images) == 1}
    by_image = {image_name: tuple(image_items) for image_name, image_items in items.items()}
    return ItemFile(path, hashlib.sha256(content).hexdigest(), by_image, unique_aliases)


def _rows(path: str, content: bytes) -> Iterator[tuple[str, Any]]:
    """Each row of a file with its place in it."""
    if content[:4] == b"PAR1":
        import io

        import pyarrow.parquet as parquet
        from pyarrow import ArrowException

        try:
            parquet_table = parquet.read_table(io.BytesIO(content))
        except (ArrowException, OSError, ValueError) as error:
            raise InputError(f"{path}: damaged Parquet file: {shorten(str(error), 120)}") from None
        column_names = [name for name in parquet_table.column_names if name not in ("images", "image")]
        parquet_rows = parquet_table.select(column_names).to_pylist()
        yield from ((f"{path}, row {k}", row) for k, row in enumerate(parquet_rows, 1))
        return
    if Path(path).suffix.lower() in _TABLES:
        raise InputError(f"{path}: a table; expected questions, facts or events as JSON, JSON lines or Parquet")
    file_text = read_text(Path(path).expanduser())
    lines = file_text.split("\n")  # and not at U+2028, which JSON texts may contain
    if len(lines) > 1 and _is_object(lines[0]):
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", decode_json(line, path, number)
        return
    value = decode_json(file_text, path)
    if isinstance(value, dict) and not any(key in value for key in _IDS):
        yield from ((f"{path}, image {image_name!a}", {image_name: row}) for image_name, row in value.items())
    else:
        rows = value if isinstance(value, list) else [value]
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows, 1))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _items_of(row: Any, location: str) -> Iterator[tuple[str, list[str], list[Item]]]:
    """The images of a row, with their names and items."""
    if not isinstance(row, dict):
        raise InputError(f"{location}: expected an object with an image and its questions, got {describe(row)}")
    image_names = [_name(row[key], location) for key in _IDS if isinstance(row.get(key), str | int)]
    if image_names:
        yield image_names[0], image_names, _row_items(row, location)
        return
    if any(key in _FIELDS or key.endswith("checklist") for key in row):
        raise InputError(f"{location}: has no image's name; expected one of {', '.join(_IDS)}")
    for image_name, image_fields in row.items():
        question_fields = image_fields if isinstance(image_fields, dict) else {"questions": image_fields}
        yield image_name, [image_name], _row_items(question_fields, location)


def _name(value: Any, location: str) -> str:
    if isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
        raise InputError(f"{location}: the image's name is {value!r}, expected text or a number")
    return str(value).strip()


def _row_items(row: Mapping[str, Any], location: str) -> list[Item]:
    items: list[Item] = []
    extra_info = row.get("extra_info")  # of DREAM-1K
    row = {**row, **extra_info} if isinstance(extra_info, dict) else row
    if not any(field_name in _FIELDS or field_name.endswith("checklist") for field_name in row):
        field_names = list_names(map(str, row), 5) if row else "none"
        raise InputError(
            f"{location}: has no questions, checklist, facts or events (its fields: {field_names}); see docs/judges.md"
        )
    for field_name, field_value in row.items():
        if field_name == "questions" or field_name.endswith("checklist"):
            checklist_part = field_name.removesuffix("_checklist") if field_name != "questions" else ""
            items += [read_item(each, checklist_part, location) for each in _list(field_value, field_name, location)]
        elif field_name in ("oracle_facts", "facts", "events"):
            kind = EVENT if field_name == "events" else FACT
            for each in _list(field_value, field_name, location):
                text = each[0] if isinstance(each, list) and each else each  # of FaithScore, with whether it is right
                items.append(Item(_text(text, location, field_name), kind=kind))
    if "question" in row:
        items.append(read_item(row, "", location))
    elif "prompt" in row and "answer" in row:
        items.append(read_item({**row, "question": _without_marks(row["prompt"])}, "", location))
    elif "annotation" in row and "task" in row:
        elements = row["annotation"].items() if isinstance(row["annotation"], dict) else [(row["annotation"], "")]
        kind = _text(row["task"], location, "task").replace("_", " ")
        for name, value in elements:
            text = _text(name, location, "annotation") + (f": {value}" if value != "" else "")
            items.append(Item(text, tags=(kind, "")))
    if "captions" in row and "ref_model" in row:
        items.append(_baseline(row, location))
    return items


def read_item(value: Any, part: str, location: str) -> Item:
    """A question of a file, in one of the layouts.

    Args:
        value: a text, [part, tag, question], or an object with `question`, and maybe `choices`, `answer` and a tag.
        part: of a checklist, or empty.
        location: for messages.

    Raises:
        InputError: it has none of these forms.
    """
    if isinstance(value, list) and len(value) == 3:
        kind, label, question = (_text(each, location, "a checklist's entry") for each in value)
        return Item(question, tags=(kind, label))
    if isinstance(value, str):
        return Item(_text(value, location, "a question"), tags=(part, ""))
    if not isinstance(value, dict):
        raise InputError(f"{location}: a question is {describe(value)}, expected an object or text")
    choices = value.get("choices") or ()
    if not isinstance(choices, list | tuple):
        raise InputError(f"{location}: choices is {describe(choices)}, expected a list of texts")
    tag = value.get("Tags") or value.get("category") or ""
    tag = tag[0] if isinstance(tag, list) and tag else tag
    answer = value.get("answer")
    return Item(
        _text(value.get("question", value.get("Question")), location, "question"),
        tuple(_plain(choice, location, "a choice") for choice in choices),
        "" if answer is None else _plain(answer, location, "answer"),
        (part, tag if isinstance(tag, str) else ""),
    )


def describe_item(item: Item, options: Sequence[str]) -> str:
    """A question with its options in the order in which they are offered, and the right one.

    >>> describe_item(Item("Which?", ("red", "blue"), "red"), ("blue", "red"))
    'Which? [A. blue; B. red (right)]'
    """
    right = f" [right: {item.answer}]" if item.answer else ""
    lettered = (
        f"{LETTERS[k]}. {each}{' (right)' if each.strip() == item.answer else ''}" for k, each in enumerate(options)
    )
    return f"{item.text} [{'; '.join(lettered)}]" if options else f"{item.text}{right}"


@functools.lru_cache(maxsize=8)
def shuffle_options(file: ItemFile, choices: Any) -> dict[str, list[tuple[str, ...]]]:
    """The options of each question of each image, in the order in which they are offered.

    Empty for a question without a right answer among at least two choices.

    Args:
        file: of questions.
        choices: how they are offered (`tasks.Choices`).
    """
    rng = None if choices.shuffle is None else random.Random(choices.shuffle)

    def shuffled(item: Item) -> tuple[str, ...]:
        if len(item.choices) < 2 or item.answer not in [choice.strip() for choice in item.choices]:
            return ()
        may_abstain = choices.abstain and choices.abstain not in item.choices and not is_yes_no(item)
        options = (*item.choices, *((choices.abstain,) if may_abstain else ()))[: len(LETTERS)]
        option_order = list(range(len(options)))
        if rng is not None:
            rng.shuffle(option_order)
        return tuple(options[k] for k in option_order)

    return {image_name: [shuffled(item) for item in items] for image_name, items in file.by_image.items()}


def is_yes_no(item: Item) -> bool:
    """Whether a question can be answered with yes or no: it has such choices, or begins like one (as in CaptionQA)."""
    choices = [choice.strip().lower() for choice in item.choices]
    has_both = any("yes" in choice for choice in choices) and any("no" in choice for choice in choices)
    return has_both or _YES_NO.match(item.text.strip().lower()) is not None


def _plain(value: Any, location: str, field: str) -> str:
    """A text, or a number or truth value as Python writes it."""
    if not isinstance(value, str | int | float):
        raise InputError(f"{location}: {field} is {describe(value)}, expected text or a number")
    return str(value).strip()


def _baseline(row: Mapping[str, Any], location: str) -> Item:
    system_name, captions = row["ref_model"], row["captions"]
    texts = captions if isinstance(captions, dict) else {}
    if not isinstance(system_name, str) or not isinstance(texts.get(system_name), str):
        raise InputError(f"{location}: captions has no caption of the system {describe(system_name)} (ref_model)")
    human_caption = texts.get("human", "")
    tags = system_name, human_caption if isinstance(human_caption, str) else ""
    return Item(_text(texts[system_name], location, "captions"), tags=tags, kind=CAPTION)


def _without_marks(value: Any) -> str:
    """A prompt without the marks of a chat template, and without its role."""
    prompt_text = str(value)
    for template_mark in _VISION:
        prompt_text = prompt_text.replace(template_mark, " ")
    prompt_lines = prompt_text.strip().removeprefix("user").removesuffix("assistant").splitlines()
    return "\n".join(line.strip() for line in prompt_lines if line.strip())


def _list(value: Any, field_name: str, location: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise InputError(f"{location}: {field_name} is {describe(value)}, expected a list")
    return value or []


def _text(value: Any, location: str, field: str) -> str:
    text = caption_text(value, location, field).strip()
    if not text:
        raise InputError(f"{location}: {field} is empty; remove it or write its text")
    return text
