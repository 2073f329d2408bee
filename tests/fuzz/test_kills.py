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


def test_a_killed_run_leaves_whole_files() -> None:
    found = kills("--kills", "16", "--captions", "60", "--seed", "1", "--commands", "score,convert apart")
    assert found["faults"] == []
    assert sum(found["ends"].values()) == 16
    assert any(end.startswith("killed") for end in found["ends"])


@pytest.mark.slow
def test_300_kills_leave_whole_files() -> None:
    found = kills("--kills", "300")
    assert found["faults"] == []
    cut = sum(count for end, count in found["ends"].items() if end.startswith("killed"))
    assert cut > 200 and sum(found["ends"].values()) == 300
    assert sum(count for end, count in found["ends"].items() if "while writing" in end) > 20


def test_half_written_files_are_found(tmp_path: Path) -> None:
    """The script itself: with files written in place it finds the fault."""
    breaking = (
        "import sys, runpy, time, contextlib\n"
        "from capmeter import atomic\n"
        "from capmeter.captions import files\n"
        "@contextlib.contextmanager\n"
        "def in_place(target):\n"
        "    with target.open('wb') as file:\n"
        "        yield file\n"
        "        file.flush()\n"
        "        file.truncate(file.tell() // 2)\n"
        "        time.sleep(0.3)\n"
        "files.atomic_file = in_place\n"
        f"sys.argv = ['kills.py', '--kills', '6', '--captions', '20', '--commands', 'convert apart']\n"
        f"runpy.run_path({str(Path(__file__).with_name('kills.py'))!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", breaking], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["faults"]
