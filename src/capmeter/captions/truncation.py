"""Truncated captions: those that end in a word after which a sentence must continue.

A captioner with a length limit produces "a room with a bed and a". The list of words is crude: articles, conjunctions,
auxiliary verbs, and the prepositions that English rarely ends a sentence with. People write a few such captions
("a bench to sit on"); a system with many of them truncates its captions.

>>> is_truncated("a living room with a couch and a tv in a"), is_truncated("A dog that runs in."), is_truncated("a dog")
(True, True, False)
>>> find_truncated({"1": "a cat on the", "2": "a cat on the mat", "3": "a man with"})
['1', '3']
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ARTICLES = "a an the this these its his their some"
_CONJUNCTIONS = "and or but while which if because than as"
_PREPOSITIONS = "with of in on at to from for by into onto through"
_AUXILIARIES = "is are was were being"
FINAL_WORDS = frozenset(" ".join([_ARTICLES, _CONJUNCTIONS, _PREPOSITIONS, _AUXILIARIES]).split())
_END = 200  # characters that hold the last word, however long the caption is
_LAST_WORD = re.compile(r"\S\s+\W*(\w+(?:['’]\w+)*)\W*\Z")


def is_truncated(caption: str) -> bool:
    """Whether the caption's last word is a function word that follows another word."""
    last_word = _LAST_WORD.search(caption[-_END:].lower())
    return last_word is not None and last_word.group(1) in FINAL_WORDS


def find_truncated(captions: Mapping[str, str]) -> list[str]:
    """The ids of the captions (id → text) that end in a function word."""
    return [caption_id for caption_id, text in captions.items() if is_truncated(text)]
