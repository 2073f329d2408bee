"""The pages of an LMDB, checked before it is opened: reading beyond the end of a damaged map would end the process.

Layout (lmdb 0.9, 64 bits): a page begins with its number, 2 unused bytes, flags and the ends of its free space; then
come the offsets of its nodes. A node is a size or the number of a page below (lo, hi, flags), the size of its key, the
key, and its value or, for a large one, the number of the first page that holds it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = 0xBEEFC0DE
_META = struct.Struct("<IIQQ")  # after the page's header: magic, version, address, size of the map
_PAGE_SIZE = struct.Struct("<I")
_TREE = struct.Struct("<HH32xQQQ")  # flags, depth, (counts), root page, last page, number of the transaction
_META_OFFSET, _PAGE_SIZE_OFFSET, _TREE_OFFSET = 16, 40, 92
_META_BYTES = _TREE_OFFSET + _TREE.size
_PAGE = struct.Struct("<Q2xHHH")  # number, flags, ends of the free space
_NODE = struct.Struct("<HHHH")
_NUMBER = struct.Struct("<Q")
_BRANCH, _LEAF, _LARGE, _DUPLICATES = 1, 2, 1, 4
_NO_PAGE = (1 << 64) - 1
_DEEPEST = 32


def check_pages(path: Path) -> None:
    """Reads the pages that lead to the values, which are as many as the keys fill.

    Args:
        path: the file `data.mdb`.

    Raises:
        ValueError, OSError, struct.error: it is not an LMDB, is truncated or damaged.
    """
    file_size = path.stat().st_size
    with path.open("rb") as file:
        first_meta = file.read(_META_BYTES)
        page_size = _read_page_size(first_meta)
        file.seek(page_size)
        second_meta = file.read(_META_BYTES)
        metas = [_TREE.unpack_from(meta, _TREE_OFFSET) for meta in (first_meta, second_meta)]
        flags, depth, root_page, last_page, _ = max(metas, key=lambda meta: meta[4])
        if (last_page + 1) * page_size > file_size:
            raise ValueError(f"it has {file_size:,} bytes, but should have {(last_page + 1) * page_size:,}")
        if flags or depth > _DEEPEST:
            raise ValueError(f"a tree with the flags {flags} and {depth} levels")
        pending_pages, visited_pages = [] if root_page == _NO_PAGE else [root_page], set[int]()
        while pending_pages:
            page_number = pending_pages.pop()
            if page_number in visited_pages or not 1 < page_number <= last_page:
                raise ValueError(f"page {page_number} of {last_page + 1}")
            visited_pages.add(page_number)
            pending_pages += _check_page(file, page_number, page_size, file_size)


def _check_page(file: BinaryIO, page_number: int, page_size: int, file_size: int) -> list[int]:
    """The numbers of the pages below this one."""
    file.seek(page_number * page_size)
    page = file.read(page_size)
    own_number, flags, lower, upper = _PAGE.unpack_from(page)
    if own_number != page_number or flags & ~0x10 not in (_BRANCH, _LEAF) or not 16 <= lower <= upper <= page_size:
        raise ValueError(f"page {page_number} is not a page of keys")
    child_pages: list[int] = []
    for (node_offset,) in struct.iter_unpack("<H", page[16 : lower & ~1]):
        low, high, node_flags, key_size = _NODE.unpack_from(page, node_offset)
        value_offset = node_offset + _NODE.size + key_size
        if node_offset < upper or value_offset > page_size:
            raise ValueError(f"page {page_number} has a key beyond its end")
        if flags & _BRANCH:
            child_pages.append(low | high << 16 | node_flags << 32)
            continue
        value_end = (low | high << 16) + value_offset
        if node_flags & _LARGE:
            (large_page,) = _NUMBER.unpack_from(page, value_offset)
            value_end = large_page * page_size + 16 + (low | high << 16)
        if node_flags & _DUPLICATES or value_end > (file_size if node_flags & _LARGE else page_size):
            raise ValueError(f"page {page_number} has a value beyond the end")
    return child_pages


def _read_page_size(meta: bytes) -> int:
    if _META.unpack_from(meta, _META_OFFSET)[0] != _MAGIC:
        raise ValueError("it does not begin like one")
    page_size: int = _PAGE_SIZE.unpack_from(meta, _PAGE_SIZE_OFFSET)[0]
    if page_size < 512 or page_size > 1 << 16 or page_size & (page_size - 1):
        raise ValueError(f"a page of {page_size} bytes")
    return page_size
