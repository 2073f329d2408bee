"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_writer, check_targets, is_same_file, text_writer, write_atomic


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_written_whole(tmp_path: Path, name: str) -> None:
    write_atomic(tmp_path / name, "größer\r\n")
    assert (tmp_path / name).read_bytes()[:2] == (b"\x1f\x8b" if name.endswith(".gz") else b"gr")
    assert CaptionSource.resolve(tmp_path / name).read_text() == "größer\r\n"
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
        "from capmeter.core.output_files import write_atomic; from capmeter.core.errors import InputError\n"
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


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_standard_output_is_written_where_it_is_a_pipe() -> None:
    code = "from capmeter.core.output_files import write_atomic; write_atomic('/dev/stdout', 'text')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "text"


def test_a_link_into_no_folder_names_that_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "out")
    with pytest.raises(InputError, match=r"link: there is no folder \S+gone; make it first"):
        write_atomic(tmp_path / "link", "text")


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, expected in {
        ".": "it is a folder",
        "none/out": "there is no folder",
        "file/out": "one of its parents is a file",
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


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match=r"cannot write .*a: "), atomic_writer(tmp_path / "a"):
        pass
    with pytest.raises(InputError, match=r"cannot write .*a: "):
        check_targets(tmp_path / "a")


def test_one_file_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert is_same_file(tmp_path / "link", tmp_path / "file")  # before it exists
    (tmp_path / "file").write_text("")
    os.link(tmp_path / "file", tmp_path / "hard")
    for name in ("link", "hard", "file", "../" + tmp_path.name + "/file"):
        assert is_same_file(tmp_path / "file", tmp_path / name)
    assert not is_same_file(tmp_path / "file", tmp_path / "other")
    assert not is_same_file("/dev/null", "/dev/null")
