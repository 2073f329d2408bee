"""Files that captions are read from: plain, gzipped or compressed with Zstandard; every failure is a sentence."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import capmeter
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.output_files import write_atomic


@pytest.fixture
def forbidden(tmp_path: Path) -> Iterator[Path]:
    """A folder that may not be written, with a file that may not be read; root becomes nobody for a while."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX permissions")
    (tmp_path / "locked").touch()
    (tmp_path / "locked").chmod(0)
    tmp_path.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield tmp_path
    if root:
        os.seteuid(0)
    tmp_path.chmod(0o755)


def test_gzip_byte_order_marks_and_line_feeds(tmp_path: Path) -> None:
    zipped, plain = tmp_path / "zipped.json", tmp_path / "plain.gz"
    zipped.write_bytes(gzip.compress("ein Hündchen".encode()))
    plain.write_text("ein Hündchen", encoding="utf-8")
    assert CaptionSource.resolve(zipped).read_text() == CaptionSource.resolve(plain).read_text() == "ein Hündchen"
    path = tmp_path / "marked"
    path.write_bytes(b"\xef\xbb\xbfa dog\na cat")
    assert CaptionSource.resolve(path).read_text() == "a dog\na cat"
    assert list(CaptionSource.resolve(path).lines()) == [(1, "a dog\n"), (2, "a cat")]
    path = tmp_path / "lines"
    path.write_bytes("a\rb\u2028c\x85d\ne\r\n".encode())
    assert [line for _, line in CaptionSource.resolve(path).lines()] == ["a\rb\u2028c\x85d\n", "e\r\n"]


def test_reading_mistakes_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"one\ncaf\xe9")
    (tmp_path / "sixteen").write_bytes("a dog".encode("utf-16"))
    content = gzip.compress(os.urandom(5000))
    (tmp_path / "cut.gz").write_bytes(content[:2000])
    (tmp_path / "damaged.gz").write_bytes(content[:1000] + b"\0" * 1000 + content[2000:])
    for name, expected in {
        "missing": "there is no such file",
        ".": "is a folder",
        "latin": "line 2: byte 0xe9 is not UTF-8",
        "sixteen": "looks like UTF-16",
        "cut.gz": "cut off or damaged",
        "damaged.gz": "cut off or damaged",
        "nul\0": "NUL",
    }.items():
        with pytest.raises(InputError, match=expected):
            CaptionSource.resolve(tmp_path / name).read_text()


def test_without_permission(forbidden: Path) -> None:
    with pytest.raises(InputError, match="no permission to read"), CaptionSource.resolve(forbidden / "locked").open():
        pass
    with pytest.raises(InputError, match="no permission; choose another folder"):
        write_atomic(forbidden / "new", "text")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_refused_rather_than_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(InputError, match="is a pipe, a socket or a device"):
            CaptionSource.resolve(path).read_text()


def test_zstandard_is_read_as_gzip_is(tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"image_id": k, "candidate": f"a dog {k}", "references": [f"dog {k}"]}) + "\n" for k in range(999)
    ).encode()
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pyarrow.Codec("zstd").compress(lines, asbytes=True))
    assert [each.candidate for each in capmeter.load(path)] == [f"a dog {k}" for k in range(999)]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"x\.jsonl\.zst"):
        capmeter.load(path)
