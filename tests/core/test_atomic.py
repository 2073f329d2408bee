"""Files are written whole or not at all, and what killed runs leave is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capmeter.core.output_files import atomic_file

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
