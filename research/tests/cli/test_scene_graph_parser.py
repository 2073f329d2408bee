"""`capmeter train scene-graph-parser`: options that need each other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from support.command_line import capmeter


@pytest.mark.parametrize("given", ["--parses", "--exclusions"])
def test_parses_are_learned_from_only_with_the_photos_of_benchmarks(tmp_path: Path, given: str) -> None:
    graphs = tmp_path / "graphs.jsonl.gz"
    graphs.write_bytes(gzip.compress(json.dumps({"caption": "a dog", "graph": [["dog"]], "split": "train"}).encode()))
    ran = capmeter("train", "scene-graph-parser", graphs, "--output", "made", given, "x.gz", folder=tmp_path)
    assert ran.returncode == 2
    assert "expected both --parses and --exclusions, or neither" in " ".join(ran.stderr.split())
    assert not (tmp_path / "made").exists()
