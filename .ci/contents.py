"""What wheels and source distributions contain, and their sizes; ends with 1 if one lacks a file, or has too much.

python .ci/contents.py dist/*.whl dist/*.tar.gz
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

MOST_MEGABYTES = 60
NEEDED = {
    "capmeter": (
        "capmeter/py.typed",
        "capmeter/examples/references.json",
        "capmeter/examples/broken.json",
        "capmeter/data/weights/parser/checkpoint.json",
        "capmeter/data/published/hessel2021.json",
        "capmeter/data/prompts/clair.yaml",
        "capmeter/cli/main.py",
    ),
    "capmeter_research": (
        "capmeter_research/py.typed",
        "capmeter_research/papers/lceval/weights/lceval/checkpoint.json",
        "capmeter_research/papers/tbr/published/yi2020.json",
    ),
}
FOREIGN = ("tests/", "docs/", "scripts/", "__pycache__", ".pyc", "/.", ".jsonl", ".csv", ".parquet", ".gz")


def check_pair(wheel: Path, source: Path) -> list[str]:
    """Prints the sizes of a distribution's wheel and source; what is wrong with them, one sentence each."""
    package = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        files = {each.filename: each.file_size for each in archive.infolist()}
    with tarfile.open(source) as archive:
        sources = {each.name.partition("/")[2]: each.size for each in archive if not each.isdir()}
    problems = [f"{needed} is not in {wheel.name}" for needed in NEEDED[package] if needed not in files]
    problems += [f"{name} is in {wheel.name}" for name in files if any(each in name for each in FOREIGN)]
    problems += [
        f"{name} is in {wheel.name}"
        for name in files
        if name.partition("/")[0] != package and ".dist-info/" not in name
    ]
    if not any(name.endswith(".dist-info/licenses/LICENSE") and size > 10_000 for name, size in files.items()):
        problems.append(f"{wheel.name} is without its licence")
    packaged = {name for name in files if name.startswith(f"{package}/") and not name.startswith("capmeter/examples/")}
    problems += [
        f"{name} is in one of wheel and source alone"
        for name in packaged ^ {name.removeprefix("src/") for name in sources if name.startswith("src/")}
    ]
    weights = sum(size for name, size in files.items() if "/weights/" in name)
    for path, count, size in ((wheel, len(files), sum(files.values())), (source, len(sources), sum(sources.values()))):
        megabytes = path.stat().st_size / 1e6
        print(f"{path.name}: {megabytes:.1f} MB, {count} files, {size / 1e6:.1f} MB unpacked")
        if megabytes > MOST_MEGABYTES:
            problems.append(f"{path.name} has {megabytes:.1f} MB, more than {MOST_MEGABYTES}")
    print(f"of the wheel's, {weights / 1e6:.1f} MB are trained weights")
    return problems


def main(paths: list[Path]) -> int:
    """Checks every wheel with the source distribution of the same name; the exit code."""
    sources = {path.name.removesuffix(".tar.gz"): path for path in paths if path.suffix == ".gz"}
    wheels = [path for path in paths if path.suffix == ".whl"]
    problems = [text for wheel in wheels for text in check_pair(wheel, sources["-".join(wheel.name.split("-")[:2])])]
    print("\n".join(problems), end="\n" if problems else "")
    return bool(problems) or not wheels


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
