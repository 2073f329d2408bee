"""docs/adapters.md: its examples run, its modules are there, and each has its extra."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adapters.md"


def test_examples_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("torchmetrics", "evaluate", "polars"):
        pytest.importorskip(library, reason=f"needs {library}")
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "cache"))
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 15 and result.failed == 0


def test_every_adapter_is_on_the_page_and_every_module_of_the_page_is_there() -> None:
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"capmeter\.integrations\.(\w+)", text))
    no_adapters = {"__init__", "mcp", "model_answers", "module_paths", "scst", "texts", "token_layout"}
    present = {path.stem for path in (ROOT / "src/capmeter/integrations").glob("*.py")} - no_adapters
    assert named == present
    extras = set(re.findall(r"`\[(\w+)\]`", text))
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(re.search(rf"^{extra} = ", pyproject, re.MULTILINE) for extra in extras)
    assert all(importlib.util.find_spec(f"capmeter.integrations.{name}") for name in named)
