"""METEOR 1.5's word lists and tables, read from the pip package pycocoevalcap or a release folder, without Java.

Both contain `meteor-1.5.jar`, which is a plain zip file, and a folder `data` with gzipped paraphrase tables. The
package has only the English table; a release may have tables for other languages. Without a table the paraphrase module
is disabled (as in the program with `-m "exact stem"`).

METEOR 1.5's normaliser (its option `-norm`): splits punctuation and hyphens off, lower-cases.

Abbreviations keep their dots. For English, Czech, French, Spanish, German and Russian the reference program has a
normaliser (the same, with three ways to treat apostrophes); for the other languages it only lower-cases (`-lower`).

>>> _MeteorNormaliser("english", {"dr": 1, "Dr": 1})("Dr. Smith's half-open U.S. jar, 1,000 miles...")
['dr.', 'smith', "'s", 'half', 'open', 'us', 'jar', ',', '1,000', 'miles', '...']
"""

from __future__ import annotations

import gzip
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from capmeter.core.arrays import ZIP_ERRORS
from capmeter.core.assets import ASSETS
from capmeter.core.errors import AssetError, MissingBackend
from capmeter.core.json_text import read_bundled_json
from capmeter.core.ragged import Ragged, distinct
from capmeter.text.meteor.synonyms import (
    Paraphrases,
    SynonymIndex,
    Synonyms,
    index_path,
    load_paraphrases,
    load_synonym_index,
    read_index,
)
from capmeter.text.tokenization.porter import Stem, stemmer
from capmeter.text.tokenization.token_tables import TokenTable, Vocabulary

WESTERN = frozenset({"english", "czech", "french", "spanish", "german", "russian"})

_ALPHA = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM = "0-9" + _ALPHA
# The program's regular expressions recognise only ASCII white space and digits. They are compiled at their first use.
_OTHER = rf"([^{_ALNUM} \t\n\x0b\f\r.'`,\-\u2018\u2019])"
_DOTS = r"\.(\.+)"
_DOTS_END = r"DOTMULTI\.([^.])"
_COMMAS = (r"([^0-9]),([^0-9])", r"([0-9]),([^0-9])", r"([^0-9]),([0-9])")
_SINGLE_QUOTE = "[`\u2018\u2019]"
_DOUBLE_QUOTE = "[\u201c\u201d]|''"
_HYPHEN = rf"([{_ALNUM}.])-([{_ALNUM}])"
_HAS_ALPHA = rf"[{_ALPHA}]"
_SPACES = r"[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+"
_WORDS = r"[^ \t\n\r\f]+"
_CONTROLS = "".join(map(chr, range(33)))
_PLAIN = r"[A-Za-z0-9 ]*"

