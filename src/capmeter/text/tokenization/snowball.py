"""Snowball stemmers as in METEOR's Java program: version 2 of the algorithms (before 3.0).

Version 3 of the English algorithm stems "organic" or "university" differently, so the packages are pinned below 3. The
C library is used if installed, else the same algorithms in Python. The Java program's German, Russian and Hungarian are
older still, which is corrected here. One difference remains in Finnish: docs/parity.md.

>>> stem = stemmer("english")
>>> stem("running"), stem("university")
('run', 'univers')
"""

from __future__ import annotations

from collections.abc import Callable

from capmeter.core.errors import MissingBackend

Stem = Callable[[str], str]
# Letters unknown to the older stemmers are replaced by a character that is unknown to both.
_MASKED = {
    "russian": str.maketrans("ё", "\ue000"),
    "hungarian": str.maketrans("őűõû", "\ue000\ue001őű"),
}
_RESTORED = {
    "russian": str.maketrans("\ue000", "ё"),
    "hungarian": str.maketrans("\ue000\ue001őű", "őűõû"),
}


def stemmer(language: str) -> Stem:
    """Returns the stemmer of a language, by its English name.

    Raises:
        MissingBackend: neither package is installed.
    """
    stem = _load_snowball(language)
    if language in _MASKED:
        mask_letters, restore_letters = _MASKED[language], _RESTORED[language]
        return lambda word: stem(word.translate(mask_letters)).translate(restore_letters)
    if language == "german":
        # The older algorithm keeps -niss where the newer one reduces it to -nis.
        return lambda word: stem(word) + ("s" if word.endswith(("nisse", "nissen", "nisses")) else "")
    return stem


def _load_snowball(language: str) -> Stem:
    try:
        import Stemmer

        if Stemmer.version().startswith("2."):
            fast_stemmer: Stem = Stemmer.Stemmer(language).stemWord
            return fast_stemmer
    except ImportError:
        pass
    try:
        from importlib import import_module
        from importlib.metadata import version

        if version("snowballstemmer").startswith("2."):
            stemmer_module = import_module(f"snowballstemmer.{language}_stemmer")
            slow_stemmer: Stem = getattr(stemmer_module, f"{language.capitalize()}Stemmer")().stemWord
            return slow_stemmer
    except ImportError:
        pass
    raise MissingBackend(
        "METEOR needs PyStemmer 2 or snowballstemmer 2 (version 3 stems differently), but neither is installed; "
        "install it with: pip install 'capmeter[meteor]'"
    )
