"""METEOR 1.5's word lists and tables, read from the pip package pycocoevalcap or a release folder, without Java.

Both contain `meteor-1.5.jar`, which is a plain zip file, and a folder `data` with gzipped paraphrase tables. The
package has only the English table; a release may have tables for other languages. Without a table the paraphrase module
is disabled (as in the program with `-m "exact stem"`).
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from capmeter.core.arrays import ZIP_ERRORS
from capmeter.core.assets import ASSETS
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.text.meteor.normaliser import WESTERN, MeteorNormaliser, Normaliser, lowercase_words
from capmeter.text.meteor.paraphrases import Paraphrases, index_path, load_paraphrases, read_index
from capmeter.text.meteor.synonyms import SynonymIndex, Synonyms, load_synonym_index
from capmeter.text.tokenization.snowball import Stem, stemmer

METEOR = ASSETS["meteor"]
INSTALL_COMMAND, ENVIRONMENT, JAR = METEOR.get, METEOR.environment, METEOR.files[0]
_UNTUNED = ((0.75, 1.4, 0.7, 0.5), (1.0, 0.5), ("exact", "stem"))


@dataclass(frozen=True)
class LanguageSettings:
    """A language's parameters, tuned for the program's task `rank`."""

    name: str  # in the program's files
    parameters: tuple[float, float, float, float]  # α, β, γ, δ
    weights: tuple[float, ...]  # of the modules
    modules: tuple[str, ...]


def _tuned(name: str, parameters: tuple[float, float, float, float], weights: tuple[float, ...]) -> LanguageSettings:
    modules = {2: ("exact", "paraphrase"), 3: ("exact", "stem", "paraphrase")}
    return LanguageSettings(
        name, parameters, weights, modules.get(len(weights), ("exact", "stem", "synonym", "paraphrase"))
    )


LANGUAGES = {
    "en": _tuned("english", (0.85, 0.2, 0.6, 0.75), (1.0, 0.6, 0.8, 0.6)),
    "cz": _tuned("czech", (0.95, 0.2, 0.6, 0.8), (1.0, 0.4)),
    "fr": _tuned("french", (0.9, 1.4, 0.6, 0.65), (1.0, 0.2, 0.4)),
    "es": _tuned("spanish", (0.65, 1.3, 0.5, 0.8), (1.0, 0.8, 0.6)),
    "de": _tuned("german", (0.95, 1.0, 0.55, 0.55), (1.0, 0.8, 0.2)),
    "ru": _tuned("russian", (0.75, 1.4, 0.7, 0.5), (1.0, 0.5, 0.5)),
    "ar-bw-red": LanguageSettings("arabic-buckwalter-reduced", *_UNTUNED),
    "pt": LanguageSettings("portuguese", *_UNTUNED),
    "da": LanguageSettings("danish", *_UNTUNED),
    "ro": LanguageSettings("romanian", *_UNTUNED),
    "hu": LanguageSettings("hungarian", *_UNTUNED),
    "tr": LanguageSettings("turkish", *_UNTUNED),
    "fi": LanguageSettings("finnish", *_UNTUNED),
    "nl": LanguageSettings("dutch", *_UNTUNED),
    "it": LanguageSettings("italian", *_UNTUNED),
    "no": LanguageSettings("norwegian", *_UNTUNED),
    "se": LanguageSettings("swedish", *_UNTUNED),
    "other": LanguageSettings("other", (0.75, 1.4, 0.7, 0.5), (1.0,), ("exact",)),
}


@dataclass(frozen=True, eq=False)
class MeteorResources:
    """METEOR's resources for one language; those that it lacks are None."""

    settings: LanguageSettings
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
        InputError: the language is unknown.
        MissingBackend, AssetError: the resources are missing or damaged.
    """
    if language not in LANGUAGES:
        raise InputError(f"METEOR does not support the language {language!r}; expected one of {', '.join(LANGUAGES)}")
    return load_release(language, meteor_directory(path))


@lru_cache(maxsize=8)
def load_release(language: str, directory: Path) -> MeteorResources:
    """Returns the resources in a release's folder, loaded once per process."""
    settings = LANGUAGES[language]
    name = settings.name
    table = _find_table(language, directory)
    modules = tuple(module for module in settings.modules if module != "paraphrase" or table)
    version = table_version(table) if table else "none"
    paraphrases = load_paraphrases(table, version) if table else None
    try:
        with zipfile.ZipFile(directory / JAR) as jar:

            def text(member: str) -> str:
                return jar.read(member).decode("utf-8")

            return MeteorResources(
                settings=settings,
                modules=modules,
                normalise=MeteorNormaliser(name, _read_prefixes(text(f"nonbreaking/{name}.prefixes")))
                if name in WESTERN
                else lowercase_words,
                # The program reads the English list for every language, and so do we.
                function_words=frozenset(text("function/english.words").splitlines()),
                stem=_load_stemmer(name, jar) if "stem" in modules else None,
                synonyms=_load_synonyms(jar, name) if "synonym" in modules else None,
                paraphrases=paraphrases,
                paraphrase_version=version,
                word_list_version=_checksum(jar),
            )
    except ZIP_ERRORS as error:
        raise AssetError(
            f"{directory / JAR} is not METEOR 1.5's jar or is damaged ({error}); install it again"
        ) from error


