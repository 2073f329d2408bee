"""One vector per picture, from a file or from a network.

| source | what |
|---|---|
| `features.npz` | `image_ids` [n] and `features` [n, width] |
| a folder with `data.mdb` | an LMDB: key = image id, value = the vector as .npy, or .npz with `features` |
| `network(path=resnet152.pth)` | the average of a network's last map (LEIC, A.1); `pool=overlapping`: as released |
| `network(path=vit/)` | the pooled output of another vision model |
| `world-encoder` | the encoder of the made world |
| `world-reader` | a table of what such a picture shows |

Pictures are read as they are, each distinct one once; what is found is kept in the store that the settings name.

>>> str(parse_source("network(path=resnet152.pth,pool=overlapping)"))
'network(path=resnet152.pth,pool=overlapping)'
"""

from __future__ import annotations

import functools
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.arrays import ZIP_ERRORS, read_npz
from capmeter.assets import sha256
from capmeter.atomic import atomic_file
from capmeter.captions.model import ImagePool, Life, Place
from capmeter.errors import InputError
from capmeter.images.analyses import Contents, ContentTable
from capmeter.images.reading import Picture, read_picture
from capmeter.images.region_lmdb import DATA, LmdbRegions
from capmeter.named import Named, read_parameters, split_name
from capmeter.progress import task
from capmeter.settings import Settings
from capmeter.store import store_of

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class VectorNetwork(Named, ABC):
    """A network that turns a picture into a vector."""

    @property
    def name(self) -> str:
        """Its name without parameters."""
        return self.NAME

    @abstractmethod
    def label(self, settings: Settings) -> str:
        """What it is, with the hash of its weights: the same label gives the same vectors."""

    @abstractmethod
    def vector(self, picture: Picture, settings: Settings) -> Vectors:
        """The vector of one picture, float32 [width]."""


@dataclass(frozen=True, kw_only=True)
class NetworkVectors(VectorNetwork):
    """A vision network by its local files."""

    NAME: ClassVar[str] = "network"
    SUMMARY: ClassVar[str] = "a ResNet or any vision model, by local files"

    path: Annotated[str, "a file of torchvision's ResNet weights, or a model's folder"]
    pool: Annotated[Literal["mean", "overlapping"], "of a feature map"] = "mean"

    def label(self, settings: Settings) -> str:
        """The weights' hash, and the pool."""
        from capmeter.encoders.vision import load_vision

        return f"{load_vision(self.path, settings.device).label} {self.pool}"

    def vector(self, picture: Picture, settings: Settings) -> Vectors:
        """The average of the last feature map, or the network's summary."""
        from capmeter.encoders.vision import load_vision, pooled

        network = load_vision(self.path, settings.device)
        if not network.convolutional:
            return network.summary(picture.pixels)
        return pooled(network.maps(picture.pixels), self.pool)


@dataclass(frozen=True, kw_only=True)
class WorldVectors(VectorNetwork):
    """The encoder of the made world."""

    NAME: ClassVar[str] = "world-encoder"
    SUMMARY: ClassVar[str] = "the encoder of the made world"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-encoder"

    def label(self, settings: Settings) -> str:
        """The checkpoint's label."""
        from capmeter.encoders.world.encoder import load_world_encoder

        return load_world_encoder(self.checkpoint).label

    def vector(self, picture: Picture, settings: Settings) -> Vectors:
        """The slots of all kinds and of the background."""
        from capmeter.encoders.world.encoder import load_world_encoder

        made: Vectors = load_world_encoder(self.checkpoint).pictures([picture.pixels])[0]
        return made


