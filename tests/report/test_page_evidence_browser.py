"""What the page shows of a caption in a real browser: members of a composite, scene graphs, attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.page_examples import HOSTILE, candidates, scored

import capmeter

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [1280, 390])
def test_a_composite_shows_each_member_with_its_own_links(open_page, width: int) -> None:
    page = open_page({"a": scored(candidates(4, 0), metrics="mean(rouge-l,bleu-1,mean(cider-d,sparcs))")}, width=width)
    tab = page.tab
    tab.locator("#list .caption").first.click()
    tab.wait_for_selector(".explanation .member")
    names = tab.locator(".explanation .member > h4").all_text_contents()
    assert names == ["rouge-l", "bleu-1", "mean(cider-d,sparcs)", "cider-d", "sparcs"]
    local = tab.locator(".member").evaluate_all("l => l.map((x) => x.querySelectorAll('.token.linked').length)")
    assert local[0] > 0 and local[1] > 0 and local[2] == local[3] + local[4] > 0
    assert page.said == [] and tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.meteor
@pytest.mark.parametrize("width", [1400, 390])
def test_scene_graphs_stand_side_by_side(open_page, width: int) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    crowd = " and ".join(f"cat{k}" for k in range(60)) + " chase " + " and ".join(f"dog{k}" for k in range(60))
    texts = ["a brown dog sits on the grass", *HOSTILE, crowd]
    page = open_page({"a": scored(texts, metrics="spice,spider")}, width=width)
    tab = page.tab
    tab.fill("#search", "brown sits")
    tab.locator("#list .caption").click()
    own_values, other_values = tab.locator(".scene").all()
    assert own_values.locator(".agreed").all_text_contents() == ["dog", "brown", "grass"]
    alone = own_values.locator(".said:not(.agreed)")
    assert alone.all_text_contents() == ["sit on"]
    assert alone.get_attribute("title") == "nearest on the other side: dog – run over – grass"
    assert other_values.locator(".said:not(.agreed)").all_text_contents() == ["run over", "picture", "show"]
    beside = own_values.bounding_box()["x"] < other_values.bounding_box()["x"]
    assert beside == (width == 1400)
    tab.locator(".choices button", has_text="spider").click()
    assert tab.locator(".scene").count() == 2
    tab.fill("#search", "cat0")
    tab.locator("#list .caption").click()
    assert "more" in str(tab.locator(".scene").first.text_content())
    tab.fill("#search", "")
    for button in tab.locator("#list .caption").all():
        button.click()
    assert tab.evaluate("window.pwned") is None
    assert page.said == [] and len(page.asked) == 1
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_attention_over_regions_is_drawn_on_the_picture(open_page: Any, tmp_path: Path) -> None:
    """The case view of UMIC: picture, caption, score, and the regions that counted most."""
    pytest.importorskip("torch")
    from PIL import Image
    from support.uniter_examples import SENTENCES, random_region_folder, small_checkpoint

    small_checkpoint(tmp_path / "model")
    random_region_folder(tmp_path / "regions")
    rows = []
    for k, sentence in enumerate(SENTENCES):
        Image.new("RGB", (80, 60), (40 * k, 90, 120)).save(tmp_path / f"{k}.png")
        rows.append({"image_id": str(k), "candidate": sentence, "references": [sentence], "image": f"{k}.png"})
    captions = capmeter.load(rows, regions=tmp_path / "regions", images_root=tmp_path)
    results = capmeter.score(captions, [f'umic(checkpoint="{tmp_path / "model"}")', "rouge-l"])
    page = open_page({"mine": results}, images_root=tmp_path)
    page.tab.locator("#list .caption").first.click()
    page.tab.wait_for_selector(".seen rect", state="attached")
    assert page.tab.locator(".seen rect").count() == 10 and page.tab.locator(".seen img").count() == 1
    assert page.tab.locator(".attended tbody tr").count() == 10
    weights = [float(text) for text in page.tab.locator(".attended td.number").all_text_contents()]
    assert weights == sorted(weights, reverse=True) and abs(sum(weights) - 1) < 0.01
    frame = page.tab.locator(".seen img").bounding_box()
    for box in page.tab.locator(".seen rect").all():
        place = box.bounding_box()
        assert place["x"] >= frame["x"] - 2 and place["x"] + place["width"] <= frame["x"] + frame["width"] + 2
        assert place["y"] >= frame["y"] - 2 and place["y"] + place["height"] <= frame["y"] + frame["height"] + 2
    assert not page.said
