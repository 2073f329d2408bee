"""The package as a whole: what importing it costs."""

from __future__ import annotations

import subprocess
import sys


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'pandas', 'transformers', 'pyarrow', 'scipy'}"
    code = f"import sys, capmeter; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
