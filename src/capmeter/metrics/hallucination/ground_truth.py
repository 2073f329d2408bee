"""Which objects an image shows, from a file: COCO's instances, or a JSON of objects by image.

{"images": [{"id": 42, "file_name": …}], "categories": [{"id": 1, "name": "person"}],
 "annotations": [{"image_id": 42, "category_id": 1}, …]}                              instances_val2014.json
{"42": ["person", "dog"], …}                                                          objects by image
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from capmeter.captions.references import KEYS, ReferenceTable
from capmeter.captions.sources import open_bytes, read_text
from capmeter.core.errors import InputError
from capmeter.core.file_stamps import file_stamp
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe_failure, list_names
from capmeter.metrics.hallucination.object_words import ObjectWords

_EXPECTED = 'expected COCO\'s instances (instances_val2014.json), or objects by image: {"42": ["person", "dog"]}'


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The objects of each image: nodes of a word list, or names as written in the file.

    `table` names the images and holds objects in place of references.
    """

    name: str
    table: ReferenceTable

    @cached_property
    def _image_ids(self) -> list[tuple[Callable[[str], str], Mapping[str, set[str]]]]:
        """How a name is compared, and the images by the result; made only where an id is not in the table."""
        return [(value_of, self.table.image_ids_by(key)) for key, value_of in KEYS.items()]

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

        None: the file lacks the image, or several could be meant.
        """
        if image_id in self.table.references:
            return frozenset(self.table.references[image_id])
        for value_of, image_ids in self._image_ids:
            matched_ids = image_ids.get(value_of(image_id), set())
            if len(matched_ids) == 1:
                return frozenset(self.table.references[next(iter(matched_ids))])
        return None

    @cached_property
    def digest(self) -> str:
        """A hash of the objects, for signatures."""
        object_rows = [[image_id, sorted(objects)] for image_id, objects in sorted(self.table.references.items())]
        return hashlib.sha256(json.dumps(object_rows).encode()).hexdigest()[:8]


def load_ground_truth(path: str, words: ObjectWords | None = None) -> GroundTruth:
    """The objects in this file, read once per process as long as it does not change.

    Args:
        path: the file.
        words: the list of object words, of which objects become nodes; the file's names must be among them. None:
            objects are the names in the file, whatever they are.

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
def _read(path: str, stamp: tuple[int, int], words: ObjectWords | None) -> GroundTruth:
    name = Path(path).name
    refuse_pickle(path)
    content = decode_json(read_text(path), name)
    try:
        is_coco = "annotations" in content and "categories" in content
        object_names: dict[str, Any] = {str(image_id): listed_names for image_id, listed_names in content.items()}
        file_names: dict[str, str] = {}
        if is_coco:
            object_names, file_names = _coco_names(content)
        for image_id, listed_names in object_names.items():
            if isinstance(listed_names, str) or not all(isinstance(object_name, str) for object_name in listed_names):
                raise ValueError(f"image {image_id} has {listed_names!a:.60}")
    except (TypeError, KeyError, AttributeError, ValueError) as problem:
        raise InputError(f"{name}: {describe_failure(problem)}; {_EXPECTED}") from None
    objects = {
        image_id: tuple(
            sorted(words.nodes_of(listed_names, f"{name}: image {image_id}") if words else set(listed_names))
        )
        for image_id, listed_names in object_names.items()
    }
    aliases: dict[str, tuple[str, ...]] = {image_id: (file_name,) for image_id, file_name in file_names.items()}
    return GroundTruth(name, ReferenceTable(name, objects, {}, aliases, {}))


def _coco_names(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The names of the objects, and the file name, of each image of COCO's instances."""
    categories = {coco_entry["id"]: coco_entry["name"] for coco_entry in content["categories"]}
    images = content.get("images", ())
    object_names: dict[str, Any] = {str(coco_entry["id"]): set() for coco_entry in images}
    for coco_entry in content["annotations"]:
        object_names.setdefault(str(coco_entry["image_id"]), set()).add(categories[coco_entry["category_id"]])
    return object_names, {
        str(coco_entry["id"]): coco_entry["file_name"] for coco_entry in images if "file_name" in coco_entry
    }


def refuse_pickle(path: str) -> None:
    """An `InputError` for a pickle, which says how to convert it safely."""
    with open_bytes(path) as file:
        if file.read(1) == b"\x80":
            raise InputError(
                f"{Path(path).name} is a Python pickle, which can run any code when it is read, and is refused. Where "
                "you trust its origin, write its objects as JSON: json.dump({image: sorted(objects) for image, objects "
                'in evaluator.imid_to_objects.items()}, open("objects.json", "w"))'
            )
