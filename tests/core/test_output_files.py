"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.output_files import (
    atomic_file,
    atomic_writer,
    check_targets,
    is_same_file,
    text_writer,
    write_atomic,
    write_table,
)


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


# Tables as files: every text comes back unchanged from each kind.


ROWS = [{"id": 'a\rb,\t"c"\n', "score": -0.5, "human": [1.0, 2.0]}, {"id": "=1+1", "score": 0.25, "human": []}]


@pytest.mark.parametrize(("name", "delimiter"), [("r.csv", ","), ("r.tsv", "\t"), ("r.csv.gz", ",")])
def test_hostile_ids_come_back(tmp_path: Path, name: str, delimiter: str) -> None:
    write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    (tmp_path / "plain").write_bytes(text.encode())
    with (tmp_path / "plain").open(newline="", encoding="utf-8") as file:
        result = list(csv.DictReader(file, delimiter=delimiter))
    assert [row["id"] for row in result] == [row["id"] for row in ROWS]
    assert [float(row["score"]) for row in result] == [-0.5, 0.25]
    assert [json.loads(row["human"]) for row in result] == [[1.0, 2.0], []]


def test_lines_parts_and_other_endings(tmp_path: Path) -> None:
    write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "r.jsonl")
    assert [json.loads(line) for line in (tmp_path / "r.jsonl").read_text("utf-8").split("\n")[:-1]] == ROWS
    with pytest.raises(InputError, match=r"ends in \.parquet, \.csv, \.tsv or \.jsonl"):
        write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "r.xlsx")
    table = pyarrow.Table.from_pylist(ROWS)
    write_table((table.slice(k, 1) for k in range(2)), tmp_path / "r.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").equals(table)
    assert pyarrow.parquet.ParquetFile(tmp_path / "r.parquet").num_row_groups == 2


# Files are written whole or not at all, and what killed runs leave is removed.


KILLED = """
import sys, time
from pathlib import Path
from capmeter.core.output_files import atomic_file
with atomic_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def writer(target: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"writing\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_what_a_killed_run_left_is_removed_by_the_next_of_the_same_target(tmp_path: Path) -> None:
    target, other = tmp_path / "scores.json", tmp_path / "scores.json.gz"
    target.write_bytes(b"before")
    killed, living = writer(target), writer(target)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(names(tmp_path)) == 3 and target.read_bytes() == b"before"
    with atomic_file(other) as file:
        file.write(b"other")
    assert len(names(tmp_path)) == 4  # another target's run touches neither
    with atomic_file(target) as file:
        file.write(b"after")
    left = [name for name in names(tmp_path) if name.endswith(".part")]
    assert len(left) == 1  # the one that is still being written
    assert target.read_bytes() == b"after"
    living.kill()
    living.wait()
    with atomic_file(target) as file:
        file.write(b"again")
    assert names(tmp_path) == ["scores.json", "scores.json.gz"]


def test_files_that_only_look_alike_stay(tmp_path: Path) -> None:
    similar = [".a.json.part", ".a.json.0123456789ab.parts", "a.json.0123456789ab.part", ".b.json.0123456789ab.part"]
    for name in similar:
        (tmp_path / name).touch()
    link, pipe = tmp_path / ".a.json.0123456789ab.part", tmp_path / ".a.json.0123456789ac.part"
    link.symlink_to(tmp_path / "alike")
    os.mkfifo(pipe)  # opening it would wait for ever
    with atomic_file(tmp_path / "a.json"):
        pass
    assert names(tmp_path) == sorted([*similar, "a.json", link.name, pipe.name])


def test_bytes_are_flushed_to_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: steps.append("flush") or flush(number))
    monkeypatch.setattr(Path, "replace", lambda self, to: steps.append("rename") or rename(self, to))
    with atomic_file(tmp_path / "a") as file:
        file.write(b"x")
    assert steps[:2] == ["flush", "rename"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_kills_at_random_moments_leave_one_version_or_the_other(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"0" * 200_000)
    code = (
        "import sys\nfrom pathlib import Path\nfrom capmeter.core.output_files import atomic_file\nprint(flush=True)\n"
        "for k in range(10**9):\n with atomic_file(Path(sys.argv[1])) as f: f.write(str(k % 10).encode() * 200_000)\n"
    )
    for trial in range(30):
        process = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(trial * 0.003)
        process.kill()
        process.wait()
        data = target.read_bytes()
        assert len(data) == 200_000 and len(set(data)) == 1
    with atomic_file(target) as file:
        file.write(b"end")
    assert names(tmp_path) == ["a"]
