"""Tests of the library that use metrics or commands of research, where that is installed."""

from __future__ import annotations

import importlib.util

import pytest

needs_research = pytest.mark.skipif(
    importlib.util.find_spec("capmeter_research") is None, reason="needs capmeter-research"
)
