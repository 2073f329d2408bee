"""Runs the commands of README.md in a folder with `capmeter demo`'s captions under README's names.

    cd FOLDER; python .ci/readme.py README.md FOLDER_OF_PROGRAMS

Of a block that starts with `$ `, every line must be printed. Installations, `make` and Python are left to other checks.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

FILES = {"a.json": "strong.json", "b.json": "weak.json", "refs.json": "references.json"}


def main(page: Path, programs: Path) -> int:
    """Runs every command; the exit code."""
    for name, example in FILES.items():
        shutil.copy(Path("examples") / example, name)
    blocks = re.findall(r"(?ms)^```\n(.*?)^```$", page.read_text("utf-8"))
    ran = 0
    for block in blocks:
        for command in re.findall(r"(?m)^(?:\$ )?(capmeter .+)$", block):
            program, *arguments = shlex.split(command)
            done = subprocess.run(
                [programs / program, *arguments], capture_output=True, text=True, env={**os.environ, "COLUMNS": "160"}
            )
            printed = {" ".join(line.split()) for line in (done.stdout + done.stderr).splitlines()}
            expected = block.splitlines()[1:] if block.startswith("$ ") else []
            missing = [line for line in expected if " ".join(line.split()) not in printed]
            print(f"{command}: {'done' if not (done.returncode or missing) else 'NOT AS WRITTEN'}")
            if done.returncode or missing:
                print(f"exit code {done.returncode}", *missing, done.stdout, done.stderr, sep="\n")
                return 1
            ran += 1
    return int(ran == 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