@dataclass(frozen=True, kw_only=True)
class WorldTables(VectorNetwork):
    """A table of what a picture of the made world shows."""

    NAME: ClassVar[str] = "world-reader"
    SUMMARY: ClassVar[str] = "a table of what pictures of the made world show"

    checkpoint: Annotated[str, "a shipped or installed checkpoint, or its folder"] = "world-reader"

    def label(self, settings: Settings) -> str:
        """The checkpoint's label."""
        from capmeter.encoders.world_reader.reader import load_world_reader

        return load_world_reader(self.checkpoint).label

    def vector(self, picture: Picture, settings: Settings) -> Vectors:
        """What there is, how many, what it is like, and how it stands to the rest."""
        from capmeter.encoders.world_reader.reader import load_world_reader

        made: Vectors = load_world_reader(self.checkpoint).pictures([picture.pixels])[0]
        return made


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors by image id: an .npz file, or the folder of an LMDB."""

    path: str

    def __str__(self) -> str:
        return self.path

    def label(self, settings: Settings) -> str:
        """The file's name and the beginning of its hash."""
        place = Path(self.path).expanduser()
        file = place / DATA if place.is_dir() else place
        return f"{place.name}@{sha256(file)[:12]}"

    def missing(self, image_ids: Sequence[str]) -> list[str]:
        """The images that have no vector."""
        table = self._table(image_ids)
        return [each for each in image_ids if each not in table]

    def vectors(self, image_ids: Sequence[str]) -> Vectors:
        """The vectors of these images, float32 [n, width]; an `InputError` names the first that have none."""
        table = self._table(image_ids)
        missing = [each for each in image_ids if each not in table]
        if missing:
            raise InputError(
                f"picture features {self.path!a}: {len(missing)} of {len(image_ids)} images have none; the first: "
                f"{', '.join(missing[:5])}"
            )
        return np.stack([table[each] for each in image_ids]) if image_ids else np.zeros((0, 0), np.float32)

    def _table(self, image_ids: Sequence[str]) -> dict[str, Vectors]:
        place = Path(self.path).expanduser()
        try:
            stat = place.stat()
        except OSError as error:
            raise InputError(f"picture features {self.path!a}: {error.strerror}; expected .npz, or an LMDB") from error
        if place.is_dir():
            return _read_lmdb(self.path, tuple(image_ids))
        return _read_npz(self.path, (stat.st_size, stat.st_mtime_ns))


Source = VectorFile | VectorNetwork


