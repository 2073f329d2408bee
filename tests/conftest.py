"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real captions, human judgments and official scores; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CAPMETER_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs the research data folder (CAPMETER_SHARED), not found at {folder}")
    return folder
