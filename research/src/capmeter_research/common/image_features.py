"""Features of images, one vector per image: from a file or from an image encoder.

| source | features |
|---|---|
| `features.npz` | `image_ids` (images,) and `features` (images, width) |
| a folder with `data.mdb` | an LMDB: key = image id, value = the vector as .npy, or .npz with `features` |
| `network(path=resnet152.pth)` | the average of a network's last map (LEIC, A.1); `pool=overlapping`: as released |
| `network(path=vit/)` | the pooled output of another vision model |
| another name | an encoder of an installed package (entry point group `capmeter.image_encoders`) |

Images are read as they are, each distinct one once; features are cached in the disk cache that the settings name.

>>> str(parse_feature_source("network(path=resnet152.pth,pool=overlapping)"))
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

from capmeter.captions.caption_set import ImagePool, ImageRef
from capmeter.core.arrays import ZIP_ERRORS, read_npz
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.core.named import Named, split_name
from capmeter.core.output_files import atomic_file
from capmeter.core.registry import Entry, Registry
from capmeter.core.settings import Settings, home_path
from capmeter.images.reading import ContentHashes, ContentHashTable, DecodedImage, read_image
from capmeter_research.common.region_lmdb import DATA, LmdbRegions

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ImageEncoder(Named, ABC):
    """A network that encodes an image as a vector; other packages may add some."""

    @abstractmethod
    def label(self, settings: Settings) -> str:
        """Its name with the hash of its weights: the same label gives the same features."""

    @abstractmethod
    def encode(self, image: DecodedImage, settings: Settings) -> Features:
        """The features of an image, float32 (width,)."""


@dataclass(frozen=True, kw_only=True)
class VisionEncoder(ImageEncoder):
    """A vision network by its local files."""

    NAME: ClassVar[str] = "network"
    SUMMARY: ClassVar[str] = "a ResNet or any vision model, by local files"

    path: Annotated[str, "a file of torchvision's ResNet weights, or a model's folder"]
    pool: Annotated[Literal["mean", "overlapping"], "of a feature map"] = "mean"

    def label(self, settings: Settings) -> str:
        """The weights' hash, and the pool."""
        from capmeter_research.common.vision_networks import load_vision

        return f"{load_vision(self.path, settings.device).label} {self.pool}"

    def encode(self, image: DecodedImage, settings: Settings) -> Features:
        """The average of the last feature map, or the network's pooled output."""
        from capmeter_research.common.vision_networks import average_map, load_vision

        network = load_vision(self.path, settings.device)
        if not network.convolutional:
            return network.pooled_output(image.pixels)
        return average_map(network.feature_map(image.pixels), self.pool)


@dataclass(frozen=True)
class FeatureFile:
    """A file of features by image id: an .npz file, or the folder of an LMDB."""

    path: str

    def __str__(self) -> str:
        return self.path

    def label(self, settings: Settings) -> str:
        """The file's name and the beginning of its hash."""
        path = home_path(self.path)
        return f"{path.name}@{sha256(path / DATA if path.is_dir() else path)[:12]}"

    def missing(self, image_ids: Sequence[str]) -> list[str]:
        """The images that have no features."""
        feature_table = self._table(image_ids)
        return [image_id for image_id in image_ids if image_id not in feature_table]

    def features(self, image_ids: Sequence[str]) -> Features:
        """The features of these images, float32 (images, width).

        Raises:
            InputError: the file cannot be read, or images have none; names the first.
        """
        table = self._table(image_ids)
        missing_ids = [image_id for image_id in image_ids if image_id not in table]
        if missing_ids:
            raise InputError(
                f"image features {self.path!a}: {len(missing_ids)} of {len(image_ids)} images have none; the first: "
                f"{', '.join(missing_ids[:5])}"
            )
        return np.stack([table[image_id] for image_id in image_ids]) if image_ids else np.zeros((0, 0), np.float32)

    def _table(self, image_ids: Sequence[str]) -> dict[str, Features]:
        path = home_path(self.path)
        try:
            file_status = path.stat()
        except OSError as error:
            raise InputError(f"image features {self.path!a}: {error.strerror}; expected .npz, or an LMDB") from error
        if path.is_dir():
            return _read_lmdb(self.path, tuple(image_ids))
        return _read_npz(self.path, (file_status.st_size, file_status.st_mtime_ns))


FeatureSource = FeatureFile | ImageEncoder
IMAGE_ENCODERS: Registry[ImageEncoder] = Registry(
    "source of image features",
    ImageEncoder,  # type: ignore[type-abstract]
    "capmeter.image_encoders",
    {VisionEncoder.NAME: Entry("capmeter_research.common.image_features:VisionEncoder")},
)


def parse_feature_source(text: str) -> FeatureSource:
    """The source with this text form: a path, or the name of an image encoder with its parameters.

    Raises:
        InputError: neither a known image encoder nor the path of an .npz file or a folder.
    """
    if text.endswith(".npz") or home_path(text).is_dir():
        return FeatureFile(text)
    try:
        encoder_name, parameter_text = split_name(text, "source of image features")
    except InputError:
        encoder_name, parameter_text = text, ""
    if encoder_name not in IMAGE_ENCODERS:
        added_encoders = [added_name for added_name in IMAGE_ENCODERS.names() if added_name != VisionEncoder.NAME]
        raise InputError(
            f"image features {text!a}: expected an .npz file, the folder of an LMDB, "
            f"{' or '.join(['network(path=…)', *added_encoders])}"
        )
    if encoder_name == VisionEncoder.NAME and not parameter_text:
        raise InputError("network requires path, a file of weights or a folder: network(path=resnet152.pth)")
    return IMAGE_ENCODERS.parse(text)


