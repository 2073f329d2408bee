"""Porter's stemmer, with NLTK's default extensions: `stem("dogs") == "dog"`.

The algorithm is M. F. Porter's "An algorithm for suffix stripping" (Program 14(3), 1980). NLTK's default mode, used by
most research code, differs: words of one or two letters are unchanged, a few irregular words are listed, `-ies` and
`-ied` of four-letter words give `-ie` (otherwise `-ied` gives `-i`), `y` becomes `i` only after a consonant that is not
the first letter, a stem of vowel and consonant counts as ending in cvc, `-bli` gives `-ble`, `-alli` is stripped
before the rest of step 2, and `-fulli`, `-logi` are stripped. Only NLTK's own stemmer has these extensions, and
importing NLTK takes seconds, so they are implemented here.

>>> [stem(word) for word in ("riding", "motorcycles", "flies", "skies", "ties", "happily", "generalization")]
['ride', 'motorcycl', 'fli', 'sky', 'tie', 'happili', 'gener']

Snowball stemmers as in METEOR's Java program: version 2 of the algorithms (before 3.0).

Version 3 of the English algorithm stems "organic" or "university" differently, so the packages are pinned below 3. The
C library is used if installed, else the same algorithms in Python. The Java program's German, Russian and Hungarian are
older still, which is corrected here. One difference remains in Finnish: docs/parity.md.

>>> stem = stemmer("english")
>>> stem("running"), stem("university")
('run', 'univers')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from capmeter.core.errors import MissingBackend


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Reads "suffix:replacement" pairs."""
    return tuple((suffix, replacement) for suffix, _, replacement in (pair.partition(":") for pair in text.split()))


_IRREGULAR = dict(
    _pairs(
        "skies:sky sky:sky dying:die lying:lie tying:tie news:news innings:inning inning:inning outings:outing "
        "outing:outing cannings:canning canning:canning howe:howe proceed:proceed exceed:exceed succeed:succeed"
    )
)

# In every step the first matching suffix decides, whether or not its condition holds.
_STEP_2 = _pairs(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble entli:ent eli:e ousli:ous ization:ize ation:ate "
    "ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble fulli:ful"
)
_STEP_3 = _pairs("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_STEP_4 = _pairs("al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Stems a lower-case word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _final_y(_past_and_gerund(_plural(word)))
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    word = _strip(word, _STEP_2, lambda word_stem: _measure(word_stem) > 0)
    if word.endswith("logi") and _measure(word[:-3]) > 0:
        word = word[:-1]
    word = _strip(word, _STEP_3, lambda word_stem: _measure(word_stem) > 0)
    word = _strip(word, _STEP_4, lambda word_stem: _measure(word_stem) > 1, before_ion=("s", "t"))
    word = _final_e(word)
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word  # step 5b: controll


def _shape(word: str) -> str:
    """Returns `c` for each consonant and `v` for each vowel; y is a vowel after a consonant."""
    word_shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and word_shape.endswith("c"))
        word_shape += "v" if is_vowel else "c"
    return word_shape


def _measure(stem: str) -> int:
    """Returns Porter's m, the number of vowel-consonant sequences."""
    return _shape(stem).count("vc")


def _ends_cvc(stem: str) -> bool:
    stem_shape = _shape(stem)
    return stem_shape == "vc" or (stem_shape.endswith("cvc") and stem[-1] not in "wxy")


def _strip(
    word: str, rules: tuple[tuple[str, str], ...], condition: Callable[[str], bool], before_ion: tuple[str, ...] = ()
) -> str:
    """Applies the first rule whose suffix the word has, if its condition holds."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            word_stem = word[: -len(suffix)]
            applies = condition(word_stem) and (suffix != "ion" or word_stem.endswith(before_ion))
            return word_stem + replacement if applies else word
    return word


def _plural(word: str) -> str:
    """Step 1a: caresses, ponies, cats."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past_and_gerund(word: str) -> str:
    """Step 1b: agreed, plastered, motoring; then a final e is restored or a double consonant reduced."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed"):
        word_stem = word[:-2]
    elif word.endswith("ing"):
        word_stem = word[:-3]
    else:
        return word
    if "v" not in _shape(word_stem):
        return word
    if word_stem.endswith(("at", "bl", "iz")):
        return word_stem + "e"
    if len(word_stem) >= 2 and word_stem[-1] == word_stem[-2] and _shape(word_stem)[-1] == "c":
        return word_stem if word_stem[-1] in "lsz" else word_stem[:-1]
    return word_stem + "e" if _measure(word_stem) == 1 and _ends_cvc(word_stem) else word_stem


def _final_y(word: str) -> str:
    """Step 1c: happy, but neither enjoy nor by."""
    word_stem = word[:-1]
    return word_stem + "i" if word.endswith("y") and len(word_stem) > 1 and _shape(word_stem)[-1] == "c" else word


def _final_e(word: str) -> str:
    """Step 5a: probate, cease; rate keeps it."""
    word_stem = word[:-1]
    if word.endswith("e") and (_measure(word_stem) > 1 or (_measure(word_stem) == 1 and not _ends_cvc(word_stem))):
        return word_stem
    return word


Stem = Callable[[str], str]
# Letters unknown to the older stemmers are replaced by a character that is unknown to both.
_MASKED = {"russian": str.maketrans("ё", "\ue000"), "hungarian": str.maketrans("őűõû", "\ue000\ue001őű")}
_RESTORED = {"russian": str.maketrans("\ue000", "ё"), "hungarian": str.maketrans("\ue000\ue001őű", "őűõû")}


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
