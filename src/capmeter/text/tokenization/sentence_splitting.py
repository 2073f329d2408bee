"""Sentence boundaries in a caption's tokens, as in Stanford CoreNLP 3.6.

A sentence ends after a token "." or a token of "!" and "?"; closing quotation marks and brackets that follow belong to
it. "..." and abbreviations such as "etc." do not end a sentence. Texts of many sentences: `document_splitting`.

>>> split_sentences(["A", "dog", ".", "It", "runs", "!", "''"])
[['A', 'dog', '.'], ['It', 'runs', '!', "''"]]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_END = re.compile(r"\.|[!?]+")
_CLOSING = frozenset(("''", "'", '"', ")", "]", "}", "-RRB-", "-RSB-", "-RCB-", "»", "”", "’", "›"))


def split_sentences(tokens: Sequence[str]) -> list[list[str]]:
    """Splits a caption's tokens into sentences."""
    sentences: list[list[str]] = []
    at_end = True
    for token in tokens:
        if at_end and not (sentences and token in _CLOSING):
            sentences.append([])
            at_end = False
        sentences[-1].append(token)
        at_end = at_end or _END.fullmatch(token) is not None
    return sentences
