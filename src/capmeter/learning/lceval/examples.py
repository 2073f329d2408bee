"""Training examples of LCEval (section 7.4.3): captions of people and of machines, each with four references.

Of each photo with five captions by people, three are candidates; each has the other four as references. Three captions
by machines stand against them; each has a random four of the five; where a caption writer read one of them, it has the
four that it did not read. So neither the number of candidates of a photo nor
the number of references tells people from machines. Candidates of both are lower-cased and without punctuation, so
that neither does the way they are written.

Photos of benchmarks are left out, by number (`read_exclusions`).

>>> photo_of("COCO_val2014_000000226128.jpg"), photo_of("1000092795.jpg"), photo_of("99679241_adc853a5c0.jpg")
(('coco', '226128'), ('flickr30k', '1000092795'), ('flickr30k', '99679241'))
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.io import load_systems
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.text.tokens import token_lists

CANDIDATES, REFERENCES = 3, 4
HELD_OUT_PERCENT = 5
PhotoId = tuple[str, str]
"""Source (coco or flickr30k) and number of a photo."""

_COCO = re.compile(r"COCO_\w+?_0*(\d+)")
_WORDLESS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Machine:
    """A caption that a system wrote of a photo; `read`: places of the photo's captions that it was shown."""

    photo: PhotoId
    system: str
    caption: str
    read: tuple[int, ...] = ()


@dataclass(frozen=True)
class Example:
    """A candidate with its references; `system` is empty for a person's."""

    photo: PhotoId
    candidate: str
    references: tuple[str, ...]
    system: str = ""

    @property
    def human(self) -> bool:
        """Whether a person wrote it."""
        return not self.system

    @property
    def held_out(self) -> bool:
        """Whether the photo is kept for measuring accuracy: chosen by its hash, so that every run keeps the same."""
        digest = hashlib.sha256("lceval {} {}".format(*self.photo).encode()).hexdigest()
        return int(digest[:12], 16) % 100 < HELD_OUT_PERCENT


def photo_of(image_id: str, source: str | None = None) -> PhotoId:
    """The photo that an image id names: the number before the first underscore or dot; COCO's file names, or a bare
    number, are COCO's.
    """
    name = image_id.rpartition("/")[2]
    coco = _COCO.match(name)
    if coco:
        return "coco", coco.group(1)
    number = re.split(r"[_.]", name)[0]
    if source is None:
        source = "coco" if number == name else "flickr30k"
    return source, number.lstrip("0") if source == "coco" else number


def read_photos(path: Path, exclusions: Mapping[str, frozenset[str]]) -> tuple[dict[PhotoId, tuple[str, ...]], int]:
    """The captions that people wrote of each photo, in their order, and how many photos were left out.

    Args:
        path: JSON lines `{"image_id", "references"}` (maybe "source"), or COCO's annotations (`captions_*.json`).
        exclusions: numbers of photos by source.

    Raises:
        InputError: the file has another layout, or a source that the exclusions do not list.
    """
    said: dict[PhotoId, list[str]] = {}
    for photo, captions in _photos(path):
        said.setdefault(photo, []).extend(caption for caption in captions if caption.strip())
    kept = {photo: tuple(texts) for photo, texts in said.items() if not excluded(photo, exclusions)}
    return kept, len(said) - len(kept)


def excluded(photo: PhotoId, exclusions: Mapping[str, frozenset[str]]) -> bool:
    """Whether a photo is in a benchmark; an `InputError` if its source is not listed."""
    if photo[0] not in exclusions:
        raise InputError(f"photo {photo[1]} has the source {photo[0]!r}; expected one of {', '.join(exclusions)}")
    return photo[1] in exclusions[photo[0]]


def read_machine(path: Path) -> list[Machine]:
    """The captions of systems in a file.

    JSON lines `{"source"?, "photo" or "image_id", "candidate", "system"?, "read"?}`, or with `"captions": {system:
    caption}`, or with `"candidate_a"` (a machine's, in pairs); or any format of captions that capmeter reads.
    """
    found: list[Machine] = []
    for number, row in _rows(path):
        if row is None:
            return _of_systems(path)
        named = row.get("photo", row.get("image_id"))
        captions = row.get("captions")
        if not isinstance(captions, Mapping):
            key = "candidate" if "candidate" in row else "candidate_a"
            captions = {str(row.get("system") or path.name.partition(".")[0]): row.get(key)}
        if named is None or not all(isinstance(each, str) for each in captions.values()):
            raise InputError(f'{path}, line {number}: expected {{"photo" or "image_id", "candidate", "system"?}}')
        photo, read = photo_of(str(named), row.get("source")), row.get("read", [])
        if not isinstance(read, list) or any(type(place) is not int for place in read):
            raise InputError(f"{path}, line {number}: read is {read!r}; expected the places of captions, from 0")
        found += [
            Machine(photo, system, caption, tuple(read)) for system, caption in captions.items() if caption.strip()
        ]
    return found


