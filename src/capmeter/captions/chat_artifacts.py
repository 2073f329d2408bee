"""What chat models and tokenizers leave around a caption, removed on request (`--clean chat-artifacts`).

`text_checks` finds and names such leftovers by the same patterns; here they are taken out of candidates, and nothing
else is: not Markdown, not HTML, not a refusal, since these are words that the model chose. A leftover that nothing
follows takes no words with it, unless these are a question or reasoning.

>>> clean_chat_artifacts("<think>\\nA dog, I think.\\n</think>\\n\\nA dog runs.<|im_end|>")
'A dog runs.'
>>> clean_chat_artifacts("USER: <image> Describe it. ASSISTANT: a dog runs</s>"), clean_chat_artifacts("ĠaĠdogĠruns")
('a dog runs', 'a dog runs')
>>> clean_chat_artifacts("a dog runs [/INST]"), clean_chat_artifacts("[INST] Describe it. [/INST]")
('a dog runs', '')
"""

from __future__ import annotations

import re

from capmeter.captions.rows import CaptionRow

CLEANED = "cleaned of chat artifacts"
"""The note with the ids of the captions that were changed."""
_TAGS = "(?:think(?:ing)?|reasoning|seed:think)"
REASONING = re.compile(rf"</?{_TAGS}>", re.IGNORECASE)
_TOKENS = (
    r"<[|｜][^<>|｜]{1,40}[|｜]>|</?s>|<(?:pad|unk|eos|bos|start|end|mask|image|video|audio|img|grounding)>|<</?SYS>>"
    r"|<extra_id_\d+>|<(?:start|end)_of_\w+>|\[(?:CLS|SEP|PAD|UNK|MASK)\]|\[/?INST\]"
)
_ROLE = r"\s*(?:assistant|user|human|system)\s*:"
TOKENS = re.compile(rf"{_TOKENS}|\A{_ROLE}|###\s*(?:assistant|human|response|instruction)\b", re.IGNORECASE)
MARKS = re.compile(r"[▁ĠĊ]|</?w>|(?:\A|\s)##\w|(?<=[^\s@])@@(?:\s|\Z)|<0x[0-9A-F]{2}>")

_ONLY_TOKENS = re.compile(f"{_TOKENS}|</?{_TAGS}>", re.IGNORECASE)
_THOUGHTS = re.compile(rf"<({_TAGS})>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHTS = re.compile(f"</{_TAGS}>", re.IGNORECASE)
_TURN = r"(?:<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|)(?:{})(?:<\|end_header_id\|>|\|>)?"
_ANSWER = re.compile(
    _TURN.format("assistant|model") + r"|\[/INST\]|#{3,6}\s*(?:assistant|response)\b\s?:?", re.IGNORECASE
)
_QUESTION = re.compile(_TURN.format("user|system") + r"|\[INST\]|#{3,6}\s*(?:human|instruction)\b\s?:?", re.IGNORECASE)
_ROLE_OF_QUESTION = re.compile(r"\s*(?:#{1,4} ?)?(?:user|human|system|instruction)\s?:", re.IGNORECASE)
_ROLE_OF_ANSWER = re.compile(r"(?:#{1,4} ?response|(?:#{1,4} ?)?\bassistant)\s?:", re.IGNORECASE)
_FIRST_ROLES = re.compile(rf"\A(?:{_ROLE})+", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*$\n?|```", re.MULTILINE)
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_PASSES = 8  # what is removed may leave another leftover: "<e@@ os>"


def clean_chat_artifacts(text: str) -> str:
    """Remove reasoning, turns and tokens of chat templates, code fences, role names and marks of tokenizers."""
    for _ in range(_PASSES):
        cleaned = _clean_once(text)
        if cleaned == text:
            break
        text = re.sub(r"[ \t]+", " ", cleaned).strip()
    return text


def clean_row(row: CaptionRow) -> None:
    """Clean a row's candidate and the sentences of its events, and mark the row if that changed it."""
    candidate, events = row.candidate, row.events
    if candidate is None:
        return
    row.candidate = clean_chat_artifacts(candidate)
    if events is not None:
        row.events = events.map(clean_chat_artifacts)
        if candidate == events.paragraph:
            row.candidate = row.events.paragraph
    row.cleaned = (row.candidate, row.events) != (candidate, events)


def _clean_once(text: str) -> str:
    cleaned = _last_visible(_END_OF_THOUGHTS.split(_THOUGHTS.sub(" ", text)))
    cleaned = _FENCE.sub("", _ONLY_TOKENS.sub(" ", _after_roles(_answer(cleaned))))
    cleaned = re.sub(r"(?<=[^\s@])(?:@@(?:\s|\Z))+|(?<=\w) ##(?=\w)", "", _BYTES.sub(_decode_bytes, cleaned))
    return re.sub(r"[▁ĠĊ]|</?w>|(?:\A|(?<=\s))##(?=\w)", " ", cleaned)


def _answer(text: str) -> str:
    """What follows the last beginning of an answer that anything follows; else what precedes the first question."""
    beginning, *answers = _ANSWER.split(text)
    captions = (_QUESTION.split(each, maxsplit=1)[0] for each in (*reversed(answers), beginning))
    caption = next(filter(_is_visible, captions), "")
    return caption if caption or answers else _QUESTION.sub(" ", text)


def _after_roles(text: str) -> str:
    """What follows the last "ASSISTANT:", if the text begins with it or with "USER:"."""
    beginning, *answers = _ROLE_OF_ANSWER.split(text)
    if answers and (_ROLE_OF_QUESTION.match(text) or not beginning.strip()):
        return _last_visible(answers)
    return _FIRST_ROLES.sub("", text)


def _last_visible(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else next(filter(_is_visible, reversed(parts)), "")


def _is_visible(text: str) -> bool:
    """Whether anything but tokens is there."""
    return bool(_ONLY_TOKENS.sub("", text).strip())


def _decode_bytes(match: re.Match[str]) -> str:
    """The text of byte tokens such as <0xC3><0xA9>."""
    return bytes(int(each, 16) for each in re.findall(r"0x(..)", match[0])).decode("utf-8", "replace")
