"""Candidates without what is no caption, on request.

`--clean chat-artifacts` removes what chat models and tokenizers leave around a caption. `text_checks` finds and names
such leftovers by the same patterns; here they are taken out of candidates, and nothing else is: not Markdown, not HTML,
not a refusal, since these are words that the model chose. A leftover that nothing follows takes no words with it,
unless these are a question or reasoning.

>>> clean_chat_artifacts("<think>\\nA dog, I think.\\n</think>\\n\\nA dog runs.<|im_end|>")
'A dog runs.'
>>> clean_chat_artifacts("USER: <image> Describe it. ASSISTANT: a dog runs</s>"), clean_chat_artifacts("ĠaĠdogĠruns")
('a dog runs', 'a dog runs')
>>> clean_chat_artifacts("analysisA dog, I think.assistantfinalA dog runs."), clean_chat_artifacts("◁think▷A dog")
('A dog runs.', '')
>>> clean_chat_artifacts("a dog runs [/INST]"), clean_chat_artifacts("[INST] Describe it. [/INST]")
('a dog runs', '')

`--clean markdown` reads the text that Markdown renders, as do the sentences of documents.

>>> render_markdown("## Scene\\n- **Two dogs** run.\\n- A [cat](x.html) sleeps.")
'Scene\\nTwo dogs run.\\nA cat sleeps.'
"""

from __future__ import annotations

import re

from capmeter.core.json_text import read_bundled_json

# patterns as text, which Python compiles when they are first needed: most captions need none
_LEFTOVERS = {name: "|".join(parts) for name, parts in read_bundled_json("phrases.json")["leftovers"].items()}
_PATTERNS = {name: f"(?is){text}" for name, text in _LEFTOVERS.items()}
_TAGS, _CHANNELS = _LEFTOVERS["tags of reasoning"], _LEFTOVERS["channels of gpt-oss"]
_TOKENS, _ROLE = _LEFTOVERS["tokens"], _LEFTOVERS["roles"]
REASONING = f"(?is){_TAGS}|{_CHANNELS}"
TOKENS = rf"(?i){_TOKENS}|\A{_ROLE}|###\s*(?:assistant|human|response|instruction)\b"
MARKS = r"[▁ĠĊ]|</?w>|(?:\A|\s)##\w|(?<=[^\s@])@@(?:\s|\Z)|<0x[0-9A-F]{2}>"
_ONLY_TOKENS = f"(?i){_TOKENS}|{_TAGS}"
_THOUGHTS = f"(?is){_CHANNELS}|{_LEFTOVERS['thoughts']}"
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$\n?|```", re.MULTILINE)
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_PASSES = 8  # what is removed may leave another leftover: "<e@@ os>"


def clean_chat_artifacts(text: str) -> str:
    """Remove reasoning, turns and tokens of chat templates, tags around the whole, code fences, role names and marks of
    tokenizers."""
    for _ in range(_PASSES):
        cleaned_text = _clean_once(text)
        if cleaned_text == text:
            break
        text = re.sub(r"[ \t]+", " ", cleaned_text).strip()
    return text


def _clean_once(text: str) -> str:
    cleaned_text = _last_visible(re.split(_PATTERNS["ends of thoughts"], re.sub(_THOUGHTS, " ", text)))
    if (enclosed := re.fullmatch(_PATTERNS["what encloses all"], cleaned_text)) is not None:
        cleaned_text = enclosed["tagged"] or enclosed["boxed"] or ""
    cleaned_text = _FENCE.sub("", re.sub(_ONLY_TOKENS, " ", _after_roles(_answer(cleaned_text))))
    cleaned_text = re.sub(r"(?<=[^\s@])(?:@@(?:\s|\Z))+|(?<=\w) ##(?=\w)", "", _BYTES.sub(_decode_bytes, cleaned_text))
    return re.sub(r"[▁ĠĊ]|</?w>|(?:\A|(?<=\s))##(?=\w)", " ", cleaned_text)


def _answer(text: str) -> str:
    """What follows the last beginning of an answer that anything follows; else what precedes the first question."""
    beginning, *answers = re.split(_PATTERNS["answers"], text)
    parts = (re.split(_PATTERNS["questions"], part, maxsplit=1)[0] for part in (*reversed(answers), beginning))
    caption = next(filter(_is_visible, parts), "")
    return caption if caption or answers else re.sub(_PATTERNS["questions"], " ", text)


def _after_roles(text: str) -> str:
    """What follows the last "ASSISTANT:", if the text begins with it or with "USER:"."""
    beginning, *answers = re.split(_PATTERNS["roles of answers"], text)
    if answers and (re.match(_PATTERNS["roles of questions"], text) or not beginning.strip()):
        return _last_visible(answers)
    return re.sub(rf"(?i)\A(?:{_ROLE})+", "", text)


def _last_visible(text_parts: list[str]) -> str:
    return text_parts[0] if len(text_parts) == 1 else next(filter(_is_visible, reversed(text_parts)), "")


def _is_visible(text: str) -> bool:
    """Whether anything but tokens is there."""
    return bool(re.sub(_ONLY_TOKENS, "", text).strip())


def _decode_bytes(byte_tokens: re.Match[str]) -> str:
    """The text of byte tokens such as <0xC3><0xA9>."""
    return bytes(int(hex_digits, 16) for hex_digits in re.findall(r"0x(..)", byte_tokens[0])).decode("utf-8", "replace")


_CODE_BLOCK = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]\n]{0,500}\]\([^)\n]{0,2000}\)")
_LINK = re.compile(r"\[([^\]\n]{1,500})\]\([^)\n]{0,2000}\)")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,500}>|<!--.{0,2000}?-->", re.DOTALL)
_LINE_START = re.compile(r"^\s*(?:>\s*|[-*+•‣◦·]\s+|\(?\d{1,3}[.)]\s+)*(?:#{1,6}\s+)?")
# "… building.  2. The man", on one line
_INLINE_ITEM = re.compile(r"(?<=[.:!?*])\s+(?=(?:\d{1,2}\.\s+[*A-Z]|-\s+[*A-Za-z]))")
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
