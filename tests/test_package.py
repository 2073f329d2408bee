"""The package as a whole: what importing it costs."""

from __future__ import annotations

import subprocess
import sys


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, capmeter; print(sorted({'torch', 'pandas', 'transformers', 'pyarrow', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
