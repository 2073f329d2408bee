"""Does what docs/tasks.md says, and nothing else: a stranger at the keyboard.

    python .ci/tasks.py docs/tasks.md [FOLDER OF PROGRAMS] [NUMBER ...]

Each section has a folder of its own. A block with a title is written into a file of that name; of a console block,
lines after `$` are run by the shell, and what they print must be what the page says (`...`: anything).
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"(?ms)^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$")
_ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sections(page: str) -> dict[str, str]:
    """The page's sections by their headings."""
    parts = re.split(r"(?m)^## (.+)$", page)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it should print."""
    for part in re.split(r"(?m)^\$ ", block)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def follow(section: str, folder: Path, programs: str = "") -> list[str]:
    """Follows a section in a folder; what did not happen as the page says."""
    wrong = []
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}" if programs else os.environ["PATH"],
    }
    for kind, title, text in _BLOCK.findall(section):
        if title:
            (folder / title).write_text(text, encoding="utf-8")
        elif kind == "console":
            for command, printed in commands(text):
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                if done.returncode or not doctest.OutputChecker().check_output(printed, done.stdout, _ALIKE):
                    wrong.append(
                        f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}\nexpected\n{printed}"
                    )
    return wrong


def main(page: Path, programs: str, numbers: list[int]) -> int:
    """Follows the sections; the exit code."""
    failed = 0
    for number, (title, section) in enumerate(sections(page.read_text("utf-8")).items(), 1):
        if numbers and number not in numbers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong = follow(section, Path(folder), programs)
        print(f"{number}. {title}: {'done' if not wrong else 'NOT AS WRITTEN'}", *wrong, sep="\n", flush=True)
        failed += bool(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "", list(map(int, sys.argv[3:]))))
