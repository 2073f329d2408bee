"""How large is the page, and what does opening it cost? Needs playwright and a Chromium.

    capmeter score a.json b.json … --references refs.json --metrics … --output scores.json
    python benchmarks/page.py scores.json [OPENINGS]

Prints the size of the file, and for each of OPENINGS (3) the processor seconds of the page's thread until its list of
captions can be used ("ready") and until every plot is drawn, and the seconds on the clock until it is ready: on a busy
machine only the former say what the page costs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from capmeter.evaluation.results import read_all
from capmeter.report.page import write_page

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
PATIENCE = 300_000


def opened(browser: Any, page: Path) -> tuple[float, float, float]:
    """Processor seconds until ready and until drawn, and seconds on the clock until ready."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    counter = context.new_cdp_session(tab)
    counter.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = {each["name"]: each["value"] for each in counter.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"])

    tab.goto(page.as_uri(), wait_until="commit")
    tab.wait_for_selector("html[data-ready]", state="attached")
    ready = spent()
    tab.wait_for_selector("html[data-drawn]", state="attached")
    result = ready, spent(), float(tab.evaluate("document.documentElement.dataset.ready")) / 1000
    context.close()
    return result


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CAPMETER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("needs a Chromium: chromium on the path, or CAPMETER_CHROMIUM naming one")
    openings = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page = Path(folder) / "page.html"
        text = write_page(read_all(sys.argv[1]), page, resamples=100)
        print(f"{text.captions:,} captions, {text.explained:,} explained: {text.size / 1e6:.2f} MB")
        browser = running.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        for _ in range(openings):
            ready, sample, clock = opened(browser, page)
            print(f"ready after {ready:.2f} processor seconds, drawn after {sample:.2f}; {clock:.2f} s on the clock")
        browser.close()


if __name__ == "__main__":
    main()
