from __future__ import annotations

import sys

import pytest

from capmeter.errors import MissingBackend
from capmeter.text.snowball import stemmer

# As METEOR's Java program stems them; later Snowball versions differ on every line but the last of each language.
STEMS = {
    "english": "adding:ad added:ad emergency:emerg evening:even organic:organ university:univers running:run",
    "german": "ergebnisse:ergebniss zeugnissen:zeugniss hindernisses:hinderniss hunde:hund",
    "russian": "введённый:введён всё:всё ещё:ещё собаки:собак",
    "hungarian": "betűkből:betűkből győződjön:győződjön kutyák:kutya",
    "french": "courant:cour continuellement:continuel",
    "spanish": "corriendo:corr perros:perr",
}


@pytest.mark.parametrize("language", STEMS)
def test_stems_as_the_program_does(language: str) -> None:
    stem = stemmer(language)
    for pair in STEMS[language].split():
        word, expected = pair.split(":")
        assert stem(word) == expected, word


def test_the_slow_package_stems_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    stem = stemmer("english")
    for pair in STEMS["english"].split():
        word, expected = pair.split(":")
        assert stem(word) == expected


def test_without_a_stemmer_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    monkeypatch.setitem(sys.modules, "snowballstemmer.english_stemmer", None)
    with pytest.raises(MissingBackend, match=r"pip install 'capmeter\[meteor\]'"):
        stemmer("english")
