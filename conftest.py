"""Fixtures and settings of all tests, those of the library and those of research."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from hypothesis import HealthCheck, settings

from capmeter.core.errors import CapmeterError
from capmeter.text.meteor.resources import load_meteor_resources, load_release

# no example is refused because the machine is busy, and every run tries the same ones; `make fuzz` tries others
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("random", parent=settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")

# nothing is kept from test to test, nor among the user's files; tests of what is kept name a folder
os.environ["CAPMETER_REFERENCE_CACHE"] = ""

# Inspect is in an environment of its own (.ci/frameworks), and the adapter cannot be loaded without it
collect_ignore = [] if importlib.util.find_spec("inspect_ai") else ["src/capmeter/integrations/inspect_ai.py"]

# the examples of these modules run an encoder, or its tokenizer
_NEURAL = (
    "capmeter.encoders.batches",
    "capmeter_research.papers.umic.word_piece",
    "capmeter.metrics.embedding.bertscore",
    "capmeter.metrics.embedding.sbert",
    "capmeter_research.papers.tbr.tbr",
    "capmeter_research.papers.lceval.mowe",
    "capmeter_research.papers.lceval.wmd",
    "capmeter_research.papers.wembsim",
    "capmeter.metrics.own.capmeter",
    "capmeter.metrics.own.network",
    "capmeter_research.networks.own_metric.run",
)
# servers, clusters and killed processes: how fast they answer depends on what else the machine does
_OTHER_PROCESSES = (
    *("tests/cli/test_view.py", "tests/core/test_output_files.py", "tests/core/test_disk_cache.py"),
    *(
        "tests/fuzz/test_kills.py",
        "tests/encoders/test_batches.py",
        "tests/integrations",
        "tests/metrics/judges",
        "tests/text/parsing",
    ),
    *("research/tests/common/test_loop.py", "research/tests/papers/lceval/training/test_kills.py"),
    "research/tests/papers/judges",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks examples that need the extra neural; a test of other processes fails when it has failed twice in a row.

    Files with slow tests come first: one at the end would leave all processes but its own without work.
    """
    root = Path(__file__).parent
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name.startswith(_NEURAL):
            item.add_marker(pytest.mark.neural)
        place = item.path.relative_to(root).as_posix()
        if place.startswith(_OTHER_PROCESSES) or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real captions, human judgments and official scores; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CAPMETER_SHARED", Path(__file__).resolve().parents[1] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the research data folder (CAPMETER_SHARED), not found at {folder}")
    return folder


@pytest.fixture(scope="session")
def meteor_index(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """METEOR's resources with their index, built once into the test runner's cache, or into a new folder if it has none
    (`-p no:cacheprovider`); skipped without the package."""
    cache = getattr(pytestconfig, "cache", None)
    folder = tmp_path_factory.mktemp("meteor") if cache is None else cache.mkdir("meteor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPMETER_CACHE", str(folder))
        load_release.cache_clear()  # a test before may have loaded them with the index of another folder
        try:
            load_meteor_resources()
        except CapmeterError as error:
            pytest.skip(f"needs METEOR's resources: {error}")
        yield folder


class Ran(NamedTuple):
    """What a command gave: its exit code, its output, and what it said on standard error."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """Runs the command line in the folder of the test."""

    def __call__(self, *arguments: object) -> Ran:
        """Runs `capmeter ARGUMENTS`."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command line, run in the test's folder and process."""
    from support.command_line import capmeter

    def call(*arguments: object) -> Ran:
        done = capmeter(*arguments, folder=tmp_path)
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
