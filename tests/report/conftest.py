"""The browser of the tests that open pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser_page import FLAGS, PATIENCE, Opened

from capmeter.evaluation.results import Results
from capmeter.report.page import write_page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (the group dev)")
    location = os.environ.get("CAPMETER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if location is None:
        pytest.skip("needs a Chromium: chromium on the path, or CAPMETER_CHROMIUM naming one")
    with playwright.sync_playwright() as running:
        flags = [*FLAGS, "--disable-sync", "--no-first-run"]
        opened = running.chromium.launch(executable_path=location, args=flags, timeout=PATIENCE)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def call(inputs: dict[str, Results], *, width: int = 1280, scheme: str = "light", **options: Any) -> Opened:
        path = write_page(inputs, tmp_path / "page.html", resamples=50, **options).path
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        return Opened(context.new_page(), path)

    yield call
    for context in contexts:
        context.close()
