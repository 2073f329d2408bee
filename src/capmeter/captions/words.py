"""Words of captions: in scripts without spaces between them, separated by punctuation or not, and cut off at the end.

Captions that end in a word after which a sentence must continue ("a room with a bed and a") were truncated by a
captioner's length limit. The list of such words is crude: articles, conjunctions, auxiliary verbs, and the prepositions
that English rarely ends a sentence with. People write a few such captions ("a bench to sit on").

>>> is_unsegmented("一只狗在沙滩上跑。"), is_unsegmented("개 한 마리가 달린다"), is_unsegmented("a 狗 runs")
(True, False, False)
>>> is_unsegmented("แมวสีดำนั่งบนเก้าอี้ไม้"), is_unsegmented("แมว สี ดำ นั่ง บน เก้าอี้ ไม้")
(True, False)
>>> is_truncated("a living room with a couch and a tv in a"), is_truncated("A dog that runs in."), is_truncated("a dog")
(True, True, False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from capmeter.core.json_text import read_bundled_json

HAN_AND_KANA, _HANGUL, SOUTHEAST_ASIAN = read_bundled_json("phrases.json")["scripts"].values()
"""The insides of character classes: Han with its extensions, kana, bopomofo, and their half-width forms; and Thai, Lao,
Burmese, Khmer and Tibetan, which have spaces between sentences and clauses alone."""
CJK = HAN_AND_KANA + _HANGUL
_LONGEST_WORD = {CJK: 5, SOUTHEAST_ASIAN: 9}
"""The most characters of a script, vowels and tones counted, for each piece between spaces."""
FINAL_WORDS = frozenset(read_bundled_json("phrases.json")["final words"].split())
_END = 200  # characters that hold the last word, however long the caption is
_LAST_WORD = re.compile(r"\S\s+\W*(\w+(?:['’]\w+)*)\W*\Z")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_UNTOKENISED = re.compile(r"[^\W\d_]{2,}[.!?]$")


def is_unsegmented(text: str) -> bool:
    """Whether a text is mainly in a script without spaces between words (or in Hangul), with hardly any spaces."""
    if text.isascii():
        return False
    for script, longest_word in _LONGEST_WORD.items():
        character_count = len(re.findall(f"[{script}]", text))  # compiled when it is first needed, which is rarely
        if 2 * character_count > len(text) and character_count > longest_word * len(text.split()):
            return True
    return False


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation: characters, where nothing separates words.

    >>> split_words("A dog's ball"), split_words("两只狗"), split_words("개 한 마리가 달린다")
    (['a', "dog's", 'ball'], ['两', '只', '狗'], ['개', '한', '마리가', '달린다'])
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    single_characters = CJK if is_unsegmented(text) else HAN_AND_KANA
    letter = rf"(?:(?![{single_characters}])\w)"
    return re.findall(rf"[{single_characters}]|{letter}+(?:['’]{letter}+)*", text.lower())


def find_untokenised(texts: Iterable[str]) -> list[str]:
    """The texts whose last word and full stop, exclamation or question mark are not separated.

    >>> find_untokenised(["A dog runs.", "a dog runs .", "a dog in the u.s.", "a dog"])
    ['A dog runs.']
    """
    return [text for text in texts if _UNTOKENISED.search(text.rstrip())]


def is_truncated(caption: str) -> bool:
    """Whether the caption's last word is a function word that follows another word."""
    last_word = _LAST_WORD.search(caption[-_END:].lower())
    return last_word is not None and last_word.group(1) in FINAL_WORDS
