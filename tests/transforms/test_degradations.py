"""Degradations: names, strengths, and that nothing depends on what stands around a caption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.transforms.degradations import OtherCaption, Removal, WordPermutation, names, parse, parse_list
from capmeter.transforms.similarity import Neighbours

SENTENCES = [
    ("A brown dog runs on the wet grass.", ["a dog runs over a lawn", "a brown dog in the grass"]),
    ("Two dogs play with a red ball.", ["dogs and a ball", "two dogs playing on grass"]),
    ("A man rides a horse on the beach.", ["a man on a horse", "a rider near the sea"]),
    ("A woman rides a bicycle in town.", ["a woman on a bicycle", "a cyclist in a street"]),
    ("Two cats sleep on a blue sofa.", ["cats on a sofa", "two cats asleep on a couch"]),
    ("A plate of pasta with red sauce.", ["pasta on a plate", "a dish of noodles and sauce"]),
]
WORDWISE = [name for name in names() if name != "other-caption"]


def _set(order: list[int] | None = None) -> CaptionSet:
    rows = [Caption(f"i{k}", f"i{k}", text, tuple(references)) for k, (text, references) in enumerate(SENTENCES)]
    return CaptionSet.from_captions(rows if order is None else [rows[k] for k in order])


@pytest.mark.parametrize("name", names())
def test_strength_zero_leaves_every_caption_as_it_is(name: str) -> None:
    degrade = parse(name).fit(_set())
    assert [degrade(row, 0.0) for row in range(6)] == [text for text, _ in SENTENCES]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("strength", [0.01, 0.5, 1.0])
def test_any_strength_changes_every_caption(name: str, strength: float) -> None:
    degrade = parse(name).fit(_set())
    assert all(degrade(row, strength) != text for row, (text, _) in enumerate(SENTENCES))


@pytest.mark.parametrize("name", [*names(), "other-caption(similarity=random)"])
def test_what_a_caption_becomes_does_not_depend_on_the_order_of_the_others(name: str) -> None:
    order = [3, 0, 5, 1, 4, 2]
    straight, shuffled = parse(name).fit(_set(), seed=7), parse(name).fit(_set(order), seed=7)
    for strength in (0.2, 0.6, 1.0):
        assert [straight(row, strength) for row in order] == [shuffled(row, strength) for row in range(6)]


@pytest.mark.parametrize("name", ["permutation", "repetition", "removal"])
def test_what_needs_no_vocabulary_does_not_depend_on_the_batch(name: str) -> None:
    alone = CaptionSet.from_captions([_set()["i2"]])
    assert parse(name).fit(alone, seed=3)(0, 0.5) == parse(name).fit(_set(), seed=3)(2, 0.5)


@pytest.mark.parametrize("name", names())
def test_the_seed_and_the_id_decide(name: str) -> None:
    rows = [Caption(f"k{k}", f"k{k % 7}", "a b c d e f g h i j", ("a dog", "two cats and a bird")) for k in range(40)]
    rows = [Caption(each.id, each.image_id, f"{each.candidate} {each.id}", each.references) for each in rows]
    captions = CaptionSet.from_captions(rows)
    first, again, other = (parse(name).fit(captions, seed) for seed in (1, 1, 2))
    texts = [first(row, 0.7) for row in range(40)]
    assert texts == [again(row, 0.7) for row in range(40)]
    assert sum(text != other(row, 0.7) for row, text in enumerate(texts)) > 20
    if name in ("permutation", "repetition", "removal"):
        assert len({text.replace(f"k{row}", "") for row, text in enumerate(texts)}) > 20


@pytest.mark.parametrize(("strength", "words"), [(0.1, 6), (0.25, 5), (0.5, 3), (0.9, 1), (1.0, 1)])
def test_the_strength_is_the_share_of_the_words(strength: float, words: int) -> None:
    captions = CaptionSet.from_captions([Caption("1", "1", "Two cats sleep on a sofa today!", ("a",))])
    text = Removal().fit(captions)(0, strength)  # seven words: round(.7) = 1, round(1.75) = 2, round(3.5) = 4 …
    assert len(text.rstrip("!").split()) == words
    assert text.endswith("!")


def test_captions_that_cannot_change_stay() -> None:
    captions = CaptionSet.from_captions(
        [Caption("1", "1", "dog", ("a dog",)), Caption("2", "2", "", ("a cat",)), Caption("3", "3", "no no no", ("a",))]
    )
    degrade = WordPermutation().fit(captions)
    assert [degrade(row, 1.0) for row in range(3)] == ["dog", "", "no no no"]
    assert Removal().fit(captions)(0, 1.0) == "dog"


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", names())
def test_a_strength_outside_of_0_and_1_is_refused(name: str, strength: float) -> None:
    with pytest.raises(InputError, match="expected a strength from 0"):
        parse(name).fit(_set())(0, strength)


class TestOtherCaption:
    def test_the_most_similar_image_comes_first(self) -> None:
        degrade = OtherCaption().fit(_set())
        assert degrade(0, 0.01) == SENTENCES[1][0]
        assert degrade(1, 0.01) == SENTENCES[0][0]

    def test_the_whole_strength_reaches_every_other_image_and_never_the_own(self) -> None:
        captions = _set()
        visits = {OtherCaption().fit(captions, seed)(0, 1.0) for seed in range(200)}
        assert visits == {text for text, _ in SENTENCES[1:]}

    def test_half_the_strength_reaches_the_nearer_half(self) -> None:
        # the later image is the more similar
        similar = OtherCaption(similarity=lambda these, others: [[int(id[1]) for id in others] for _ in these])
        visits = {similar.fit(_set(), seed)(5, 0.6) for seed in range(200)}
        assert visits == {SENTENCES[k][0] for k in (4, 3, 2)}

    def test_captions_of_the_same_image_are_never_taken(self) -> None:
        rows = [Caption(f"{k}", "one" if k < 3 else "two", f"caption {k}", ("a dog",)) for k in range(5)]
        captions = CaptionSet.from_captions(rows)
        visits = {OtherCaption().fit(captions, seed)(0, 1.0) for seed in range(50)}
        assert visits == {"caption 3", "caption 4"}

    def test_an_unknown_similarity_is_refused(self) -> None:
        with pytest.raises(InputError, match="unknown similarity 'bleu-1'"):
            OtherCaption(similarity="bleu-1").fit(_set())

    def test_features_are_compared_by_cosine(self, tmp_path: Path) -> None:
        features = np.array([[1, 0], [0, 1], [1, 0.1], [-1, 0], [0, -1], [0, -1.0]])
        np.savez(tmp_path / "f.npz", image_ids=[f"i{k}" for k in range(6)], features=features)
        degrade = OtherCaption(similarity=str(tmp_path / "f.npz")).fit(_set())
        assert degrade(0, 0.01) == SENTENCES[2][0]
        assert degrade(4, 0.01) == SENTENCES[5][0]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            (
                {"image_ids": ["i0", "i1"], "features": np.ones((2, 3))},
                r"4 images have no features; add them \(the first: i2, i3, i4, i5\)",
            ),
            ({"image_ids": ["i0"], "features": np.ones((2, 3))}, "1 ids and features of shape"),
            ({"ids": ["i0"]}, "expected an .npz file with `image_ids`"),
        ],
    )
    def test_wrong_features_are_refused(self, tmp_path: Path, arrays: dict, message: str) -> None:
        np.savez(tmp_path / "f.npz", **arrays)
        with pytest.raises(InputError, match=message):
            OtherCaption(similarity=str(tmp_path / "f.npz")).fit(_set())
        with pytest.raises(InputError, match=r"expected an \.npz file"):
            OtherCaption(similarity=str(tmp_path / "none.npz")).fit(_set())

    def test_a_similarity_function_of_the_wrong_shape_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"expected finite numbers of shape \(1, 6\)"):
            OtherCaption(similarity=lambda these, others: [1.0]).fit(_set())(0, 0.5)

    def test_one_image_has_no_others(self) -> None:
        with pytest.raises(InputError, match="at least two images"):
            OtherCaption().fit(CaptionSet.from_captions([_set()["i0"]]))

    def test_ties_go_by_image_id(self) -> None:
        neighbours = Neighbours.find(_set([5, 4, 3, 2, 1, 0]), lambda these, others: np.zeros((1, 6)))
        assert neighbours.rows(0, 0.2, 0.0) == [5]  # row 0 is image i5; the nearest of equals is i0, at row 5


class TestNames:
    @pytest.mark.parametrize("text", ["permutation", "other-caption", "other-caption(similarity=cider-d)", "removal"])
    def test_the_text_form_can_be_parsed_back(self, text: str) -> None:
        assert str(parse(text)) == text
        assert parse(str(parse(text))) == parse(text)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("rc", "other-caption"),
            ("T_RC", "other-caption"),
            ("T_WP", "permutation"),
            ("rw", "replacement"),
            (" Removal ", "removal"),
            ("other-caption( similarity = tf-idf )", "other-caption"),
            ('rc(similarity="a b.npz")', 'other-caption(similarity="a b.npz")'),
            ("rc(similarity=cider-d(n=2,sigma=5.0))", 'other-caption(similarity="cider-d(n=2,sigma=5.0)")'),
        ],
    )
    def test_other_ways_to_write_it(self, text: str, name: str) -> None:
        assert str(parse(text)) == name
        assert str(parse(name)) == name

    def test_a_list_is_split_at_commas_outside_of_brackets(self) -> None:
        result = parse_list("rc(similarity=cider-d(n=2,sigma=5.0)), wp")
        assert [each.NAME for each in result] == ["other-caption", "permutation"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("permutate", "did you mean permutation"),
            ("zzz", "known are: other-caption"),
            ("", "no degradation was given"),
            ("wp,permutation", "duplicate degradation permutation"),
            ("removal(share=1)", "removal has no parameter 'share'; its parameters are: none"),
            ("rc(similarity=)", "cannot read 'similarity=' in the brackets of rc"),
            ("rc(similarity=tf-idf", "brackets or quotation marks that do not match"),
        ],
    )
    def test_wrong_names_say_what_was_expected(self, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            parse_list(text)


@pytest.mark.parametrize("name", ["replacement", "substitution"])
def test_references_without_words_cannot_replace(name: str) -> None:
    with pytest.raises(InputError, match="no words to use as replacements"):
        parse(name).fit(CaptionSet.from_captions([Caption("1", "1", "a dog", ("",))]))
