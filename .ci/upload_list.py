"""Prints what a release uploads and where, as Markdown: python .ci/upload_list.py FOLDER."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """The files with sizes and hashes, and the commands of whoever owns the projects."""
    dist = sorted((folder / "dist").iterdir())
    rows = []
    for path in [*dist, *sorted(folder.glob("sbom-*.json"))]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        rows.append(f"| {path.relative_to(folder)} | {path.stat().st_size / 1e6:.1f} | {digest} |")
    version = dist[0].name.split("-")[1]
    print(f"# Release {version}\n\n| file | MB | SHA-256 |\n|---|---|---|", *rows, sep="\n")
    print(
        f"\nBy the workflow, with attestations: `git tag v{version} && git push origin v{version}`.\n"
        "By hand, in this folder: `twine upload dist/capmeter-*`, then `twine upload dist/capmeter_research-*`,\n"
        "which depends on it. The bills of materials belong to the release's page."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
