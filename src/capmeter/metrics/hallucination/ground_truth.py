"""Which objects an image shows, from a file: COCO's instances and files like them, or objects by image.

{"images": [{"id": 42, "file_name": …}], "categories": [{"id": 1, "name": "person"}],
 "annotations": [{"image_id": 42, "category_id": 1}, …]}                              instances_val2014.json
{"42": ["person", "dog"], …}                                                          objects by image
[{"image_id": 42, "labels": ["person", "dog"]}, …]                                    rows, also in JSON lines
[{"image_id": 42, "objects": [{"names": ["person"]}, {"names": ["dog"]}]}, …]         Visual Genome's objects.json

COCO's panoptic annotations (`segments_info`), LVIS and Objects365 are read as its instances are. Of a category's names
(`car_(automobile)` with `synonyms`, `Moniter/TV`) that counts which the list of object words knows.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from capmeter.captions.layouts import IMAGE_NAMES
from capmeter.captions.matching import KEYS, index_images
from capmeter.captions.rows import image_key
from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import file_stamp
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe, list_names, shorten
from capmeter.evaluation.base import CapmeterWarning
from capmeter.metrics.hallucination.object_words import ObjectWords

_EXPECTED = 'expected COCO\'s instances (instances_val2014.json), or objects by image: {"42": ["person", "dog"]}'
_OBJECT_FIELDS = ("objects", "labels", "names", "categories", "classes")
_SENSE = re.compile(r"_\(.*\)|-(?:other|merged|stuff)\b.*")  # of LVIS's and of panoptic names
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class _GroundTruth:
    """The objects of each image: nodes of a word list, or names as written in the file.

    `objects` and `names` are those of each image, by its id; `words` is the word list, with the names that it lacks as
    objects of their own.
    """

    name: str
    objects: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]
    words: ObjectWords | None = None

    @cached_property
    def _image_ids(self) -> list[tuple[Callable[[str], str], Mapping[str, list[str]]]]:
        """How a name is compared, and the images by the result; made only where an id is not in the table."""
        return [(value_of, index_images(self.names, key)) for key, value_of in KEYS.items()]

    def of_images(self, image_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """The objects of each of these images.

        Raises:
            InputError: the file lacks some of the images.
        """
        image_objects = {each: self._objects_of(each) for each in dict.fromkeys(image_ids)}
        missing_ids = [image_id for image_id, objects in image_objects.items() if objects is None]
        if missing_ids:
            raise InputError(
                f"{self.name}: it has no objects of {len(missing_ids):,} of the images, {list_names(missing_ids)}; "
                "without them every mention would count as hallucinated. Check that it is of the same split and names "
                "images alike"
            )
        return {image_id: objects for image_id, objects in image_objects.items() if objects is not None}

    def _objects_of(self, image_id: str) -> frozenset[str] | None:
        """The objects of this image, by its id, else by its file name or COCO number.

        None: the file lacks the image, or several with other objects could be meant.
        """
        if image_id in self.objects:
            return frozenset(self.objects[image_id])
        for value_of, image_ids in self._image_ids:
            matched = {frozenset(self.objects[each]) for each in image_ids.get(value_of(image_id), [])}
            if len(matched) == 1:
                return matched.pop()
        return None

    @cached_property
    def digest(self) -> str:
        """A hash of the objects, for signatures."""
        object_rows = [[image_id, sorted(objects)] for image_id, objects in sorted(self.objects.items())]
        return hashlib.sha256(json.dumps(object_rows).encode()).hexdigest()[:8]


def load_ground_truth(path: str, words: ObjectWords | None = None) -> _GroundTruth:
    """The objects in this file, read once per process as long as it does not change.

    Args:
        path: the file.
        words: the list of object words, of which objects become nodes; names that are not among them are nodes of their
            own, with a warning. None: objects are the names in the file, whatever they are.

    Raises:
        InputError: the file cannot be read, or is neither COCO's instances nor objects by image.
    """
    return _read(path, file_stamp("objects", path, _EXPECTED), words)


def ground_truth_facts(path: str, words: ObjectWords | None = None) -> dict[str, str]:
    """The objects' name and hash for a signature; nothing without a file."""
    if not path:
        return {}
    ground_truth = load_ground_truth(path, words)
    return {"objects": f"{ground_truth.name}/{ground_truth.digest}"}


