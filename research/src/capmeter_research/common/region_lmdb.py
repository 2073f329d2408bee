"""Regions in an LMDB, as UNITER writes them: key = the image's file name, value = .npz bytes or msgpack with arrays.

Arrays in msgpack are decoded here: objects that would have to be unpickled are refused.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.errors import InputError, MissingBackend
from capmeter.images.regions import Regions, read_npz_arrays, regions_of
from capmeter_research.common.region_files import arrays_of, npz_bytes

DATA, KEYS = "data.mdb", b"__keys__"
_FOLDERS = ("feat_*", "all_compressed", "all")
_MAP_SIZE = 1 << 40  # address space, not disk


def open_lmdb_regions(folder: Path) -> LmdbRegions | None:
    """The regions of the LMDB in a folder; None if it has none.

    Raises:
        InputError: the folder has several LMDBs, or its LMDB cannot be read.
        MissingBackend: lmdb or msgpack is not installed.
    """
    database_folder = lmdb_folder(folder)
    return None if database_folder is None else LmdbRegions(database_folder)


def lmdb_folder(folder: Path) -> Path | None:
    """The folder of the LMDB: this one, or the only one in it with UNITER's name; None if there is none.

    Raises:
        InputError: there are several.
    """
    if (folder / DATA).is_file():
        return folder
    database_folders = sorted(path for name in _FOLDERS for path in folder.glob(name) if (path / DATA).is_file())
    if len(database_folders) > 1:
        database_names = ", ".join(path.name for path in database_folders)
        raise InputError(f"regions {str(folder)!a}: has several LMDBs ({database_names}); name one")
    return database_folders[0] if database_folders else None


class LmdbRegions:
    """An open LMDB of regions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lmdb, self._msgpack = _import_backends()
        try:
            self._file = self._lmdb.open(str(folder), readonly=True, create=False, lock=False, readahead=False)
        except self._lmdb.Error as error:
            raise InputError(
                f"regions {str(folder)!a}: not a readable LMDB ({error}); copy or make it again"
            ) from error
        expected_size = (self._file.info()["last_pgno"] + 1) * self._file.stat()["psize"]
        if (folder / DATA).stat().st_size < expected_size:  # reading beyond the end would end the process
            raise InputError(f"regions {str(folder)!a}: {DATA} is truncated; copy it again")

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def __reduce__(self) -> Any:
        return LmdbRegions, (self.folder,)

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def names(self) -> Iterable[str]:
        """The keys of all images, in order."""
        try:
            with self._file.begin() as transaction:
                entry_keys = transaction.cursor().iternext(keys=True, values=False)
                return [bytes(key).decode("utf-8", "surrogateescape") for key in entry_keys if bytes(key) != KEYS]
        except self._lmdb.Error as error:
            raise InputError(
                f"regions {self.location!a}: the LMDB is damaged ({error}); copy or make it again"
            ) from error

    def read(self, name: str) -> Regions:
        """The regions under a key."""
        where = f"regions of {name!a} in {self.location!a}"
        try:
            with self._file.begin(buffers=True) as transaction:
                value_buffer = transaction.get(name.encode("utf-8", "surrogateescape"))
                stored_bytes = None if value_buffer is None else bytes(value_buffer)
        except self._lmdb.Error as error:
            raise InputError(f"{where}: the LMDB is damaged ({error}); copy or make it again") from error
        if stored_bytes is None:
            raise InputError(f"{where}: there is no such key")
        if stored_bytes[:2] == b"PK":
            return regions_of(read_npz_arrays(io.BytesIO(stored_bytes), where), where)
        try:
            packed_arrays = self._msgpack.unpackb(stored_bytes, raw=False, strict_map_key=False)
        except (ValueError, TypeError, self._msgpack.exceptions.UnpackException) as error:
            raise InputError(f"{where}: neither an .npz file nor msgpack ({error}); make the LMDB again") from error
        if not isinstance(packed_arrays, Mapping):
            raise InputError(f"{where}: holds {type(packed_arrays).__name__}, expected arrays by name")
        return regions_of({str(key): _unpack(array, f"{where}: {key}") for key, array in packed_arrays.items()}, where)


def _unpack(packed_array: Any, where: str) -> Any:
    """An array that msgpack-numpy packed: a map of nd, type, kind, shape and data."""
    if not isinstance(packed_array, Mapping):
        return packed_array
    field = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in packed_array.items()}
    array_kind = field.get("kind", b"")
    if array_kind in (b"O", "O"):
        raise InputError(f"{where} holds pickled objects, which are never loaded; save plain arrays")
    try:
        dtype_name = field["type"]
        dtype = np.dtype(dtype_name.decode("latin-1") if isinstance(dtype_name, bytes) else dtype_name)
        if dtype.kind not in "fiuUS":
            raise ValueError(f"an array of {dtype}")
        flat_array = np.frombuffer(field["data"], dtype)
        return flat_array.reshape([int(size) for size in field["shape"]]) if field.get("nd", True) else flat_array[0]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{where} is not an array of numbers ({error}); make the LMDB again") from error


def write_lmdb_regions(folder: Path, images: Iterable[tuple[str, Regions]], *, compress: bool = True) -> int:
    """Write regions to an LMDB that UNITER's code can read, too.

    Args:
        folder: must not exist; it appears when the LMDB is complete.
        images: name and regions of each image; consumed one at a time.
        compress: values are compressed .npz files, else msgpack.

    Returns:
        The number of images.

    Raises:
        InputError: the folder exists or cannot be written, or two images have the same name.
        MissingBackend: lmdb or msgpack is not installed.
    """
    lmdb, msgpack = _import_backends()
    if folder.exists():
        raise InputError(f"regions: {str(folder)!a} exists; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial_folder = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        entry_keys: list[str] = []
        with lmdb.open(str(partial_folder), map_size=_MAP_SIZE, lock=False) as file:
            for image_name, image_regions in images:
                entry_key = f"{image_name.removesuffix('.npz')}.npz"
                arrays = arrays_of(image_regions)
                value = npz_bytes(arrays) if compress else msgpack.packb({k: _pack(v) for k, v in arrays.items()})
                with file.begin(write=True) as transaction:
                    if not transaction.put(entry_key.encode(), value, overwrite=False):
                        raise InputError(f"regions: duplicate image {image_name!a}; give each image's regions once")
                entry_keys.append(entry_key)
            with file.begin(write=True) as transaction:
                transaction.put(KEYS, json.dumps(entry_keys).encode())
            file.sync(True)
        partial_folder.rename(folder)
    except lmdb.Error as error:
        raise InputError(f"regions: cannot write {str(folder)!a} ({error})") from error
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)
    return len(entry_keys)


def _pack(array: Any) -> dict[bytes, Any]:
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


def _import_backends() -> tuple[Any, Any]:
    try:
        import lmdb
        import msgpack
    except ImportError as error:
        raise MissingBackend(
            'regions in an LMDB need lmdb and msgpack: pip install "capmeter-research[regions]"'
        ) from error
    return lmdb, msgpack
