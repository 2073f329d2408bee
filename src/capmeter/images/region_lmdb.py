"""Regions in an LMDB, as UNITER writes them: key = the picture's file name, value = .npz bytes or msgpack with arrays.

The database's last page is compared with the file's size before it is opened, because reading beyond the end of a
truncated map would end the process. Arrays in msgpack are decoded here: objects that would have to be unpickled are
refused.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.errors import InputError, MissingBackend
from capmeter.images.region_npz import arrays_of, npz_bytes, read_npz_arrays
from capmeter.images.regions import Regions, regions_of

DATA, KEYS = "data.mdb", b"__keys__"
_MAGIC = 0xBEEFC0DE
_META = struct.Struct("<IIQQ")  # after the page's header: magic, version, address, size of the map
_PAGE = struct.Struct("<I")
_LAST = struct.Struct("<QQ")  # last page, number of the transaction
_HEADER, _AT_PAGE, _AT_LAST = 16, 40, 136
_FOLDERS = ("feat_*", "all_compressed", "all")
_MAP = 1 << 40  # address space, not disk


def lmdb_folder(folder: Path) -> Path | None:
    """The folder of the LMDB: this one, or the only one in it with UNITER's name; None if there is none.

    Raises:
        InputError: there are several.
    """
    if (folder / DATA).is_file():
        return folder
    found = sorted(path for name in _FOLDERS for path in folder.glob(name) if (path / DATA).is_file())
    if len(found) > 1:
        raise InputError(
            f"regions {str(folder)!a}: has several LMDBs ({', '.join(path.name for path in found)}); name one"
        )
    return found[0] if found else None


class LmdbRegions:
    """An open LMDB of regions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lmdb, self._msgpack = _backends()
        _check_size(folder)
        try:
            self._file = self._lmdb.open(str(folder), readonly=True, create=False, lock=False, readahead=False)
        except self._lmdb.Error as error:
            raise InputError(
                f"regions {str(folder)!a}: not a readable LMDB ({error}); copy or make it again"
            ) from error

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def __reduce__(self) -> Any:
        return LmdbRegions, (self.folder,)

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def names(self) -> Iterable[str]:
        """The keys of all pictures, in order."""
        try:
            with self._file.begin() as reading:
                keys = reading.cursor().iternext(keys=True, values=False)
                return [bytes(key).decode("utf-8", "surrogateescape") for key in keys if bytes(key) != KEYS]
        except self._lmdb.Error as error:
            raise InputError(f"regions {self.place!a}: the LMDB is damaged ({error}); copy or make it again") from error

    def read(self, name: str) -> Regions:
        """The regions under a key."""
        place = f"regions of {name!a} in {self.place!a}"
        try:
            with self._file.begin(buffers=True) as reading:
                found = reading.get(name.encode("utf-8", "surrogateescape"))
                value = None if found is None else bytes(found)
        except self._lmdb.Error as error:
            raise InputError(f"{place}: the LMDB is damaged ({error}); copy or make it again") from error
        if value is None:
            raise InputError(f"{place}: there is no such key")
        if value[:2] == b"PK":
            return regions_of(read_npz_arrays(io.BytesIO(value), place), place)
        try:
            packed = self._msgpack.unpackb(value, raw=False, strict_map_key=False)
        except (ValueError, TypeError, self._msgpack.exceptions.UnpackException) as error:
            raise InputError(f"{place}: neither an .npz file nor msgpack ({error}); make the LMDB again") from error
        if not isinstance(packed, Mapping):
            raise InputError(f"{place}: holds {type(packed).__name__}, expected arrays by name")
        return regions_of({str(key): _array(each, f"{place}: {key}") for key, each in packed.items()}, place)


def _array(packed: Any, place: str) -> Any:
    """An array as msgpack-numpy packs it: a map of nd, type, kind, shape and data."""
    if not isinstance(packed, Mapping):
        return packed
    field = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in packed.items()}
    kind = field.get("kind", b"")
    if kind in (b"O", "O"):
        raise InputError(f"{place} holds pickled objects, which are never loaded; save plain arrays")
    try:
        named = field["type"]
        dtype = np.dtype(named.decode("latin-1") if isinstance(named, bytes) else named)
        if dtype.kind not in "fiuUS":
            raise ValueError(f"an array of {dtype}")
        array = np.frombuffer(field["data"], dtype)
        return array.reshape([int(size) for size in field["shape"]]) if field.get("nd", True) else array[0]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{place} is not an array of numbers ({error}); make the LMDB again") from error


def _check_size(folder: Path) -> None:
    """Raises if the file ends before the last page that it says it has."""
    path = folder / DATA
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(_AT_LAST + _LAST.size)
            page = _page(first)
            file.seek(page)
            second = file.read(_AT_LAST + _LAST.size)
        last = max((_LAST.unpack_from(each, _AT_LAST) for each in (first, second)), key=lambda found: found[1])[0]
        if (last + 1) * page <= size:
            return
        why = f"it has {size:,} bytes, but should have {(last + 1) * page:,}"
    except (OSError, struct.error, ValueError) as error:
        why = str(error)
    raise InputError(f"regions {str(folder)!a}: {DATA} is truncated or not an LMDB ({why}); copy it again")


def _page(head: bytes) -> int:
    if _META.unpack_from(head, _HEADER)[0] != _MAGIC:
        raise ValueError("it does not begin like one")
    page: int = _PAGE.unpack_from(head, _AT_PAGE)[0]
    if page < 512 or page & (page - 1):
        raise ValueError(f"a page of {page} bytes")
    return page


def write_lmdb_regions(folder: Path, pictures: Iterable[tuple[str, Regions]], *, compress: bool = True) -> int:
    """Writes pictures' regions to an LMDB that UNITER's code reads too, as they come; returns their number.

    compress: values are compressed .npz files, else msgpack. The folder must not exist; it appears when complete.
    """
    lmdb, msgpack = _backends()
    if folder.exists():
        raise InputError(f"regions: {str(folder)!a} exists; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        names: list[str] = []
        with lmdb.open(str(partial), map_size=_MAP, lock=False) as file:
            for name, regions in pictures:
                key = f"{name.removesuffix('.npz')}.npz"
                arrays = arrays_of(regions)
                value = npz_bytes(arrays) if compress else msgpack.packb({k: _packed(v) for k, v in arrays.items()})
                with file.begin(write=True) as writing:
                    if not writing.put(key.encode(), value, overwrite=False):
                        raise InputError(f"regions: duplicate picture {name!a}; give each picture's regions once")
                names.append(key)
            with file.begin(write=True) as writing:
                writing.put(KEYS, json.dumps(names).encode())
            file.sync(True)
        partial.rename(folder)
    except lmdb.Error as error:
        raise InputError(f"regions: cannot write {str(folder)!a} ({error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return len(names)


def _packed(array: Any) -> dict[bytes, Any]:
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


def _backends() -> tuple[Any, Any]:
    try:
        import lmdb
        import msgpack
    except ImportError as error:
        raise MissingBackend('regions in an LMDB need lmdb and msgpack: pip install "capmeter[regions]"') from error
    return lmdb, msgpack