def _of_systems(path: Path) -> list[Machine]:
    return [
        Machine(photo_of(each.image_id), system, each.candidate)
        for system, captions in load_systems(str(path), on_missing="keep").items()
        for each in captions
        if each.candidate.strip()
    ]


def _photos(path: Path) -> Iterator[tuple[PhotoId, Sequence[str]]]:
    for number, row in _rows(path):
        if row is None:
            break
        texts = row.get("references")
        if "image_id" not in row or not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
            raise InputError(f'{path}, line {number}: expected {{"image_id", "references": [captions of people]}}')
        yield photo_of(str(row["image_id"]), row.get("source")), texts
    else:
        return
    try:
        annotations = json.loads(_text(path))["annotations"]
        for each in annotations:
            yield ("coco", str(each["image_id"])), (each["caption"],)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected JSON lines of photos or COCO's annotations ({error!r})") from None


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """The objects of a file of JSON lines by line number; one None if it is something else."""
    first = True
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        listed = isinstance(row, dict) and {"image_id", "photo"} & row.keys() and "annotations" not in row
        if not listed:
            if first:
                yield number, None
                return
            raise InputError(f"{path}, line {number}: expected an object with a photo or an image_id")
        first = False
        yield number, row


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read it ({error})") from error


def make_examples(
    photos: Mapping[PhotoId, tuple[str, ...]],
    machine: Iterable[Machine],
    exclusions: Mapping[str, frozenset[str]],
    *,
    seed: int = 0,
    most: int | None = None,
) -> list[Example]:
    """The examples of all photos with five captions by people and at least one by a machine.

    A photo with fewer than three captions by machines has as many by people. A machine's caption that a person wrote
    too, to the letter, is not one of a machine. Choices depend on the seed and the photo alone, not on other photos.

    Args:
        photos: what people wrote (`read_photos`).
        machine: what machines wrote (`read_machine`); of photos without people's captions it is ignored.
        exclusions: photos of benchmarks, by source.
        seed: of the choices.
        most: the number of photos at most, in the order of a hash; none: all.
    """
    written: dict[PhotoId, list[Machine]] = {}
    for each in machine:
        if each.photo in photos and not excluded(each.photo, exclusions):
            written.setdefault(each.photo, []).append(each)
    chosen = sorted(
        (photo for photo in written if len(set(photos[photo])) > REFERENCES and not excluded(photo, exclusions)),
        key=lambda photo: hashlib.sha256(f"{seed} {photo}".encode()).digest(),
    )
    examples = [each for photo in chosen[:most] for each in _of_photo(photo, photos[photo], written[photo], seed)]
    if not examples:
        raise InputError(
            f"no training example: {len(photos):,} photos with captions by people, {len(written):,} of them with "
            f"captions by machines, {len(chosen):,} with at least {REFERENCES + 1} captions by people"
        )
    candidates = token_lists("ptb", [each.candidate for each in examples])
    return [
        Example(each.photo, " ".join(tokens), each.references, each.system)
        for each, tokens in zip(examples, candidates, strict=True)
    ]


def _of_photo(photo: PhotoId, people: Sequence[str], machine: Sequence[Machine], seed: int) -> list[Example]:
    rng = np.random.default_rng([seed, *hashlib.sha256(":".join(photo).encode()).digest()[:8]])
    texts = list(dict.fromkeys(people))
    five = [texts[k] for k in rng.permutation(len(texts))[: REFERENCES + 1]]
    known = {_WORDLESS.sub("", text.lower()) for text in people}
    own: dict[str, tuple[Machine, tuple[str, ...]]] = {}  # without repetitions, each with its references
    for k in rng.permutation(len(machine)).tolist():
        spelled = _WORDLESS.sub("", machine[k].caption.lower())
        shown = {people[place] for place in machine[k].read if 0 <= place < len(people)}
        unread = [text for text in five if text not in shown]
        if spelled and spelled not in known and len(unread) >= REFERENCES:
            chosen = np.sort(rng.permutation(len(unread))[:REFERENCES])
            own.setdefault(spelled, (machine[k], tuple(unread[j] for j in chosen.tolist())))
    examples = []
    for k, (each, references) in enumerate(_of_different_systems(list(own.values()))[:CANDIDATES]):
        examples.append(Example(photo, five[k], tuple(five[:k] + five[k + 1 :])))
        examples.append(Example(photo, each.caption, references, each.system))
    return examples


def _of_different_systems(machine: Sequence[tuple[Machine, tuple[str, ...]]]) -> list[tuple[Machine, tuple[str, ...]]]:
    """The same captions, one of each system before the second of any."""
    turns: dict[str, int] = {}
    order = []
    for k, (each, _) in enumerate(machine):
        turns[each.system] = turn = turns.get(each.system, -1) + 1
        order.append((turn, k))
    return [machine[k] for _, k in sorted(order)]


def caption_set(examples: Sequence[Example]) -> CaptionSet:
    """The examples as captions to be measured; ids are their positions."""
    return CaptionSet.from_captions(
        Caption(str(k), " ".join(each.photo), each.candidate, each.references, system=each.system or "human")
        for k, each in enumerate(examples)
    )
