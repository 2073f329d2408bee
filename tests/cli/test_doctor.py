"""`capmeter doctor`: for everything that is missing, the command that gets it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from commandline import capmeter

PROJECT = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
OTHERS = {"dev", "docs", "benchmarks", "images"}  # for developers, and a part of others


def told() -> dict[str, Any]:
    done = capmeter("doctor", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_extra_for_users_is_there() -> None:
    part = PROJECT.partition("[project.optional-dependencies]")[2].partition("[project.scripts]")[0]
    extras = set(re.findall(r"(?m)^([\w-]+) = \[", part))
    rows = {name[1:-1] for name in told() if name.startswith("[")}
    assert rows == extras - OTHERS


def test_what_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    gone = {"torch", "jieba", "matplotlib", "pycocoevalcap", "lmdb"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in gone else real(name, *rest))
    found = told()
    for extra in ("neural", "vision", "report", "meteor", "zh", "regions", "all"):
        assert found[f"[{extra}]"]["state"] == "missing"
        assert found[f"[{extra}]"]["command"] == f"pip install 'capmeter[{extra}]'"
    assert found["[ko]"]["state"] == ("ready" if real("mecab_ko") else "missing")
    for name, row in found.items():
        if row["state"] in ("missing", "incomplete"):
            assert row["command"], name
