"""METEOR's normaliser, by hand and against the Java program."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.meteor.resources import (
    JAR,
    _lowercase_words,
    _MeteorNormaliser,
    load_meteor_resources,
    meteor_directory,
    split_words,
)

PREFIXES = {"Dr": 1, "No": 2}
ENGLISH = _MeteorNormaliser("english", PREFIXES)
# The program's results; its list of prefixes is longer, but these sentences use no other abbreviation.
CASES = {
    "Dr. Smith's half-open U.S. jar, 1,000 miles...": "dr. smith 's half open us jar , 1,000 miles ...",
    "the rock 'n' roll dogs' bowl -- it's 5'10 in the 1990's": (
        "the rock ' n ' roll dogs ' bowl - it 's 5 ' 10 in the 1990 's"
    ),
    "He saw No. 5 and no. Then p.m. it rained.": "he saw no. 5 and no . then pm it rained .",
    "“quoted” ‘text’ – and... more.. dots.": "\" quoted \" ' text ' - and ... more .. dots .",
    "": "",
    "  one\ttwo\u00a0three ": "one two three",
    "a .. b. c": "a .. b. c",
    "x-y-z": "x y-z",
}


@pytest.mark.parametrize(("sentence", "expected"), CASES.items())
def test_english(sentence: str, expected: str) -> None:
    assert ENGLISH(sentence) == expected.split()


def test_french_apostrophes_stay_with_the_article() -> None:
    sentence = "l'homme aujourd'hui n'est pas"
    assert _MeteorNormaliser("french", {})(sentence) == ["l'", "homme", "aujourd'", "hui", "n'", "est", "pas"]
    assert _MeteorNormaliser("german", {})(sentence) == [
        "l",
        "'",
        "homme",
        "aujourd",
        "'",
        "hui",
        "n",
        "'",
        "est",
        "pas",
    ]


def test_lower_casing_splits_at_ascii_white_space_alone() -> None:
    assert _lowercase_words(" A\u00a0b C\x85d\x1f ") == ["a\u00a0b", "c\x85d"]


@given(st.text(st.sampled_from("aZ09 "), max_size=30))
def test_the_fast_path_of_simple_sentences_gives_the_same_tokens(sentence: str) -> None:
    assert ENGLISH(sentence) == ENGLISH(sentence + " ,")[:-1]


@given(st.text(st.sampled_from("aZs09 .,'’-–`\"!\u00a0é中\x00DOTMULTI"), max_size=40))
def test_tokens_are_lower_case_words(sentence: str) -> None:
    tokens = ENGLISH(sentence)
    assert all(split_words(token) == [token] and token == token.lower() for token in tokens)


@pytest.mark.meteor
@pytest.mark.parametrize("language", ["en", "fr", "de", "es", "cz", "ru"])
def test_equals_the_program(meteor_index: object, language: str) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs a Java runtime")
    pieces = [
        "Dog",
        "No.",
        "Dr.",
        "U.S.",
        "p.m.",
        "...",
        "..",
        ".",
        ",",
        "1,000",
        "'s",
        "'",
        "’",
        "“",
        "-",
        "--",
        "–",
        "é",
        "中",
        "x",
    ]
    pieces += ["|", "\x00", "\u2003", "DOTMULTI", "5", " ", " ", " "]
    lines = ["".join(pieces[k * n % 28] for k in range(1, 3 + n % 9)) + pieces[n % 28] + "z" for n in range(1, 400)]
    process = subprocess.run(
        [
            "java",
            "-Dfile.encoding=UTF-8",
            "-cp",
            str(meteor_directory() / JAR),
            "edu.cmu.meteor.util.Normalizer",
            language,
            "true",
        ],
        input="\n".join(lines).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    official_lines = process.stdout.decode().splitlines() if "\x85" not in process.stdout.decode() else []
    normalise = load_meteor_resources(language).normalise
    assert [normalise(line) for line in lines] == [split_words(line.lower()) for line in official_lines]
