"""Longest match, ties, look-ahead, and hostile length."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.text.tokenization.lexer import LAST_UNIT, Lexer, Rule, complement, merge_ranges, parse_ranges


def first_match(lexer: Lexer, text: str, start: int = 0) -> tuple[str, int]:
    end, rule = lexer.match(lexer.classify(text), start, set())
    return text[start:end], rule


def test_longest_match_wins_and_the_earlier_rule_wins_a_tie() -> None:
    lexer = Lexer([Rule("keyword", "cat"), Rule("word", "[a-z]+"), Rule("never", "[a-z]{3}")], {})
    assert first_match(lexer, "cat") == ("cat", 0)
    assert first_match(lexer, "cats") == ("cats", 1)
    assert first_match(lexer, "CAT") == ("CAT", 0), "letters match both cases outside brackets"
    assert first_match(lexer, "DOG") == ("", -1), "but not inside brackets"


def test_no_rule_and_look_ahead() -> None:
    assert first_match(Lexer([Rule("word", "[a-z]+")], {}), "1") == ("", -1)
    lexer = Lexer([Rule("stem", "[a-z]+", before="'(s|re)"), Rule("word", "[a-z]+'?")], {})
    assert first_match(lexer, "dog's") == ("dog", 0)
    assert first_match(lexer, "dogs'") == ("dogs'", 1)
    lexer = Lexer([Rule("a", "a+", before="a+b")], {})
    assert first_match(lexer, "aaab") == ("aa", 0)


def test_named_fragments_repeats_and_escapes() -> None:
    names = {"year": "[0-9]{4}", "any": parse_ranges("41-5A"), "short": "[0-9]{1,2}"}
    lexer = Lexer([Rule("date", r"{year}(-{short}){2}\.?"), Rule("upper", r"{any}\u0041\x42")], names)
    assert first_match(lexer, "2014-1-12.") == ("2014-1-12.", 0)
    assert first_match(lexer, "2014-1") == ("", -1)
    assert first_match(lexer, "QAB") == ("QAB", 1)


def test_unbalanced_pattern() -> None:
    with pytest.raises(ValueError, match="unbalanced"):
        Lexer([Rule("broken", "a)b")], {})


@given(
    st.lists(st.tuples(st.integers(0, LAST_UNIT), st.integers(0, LAST_UNIT)).map(lambda pair: (min(pair), max(pair))))
)
def test_complement_is_its_own_inverse(ranges: list[tuple[int, int]]) -> None:
    union = merge_ranges(ranges)
    assert complement(complement(union)) == union
    assert sum(high - low + 1 for low, high in union + complement(union)) == LAST_UNIT + 1


@given(st.text(alphabet="ab<!>", max_size=300), st.integers(0, 5))
def test_marks_of_one_reading_do_not_change_the_next(text: str, tail: int) -> None:
    text += "<" * 70 + "a" * tail
    lexer = Lexer([Rule("tag", "<[^>]*>"), Rule("letter", "[^]")], {})
    kinds, marks = lexer.classify(text), set()
    shared = [tuple(lexer.match(kinds, at, marks)) for at in range(len(text))]
    expected = [
        (match.end(), 0) if (match := re.compile("<[^>]*>").match(text, at)) else (at + 1, 1) for at in range(len(text))
    ]
    assert shared == expected
