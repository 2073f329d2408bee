"""The text that Markdown renders, as a reader sees it: for `--clean markdown`, and for the sentences of documents.

>>> render_markdown("## Scene\\n- **Two dogs** run.\\n- A [cat](x.html) sleeps.")
'Scene\\nTwo dogs run.\\nA cat sleeps.'
"""

from __future__ import annotations

import re

_CODE_BLOCK = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]\n]{0,500}\]\([^)\n]{0,2000}\)")
_LINK = re.compile(r"\[([^\]\n]{1,500})\]\([^)\n]{0,2000}\)")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,500}>|<!--.{0,2000}?-->", re.DOTALL)
_LINE_START = re.compile(r"^\s*(?:>\s*)*(?:#{1,6}\s+|[-*+•‣◦·]\s+|\(?\d{1,3}[.)]\s+)?")
_INLINE_ITEM = re.compile(
    r"(?<=[.:!?*])\s+(?=(?:\d{1,2}\.\s+[*A-Z]|-\s+[*A-Za-z]))"
)  # "… building.  2. The man", on one line
_RULE = re.compile(r"[\s|:=*_-]*")  # a line of a table or a rule, without words
_EMPHASIS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)|~~|`+")


def rendered_lines(text: str) -> list[str]:
    """The headings, paragraphs' lines, list items and table cells of a text; time is linear in its length."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", _IMAGE.sub(" ", _CODE_BLOCK.sub("\n", text))))
    rendered: list[str] = []
    for line in _INLINE_ITEM.sub("\n", text).splitlines():
        if _RULE.fullmatch(line):
            continue
        table_cells = line.strip().strip("|").split("|") if line.count("|") > 1 else [line]
        rendered += [_EMPHASIS.sub("", _LINE_START.sub("", cell, count=1)).strip() for cell in table_cells]
    return rendered


def render_markdown(text: str) -> str:
    """The text without marks: headings, list items and table cells are lines, code blocks and images are left out."""
    return "\n".join(line for line in rendered_lines(text) if line)
