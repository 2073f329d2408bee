"""Makes docs/report.png, the picture of the page in the README, from the example captions.

Needs the extra `report`, the group `dev` and a Chromium (on the path, or named by CAPMETER_CHROMIUM):

    python scripts/picture.py
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from capmeter import load, score
from capmeter.report.page import write_page

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("human", "strong", "weak", "broken")
METRICS = "bleu-4,rouge-l,cider-d,sparcs,tbr-unigram"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
WIDTH, HEIGHT = 1080, 1060
LARGEST = 300_000


def main() -> None:
    """Scores the examples, writes the page, takes two views of it."""
    target = ROOT / "docs" / "report.png"
    chromium = os.environ.get("CAPMETER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("picture: no Chromium found; install one, or name it by CAPMETER_CHROMIUM")
    examples = ROOT / "examples"
    results = {name: score(load(examples / f"{name}.json", examples / "references.json"), METRICS) for name in SYSTEMS}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page = write_page(results, Path(folder) / "page.html", title="Example captions", images="none").path
        browser = running.chromium.launch(executable_path=chromium, args=FLAGS)
        views = [view(browser, page, scheme) for scheme in ("light", "dark")]
        browser.close()
    picture = Image.new("RGB", (2 * WIDTH, HEIGHT))
    for k, each in enumerate(views):
        picture.paste(each, (k * WIDTH, 0))
    picture.save(target, optimize=True)
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {picture.width} × {picture.height}, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"picture: {size:,} bytes are more than {LARGEST:,}; make it smaller")


def view(browser: Any, page: Path, scheme: str) -> Image.Image:
    """In the light theme the top of the page, in the dark one a caption that was opened."""
    tab = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme).new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-drawn]", state="attached")
    if scheme == "dark":
        tab.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        tab.select_option("#only-system", label="strong")
        tab.select_option("#order", label="cider-d")
        tab.select_option("#direction", "down")
        tab.locator("#list .caption").first.click()
        tab.get_by_role("group", name="Explanation by metric").get_by_role("button", name="cider-d").click()
        tab.evaluate("document.activeElement.blur(); document.getElementById('captions').scrollIntoView()")
    tab.wait_for_timeout(800)
    return Image.open(io.BytesIO(tab.screenshot())).convert("RGB")


if __name__ == "__main__":
    main()
