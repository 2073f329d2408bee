"""The package as a whole: what importing it costs, and what it offers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from inspect import ismodule
from pathlib import Path

import pytest

import capmeter

ROOT = Path(__file__).resolve().parents[1]


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'pandas', 'transformers', 'pyarrow', 'scipy', 'numpy'}"
    code = f"import sys, capmeter; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_changes_nothing_in_the_user_s_process() -> None:
    code = (
        "import gc, os, signal, sys, threading, warnings\n"
        "def state():\n"
        "    return (dict(os.environ), list(sys.path), os.getcwd(), gc.get_threshold(), list(warnings.filters),\n"
        "            warnings.showwarning, sys.excepthook, threading.active_count(), signal.getsignal(signal.SIGINT))\n"
        "before = state()\n"
        "import capmeter\n"
        "assert state() == before\n"
        "capmeter.score, capmeter.load\n"
        "assert dict(os.environ) == before[0]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("environment", "expected"), [({}, "20"), ({"OPENBLAS_THREAD_TIMEOUT": "26"}, "26")])
def test_numpy_s_threads_wait_as_long_as_the_user_says(environment: dict[str, str], expected: str) -> None:
    code = (
        "import os, sys\n"
        "from capmeter.cli.main import main\n"
        "assert 'numpy' not in sys.modules\n"
        "sys.argv = ['capmeter', '--version']\n"
        "try:\n    main()\n"
        "finally:\n    print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    others = {key: value for key, value in os.environ.items() if key != "OPENBLAS_THREAD_TIMEOUT"}
    done = subprocess.run([sys.executable, "-c", code], env=others | environment, capture_output=True, text=True)
    assert done.stdout.split()[-1] == expected


NAMES = [name for name in capmeter.__all__ if name != "__version__" and not ismodule(getattr(capmeter, name))]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    public = getattr(capmeter, name)
    assert public.__name__ == name and public.__doc__


def test_public_names_are_loaded_when_used_and_documented() -> None:
    folders = {path.parent.name for path in (ROOT / "src/capmeter").glob("*/__init__.py")} - {"cli"}
    assert {name for name in capmeter.__all__ if ismodule(getattr(capmeter, name))} == folders
    page = (ROOT / "docs/python.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == {"__version__", *NAMES}
    with pytest.raises(AttributeError, match="No capmeter attribute scores"):
        _ = capmeter.scores
