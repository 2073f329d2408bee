"""The page for everybody: by keyboard alone, with enough contrast, with names for what assistive technology reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser_page import Opened
from support.page_examples import HOSTILE, candidates, scored, systems

pytestmark = pytest.mark.browser
SIZES = [(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")]

CONTRAST = (Path(__file__).resolve().parents[1] / "support" / "contrast.js").read_text("utf-8")


def whole(open_page: Any, **options: Any) -> Opened:
    """A page with every part: several systems, notes, flags, an opened caption with its explanation."""
    texts = [*candidates(40, 1), "a cat on a", *HOSTILE[:3]]
    page = open_page({**systems(), "more": scored(texts)}, **options)
    page.tab.locator("#list .caption").first.click()
    page.tab.wait_for_selector(".explanation")
    return page


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_every_text_has_the_contrast_of_wcag_aa(open_page: Any, width: int, scheme: str) -> None:
    options = {"width": width, "scheme": scheme}
    result = whole(open_page, **options).tab.evaluate(CONTRAST)
    assert len(result) > 200
    assert [each for each in result if each[0] < each[1]] == []


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_axe_finds_nothing(open_page: Any, width: int, scheme: str) -> None:
    """axe-core is no part of this project: `npm pack axe-core`, unpack, and CAPMETER_AXE=…/package/axe.min.js."""
    axe = os.environ.get("CAPMETER_AXE")
    if not axe:
        pytest.skip("needs axe-core: CAPMETER_AXE naming its axe.min.js")
    options = {"width": width, "scheme": scheme}
    page = whole(open_page, **options)
    page.tab.evaluate(Path(axe).read_text("utf-8"))
    result = page.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    message = [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in result["violations"]]
    assert len(result["passes"]) > 20 and message == []


def focused(tab: Any) -> str:
    return str(tab.evaluate("document.activeElement.id || document.activeElement.textContent.trim().slice(0, 30)"))


def test_everything_is_reached_by_keyboard_alone(open_page: Any) -> None:
    page = open_page(systems(), width=1400)
    tab = page.tab
    tab.keyboard.press("Tab")
    assert focused(tab) == "Skip to the captions"
    visits = []
    for _ in range(120):
        tab.keyboard.press("Tab")
        visits.append(focused(tab))
        ring = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none" or visits[-1] == "", f"{visits[-1]} shows no focus"
        if visits[-1] == "next":
            break
    target = {
        "theme",
        "pair-x",
        "pair-y",
        "pair-system",
        "search",
        "in-references",
        "only-system",
        "only-note",
        "order",
    }
    target |= {"reset", "Lowest", "Most disagreed", "Longest", "page", "next", "Columns"}
    assert target <= set(visits)
    assert tab.evaluate("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length") == 0
    # a caption opens and closes, and the focus stays with it
    tab.locator("#list .caption").nth(2).focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#list .detail").count() == 1
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    tab.keyboard.press("Space")
    assert tab.locator("#list .detail").count() == 0
    # the search from anywhere, and back to the whole list
    tab.keyboard.press("/")
    assert focused(tab) == "search"
    tab.keyboard.type("cats")
    assert page.count() != "180 captions"
    assert page.said == []


def test_the_scatter_lists_captions_by_keyboard(open_page: Any) -> None:
    page = open_page(systems(), width=1400)
    tab = page.tab
    plot = tab.locator("#scatter svg")
    plot.focus()
    assert tab.locator("#scatter circle[visibility=visible]").count() == 1
    message = tab.text_content("#scatter-place")
    assert "Enter lists them" in message
    number = int(message.split(": ")[1].split()[0])
    tab.keyboard.press("Enter")
    assert page.count() == f"{number} of 180 captions"
    assert focused(tab) == "region"
    plot.focus()
    start = tab.evaluate(
        "[...document.querySelector('#scatter circle[visibility]').attributes].map((a) => a.value).join()"
    )
    for key in ("ArrowLeft", "Shift+ArrowDown"):
        tab.keyboard.press(key)
    moved = tab.evaluate(
        "[...document.querySelector('#scatter circle[visibility]').attributes].map((a) => a.value).join()"
    )
    assert moved != start
    for _ in range(40):
        tab.keyboard.press("Shift+ArrowDown")
        tab.keyboard.press("Shift+ArrowRight")
    assert "0 captions" in tab.text_content("#scatter-place")
    before = page.count()
    tab.keyboard.press("Enter")
    assert page.count() == before, "an empty place lists nothing"
    assert page.said == []


def test_views_of_the_list(open_page: Any) -> None:
    page = open_page({"a": scored([*candidates(30, 2), "a cat on a", "dog " * 60]), "b": scored(candidates(32, 1))})
    tab = page.tab
    assert tab.locator("#views button").all_text_contents() == ["Lowest", "Most disagreed", "Truncated", "Longest"]
    tab.get_by_role("button", name="Longest").click()
    assert page.captions()[0].startswith("dog dog") and "240 characters" in tab.text_content("#list .facts")
    assert tab.input_value("#direction") == "down"
    tab.get_by_role("button", name="Truncated").click()
    assert page.captions() == ["a cat on a"]
    tab.get_by_role("button", name="Most disagreed").click()
    assert tab.is_visible("#disagreement") and page.count() == "64 captions"
    tab.get_by_role("button", name="Lowest").click()
    display = [float(text) for text in tab.locator("#list tbody td[data-label='cider-d']").all_text_contents()]
    assert display == sorted(display) and len(display) == 25
    tab.select_option("#order", "length")
    tab.select_option("#direction", "up")
    lengths = [len(text) for text in page.captions()]
    assert lengths == sorted(lengths) and page.said == []


def test_embedded_pictures_are_thumbnails_in_the_list(open_page: Any, tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image", reason="needs Pillow")
    pil.fromarray(np.random.default_rng(0).integers(0, 255, (60, 90, 3), np.uint8)).save(tmp_path / "one.jpg")
    inputs = {"a": scored(candidates(3, 0), image="one.jpg")}
    tab = open_page(inputs, images="embed", images_root=tmp_path).tab
    assert tab.locator("#list .thumbnail").count() == 3
    tab.wait_for_function("document.querySelector('.thumbnail').naturalWidth > 0")
    linked = open_page(inputs, images="link", images_root=tmp_path)
    assert linked.tab.locator("#list .thumbnail").count() == 0 and len(linked.asked) == 1


def test_it_prints_without_its_controls(open_page: Any) -> None:
    tab = open_page(systems(), width=1400, scheme="dark").tab
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")  # as the browser does before it prints
    tab.emulate_media(media="print")
    assert not tab.is_visible("#search") and not tab.is_visible("#views") and not tab.is_visible("#theme")
    assert tab.is_visible("#score-table") and tab.is_visible("#list")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert [each for each in tab.evaluate(CONTRAST) if each[0] < each[1]] == []
