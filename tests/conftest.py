"""What every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from capmeter.errors import CapmeterError
from capmeter.text.meteor_resources import meteor_language

# no example is refused because the machine is busy, and every run tries the same ones; `make fuzz` tries others
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("random", parent=settings.get_profile("steady"), derandomize=False)
settings.load_profile("steady")

# nothing is kept from test to test, nor among the user's files; tests of what is kept name a folder
os.environ["CAPMETER_REFERENCE_CACHE"] = ""

# the examples of these modules run an encoder, or its tokenizer
_NEURAL = {f"capmeter.{name}" for name in ("encoders.batches", "encoders.word_piece", "metrics.bertscore")}
_NEURAL |= {f"capmeter.metrics.{name}" for name in ("sbert", "tbr", "tbr.tbr", "capmeter.capmeter", "capmeter.network")}
_NEURAL.add("capmeter.learning.capmeter.run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples that need the extra neural are marked as such tests are."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.name.removeprefix("src.") in _NEURAL:
            item.add_marker(pytest.mark.neural)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real captions, human judgments and official scores; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CAPMETER_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the research data folder (CAPMETER_SHARED), not found at {folder}")
    return folder


@pytest.fixture(scope="session")
def meteor_index(pytestconfig: pytest.Config) -> Iterator[Path]:
    """METEOR's resources with their index, built once into the test runner's cache; skipped without the package."""
    cache = pytestconfig.cache
    assert cache is not None
    folder = cache.mkdir("meteor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPMETER_CACHE", str(folder))
        try:
            meteor_language()
        except CapmeterError as error:
            pytest.skip(f"needs METEOR's resources: {error}")
        yield folder
