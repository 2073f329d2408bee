"""What the wheel and the source distribution contain, and their sizes; ends with 1 if something is missing or foreign.

python .ci/contents.py dist/capmeter-*.whl dist/capmeter-*.tar.gz
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

NEEDED = (
    "capmeter/py.typed",
    "capmeter/examples/references.json",
    "capmeter/examples/broken.json",
    "capmeter/data/weights/parser/checkpoint.json",
    "capmeter/data/published/hessel2021.json",
    "capmeter/data/prompts/clair.yaml",
    "capmeter/cli/main.py",
)
FOREIGN = ("capmeter_research/", "tests/", "docs/", "scripts/", "__pycache__", ".pyc", "/.")


def main(wheel: Path, source: Path) -> int:
    """Prints sizes and complaints; the exit code."""
    with zipfile.ZipFile(wheel) as archive:
        files = {each.filename: each.file_size for each in archive.infolist()}
    with tarfile.open(source) as archive:
        sources = {each.name.partition("/")[2]: each.size for each in archive if each.isfile()}
    said = [f"{needed} is not in the wheel" for needed in NEEDED if needed not in files]
    said += [f"{name} is in the wheel" for name in files if any(each in name for each in FOREIGN)]
    packaged = {name for name in files if name.startswith("capmeter/") and not name.startswith("capmeter/examples/")}
    said += [
        f"{name} is in one of wheel and source alone"
        for name in packaged ^ {name.removeprefix("src/") for name in sources if name.startswith("src/")}
    ]
    weights = sum(size for name, size in files.items() if name.startswith("capmeter/data/weights/"))
    for path, count, size in ((wheel, len(files), sum(files.values())), (source, len(sources), sum(sources.values()))):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {count} files, {size / 1e6:.1f} MB unpacked")
    print(f"of the wheel's, {weights / 1e6:.1f} MB are trained weights")
    print("\n".join(said), end="\n" if said else "")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main(*sorted(map(Path, sys.argv[1:]), key=lambda path: path.suffix == ".gz")))