def parse_source(text: str) -> Source:
    """The source with this text form: a path, or the name of a network with its parameters.

    Raises:
        InputError: neither a known network nor a path of an .npz file or a folder.
    """
    if text.endswith(".npz") or Path(text).expanduser().is_dir():
        return VectorFile(text)
    kinds: dict[str, type[VectorNetwork]] = {kind.NAME: kind for kind in (NetworkVectors, WorldVectors, WorldTables)}
    try:
        name, inside = split_name(text, "source of picture features")
    except InputError:
        name, inside = text, ""
    if name not in kinds:
        raise InputError(
            f"picture features {text!a}: expected an .npz file, the folder of an LMDB, network(path=…), "
            "world-encoder or world-reader"
        )
    if name == NetworkVectors.NAME and not inside:
        raise InputError("network requires path, a file of weights or a folder: network(path=resnet152.pth)")
    return kinds[name](**read_parameters(kinds[name], inside, name))


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Row i belongs to picture i: its vector (float32, [pictures, width])."""

    vectors: Vectors

    def take(self, indices: npt.NDArray[np.int64]) -> VectorTable:
        """The rows at these indices."""
        return VectorTable(self.vectors[indices])


@dataclass(frozen=True)
class PictureVectors:
    """Analysis: the vector of every picture of an `ImagePool`, from a source."""

    source: Source
    settings: Settings = field(default_factory=Settings)
    life: ClassVar[Life] = "run"

    def run(self, pool: ImagePool) -> VectorTable:
        """The table for all pictures of the pool.

        Raises:
            InputError: a picture cannot be read, or has no vector in the file.
        """
        if isinstance(self.source, VectorFile):
            return VectorTable(self.source.vectors([place.image_id for place in pool.items]))
        contents: ContentTable = pool.analyse(Contents())
        distinct, place = np.unique(contents.first, return_inverse=True)
        hashes = [contents.hashes[k] for k in distinct.tolist()]
        found = _computed(self.source, [pool.items[k] for k in distinct.tolist()], hashes, self.settings)
        return VectorTable(found[place])


def _computed(source: VectorNetwork, places: Sequence[Place], hashes: Sequence[str], settings: Settings) -> Vectors:
    """The vectors of distinct pictures: from the store, else from the network, one picture at a time."""
    if not places:
        return np.zeros((0, 0), np.float32)
    store, analysis = store_of(settings), f"picture vectors/1 {source.label(settings)}"
    keys = [bytes.fromhex(each) for each in hashes]
    found = {} if store is None else dict(store.get(analysis, keys))
    with task("picture features", len(places)) as advance:
        for key, place in zip(keys, places, strict=True):
            if key not in found:
                found[key] = vector_of(source, place, settings)
                if store is not None:
                    store.put(analysis, {key: found[key]})
            advance(1)
    return np.stack([found[key] for key in keys])


def vector_of(source: VectorNetwork, place: Place, settings: Settings) -> Vectors:
    """The vector of one picture; an `InputError` names the image."""
    picture = read_picture(place)
    try:
        made = source.vector(picture, settings)
    except (InputError, RuntimeError) as error:
        raise InputError(f"picture {place.path!a} of image {place.image_id!a}: {error}") from error
    if not np.isfinite(made).all():
        raise InputError(
            f"picture {place.path!a} of image {place.image_id!a}: {source} gives numbers that are not finite"
        )
    return made


def write_vectors(path: Path, image_ids: Sequence[str], vectors: Vectors) -> None:
    """Writes vectors as the .npz file that `VectorFile` reads."""
    with atomic_file(path) as file:
        np.savez_compressed(file, image_ids=np.array(image_ids), features=np.asarray(vectors, np.float32))


@functools.lru_cache(maxsize=4)
def _read_npz(path: str, stamp: tuple[int, int]) -> dict[str, Vectors]:
    expected = f"picture features {path!a}: expected an .npz file with `image_ids` [n] and `features` [n, width]"
    try:
        named, numbers = read_npz(Path(path).expanduser(), "image_ids", "features")
        ids, features = [str(each) for each in named.ravel().tolist()], np.asarray(numbers, np.float32)
    except (ValueError, TypeError) as problem:
        raise InputError(f"{expected} ({problem})") from problem
    if features.ndim != 2 or len(features) != len(ids) or not np.isfinite(features).all():
        raise InputError(f"{expected}, all finite; got {len(ids)} ids and features of shape {features.shape}")
    return dict(zip(ids, features, strict=True))


class _LmdbVectors(LmdbRegions):
    """An open LMDB of vectors."""

    def vector(self, name: str) -> Vectors | None:
        place = f"picture features of {name!a} in {self.place!a}"
        with self._file.begin() as reading:
            value = reading.get(name.encode("utf-8", "surrogateescape"))
        if value is None:
            return None
        try:
            loaded = np.load(io.BytesIO(value), allow_pickle=False)
            made = np.asarray(loaded if isinstance(loaded, np.ndarray) else loaded["features"], np.float32)
        except ZIP_ERRORS as error:
            raise InputError(f"{place}: neither .npy nor .npz with `features` ({error}); make it again") from error
        if made.ndim != 1 or not np.isfinite(made).all():
            raise InputError(f"{place}: has the shape {list(made.shape)}; expected one vector of finite numbers")
        return made


def _read_lmdb(path: str, image_ids: tuple[str, ...]) -> dict[str, Vectors]:
    folder = Path(path).expanduser()
    if not (folder / DATA).is_file():
        raise InputError(f"picture features {path!a}: the folder has no {DATA}; expected an LMDB, or name an .npz file")
    file = _LmdbVectors(folder)
    found = {each: file.vector(each) for each in dict.fromkeys(image_ids)}
    if len({each.shape for each in found.values() if each is not None}) > 1:
        raise InputError(f"picture features {path!a}: vectors of different widths; make the LMDB again")
    return {name: each for name, each in found.items() if each is not None}
