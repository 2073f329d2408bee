"""Files: plain or gzipped in, whole or not at all out."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capmeter.captions.files import atomic_writer, open_bytes, read_text, text_lines, text_writer, write_atomic
from capmeter.errors import InputError


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


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


def test_gzip_is_told_by_the_first_bytes_not_the_name(tmp_path: Path) -> None:
    zipped, plain = tmp_path / "zipped.json", tmp_path / "plain.gz"
    zipped.write_bytes(gzip.compress("ein Hündchen".encode()))
    plain.write_text("ein Hündchen", encoding="utf-8")
    assert read_text(zipped) == read_text(plain) == "ein Hündchen"


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "marked"
    path.write_bytes(b"\xef\xbb\xbfa dog\na cat")
    assert read_text(path) == "a dog\na cat"
    assert list(text_lines(path)) == [(1, "a dog\n"), (2, "a cat")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("a\rb\u2028c\x85d\ne\r\n".encode())
    assert [line for _, line in text_lines(path)] == ["a\rb\u2028c\x85d\n", "e\r\n"]


def test_reading_mistakes_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"one\ncaf\xe9")
    (tmp_path / "sixteen").write_bytes("a dog".encode("utf-16"))
    whole = gzip.compress(os.urandom(5000))
    (tmp_path / "cut.gz").write_bytes(whole[:2000])
    (tmp_path / "damaged.gz").write_bytes(whole[:1000] + b"\0" * 1000 + whole[2000:])
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
            read_text(tmp_path / name)


def test_without_permission(forbidden: Path) -> None:
    with pytest.raises(InputError, match="no permission to read"), open_bytes(forbidden / "locked"):
        pass
    with pytest.raises(InputError, match="no permission; choose another folder"):
        write_atomic(forbidden / "new", "text")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_is_refused_rather_than_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(InputError, match="is a pipe, a socket or a device"):
            read_text(path)


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_written_whole(tmp_path: Path, name: str) -> None:
    write_atomic(tmp_path / name, "größer\r\n")
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith(".gz") else b"gr")
    assert read_text(tmp_path / name) == "größer\r\n"
    assert names_in(tmp_path) == [name]


def test_a_failure_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_atomic(path, "earlier")
    with pytest.raises(KeyboardInterrupt), text_writer(path) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "earlier"
    assert names_in(tmp_path) == ["out.json"]


def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write_atomic(path, "earlier")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"No space left on device; nothing was written, an earlier file is untouched"):
        write_atomic(path, "later")
    assert path.read_text() == "earlier"
    assert names_in(tmp_path) == ["out.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_a_limit_hit_in_the_middle_of_writing(tmp_path: Path, name: str) -> None:
    code = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "from capmeter.captions.files import write_atomic; from capmeter.errors import InputError\n"
        "try: write_atomic(sys.argv[1], os.urandom(200_000))\n"
        "except InputError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, text=True, check=True
    )
    assert "File too large; nothing was written" in done.stdout
    assert names_in(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_written_directly() -> None:
    write_atomic("/dev/null", "text")
    with pytest.raises(InputError, match="No space left"):
        write_atomic("/dev/full", "text")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, expected in {
        ".": "it is a folder",
        "none/out": "there is no folder",
        "file/out": "lies under a file",
    }.items():
        with pytest.raises(InputError, match=expected):
            write_atomic(tmp_path / name, "text")


def test_a_link_stays_a_link_and_the_mode_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    write_atomic(real, "earlier")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomic(link, "later")
    assert link.is_symlink()
    assert real.read_text() == "later"
    assert real.stat().st_mode & 0o777 == 0o640


def test_half_a_surrogate_pair_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="surrogate"), text_writer(tmp_path / "out") as file:
        file.write("\ud83d")
    with pytest.raises(InputError, match="surrogate"):
        write_atomic(tmp_path / "out", "\ud83d")
    assert names_in(tmp_path) == []


def test_gzipped_bytes_do_not_depend_on_the_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with atomic_writer(tmp_path / name) as file:
            file.write(b"same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
