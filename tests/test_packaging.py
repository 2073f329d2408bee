"""What is made of the project besides its wheel: research and the container say what pyproject.toml says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from capmeter.core.registry import other_packages

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])


def test_research_is_of_the_same_version_and_needs_the_library(project: dict[str, Any]) -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    research = tomllib.loads((ROOT / "research" / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "capmeter" / "_version.py").read_text("utf-8"))
    assert version is not None and research["version"] == version[1]
    assert research["dependencies"] == [f"capmeter=={version[1]}"]
    needs = [need for needs in research["optional-dependencies"].values() for need in needs]
    extras = {
        extra for need in needs for named in re.findall(r"^capmeter\[(.+)\]$", need) for extra in named.split(",")
    }
    assert extras and extras <= set(project["optional-dependencies"])
    assert research["requires-python"] == project["requires-python"]
    groups = research["entry-points"]
    elsewhere = other_packages()["capmeter-research"]
    for kind in ("metrics", "commands", "scene_graphs", "judge_protocols", "larger_encoders"):
        assert set(elsewhere[kind]) == set(groups[f"capmeter.{kind}"]), "what the library says is elsewhere"
    assert {*elsewhere["demo_metrics"], elsewhere["threshold_metric"]} <= set(elsewhere["metrics"])


def test_the_container_installs_extras_that_exist_and_runs_as_a_user(project: dict[str, Any]) -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    extras = re.search(r"(?m)^ARG EXTRAS=(.+)$", text)
    assert extras is not None and set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert [line for line in text.splitlines() if line.startswith(("USER", "ENTRYPOINT"))] == [
        "USER 1000",
        'ENTRYPOINT ["capmeter"]',
    ]


def test_the_wheel_has_the_examples_and_the_marker_of_types(project: dict[str, Any]) -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    message = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    included = message["wheel"]["force-include"]
    for path, inside in included.items():
        assert (ROOT / path).is_file() and inside == f"capmeter/{path}"
    assert {Path(path).name for path in included} == {each.name for each in (ROOT / "examples").glob("*.json")}
    assert (ROOT / "src" / "capmeter" / "py.typed").is_file()


def test_the_weights_that_ship_are_at_most_60_megabytes() -> None:
    files = (ROOT / "src" / "capmeter" / "data" / "weights").rglob("*")
    assert sum(path.stat().st_size for path in files if path.is_file()) <= 60_000_000