@lru_cache(maxsize=4)
def _read(path: str, stamp: tuple[int, int], words: ObjectWords | None) -> _GroundTruth:
    name = Path(path).name
    content = _decode(CaptionSource.resolve(path), name)
    object_names: dict[str, list[str]] = {}
    file_names: dict[str, str] = {}
    if isinstance(content, Mapping) and not content.keys().isdisjoint(("annotations", "images")):
        object_names, file_names = _coco_names(content, name, words)
    else:
        for image_id, image_names in _names_by_image(content, name):
            object_names.setdefault(image_id, []).extend(image_names)
    extended = words if words is None else words.with_names(chain.from_iterable(object_names.values()))
    objects = {
        image_id: tuple(sorted(set(names) if extended is None else set(filter(None, map(extended.find_node, names)))))
        for image_id, names in object_names.items()
    }
    names = {image_id: (image_id, *((file_names[image_id],) if image_id in file_names else ())) for image_id in objects}
    return _GroundTruth(name, objects, names, extended)


def _decode(source: CaptionSource, name: str) -> Any:
    """A JSON document, or JSON lines; a pickle is refused, with how to convert it safely."""
    with source.open() as file:
        if file.read(1) == b"\x80":
            raise InputError(
                f"{name} is a Python pickle, which can run any code when it is read, and is refused. Where you trust "
                "its origin, write its objects as JSON: json.dump({image: sorted(objects) for image, objects in "
                'evaluator.imid_to_objects.items()}, open("objects.json", "w"))'
            )
    try:
        text = source.read_text()
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines[:2]):
            return [decode_json(line, name, k + 1) for k, line in enumerate(lines)]
        return decode_json(text, name)
    except InputError as error:
        raise InputError(f"{error}; {_EXPECTED}") from None


