"""Stems: hand-picked words for every rule, and the vocabulary of real captions against NLTK's own stems."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_document

from capmeter.core.errors import MissingBackend
from capmeter.text.tokenization.porter import stem, stemmer

WORDS = {
    "caresses": "caress",
    "ponies": "poni",
    "ties": "tie",  # four letters
    "cats": "cat",
    "agreed": "agre",
    "feed": "feed",
    "plastered": "plaster",
    "hopping": "hop",
    "falling": "fall",
    "sing": "sing",
    "filing": "file",
    "tried": "tri",
    "died": "die",
    "happy": "happi",
    "enjoy": "enjoy",
    "by": "by",
    "additionally": "addit",
    "rational": "ration",
    "possibly": "possibl",
    "hopefully": "hope",
    "biology": "biolog",
    "adoption": "adopt",
    "replacement": "replac",
    "rate": "rate",
    "controlling": "control",
    "skies": "sky",
    "lying": "lie",
    "innings": "inning",
    "is": "is",
    "": "",
}


@pytest.mark.parametrize(("word", "expected"), WORDS.items())
def test_stem(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_stems_of_real_captions_equal_nltk(shared: Path) -> None:
    vocabulary = read_document(shared / "oracles" / "smurf_concepts.json.gz")["stem_vocab"]
    assert len(vocabulary) > 7000
    assert {word: stem(word) for word in vocabulary} == vocabulary


WORD = st.text("abcdefghijklmnopqrstuvwxyzé", max_size=14)
SUFFIXED = st.builds(
    "".join,
    st.tuples(
        st.text("abcdeglorstuy", min_size=1, max_size=6),
        st.sampled_from(["s", "es", "ies", "ing", "ed", "eed", "ational", "iveness", "ement", "ly", "e", "y", "logi"]),
    ),
)


@given(WORD | SUFFIXED)
def test_a_stem_is_never_longer_than_its_word_and_has_its_first_letter(word: str) -> None:
    assert len(stem(word)) <= len(word)
    assert stem(word)[:1] == word[:1]


def test_stems_of_any_word_equal_nltk() -> None:
    nltk = pytest.importorskip("nltk.stem.porter", reason="needs NLTK, the extra benchmarks").PorterStemmer()

    @given(WORD | SUFFIXED)
    def equal(word: str) -> None:
        assert stem(word) == nltk.stem(word)

    equal()


# Snowball stems as in METEOR's Java program, with either package.


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
