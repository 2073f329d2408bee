"""Snowball stems as in METEOR's Java program, with either package."""

from __future__ import annotations

import sys

import pytest

from capmeter.core.errors import MissingBackend
from capmeter.text.tokenization.porter import stemmer

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
def test_stems_are_those_of_the_program(language: str) -> None:
    stem = stemmer(language)
    for pair in STEMS[language].split():
        word, expected = pair.split(":")
        assert stem(word) == expected, word


def test_the_pure_python_package_gives_the_same_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    stem = stemmer("english")
    for pair in STEMS["english"].split():
        word, expected = pair.split(":")
        assert stem(word) == expected


def test_the_error_without_a_stemmer_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    monkeypatch.setitem(sys.modules, "snowballstemmer.english_stemmer", None)
    with pytest.raises(MissingBackend, match=r"pip install 'capmeter\[meteor\]'"):
        stemmer("english")
