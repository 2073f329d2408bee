"""The Penn Treebank tokens of captions, against the official tokenizer's output and by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shared_files import read_document, read_rows

from capmeter.text.tokenization import lexer, ptb
from capmeter.text.tokenization.ptb import PUNCTUATION, split, split_sentences, tokenise, tokenise_all, tokenise_to_ids
from capmeter.text.tokenization.ptb_rules import SHAPES, abbreviations


def official(shared: Path, name: str) -> dict[str, Any]:
    path = shared / "oracles" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    return read_document(path)


def scored(line: str) -> list[str]:
    return [token for token in line.rstrip().split(" ") if token and token not in PUNCTUATION]


def test_every_flickr_caption_has_the_official_tokens(shared: Path) -> None:
    table = official(shared, "ptb_flickr_unique")
    lines = [" ".join(tokens) for tokens in tokenise_all(table["input"])]
    assert sum(tokens != official_tokens for tokens, official_tokens in zip(lines, table["tokens"], strict=True)) == 0
    cased_lines = table["raw_cased_lines_before_punct_removal"]
    assert [" ".join(split(caption)) for caption in table["input"]] == [line.lower() for line in cased_lines]


def test_every_nasty_string_has_the_official_tokens(shared: Path) -> None:
    table = official(shared, "ptb_nasty")
    for caption, lines in zip(table["input"], table["followed_by_lowercase_line"], strict=True):
        line = " ".join(part for part in lines if part)
        assert " ".join(split(caption)) == line, caption
        assert tokenise(caption) == scored(line), caption


def test_every_fuzzed_string_has_the_official_tokens(shared: Path) -> None:
    """In the file, each is followed by "A zqzq": a final abbreviation also ends a sentence, and a lone "a." does not.

    This effect of the next line changes 20 of the 3,000 strings, and only in the last full stop.
    """
    table = official(shared, "ptb_fuzz")
    effects = 0
    for caption, lines in zip(table["input"], table["lines"], strict=True):
        line, official_line = " ".join(split(caption)), " ".join(part for part in lines if part)
        if line != official_line:
            assert line.endswith(".") and official_line in (line[:-1] + " .", line + " ."), caption
            effects += 1
    assert effects == (20 if len(table["input"]) == 3000 else effects)


def rows(shared: Path, name: str) -> list[dict[str, Any]]:
    return read_rows(shared / "data" / f"{name}.jsonl.gz")


def test_flickr_candidates_and_references_of_the_classic_scores(shared: Path) -> None:
    table = official(shared, "classic_flickr5822")
    data = rows(shared, "flickr8k_expert")
    assert [" ".join(tokenise(row["candidate"])) for row in data] == table["tokens_cand"]
    assert [[" ".join(tokenise(text)) for text in row["references"]] for row in data] == table["tokens_refs"]


def test_coco_references_of_the_classic_scores(shared: Path) -> None:
    """The first reference is used as the human candidate; a sixth reference is not in the data.

    One effect of the next line: "Wii U." was followed by a caption that began with "A ".
    """
    table = official(shared, "classic_karp1000_s0")
    by_image = {row["image_id"]: row["references"] for row in rows(shared, "coco_karpathy_test_captions")}
    differing = []
    for image, candidate, references in zip(table["ids"], table["tokens_cand"], table["tokens_refs"], strict=True):
        lines = [" ".join(tokenise(text)) for text in by_image[image]]
        official_lines = [candidate, *references][: len(lines)]
        differing += [(a, b) for a, b in zip(lines, official_lines, strict=True) if a != b]
    assert [(a[-3:], b[-2:], a.rstrip(".") == b) for a, b in differing] == [(" u.", " u", True)]


BY_HAND = [
    ("A man rides a bike.", "a man rides a bike ."),
    ("", ""),
    ("   ", ""),
    ("They can't, won't and cannot.", "they ca n't , wo n't and can not ."),
    ("I'm gonna say you're right", "i 'm gon na say you 're right"),
    ("'Tis the dogs' ball", "'t is the dogs ' ball"),
    ('A sign reads "STOP here"', "a sign reads `` stop here ''"),
    ("a 'blue' car", "a ` blue ' car"),
    ("rock'n'roll at 5:30 p.m. today", "rock 'n' roll at 5:30 p.m. today"),
    ("(left) [top] {x}", "-lrb- left -rrb- -lsb- top -rsb- -lcb- x -rcb-"),
    ("wait... what ?!", "wait ... what ?!"),
    ("half \u00bd cup, 1 1/2 cups", "half 1/2 cup , 1\u00a01/2 cups"),
    ("\u20ac5 and \u00a33, 10\u00a2", "$ 5 and # 3 , 10 cents"),
    ("Mr. Smith of St. John's etc.", "mr. smith of st. john 's etc."),
    ("Made by Acme Inc. The dog", "made by acme inc. . the dog"),
    ("in the U.S. The flag", "in the u.s. . the flag"),
    ("black-and-white -- or - grey", "black-and-white -- or - grey"),
    ("a red/green hat & scarf", "a red/green hat & scarf"),
    ("see www.example.com/ab or x@y.org", "see www.example.com/ab or x@y.org"),
    ("caf\u00e9 \u65e5\u672c\u8a9e \u05e9\u05dc\u05d5\u05dd", "caf\u00e9 \u65e5\u672c\u8a9e \u05e9\u05dc\u05d5\u05dd"),
    ("soft\u00adhyphen", "softhyphen"),
    ("a dog \U0001f415 runs\x00\u200b\ufeff", "a dog runs"),
    ("smile :-) done", "smile :--rrb- done"),
    ("c++ and C#", "c++ and c#"),
]


@pytest.mark.parametrize(("caption", "tokens"), BY_HAND)
def test_by_hand(caption: str, tokens: str) -> None:
    assert " ".join(split(caption)) == tokens
    assert tokenise(caption) == scored(tokens)


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\v", "\f", "\u2028", "\u2029"])
def test_a_line_break_inside_a_caption_is_white_space(separator: str) -> None:
    assert tokenise(f"two dogs{separator}and a cat.") == ["two", "dogs", "and", "a", "cat"]


def test_next_lines_brackets_quotes_and_the_next_caption() -> None:
    assert split("dog\u0085cat") == ["dog", "...", "cat"]
    assert tokenise("(a) \"b\" 'c' - d; e: f? g!") == ["-lrb-", "a", "-rrb-", "b", "c", "d", "e", "f", "g"]
    alone = [tokenise("he ran to Main St."), tokenise("The end")]
    assert tokenise_all(["he ran to Main St.", "The end"]) == alone
    assert alone[0][-1] == "st."


any_text = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from(
        "aAnN tTsS'\"`.,;:!?-_()[]{}<>&#@/\\*$=+%0159\u2019\u201c\u00ad\u00a0\u0085\r\n\t\v\u00bd\u20ac\U0001f600"
    ),
    max_size=60,
)


@given(any_text)
@settings(max_examples=500)
def test_never_fails_and_no_token_is_empty_or_holds_a_space(caption: str) -> None:
    tokens = split(caption)
    assert all(tokens)
    assert not any(" " in token or "\n" in token for token in tokens)
    assert [token for token in tokens if token not in PUNCTUATION] == tokenise(caption), (
        "the fast path equals the full lexer"
    )


@given(st.lists(any_text, max_size=5))
def test_captions_are_tokenised_independently(captions: list[str]) -> None:
    assert tokenise_all(captions) == [tokenise(caption) for caption in captions]


@given(
    st.lists(
        st.sampled_from(["dog", "Cannot", "etc.", "mr.", "U.S.", "the,", "a", ".", "no.", "5", "st.", "gonna"]),
        max_size=8,
    ),
    st.sampled_from(["", ".", " .", ",", "  "]),
)
def test_the_fast_path_equals_the_full_lexer(words: list[str], end: str) -> None:
    caption = " ".join(words) + end
    assert tokenise(caption) == [token for token in split(caption) if token not in PUNCTUATION]


@pytest.mark.parametrize("lone", ["\ud800", "\udfff dog", "a \ud83d cat"])
def test_lone_surrogates_are_dropped(lone: str) -> None:
    assert tokenise(lone) == [word for word in lone.split() if word.isascii()]


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "<!x",
        '<a b="',
        "a.",
        " ",
        "'",
        "1 ",
        "a-",
        "@a",
        "x.[^x=",
        "\U0001f600",
        "\u00ad",
        ". ",
        "U.S. <a ",
        "\x00",
    ],
)
def test_long_captions_are_read_in_linear_time(piece: str) -> None:
    """Counted in look-ups, not in seconds: every character is read a bounded number of times."""
    reads = 0

    class Counted(str):
        def __getitem__(self, key: Any) -> Any:
            nonlocal reads
            characters = super().__getitem__(key)
            reads += len(characters)
            return characters

    text = piece * (40_000 // len(piece)) + "!"
    classify = lexer.Lexer.classify
    try:
        lexer.Lexer.classify = lambda self, text: Counted(classify(self, text))  # type: ignore[method-assign]
        split(text)
    finally:
        lexer.Lexer.classify = classify  # type: ignore[method-assign]
    assert reads < 100 * len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        ("x" * 1_000_000, 1),
        ("dog" + " " * 1_000_000 + "!", 1),
        ("dog " * 250_000 + "!", 250_000),
        ("dog," * 30_000 + "&", 30_001),
        ("'" * 100_000, 0),
    ],
    ids=["a word", "spaces", "words", "commas", "apostrophes"],
)
def test_a_million_characters(caption: str, tokens: int) -> None:
    assert len(tokenise(caption)) == tokens


@given(st.lists(any_text | st.sampled_from(["A dog.", "Mr.", "He cannot.", "a, b", "etc.", "|", "a | b", "", " ."])))
@settings(max_examples=300)
def test_many_captions_at_once_have_the_tokens_of_each(captions: list[str]) -> None:
    rows, words = tokenise_to_ids(captions)
    assert [[words[k] for k in row.tolist()] for row in map(rows.__getitem__, range(len(captions)))] == [
        tokenise(caption) for caption in captions
    ]


def test_only_abbreviations_keep_their_full_stop() -> None:
    listed = re.findall(r"[A-Za-z]+", re.sub(r"[\[\]?]", "", abbreviations()))
    ordinary = "dog cat table frisbee dept. station mass miss sequin monday marching coat estate a i".split()  # noqa: SIM905
    words = [word.lower().rstrip(".") + "." for word in {*listed, *(word[:-1] for word in listed), *ordinary} if word]
    assert len(words) > 200
    rows, vocabulary = tokenise_to_ids([f"see the {word}" for word in words])
    for k, word in enumerate(words):
        expected = [token for token in split(f"see the {word}") if token not in PUNCTUATION]
        assert [vocabulary[at] for at in rows[k].tolist()] == expected, word


def test_a_word_of_letters_before_another_is_one_token_unless_a_contraction() -> None:
    listed = {
        word for shape in SHAPES.values() if isinstance(shape, str) for word in re.findall("[A-Za-z]{1,40}", shape)
    }
    listed |= {one + other for one in "abcdefghijklmnopqrstuvwxyz" for other in "abcdefghijklmnopqrstuvwxyz"}
    words = {case(word) for word in listed for case in (str.lower, str.upper, str.capitalize)}
    split_words = {word for word in words if ptb._split_chunk(word) != (word,)}
    assert {word.lower() for word in split_words} <= ptb.CONTRACTIONS and len(words) > 1500
    assert ptb.split("Mr Smith's No cannot pty a") == ["mr", "smith", "'s", "no", "can", "not", "pty", "a"]


# Sentences of captions, against CoreNLP's.


@pytest.mark.parametrize(
    ("tokens", "sizes"),
    [
        ([], []),
        (["A", "dog"], [2]),
        (["A", "dog", ".", "A", "cat", "."], [3, 3]),
        (["Stop", "!", "''", "he", "said", "."], [3, 3]),
        (["Done", ".", "."], [2, 1]),
        (["What", "?!", "Yes"], [2, 1]),
        (["A", "...", "dog"], [3]),
        (["(", "A", "dog", ".", "-RRB-", "Yes"], [5, 1]),
        (["''", "A", "dog"], [3]),
    ],
)
def test_ends_of_sentences(tokens: list[str], sizes: list[int]) -> None:
    assert [len(sentence) for sentence in split_sentences(tokens)] == sizes


@given(st.lists(st.sampled_from(["a", ".", "!", "?!", "''", "-RRB-", "..."])))
def test_together_the_sentences_are_the_tokens(tokens: list[str]) -> None:
    sentences = split_sentences(tokens)
    assert [token for sentence in sentences for token in sentence] == tokens
    assert all(sentences)


def test_every_caption_is_split_as_by_corenlp(shared: Path) -> None:
    parses = [
        [sentence["words"] for sentence in row["sentences"]]
        for row in read_rows(shared / "oracles" / "spice_parses.jsonl.gz")
    ]
    assert len(parses) > 30_000
    for official_sentences in parses:
        assert split_sentences([word for words in official_sentences for word in words]) == official_sentences
