"""Tuples of a parse: an example for each rule, the official tuples, and what nobody would write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.call_counts import steps
from support.written_parses import caption, official_rows, parse

from capmeter.text.parsing.dependency_parse import CaptionParse, Parse, truncate_parse
from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies
from capmeter.text.scene_graphs.rules import MAX_WORDS, _demote_quantifiers, _resolve_pronouns, extract_tuples


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Men/NNS/man/2/nsubj ride/VBP/ride/0/root horses/NNS/horse/2/dobj",
            {("man", "horse", "ride"), ("man",), ("horse",)},
        ),
        (
            "cat/NN/cat/0/root sitting/VBG/sit/1/acl in/IN/in/4/case chair/NN/chair/2/nmod",
            {("cat", "chair", "sit in"), ("cat",), ("chair",)},
        ),
        ("cat/NN/cat/0/root sitting/VBG/sit/1/acl:relcl in/IN/in/4/case chair/NN/chair/2/nmod", {("cat",), ("chair",)}),
        ("Woman/NN/woman/2/nsubj smiles/VBZ/smile/0/root", {("woman", "smile"), ("woman",)}),
        ("Man/NN/man/3/nsubj is/VBZ/be/3/cop rider/NN/rider/0/root", {("man", "rider"), ("man",), ("rider",)}),
        (
            "Man/NN/man/5/nsubj is/VBZ/be/5/cop next/JJ/next/5/advmod To/TO/to/5/case house/NN/house/0/root",
            {("man", "house", "next To"), ("man",), ("house",)},
        ),
        ("There/EX/there/2/expl is/VBZ/be/0/root man/NN/man/2/nsubj", {("man",)}),
        ("young/JJ/young/2/amod girl/NN/girl/0/root", {("girl", "young"), ("girl",)}),
        ("Man/NN/man/3/nsubj is/VBZ/be/3/cop tall/JJ/tall/0/root", {("man", "tall"), ("man",)}),
        (
            "woman/NN/woman/0/root in/IN/in/3/case house/NN/house/1/nmod",
            {("woman", "house", "in"), ("woman",), ("house",)},
        ),
        ("boy/NN/boy/3/nmod:poss 's/POS/'s/1/case hat/NN/hat/0/root", {("boy", "hat", "have"), ("boy",), ("hat",)}),
        (
            "Ball/NN/ball/3/nsubjpass is/VBZ/be/3/auxpass caught/VBN/catch/0/root by/IN/by/5/case dog/NN/dog/3/nmod",
            {("dog", "ball", "catch"), ("ball",), ("dog",)},
        ),
        ("two/CD/two/2/nummod dogs/NNS/dog/0/root", {("dog", "two"), ("dog",)}),
        ("two/CD/two/2/nummod dog/NN/dog/0/root", {("dog",)}),  # numbers of plurals alone
        ("dogs/NNS/dog/0/root 7/CD/7/1/nummod", {("dog",)}),  # and before them
        ("a/DT/a/2/det lot/NN/lot/0/root of/IN/of/4/case dogs/NNS/dog/2/nmod", {("dog", "a"), ("dog",), ("lot",)}),
        ("fire/NN/fire/2/compound truck/NN/truck/0/root", {("truck", "fire")}),
        (
            "Man/NN/man/2/nsubj holds/VBZ/hold/0/root out/RP/out/2/compound:prt hand/NN/hand/2/dobj",
            {("man", "hand", "hold out"), ("man",), ("hand",)},
        ),
        (
            "Man/NN/man/2/nsubj is/VBZ/be/0/root Out/RP/out/2/compound:prt with/IN/with/5/case dog/NN/dog/2/nmod",
            {("man", "dog", " Out with"), ("man",), ("dog",)},
        ),
    ],
)
def test_the_rules_one_by_one(line, expected):
    assert set(extract_tuples(caption(line))) == expected


def test_the_rules_keep_the_programs_order():
    result = extract_tuples(
        caption(
            "A/DT/a/3/det young/JJ/young/3/amod girl/NN/girl/4/nsubj rides/VBZ/ride/0/root two/CD/two/6/nummod "
            "horses/NNS/horse/4/dobj"
        )
    )
    assert result == [("girl", "horse", "ride"), ("girl", "young"), ("horse", "two"), ("horse",), ("girl",)]


def test_sentences_of_a_caption_follow_each_other():
    one, two = "dog/NN/dog/0/root", "cat/NN/cat/0/root"
    assert extract_tuples(caption(one, two)) == [("dog",), ("cat",)]
    assert extract_tuples(CaptionParse()) == []


def official_differences(shared: Path, every: int) -> tuple[int, int, int]:
    count = sets = lists = 0
    for row in official_rows(shared, every):
        expected = [tuple(each) for each in row["tuples"]]
        result = extract_tuples(CaptionParse.from_dict(row))
        count += 1
        sets += set(result) != set(expected)
        lists += result != expected
    return count, sets, lists


def test_official_tuples_of_every_tenth_caption(shared: Path):
    count, sets, lists = official_differences(shared, 10)
    assert count > 3000
    assert sets == 0
    assert lists <= count // 1000


@pytest.mark.slow
def test_official_tuples_of_all_captions(shared: Path):
    """Every set of tuples is equal; 13 lists name one twice or in another order."""
    assert official_differences(shared, 1) == (30_289, 0, 13)


_TAGS = st.sampled_from(["NN", "NNS", "NNP", "VBZ", "VBG", "JJ", "IN", "DT", "CD", "PRP", "PRP$", "CC", "RB", "."])
_LABELS = st.sampled_from(
    [
        *("nsubj", "nsubjpass", "dobj", "iobj", "nmod", "nmod:poss", "case", "cc", "conj", "acl", "acl:relcl", "amod"),
        *("compound", "compound:prt", "cop", "auxpass", "nummod", "det", "mwe", "advmod", "advcl", "mark", "dep"),
    ]
)
_WORDS = st.sampled_from(
    ["of", "in", "front", "next", "to", "a", "lot", "lots", "two", "and", "but", "not", "it", "by", "dog", "be", "🐶"]
)


@st.composite
def trees(draw: st.DrawFn) -> Parse:
    """Any tree with any tags and labels."""
    count = draw(st.integers(1, 20))
    order = draw(st.permutations(range(1, count + 1)))
    heads = [0] * count
    for k in range(1, count):
        heads[order[k] - 1] = order[draw(st.integers(0, k - 1))]
    words = tuple(draw(st.lists(_WORDS, min_size=count, max_size=count)))
    tags = tuple(draw(st.lists(_TAGS, min_size=count, max_size=count)))
    labels = tuple(
        "root" if not head else label
        for head, label in zip(heads, draw(st.lists(_LABELS, min_size=count, max_size=count)), strict=True)
    )
    return Parse(words, tags, words, tuple(heads), labels)


@settings(max_examples=300)
@given(st.lists(trees(), min_size=1, max_size=2))
def test_any_tree_gives_tuples(sentences):
    result = extract_tuples(CaptionParse(tuple(sentences)))
    assert result == extract_tuples(CaptionParse(tuple(sentences)))
    assert all(1 <= len(each) <= 3 and all(isinstance(word, str) for word in each) for each in result)
    nouns = {
        word.lower() for one in sentences for word, tag in zip(one.words, one.tags, strict=True) if tag[:2] == "NN"
    }
    assert {each[0] for each in result if len(each) == 1} <= nouns


def chain(count: int, label: str, tag: str = "NN", word: str = "dog") -> Parse:
    """Every word hangs from the one before."""
    words = (word,) * count
    return Parse(words, (tag,) * count, words, tuple(range(count)), ("root", *(label,) * (count - 1)))


def star(count: int, labels: tuple[str, ...], tag: str = "NN") -> Parse:
    """Every word hangs from the first, by labels in turn."""
    words = tuple(f"w{k}" for k in range(count))
    turns = tuple(labels[k % len(labels)] for k in range(count - 1))
    return Parse(words, (tag,) * count, words, (0, *(1,) * (count - 1)), ("root", *turns))


@pytest.mark.parametrize(
    "parse",
    [
        lambda count: chain(count, "nmod"),
        lambda count: chain(count, "conj"),
        lambda count: chain(count, "acl", "VBG"),
        lambda count: star(count, ("conj", "cc")),
        lambda count: star(count, ("nsubj", "dobj")),
        lambda count: star(count, ("case", "nmod", "amod")),
        lambda count: star(count, ("nmod:poss",), "PRP"),
    ],
    ids=["nmod", "conj", "acl", "conjuncts", "objects", "cases", "pronouns"],
)
def test_a_sentence_of_ten_thousand_words_costs_no_more_than_its_first_thousand(parse):
    read, long = CaptionParse((parse(MAX_WORDS),)), CaptionParse((parse(10 * MAX_WORDS),))
    selection = steps(lambda: extract_tuples(read))
    assert selection < 4 * MAX_WORDS**2  # n² relations at most, nothing of third order
    assert steps(lambda: extract_tuples(long)) < 1.5 * selection


def test_five_hundred_nested_phrases():
    """the dog of the dog of the dog …"""
    words = ("the", "dog") + ("of", "the", "dog") * 499
    tags = ("DT", "NN") + ("IN", "DT", "NN") * 499
    heads, labels = [2, 0], ["det", "root"]
    for k in range(499):
        noun = 3 * k + 5
        heads += [noun, noun, noun - 3]
        labels += ["case", "det", "nmod"]
    parse = Parse(words, tags, words, tuple(heads), tuple(labels))
    assert len(parse) > MAX_WORDS
    result = extract_tuples(CaptionParse((parse,)))
    assert result.count(("dog", "dog", "of")) == 332  # of the first 1,000 words
    assert extract_tuples(CaptionParse((truncate_parse(parse, 5),))) == [("dog", "dog", "of"), ("dog",), ("dog",)]


def test_a_shortened_sentence_is_a_tree():
    parse = Parse(("a", "b", "c", "d"), ("NN",) * 4, ("a", "b", "c", "d"), (4, 1, 4, 0), ("x", "y", "z", "root"))
    short = truncate_parse(parse, 3)
    assert (short.heads, short.labels) == ((0, 1, 1), ("root", "y", "dep"))


# Pronouns give way to the topmost noun before them.


def resolved(line: str) -> set[tuple[str, str, str]]:
    graph = collapse_dependencies(parse(line))
    _resolve_pronouns(graph)
    words = graph.words
    return {(words[head], words[word], label) for head in range(len(graph)) for word, label in graph.dependents[head]}


def test_a_possessive_pronoun():
    result = resolved("Men/NNS/man/2/nsubj hold/VBP/hold/0/root their/PRP$/they/4/nmod:poss dogs/NNS/dog/2/dobj")
    assert result == {("hold", "Men", "nsubj"), ("hold", "dogs", "dobj"), ("dogs", "Men", "nmod:poss")}


def test_a_singular_pronoun_means_a_singular_noun():
    line = (
        "Men/NNS/man/2/nsubj hold/VBP/hold/0/root dog/NN/dog/2/dobj with/IN/with/6/case "
        "its/PRP$/its/6/nmod:poss ball/NN/ball/3/nmod"
    )
    assert ("ball", "dog", "nmod:poss") in resolved(line)
    assert ("ball", "Men", "nmod:poss") in resolved(line.replace("its/PRP$", "their/PRP$"))


def test_a_noun_after_the_pronoun_and_a_first_word_stay():
    assert resolved("now/RB/now/3/advmod he/PRP/he/3/nsubj holds/VBZ/hold/0/root dog/NN/dog/3/dobj") == {
        ("holds", "now", "advmod"),
        ("holds", "he", "nsubj"),
        ("holds", "dog", "dobj"),
    }
    assert resolved("He/PRP/he/2/nsubj runs/VBZ/run/0/root") == {("runs", "He", "nsubj")}


# Quantifiers step down from the nouns that they count.


def demoted(line: str) -> set[str]:
    """governor>dependent:label in words."""
    graph = collapse_dependencies(parse(line))
    _demote_quantifiers(graph)
    words = graph.words
    found = {f"{words[head]}>{words[k]}:{label}" for head in range(len(graph)) for k, label in graph.dependents[head]}
    return found | {f"ROOT>{words[root]}:root" for root in graph.roots}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "A/DT/a/3/det large/JJ/large/3/amod bunch/NN/bunch/6/nsubj of/IN/of/5/case dogs/NNS/dog/3/nmod "
            "run/VBP/run/0/root",
            "ROOT>run:root run>dogs:nsubj dogs>A:det:qmod A>large:mwe A>bunch:mwe A>of:mwe",
        ),
        (
            "Lots/NNS/lot/0/root of/IN/of/3/case dogs/NNS/dog/1/nmod",  # the root steps down, too
            "ROOT>dogs:root dogs>Lots:det:qmod Lots>of:mwe",
        ),
        (
            "Only/RB/only/2/advmod two/CD/two/0/root of/IN/of/5/case the/DT/the/5/det dogs/NNS/dog/2/nmod",
            "ROOT>dogs:root dogs>Only:det:qmod Only>two:mwe Only>of:mwe dogs>the:det",
        ),
        (
            "all/DT/all/4/nsubj of/IN/of/3/case them/PRP/they/1/nmod run/VBP/run/0/root",
            "ROOT>run:root run>them:nsubj them>all:det:qmod all>of:mwe",
        ),
    ],
)
def test_the_noun_takes_the_place_of_its_quantifier(line: str, expected: str) -> None:
    assert demoted(line) == set(expected.split())


@pytest.mark.parametrize(
    "line",
    [
        "the/DT/the/2/det bunch/NN/bunch/0/root of/IN/of/4/case dogs/NNS/dog/2/nmod",  # no "a"
        "two/CD/two/0/root of/IN/of/3/case dogs/NNS/dog/1/nmod",  # no determiner
        "a/DT/a/2/det photo/NN/photo/0/root of/IN/of/4/case dogs/NNS/dog/2/nmod",  # no quantifier
        "lots/NNS/lot/0/root big/JJ/big/1/amod of/IN/of/4/case dogs/NNS/dog/1/nmod",  # not next to "of"
        "lots/NNS/lot/0/root of/IN/of/3/case running/VBG/run/1/nmod",  # no noun
    ],
)
def test_what_is_no_quantifier_stays(line):
    graph = collapse_dependencies(parse(line))
    before = [list(edges) for edges in graph.dependents], list(graph.roots)
    _demote_quantifiers(graph)
    assert (graph.dependents, graph.roots) == before
