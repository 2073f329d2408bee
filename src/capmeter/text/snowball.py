"""Snowball stemmers as METEOR's Java program has them: those of the algorithms' second version (before 3.0).

The newer version of the English algorithm stems "organic" or "university" differently, so that the packages are held
below 3. The C library is taken where it is installed, else the same algorithms in Python. Where the Java program is
older still (German, Russian, Hungarian), the difference is undone here. Finnish keeps one: the program never applies
the rules whose condition is itself a rule, so that "kohteiden" stays "kohteid" there and becomes "koht" here.

>>> stem = stemmer("english")
>>> stem("running"), stem("university")
('run', 'univers')
"""

from __future__ import annotations

from collections.abc import Callable

from capmeter.errors import MissingBackend

Stem = Callable[[str], str]
# What the older programs do not know as a letter is hidden from the newer ones behind a character that neither knows.
_HIDDEN = {
    "russian": str.maketrans("ё", "\ue000"),
    "hungarian": str.maketrans("őűõû", "\ue000\ue001őű"),
}
_SHOWN = {
    "russian": str.maketrans("\ue000", "ё"),
    "hungarian": str.maketrans("\ue000\ue001őű", "őűõû"),
}


def stemmer(language: str) -> Stem:
    """The stemmer of a language, by its English name."""
    stem = _snowball(language)
    if language in _HIDDEN:
        hide, show = _HIDDEN[language], _SHOWN[language]
        return lambda word: stem(word.translate(hide)).translate(show)
    if language == "german":
        # The older algorithm leaves -niss where the newer one makes it -nis.
        return lambda word: stem(word) + ("s" if word.endswith(("nisse", "nissen", "nisses")) else "")
    return stem


def _snowball(language: str) -> Stem:
    try:
        import Stemmer

        if Stemmer.version().startswith("2."):
            found: Stem = Stemmer.Stemmer(language).stemWord
            return found
    except ImportError:
        pass
    try:
        from importlib import import_module
        from importlib.metadata import version

        if version("snowballstemmer").startswith("2."):
            module = import_module(f"snowballstemmer.{language}_stemmer")
            slow: Stem = getattr(module, f"{language.capitalize()}Stemmer")().stemWord
            return slow
    except ImportError:
        pass
    raise MissingBackend(
        "METEOR's stemmer is neither PyStemmer 2 nor snowballstemmer 2 here (version 3 stems differently); "
        "install it with: pip install 'capmeter[meteor]'"
    )