def _coco_names(
    content: Mapping[str, Any], name: str, words: ObjectWords | None
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The names of the objects, and the file name, of each image of COCO's instances."""
    categories: dict[str, list[str]] = {}
    for location, entry in _entries(content, "categories", name):
        category_id = _id(entry, "id", location)
        if category_id in categories:
            raise InputError(f"{location}: a second category has the id {category_id}; give each an id of its own")
        is_object = words is None or entry.get("isthing") != 0  # words name things, not grass or sky
        categories[category_id] = [_category_name(entry, location, words)] if is_object else []
    object_names: dict[str, list[str]] = {}
    file_names: dict[str, str] = {}
    for location, entry in _entries(content, "images", name) if "images" in content else ():
        image_id = _id(entry, "id", location)
        object_names[image_id] = []
        if (file_name := entry.get("file_name", entry.get("coco_url"))) is not None:
            file_name = image_key(file_name, location, "file_name")
            if file_names.setdefault(image_id, file_name) != file_name:
                raise InputError(f"{location}: a second image has the id {image_id}; give each an id of its own")
    unlisted_ids: dict[str, None] = {}
    for location, entry in _entries(content, "annotations", name):
        image_id, segments = _id(entry, "image_id", location), entry.get("segments_info")
        if image_id not in object_names:
            unlisted_ids[image_id] = None
        names = object_names.setdefault(image_id, [])
        for each in segments if isinstance(segments, list) else [entry]:
            category_id = _id(each if isinstance(each, Mapping) else {}, "category_id", location)
            if category_id not in categories:
                raise InputError(
                    f"{location}: category_id {shorten(category_id)} is not among the categories; their ids are "
                    f"{list_names(categories) or 'none: the list is empty'}"
                )
            names += categories[category_id]
    if unlisted_ids and "images" in content:
        message = f"{name}: annotations of images that it does not list: {list_names(unlisted_ids)}"
        listed_objects = [names for image_id, names in object_names.items() if image_id not in unlisted_ids]
        if listed_objects and not any(listed_objects):
            raise InputError(f"{message}; those that it lists have none: name images alike in both lists")
        warnings.warn(message, CapmeterWarning, stacklevel=4)
    return object_names, file_names


def _names_by_image(content: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each image and its objects, from objects by image or rows; an image may come again (in rows, as "1" and "1 ")."""
    if isinstance(content, Mapping):
        if not any(isinstance(content.get(each), str | int | float) for each in IMAGE_NAMES):
            for image_id, names in content.items():
                yield image_key(image_id, name).strip(), _names(names, f"{name}, key {str(image_id)!a}: the value")
            return
        content = [content]  # the only row
    if not isinstance(content, list):
        raise InputError(f"{name}: {describe(content)}; {_EXPECTED}")
    for k, row in enumerate(content):
        location = f"{name}[{k}]"
        fields = row if isinstance(row, Mapping) else {}
        id_names = [each for each in IMAGE_NAMES if each in fields]
        id_name = next((each for each in id_names if fields[each] is not None), next(iter(id_names), None))
        name_choices = [each for each in _OBJECT_FIELDS if each in fields]
        if id_name is None or not name_choices:
            raise InputError(f'{location}: {describe(row)}, expected {{"image_id": 42, "labels": ["person", "dog"]}}')
        if any(fields[each] != fields[name_choices[0]] for each in name_choices):
            raise InputError(
                f"{location}: {' and '.join(name_choices)} differ, and each could hold the objects; keep one"
            )
        yield _id(fields, id_name, location), _names(fields[name_choices[0]], f"{location}: {name_choices[0]}")


def _entries(content: Mapping[str, Any], key: str, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(content.get(key), list):
        raise InputError(f"{name}: {key} is {describe(content.get(key))}, expected a list; {_EXPECTED}")
    for k, entry in enumerate(content[key]):
        if not isinstance(entry, Mapping):
            raise InputError(f"{name}, {key}[{k}]: {describe(entry)}, expected an object; {_EXPECTED}")
        yield f"{name}, {key}[{k}]", entry


def _id(entry: Mapping[str, Any], field_name: str, location: str) -> str:
    """An id as text, so that 1, 1.0 and "1" are the same."""
    return image_key(entry.get(field_name), location, field_name).strip()


def _names(value: Any, location: str) -> list[str]:
    """Names of objects."""
    if not isinstance(value, list):
        raise InputError(f"{location} is {describe(value)}, expected a list of objects' names; {_EXPECTED}")
    names: list[str] = []
    for k, each in enumerate(value):
        is_object, place = isinstance(each, Mapping), f"{location}[{k}]"  # objects as Visual Genome has them
        names += _names(each.get("names", [each.get("name")]), place) if is_object else [_object_name(each, place)]
    return names


def _category_name(category: Mapping[str, Any], location: str, words: ObjectWords | None) -> str:
    """The name of a category, or of several that which is among the words; the first without the sense in brackets."""
    name = _object_name(category.get("name"), f"{location}: name")
    names = [name, *_names(category.get("synonyms") or [], f"{location}: synonyms"), *name.split("/")]
    plain_names = [_SENSE.sub("", each).replace("_", " ") for each in names]
    nodes = {} if words is None else words.nodes
    return next((each for each in (name, *plain_names) if each.strip().lower() in nodes), plain_names[0])


def _object_name(value: Any, location: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{location} is {describe(value)}, expected the name of an object")
    if len(value) > _LONGEST_NAME:
        raise InputError(f"{location}: {shorten(value)} has {len(value):,} letters, expected the name of an object")
    return value
