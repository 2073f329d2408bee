from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


def kills(*options: str) -> dict:
    """What the script found, in a process of its own."""
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, timeout=3000)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_killed_runs_leave_whole_files() -> None:
    """A kill of each command; `make fuzz` does 300."""
    result = kills("--kills", "8", "--captions", "40", "--seed", "1")
    assert result["faults"] == []
    assert sum(result["ends"].values()) == 8
    assert any(end.startswith("killed") for end in result["ends"])


def test_half_written_files_are_found() -> None:
    """The script itself: with files written in place, and a kill when half of one is written, it finds the fault."""
    breaking = f"""
import contextlib, json, os, signal, sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import kills
from capmeter.core import output_files
half = False

@contextlib.contextmanager
def in_place(target):
    with target.open("wb") as file:
        yield file
        if half:
            file.flush()
            file.truncate(file.tell() // 2)
            (target.parent.parent / "half").touch()
            time.sleep(3600)

def killed(folder, command, *_, writing):
    global half
    half = True
    process = kills.begin(folder, command)
    half = False
    while not (folder / "half").exists():
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])

output_files.atomic_file, kills.killed = in_place, killed
found = kills.fuzz(1, 20, 0, {{"convert": kills.COMMANDS["convert apart"]}})
print(json.dumps([found.ends, found.faults]))
"""
    done = subprocess.run([sys.executable, "-c", breaking], capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    ends, faults = json.loads(done.stdout)
    assert list(ends) == ["killed, none written"] and "left" in faults[0]