@dataclass(frozen=True, eq=False)
class ImageFeatureTable:
    """Features of images, float32 (images, width)."""

    features: Features


@dataclass(frozen=True)
class ImageFeatures:
    """Analysis: the features of every image of an `ImagePool`, from a source."""

    source: FeatureSource
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: ImagePool) -> ImageFeatureTable:
        """The table for all images of the pool.

        Raises:
            InputError: an image cannot be read, or has no features in the file.
        """
        if isinstance(self.source, FeatureFile):
            return ImageFeatureTable(self.source.features([image.image_id for image in pool.items]))
        hash_table: ContentHashTable = pool.analyse(ContentHashes())
        distinct_rows, rows = np.unique(hash_table.first, return_inverse=True)
        distinct_hashes = [hash_table.hashes[k] for k in distinct_rows.tolist()]
        distinct_images = [pool.items[k] for k in distinct_rows.tolist()]
        return ImageFeatureTable(_encode_images(self.source, distinct_images, distinct_hashes, self.settings)[rows])


def _encode_images(
    encoder: ImageEncoder, images: Sequence[ImageRef], content_hashes: Sequence[str], settings: Settings
) -> Features:
    """The features of distinct images: from the disk cache, else encoded, one image at a time."""
    if not images:
        return np.zeros((0, 0), np.float32)
    features = settings.result_cache().results(
        f"picture vectors/1 {encoder.label(settings)}",
        [bytes.fromhex(digest) for digest in content_hashes],
        lambda rows: [_encode_image(encoder, images[row], settings) for row in rows],
        batch_size=1,
        task="image features",
    )
    return np.stack(features)


def _encode_image(encoder: ImageEncoder, image: ImageRef, settings: Settings) -> Features:
    """The features of one image, float32 (width,); an `InputError` names the image."""
    decoded_image = read_image(image)
    try:
        features = encoder.encode(decoded_image, settings)
    except (InputError, RuntimeError) as error:
        raise InputError(f"image file {image.path!a} of image {image.image_id!a}: {error}") from error
    if not np.isfinite(features).all():
        raise InputError(
            f"image file {image.path!a} of image {image.image_id!a}: {encoder} gives numbers that are not finite"
        )
    return features


def write_feature_file(path: Path, image_ids: Sequence[str], features: Features) -> None:
    """Write the .npz file that `FeatureFile` reads.

    Args:
        path: of the file.
        image_ids: of the images.
        features: (images, width).
    """
    with atomic_file(path) as file:
        np.savez_compressed(file, image_ids=np.array(image_ids), features=np.asarray(features, np.float32))


@functools.lru_cache(maxsize=4)
def _read_npz(path: str, state: tuple[int, int]) -> dict[str, Features]:
    expected_layout = f"image features {path!a}: expected an .npz file with `image_ids` [n] and `features` [n, width]"
    try:
        id_array, feature_array = read_npz(home_path(path), "image_ids", "features")
        ids, features = list(map(str, id_array.ravel().tolist())), np.asarray(feature_array, np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"{expected_layout} ({error})") from error
    if features.ndim != 2 or len(features) != len(ids) or not np.isfinite(features).all():
        raise InputError(f"{expected_layout}, all finite; got {len(ids)} ids and features of shape {features.shape}")
    return dict(zip(ids, features, strict=True))


class _LmdbFeatures(LmdbRegions):
    """An open LMDB of features."""

    def features(self, image_id: str) -> Features | None:
        with self._file.begin() as transaction:
            stored_bytes = transaction.get(image_id.encode("utf-8", "surrogateescape"))
        if stored_bytes is None:
            return None
        where = f"image features of {image_id!a} in {self.location!a}"
        try:
            loaded = np.load(io.BytesIO(stored_bytes), allow_pickle=False)
            features = np.asarray(loaded if isinstance(loaded, np.ndarray) else loaded["features"], np.float32)
        except ZIP_ERRORS as error:
            raise InputError(f"{where}: neither .npy nor .npz with `features` ({error}); make it again") from error
        if features.ndim != 1 or not np.isfinite(features).all():
            raise InputError(f"{where}: has the shape {list(features.shape)}; expected one vector of finite numbers")
        return features


def _read_lmdb(path: str, image_ids: tuple[str, ...]) -> dict[str, Features]:
    folder = home_path(path)
    if not (folder / DATA).is_file():
        raise InputError(f"image features {path!a}: the folder has no {DATA}; expected an LMDB, or name an .npz file")
    file = _LmdbFeatures(folder)
    table = {each: features for each in dict.fromkeys(image_ids) if (features := file.features(each)) is not None}
    if len({features.shape for features in table.values()}) > 1:
        raise InputError(f"image features {path!a}: vectors of different widths; make the LMDB again")
    return table
