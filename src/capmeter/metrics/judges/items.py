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
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_FIELDS = ("questions", "question", "prompt", "annotation", "oracle_facts", "facts", "events", "captions")
QUESTION, FACT, EVENT, CAPTION = "question", "fact", "event", "caption"
"""The kinds of items."""
_EXPECTED = "expected questions, facts or events as JSON, JSON lines or Parquet"
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
        """The images with an entry; an `InputError` if two fit one of them."""
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


def read_items(path: str) -> ItemFile:
    """The items in a file, read once per content.

    Raises:
        InputError: the file cannot be read, has no items, or a row is malformed; the row is named.
    """
    full_path = str(Path(path).expanduser())
    return _read_items(path, full_path, *file_stamp("questions", full_path, _EXPECTED))


@functools.lru_cache(maxsize=8)
def _read_items(path: str, full_path: str, modified: int, size: int) -> ItemFile:
    items: dict[str, list[Item]] = {}
    aliases: dict[str, set[str]] = {}
    for location, row in _records(CaptionSource.resolve(full_path)):
        for image_name, row_names, row_items in _items_of(row, location):
            image_items = items.setdefault(image_name, [])
            image_items += row_items
            if len(image_items) > _MAX_ITEMS:
                raise InputError(f"{location}: more than {_MAX_ITEMS:,} questions about image {image_name!a}")
            for alias in {alias for row_name in row_names for alias in (row_name, file_stem(row_name))}:
                aliases.setdefault(alias, set()).add(image_name)
    if not any(items.values()):
        raise InputError(f"{path}: has no questions, checklist, facts or events; see docs/judges.md for the layouts")
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


def _items_of(row: Any, location: str) -> Iterator[tuple[str, list[str], list[Item]]]:
    """The images of a row, with their names and items."""
    if not isinstance(row, dict):
        raise InputError(f"{location}: expected an object with an image and its questions, got {describe(row)}")
    image_names = [image_key(row[key], location, key) for key in _IDS if isinstance(row.get(key), str | int)]
    if image_names:
        yield image_names[0], image_names, _row_items(row, location)
        return
    if any(key in _FIELDS or key.endswith("checklist") for key in row):
        raise InputError(f"{location}: has no image's name; expected one of {', '.join(_IDS)}")
    for image_name, image_fields in row.items():
        question_fields = image_fields if isinstance(image_fields, dict) else {"questions": image_fields}
        yield image_key(image_name, location), [image_name], _row_items(question_fields, location)


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


@functools.lru_cache(maxsize=8)
def shuffle_options(file: ItemFile, abstain: str, seed: int | None) -> dict[str, list[tuple[str, ...]]]:
    """The options of each question of each image, in the order in which they are offered.

    Empty for a question without a right answer among at least two choices.

    Args:
        file: of questions.
        abstain: the option to abstain, which questions that are not yes-no questions get unless they have it; or empty.
        seed: of the order, over all questions; None: that of the file.
    """
    rng = None if seed is None else random.Random(seed)

    def shuffled(item: Item) -> tuple[str, ...]:
        if len(item.choices) < 2 or item.answer not in [choice.strip() for choice in item.choices]:
            return ()
        may_abstain = abstain and abstain not in item.choices and not _is_yes_no(item)
        options = (*item.choices, *((abstain,) if may_abstain else ()))[: len(LETTERS)]
        option_order = list(range(len(options)))
        if rng is not None:
            rng.shuffle(option_order)
        return tuple(options[k] for k in option_order)

    return {image_name: [shuffled(item) for item in items] for image_name, items in file.by_image.items()}


def _is_yes_no(item: Item) -> bool:
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
