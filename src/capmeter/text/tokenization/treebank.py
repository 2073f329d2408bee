"""Words of a caption as NLTK's `word_tokenize` gives them: the Penn Treebank's conventions. NLTK itself is not needed.

>>> tokenise_caption("A man's dog isn't here. It ran, gladly.")
['a', 'man', "'s", 'dog', 'is', "n't", 'here', '.', 'it', 'ran', ',', 'gladly', '.']
"""

from __future__ import annotations

import re
from functools import lru_cache

# The rules of the Penn Treebank's tokenizer script in NLTK 3.5's form and order, for lower-case text without full
# stops. Each separates its match from the surrounding text.
_SEPARATIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"', r" `` "),
        (r"``", r" `` "),
        (r"([ (\[{<])(?:\"|'')", r"\1 `` "),
        (r"'(?!re|ve|ll|m|t|s|d)(\w)\b", r"' \1"),
        (r"([:,])(\D)", r" \1 \2"),
        (r"([:,])$", r" \1 "),
        (r"[;@#$%&?!]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"[*\]\[(){}<>]", r" \g<0> "),
        (r"--", " -- "),
        (r"\A|\Z", " "),
        (r"[»”’]", r" \g<0> "),
        (r'"', " '' "),
        (r"(\S)''", r"\1 '' "),
        (r"([^' ])('[smd]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'re|'ve|n't) ", r"\1 \2 "),
        (r"\b(can)(not)\b", r" \1 \2 "),
        (r"\b(d)('ye)\b", r" \1 \2 "),
        (r"\b(gim)(me)\b", r" \1 \2 "),
        (r"\b(gon)(na)\b", r" \1 \2 "),
        (r"\b(got)(ta)\b", r" \1 \2 "),
        (r"\b(lem)(me)\b", r" \1 \2 "),
        (r"\b(mor)('n)\b", r" \1 \2 "),
        (r"\b(wan)(na)\s", r" \1 \2 "),
        (r" ('t)(is)\b", r" \1 \2 "),
        (r" ('t)(was)\b", r" \1 \2 "),
    )
)
_CONTRACTIONS = {
    "cannot": ("can", "not"),
    "gimme": ("gim", "me"),
    "gonna": ("gon", "na"),
    "gotta": ("got", "ta"),
    "lemme": ("lem", "me"),
    "wanna": ("wan", "na"),
}
_PLAIN = re.compile(r"[a-z0-9\s]*", re.ASCII)


def tokenise_words(text: str) -> list[str]:
    """Tokenises lower-case text without full stops, like NLTK's `word_tokenize`.

    >>> tokenise_words("a man's dog isn't here, gonna run!")
    ['a', 'man', "'s", 'dog', 'is', "n't", 'here', ',', 'gon', 'na', 'run', '!']
    """
    if _PLAIN.fullmatch(text):  # letters, digits and spaces: only contractions such as "gonna" are split
        return [part for word in text.split() for part in _CONTRACTIONS.get(word, (word,))]
    for pattern, replacement in _SEPARATIONS:
        text = pattern.sub(replacement, text)
    return text.split()


# What NLTK 3.10 separates besides: the full stop at the end of a sentence, dashes, and ellipses.
_SENTENCE_MARKS = re.compile(r"(?<=[^.])\.(?=[\])}>\"'»”’]*\Z)|\.{2,}|[\u2012-\u2015]")


def tokenise_caption(caption: str) -> list[str]:
    """Tokenises a caption of one sentence or more, lower-cased, like NLTK's `word_tokenize`.

    NLTK's learned list of abbreviations is not needed: a full stop before white space always is a token of its own.

    >>> tokenise_caption("He said so ... then left.")
    ['he', 'said', 'so', '...', 'then', 'left', '.']
    """
    return [token for chunk in caption.lower().split() for token in _tokenise_chunk(chunk)]


@lru_cache(maxsize=1 << 16)
def _tokenise_chunk(chunk: str) -> tuple[str, ...]:
    return tuple(tokenise_words(_SENTENCE_MARKS.sub(r" \g<0> ", chunk)))