_Rules = tuple[tuple[str, str], ...]
_ENGLISH: _Rules = (
    (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
    (r"([0-9])'(s)", r"\1 '\2"),
)
_FRENCH: _Rules = (
    (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([^{_ALPHA}])'([{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1' \2"),
)
_PLAIN_APOSTROPHE: _Rules = (("'", " ' "),)


def split_words(line: str) -> list[str]:
    """Splits a line at ASCII white space alone, like the reference program."""
    return re.findall(_WORDS, line)


def _lowercase_words(sentence: str) -> list[str]:
    """Splits a sentence into words in lower case, as with the program's option `-lower`."""
    return split_words(sentence.strip(_CONTROLS).lower())


@dataclass(frozen=True)
class _MeteorNormaliser:
    """The normaliser of one language.

    Args:
        language: its English name.
        prefixes: its abbreviations; 1: they keep their dot, 2: before numbers only.
    """

    language: str
    prefixes: Mapping[str, int]

    def __call__(self, sentence: str) -> list[str]:
        """Tokenises a sentence."""
        if re.fullmatch(_PLAIN, sentence) and "DOTMULTI" not in sentence:
            return sentence.lower().split()
        line = re.sub(_OTHER, r" \1 ", f" {sentence} ")
        line = _protect_dots(line)
        for rule in _COMMAS:
            line = re.sub(rule, r"\1 , \2", line)
        line = re.sub(_DOUBLE_QUOTE, ' " ', re.sub(_SINGLE_QUOTE, "'", line))
        line = re.sub(_HYPHEN, r"\1 \2", line.replace("\u2013", "-").replace("--", "-"))
        for rule, replacement in {"english": _ENGLISH, "french": _FRENCH}.get(self.language, _PLAIN_APOSTROPHE):
            line = re.sub(rule, replacement, line)
        line = self._split_dots(split_words(line))
        while "DOTDOTMULTI" in line:
            line = line.replace("DOTDOTMULTI", "DOTMULTI.")
        line = line.replace("DOTMULTI", ".")
        return _lowercase_words(re.sub(_SPACES, " ", line))

    def _split_dots(self, words: list[str]) -> str:
        """Splits a sentence's final dot off, keeps an abbreviation's dot, removes an acronym's dots."""
        tokens: list[str] = []
        for word, next_word in zip(words, [*words[1:], ""], strict=False):
            bare_word = word[:-1]
            if not (bare_word and word.endswith(".")):
                tokens.append(word)
            elif "." in bare_word and re.search(_HAS_ALPHA, bare_word):
                tokens.append(word.replace(".", ""))
            elif self._keeps_dot(bare_word, next_word[:1]):
                tokens.append(word)
            else:
                tokens.append(bare_word + " .")
        return "".join(word + " " for word in tokens)

    def _keeps_dot(self, bare_word: str, next_letter: str) -> bool:
        """Whether an abbreviation's dot, or one before a small letter, does not end the sentence."""
        prefix_kind = self.prefixes.get(bare_word)
        return prefix_kind == 1 or "a" <= next_letter <= "z" or (prefix_kind == 2 and "0" <= next_letter <= "9")


def _protect_dots(line: str) -> str:
    """Replaces runs of dots by DOTMULTI words, so that no rule takes them for the end of a sentence."""
    line = re.sub(_DOTS, r" DOTMULTI\1", line)
    while "DOTMULTI." in line:
        line = re.sub(_DOTS_END, r"DOTDOTMULTI \1", line).replace("DOTMULTI.", "DOTDOTMULTI")
    return line


Normaliser = Callable[[str], list[str]]


def normalise_texts(tokens: TokenTable, texts: Ragged, normalise: Normaliser) -> TokenTable:
    """Normalises texts.

    A token of ASCII letters and digits is only lower-cased; a text of such tokens does not need the normaliser.

    Args:
        tokens: tokens of sentences.
        texts: row i has the sentences of text i, which are joined by blanks.
        normalise: the normaliser.

    Returns:
        The words of each text.
    """
    word_ids: dict[str, int] = {}
    lower_ids = [
        word_ids.setdefault(word.lower(), len(word_ids))
        if word.isascii() and word.isalnum() and "DOTMULTI" not in word
        else -1
        for word in tokens.vocabulary.words
    ]
    sentence_tokens = tokens.ids.take(texts.values)
    rows = Ragged(np.array([*lower_ids, -1], np.int64)[sentence_tokens.values], sentence_tokens.offsets[texts.offsets])
    other_rows = distinct(rows.rows[rows.values < 0])
    # The program's pipe uses ||| to separate captions; a caption cannot hold it.
    lines = [
        normalise(" ".join(" ".join(tokens.row(k)) for k in texts[text_index].tolist()).replace("|||", ""))
        for text_index in other_rows.tolist()
    ]
    others = Ragged.from_rows([[word_ids.setdefault(word, len(word_ids)) for word in line] for line in lines], np.int64)
    simple_rows = np.delete(np.arange(len(rows)), other_rows)
    return TokenTable(
        Ragged.merged([rows.take(simple_rows), others], [simple_rows, other_rows]), Vocabulary(tuple(word_ids))
    )


METEOR = ASSETS["meteor"]
INSTALL_COMMAND, ENVIRONMENT, JAR = METEOR.get, METEOR.environment, METEOR.files[0]


@dataclass(frozen=True)
class _LanguageSettings:
    """A language's parameters, tuned for the program's task `rank`."""

    name: str  # in the program's files
    parameters: tuple[float, float, float, float]  # α, β, γ, δ
    weights: tuple[float, ...]  # of the modules
    modules: tuple[str, ...]


LANGUAGES = {
    code: _LanguageSettings(fields["name"], *(tuple(fields[key]) for key in ("parameters", "weights", "modules")))
    for code, fields in read_bundled_json("meteor_languages.json").items()
}


@dataclass(frozen=True, eq=False)
class MeteorResources:
    """METEOR's resources for one language; those that it lacks are None."""

    settings: _LanguageSettings
    modules: tuple[str, ...]  # those whose resources exist
    normalise: Normaliser
    function_words: frozenset[str]
    stem: Stem | None
    synonyms: SynonymIndex | None
    paraphrases: Paraphrases | None
    paraphrase_version: str
    word_list_version: str

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each module's matches."""
        return self.settings.weights[: len(self.modules)]


def meteor_directory(path: str | None = None) -> Path:
    """Returns the folder with the jar: `path`, else that of the environment variable, else the pip package's.

    Raises:
        MissingBackend: there is no such folder.
        AssetError: the folder has no jar.
    """
    directory = Path(path) if path else METEOR.find()
    if directory is None:
        raise MissingBackend(
            "METEOR's word lists and paraphrase table (read from the package pycocoevalcap) are not installed; "
            f"install them with: {INSTALL_COMMAND}"
        )
    if not (directory / JAR).is_file():
        raise AssetError(
            f"{directory}, named by {'the parameter path' if path else f'the variable {ENVIRONMENT}'}, has no {JAR}; "
            "name the folder of a METEOR 1.5 release, or leave the name out and install the resources with: "
            f"{INSTALL_COMMAND}"
        )
    return directory


def load_meteor_resources(language: str = "en", path: str | None = None) -> MeteorResources:
    """Returns METEOR's resources for a language, loaded once per process.

    Args:
        language: one of `LANGUAGES`.
        path: the folder of a release; None: see `meteor_directory`.

    Raises:
        MissingBackend, AssetError: the resources are missing or damaged.
    """
    return load_release(language, meteor_directory(path))


@lru_cache(maxsize=8)
def load_release(language: str, directory: Path) -> MeteorResources:
    """Returns the resources in a release's folder, loaded once per process."""
    language_settings = LANGUAGES[language]
    language_name = language_settings.name
    paraphrase_table = _find_table(language, directory)
    modules = tuple(module for module in language_settings.modules if module != "paraphrase" or paraphrase_table)
    version = _table_version(paraphrase_table) if paraphrase_table else "none"
    paraphrases = load_paraphrases(paraphrase_table, version) if paraphrase_table else None
    try:
        with zipfile.ZipFile(directory / JAR) as jar:

            def text(member: str) -> str:
                return jar.read(member).decode("utf-8")

            return MeteorResources(
                settings=language_settings,
                modules=modules,
                normalise=_MeteorNormaliser(
                    language_name, _read_prefixes(text(f"nonbreaking/{language_name}.prefixes"))
                )
                if language_name in WESTERN
                else _lowercase_words,
                # The program reads the English list for every language, and so do we.
                function_words=frozenset(text("function/english.words").splitlines()),
                stem=_load_stemmer(language_name, jar) if "stem" in modules else None,
                synonyms=_load_synonyms(jar, language_name) if "synonym" in modules else None,
                paraphrases=paraphrases,
                paraphrase_version=version,
                word_list_version=f"{zlib.crc32(repr([(m.filename, m.CRC) for m in jar.infolist()]).encode()):08x}",
            )
    except ZIP_ERRORS as error:
        raise AssetError(
            f"{directory / JAR} is not METEOR 1.5's jar or is damaged ({error}); install it again"
        ) from error


def load_english_synonyms() -> Synonyms:
    """Returns the English synonyms alone, loaded once per process."""
    return _read_english_synonyms(meteor_directory(None) / JAR)


@lru_cache(maxsize=1)
def _read_english_synonyms(jar_path: Path) -> Synonyms:
    try:
        with zipfile.ZipFile(jar_path) as jar_archive:
            synsets, exceptions = (
                jar_archive.read(f"synonym/english.{list_kind}") for list_kind in ("synsets", "exceptions")
            )
        return Synonyms(synsets.decode("utf-8"), exceptions.decode("utf-8"))
    except (KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise AssetError(f"{jar_path} is not METEOR 1.5's jar, or is damaged ({error}); install it again") from error


def _find_table(language: str, directory: Path) -> Path | None:
    table_path = directory / "data" / f"paraphrase-{language}.gz"
    return table_path if "paraphrase" in LANGUAGES[language].modules and table_path.is_file() else None


def _table_version(table: Path) -> str:
    """Returns the checksum and length of a table's text, as at the end of its gzip file, and the file's size."""
    with table.open("rb") as table_file:
        table_size = table_file.seek(0, os.SEEK_END)
        table_file.seek(max(table_size - 8, 0))
        return f"{table_file.read(8).hex()}-{table_size:x}"


def _load_synonyms(jar: zipfile.ZipFile, language_name: str) -> SynonymIndex:
    member_names = [f"synonym/{language_name}.{list_kind}" for list_kind in ("synsets", "exceptions")]
    list_version = "-".join(f"{jar.getinfo(member_name).CRC:08x}" for member_name in member_names)

    def read_lists() -> tuple[str, str]:
        synsets, exceptions = (jar.read(member_name).decode("utf-8") for member_name in member_names)
        return synsets, exceptions

    return load_synonym_index(f"synonyms-{language_name}", list_version, read_lists)


def _read_prefixes(text: str) -> dict[str, int]:
    """Reads the abbreviations that keep their dot: 1 always, 2 before numbers only."""
    prefixes = {}
    for line_fields in map(str.split, text.splitlines()):
        if line_fields and not line_fields[0].startswith("#"):
            prefixes[line_fields[0]] = 2 if line_fields[1:2] == ["#NUMERIC_ONLY#"] else 1
    return prefixes


def _load_stemmer(language_name: str, jar: zipfile.ZipFile) -> Stem:
    if language_name != "arabic-buckwalter-reduced":
        return stemmer(language_name)
    stem_lines = gzip.decompress(jar.read(f"stem/{language_name}.gz")).decode("utf-8").splitlines()
    stems = {line_fields[0]: line_fields[2] for line_fields in map(str.split, stem_lines) if len(line_fields) > 2}
    return lambda word: stems.get(word, word)


def meteor_status() -> tuple[bool, str]:
    """Checks whether METEOR can run; returns this and a sentence that says where its resources and index are."""
    try:
        directory = meteor_directory()
        stemmer("english")
    except (MissingBackend, AssetError) as error:
        return False, str(error)
    paraphrase_table = _find_table("en", directory)
    if paraphrase_table is None:
        return (
            False,
            f"{directory} has no English paraphrase table (data/paraphrase-en.gz); install it with: {INSTALL_COMMAND}",
        )
    path = index_path(paraphrase_table, _table_version(paraphrase_table))
    if not path.exists():
        return True, f"resources in {directory}; the paraphrase index will be built on first use, in {path.parent}"
    if read_index(path, Paraphrases) is None:
        return True, f"resources in {directory}; the paraphrase index {path} is damaged and will be rebuilt"
    return True, f"resources in {directory}; paraphrase index {path} ({path.stat().st_size / 1e6:.0f} MB)"
