"""A damaged LMDB ends with a sentence, and never the process."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from capmeter.core.errors import InputError
from capmeter.images.lmdb_pages import check_pages
from capmeter.images.region_lmdb import LmdbRegions

PAGE = 4096


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An LMDB with pages above pages of keys, and small and large values."""
    lmdb = pytest.importorskip("lmdb")
    folder = tmp_path_factory.mktemp("lmdb")
    with lmdb.open(str(folder), map_size=1 << 24, lock=False) as file, file.begin(write=True) as transaction:
        for k in range(300):
            transaction.put(f"{k:04}{'x' * 90}".encode(), os.urandom(9000 if k % 50 == 0 else 20))
    return folder


def test_an_intact_one_passes(database: Path, tmp_path: Path) -> None:
    check_pages(database / "data.mdb")
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path), map_size=1 << 20, lock=False):
        pass
    check_pages(tmp_path / "data.mdb")


def test_every_damaged_head_of_a_page_is_refused_or_harmless(database: Path, tmp_path: Path) -> None:
    """A read beyond the end would end this process by SIGBUS."""
    content = (database / "data.mdb").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for page in range(len(content) // PAGE):
        for offset in (*range(0, 24, 3), 124, 130, 137, *rng.integers(24, PAGE, 4).tolist()):
            damaged = bytearray(content)
            damaged[page * PAGE + offset] ^= 1 << random.Random(offset).randrange(8)
            (tmp_path / "data.mdb").write_bytes(damaged)
            try:
                regions = LmdbRegions(tmp_path)
            except InputError:
                refused += 1
                continue
            for name in [name for name in regions.names if name.startswith(("0000", "0150", "0299"))]:
                with pytest.raises(InputError):
                    regions.read(name)
            del regions  # which closes it
    assert refused > 50
