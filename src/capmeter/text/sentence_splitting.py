"""Where one sentence of a caption ends and the next begins, as Stanford CoreNLP 3.6 splits them.

A sentence ends after a token ".", or one of "!" and "?" alone; closing quotation marks and brackets that follow still
belong to it. "..." and abbreviations such as "etc." do not end a sentence.

>>> split_sentences(["A", "dog", ".", "It", "runs", "!", "''"])
[['A', 'dog', '.'], ['It', 'runs', '!', "''"]]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_END = re.compile(r"\.|[!?]+")
_FOLLOWS = frozenset(("''", "'", '"', ")", "]", "}", "-RRB-", "-RSB-", "-RCB-", "»", "”", "’", "›"))


def split_sentences(tokens: Sequence[str]) -> list[list[str]]:
    """The sentences of a caption's tokens, in order; together they are the tokens."""
    sentences: list[list[str]] = []
    ended = True
    for token in tokens:
        if ended and not (sentences and token in _FOLLOWS):
            sentences.append([])
            ended = False
        sentences[-1].append(token)
        ended = ended or _END.fullmatch(token) is not None
    return sentences
