"""The documentation site: every metric and command has its page, and pages say what the code says.

`make docs` builds it, and runs the commands that its pages show; here is what needs no build.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from capmeter.cli.main import commands
from capmeter.evaluation.registry import METRICS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site() -> Any:
    """The modules that make the site's pages, by name."""

    def module(name: str) -> Any:
        return importlib.import_module(name)

    sys.path.insert(0, str(ROOT / "scripts" / "site"))
    try:
        yield module
    finally:
        sys.path.remove(str(ROOT / "scripts" / "site"))


def test_every_metric_has_a_page_and_every_command_runs_on_one(site: Any) -> None:
    pages = json.dumps(site("metric_pages").navigation())
    assert [name for name in METRICS.names() if f'"metrics/{name}.md"' not in pages] == []
    assert set(site("command_pages").RUNS) == set(commands())


def test_every_formula_becomes_mathml(site: Any) -> None:
    pytest.importorskip("latex2mathml", reason="needs latex2mathml (the group docs)")
    formula = site("formulas").formula
    for name in METRICS.names():
        equations = METRICS.class_of(name).FORMULA
        lines = ElementTree.fromstring(formula(name, equations))
        assert len(lines) == len(equations)
        assert "\\" not in "".join(lines.itertext()), name  # no command was left as it was
    assert "<mfrac>" in formula("spider", METRICS.class_of("spider").FORMULA)


def test_a_docstring_becomes_markdown(site: Any) -> None:
    output = site("metric_pages").as_markdown(
        """F: half of P * R, with `a_b` and c_d.

            F = 2PR / (P + R)

        See docs/parity.md.

        >>> 1 + 1  # doctest: +SKIP
        2
        """
    )
    assert output == (
        "F: half of P \\* R, with `a_b` and c\\_d.\n\n```text\nF = 2PR / (P + R)\n```\n\n"
        "See [parity](../parity.md).\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_commands_are_shown_with_what_they_print(site: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    transcript = site("console").transcript
    display = transcript(["capmeter schema | head -1", "capmeter list transforms --format csv"], tmp_path)
    assert display.startswith("$ capmeter schema | head -1\n{\n$ capmeter list transforms --format csv\n")
    assert "permutation" in display and not caplog.records
    transcript(["capmeter score missing.json"], tmp_path, 1)
    assert not caplog.records
    transcript(["capmeter score missing.json"], tmp_path)
    assert "exit code 1, expected 0" in caplog.text, "which a strict build refuses"


def test_what_a_page_would_load_from_elsewhere_is_found(site: Any) -> None:
    requests = site("build").asked
    assert requests('<a href="https://example.org/">read</a> <img src="a.png"> <link href="style.css">') == []
    assert requests('<script src="https://example.org/a.js"></script>') == ['src="https://example.org/a.js']
    assert requests("<link rel=stylesheet href=//example.org/a.css>") == ["href=//example.org/a.css"]
    assert requests("@font-face { src: url(https://example.org/a.woff2) }") == ["url(https://example.org/a.woff2"]


def test_links_that_leave_the_folder_of_pages_lead_to_what_the_site_has(site: Any) -> None:
    build = site("build")
    moved = build._moved("[a](../examples/plugin) [b](spice.md#x) [c](https://example.org) [d](../CONTRIBUTING.md)",
                         build.PurePosixPath("docs"))  # fmt: skip
    assert moved == "[a](plugin.md) [b](spice.md#x) [c](https://example.org) [d](contributing.md)"
    assert build._moved("[a](docs/spice.md)", build.PurePosixPath()) == "[a](spice.md)"
