"""A page in a browser, for the tests that look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PATIENCE = 300_000  # ms: a busy machine may be slow, and only a page that never comes fails
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


class Opened:
    """A page in a browser, with what it said on its console and asked of the network."""

    def __init__(self, tab: Any, path: Path) -> None:
        self.tab, self.path = tab, path
        self.said: list[str] = []
        self.asked: list[str] = []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda error: self.said.append(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready][data-drawn]", state="attached")

    def captions(self) -> list[str]:
        result: list[str] = self.tab.locator("#list .caption").all_text_contents()
        return result

    def count(self) -> str:
        return str(self.tab.text_content("#count"))