def _checksum(jar: zipfile.ZipFile) -> str:
    return f"{zlib.crc32(repr([(each.filename, each.CRC) for each in jar.infolist()]).encode()):08x}"


def load_english_synonyms(path: str | None = None) -> Synonyms:
    """Returns the English synonyms alone, loaded once per process."""
    return _read_english_synonyms(meteor_directory(path) / JAR)


@lru_cache(maxsize=1)
def _read_english_synonyms(jar: Path) -> Synonyms:
    try:
        with zipfile.ZipFile(jar) as members:
            synsets, exceptions = (members.read(f"synonym/english.{kind}") for kind in ("synsets", "exceptions"))
        return Synonyms(synsets.decode("utf-8"), exceptions.decode("utf-8"))
    except (KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise AssetError(f"{jar} is not METEOR 1.5's jar, or is damaged ({error}); install it again") from error


def _find_table(language: str, directory: Path) -> Path | None:
    table = directory / "data" / f"paraphrase-{language}.gz"
    return table if "paraphrase" in LANGUAGES[language].modules and table.is_file() else None


def table_version(table: Path) -> str:
    """Returns the checksum and length of a table's text, as at the end of its gzip file, and the file's size."""
    with table.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        return f"{file.read(8).hex()}-{size:x}"


def _load_synonyms(jar: zipfile.ZipFile, name: str) -> SynonymIndex:
    members = [f"synonym/{name}.{kind}" for kind in ("synsets", "exceptions")]
    version = "-".join(f"{jar.getinfo(member).CRC:08x}" for member in members)

    def read_lists() -> tuple[str, str]:
        synsets, exceptions = (jar.read(member).decode("utf-8") for member in members)
        return synsets, exceptions

    return load_synonym_index(f"synonyms-{name}", version, read_lists)


def _read_prefixes(text: str) -> dict[str, int]:
    """Reads the abbreviations that keep their dot: 1 always, 2 before numbers only."""
    prefixes = {}
    for fields in map(str.split, text.splitlines()):
        if fields and not fields[0].startswith("#"):
            prefixes[fields[0]] = 2 if fields[1:2] == ["#NUMERIC_ONLY#"] else 1
    return prefixes


def _load_stemmer(name: str, jar: zipfile.ZipFile) -> Stem:
    if name != "arabic-buckwalter-reduced":
        return stemmer(name)
    lines = gzip.decompress(jar.read(f"stem/{name}.gz")).decode("utf-8").splitlines()
    stems = {fields[0]: fields[2] for fields in map(str.split, lines) if len(fields) > 2}
    return lambda word: stems.get(word, word)


def meteor_status() -> tuple[bool, str]:
    """Checks whether METEOR can run; returns this and a sentence that says where its resources and index are."""
    try:
        directory = meteor_directory()
        stemmer("english")
    except (MissingBackend, AssetError) as error:
        return False, str(error)
    table = _find_table("en", directory)
    if table is None:
        return (
            False,
            f"{directory} has no English paraphrase table (data/paraphrase-en.gz); install it with: {INSTALL_COMMAND}",
        )
    path = index_path(table, table_version(table))
    if not path.exists():
        return True, f"resources in {directory}; the paraphrase index will be built on first use, in {path.parent}"
    if read_index(path) is None:
        return True, f"resources in {directory}; the paraphrase index {path} is damaged and will be rebuilt"
    return True, f"resources in {directory}; paraphrase index {path} ({path.stat().st_size / 1e6:.0f} MB)"
