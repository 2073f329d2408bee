from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hostile() -> ModuleType:
    pytest.importorskip("openpyxl", reason="needs the excel extra")
    return load_script("hostile")


@pytest.mark.parametrize(("name", "ends"), [("answers", ("score", "no score")), ("arguments", ("scored", "computed"))])
def test_hostile_answers_and_arguments_give_finite_numbers_or_a_sentence(name: str, ends: tuple[str, ...]) -> None:
    result = load_script(name).fuzz(600, seed=4)
    assert result.faults == []
    assert all(result.ends[each] > 5 for each in ends), result.ends


def test_hostile_checkpoints_are_used_or_refused_with_a_sentence() -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    result = load_script("checkpoints").fuzz(400, seed=4)
    assert result.faults == []
    assert result.ends["used"] > 20 and result.ends["refused"] > 200, "both ends are reached"


def test_hostile_captions_are_scored_or_refused_with_a_sentence(hostile: ModuleType) -> None:
    result = hostile.fuzz(1500, seed=20)
    assert result.faults == []
    assert result.inputs == 1500
    assert result.ends["scored"] > 100 and result.ends["refused"] > 500, "both ends are reached"


def test_the_fuzzer_finds_what_is_wrong(hostile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that puts captions under other ids, and one that lets an error through, are both found."""
    sound = hostile.load

    def swapped(*inputs: object, **how: object) -> object:
        captions = sound(*inputs, **how)
        return captions.select(range(len(captions))[::-1])

    monkeypatch.setattr(hostile, "load", swapped)
    assert any("other captions than load" in fault for fault in hostile.fuzz(300, seed=1).faults)

    def raising(*inputs: object, **how: object) -> object:
        raise KeyError("image_id")

    monkeypatch.setattr(hostile, "load", raising)
    assert len(hostile.fuzz(20, seed=1).faults) == 20


ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "Makefile").read_text("utf-8").partition("\nfuzz:")[2].partition("\n\n")[0].replace("\\\n", " ")
PROGRAMS = re.findall(r"python (\S+\.py) (--\w+) \d+", RECIPE)


@pytest.mark.parametrize(("program", "option"), PROGRAMS)
def test_every_program_of_make_fuzz_runs(program: str, option: str) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    count = "1" if option == "--kills" else "20"
    done = subprocess.run([sys.executable, ROOT / program, option, count], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_fuzz_names_folders_that_exist() -> None:
    assert len(PROGRAMS) == RECIPE.count(".py ")
    folders = re.findall(r"(?<= )tests/\w+(?= |$)", RECIPE.partition("-m pytest")[2])
    assert folders and all((ROOT / folder).is_dir() for folder in folders)
