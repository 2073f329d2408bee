from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["hostile"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_hostile_captions_are_scored_or_refused_with_a_sentence(hostile: ModuleType) -> None:
    found = hostile.fuzz(1500, seed=20)
    assert found.faults == []
    assert found.inputs == 1500
    assert found.ends["scored"] > 100 and found.ends["refused"] > 500, "both ends are reached"


def test_the_fuzzer_finds_what_is_wrong(hostile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that puts captions under other ids, and one that lets an error through, are both found."""
    sound = hostile.load

    def swapped(*given: object, **how: object) -> object:
        captions = sound(*given, **how)
        return captions.select(range(len(captions))[::-1])

    monkeypatch.setattr(hostile, "load", swapped)
    assert any("stream reads other captions than load" in fault for fault in hostile.fuzz(300, seed=1).faults)

    def raising(*given: object, **how: object) -> object:
        raise KeyError("image_id")

    monkeypatch.setattr(hostile, "load", raising)
    assert len(hostile.fuzz(20, seed=1).faults) == 20
