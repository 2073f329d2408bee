"""Machine captions for training: what is read and what is left, near photos, rows, named systems, measures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from capmeter_research.common.corpus import Photo
from capmeter_research.networks.caption_writer.machine import WrittenRow, read_places, read_rows, sample_systems, unread
from capmeter_research.networks.caption_writer.measures import ReferenceNgrams, describe
from capmeter_research.networks.caption_writer.similar import near_captions
from capmeter_research.networks.caption_writer.trigrams import END, UNKNOWN, Trigrams
from capmeter_research.networks.caption_writer.writer import strength_folder
from capmeter_research.networks.caption_writer.writing import SYSTEMS, WriterSystem, named_systems, parse_writing
from support.synthetic_photos import made_photo

from capmeter.core.errors import AssetError, InputError
from capmeter.evaluation.registry import parse

FIVE = Photo("coco", "9", tuple(f"caption {number}" for number in range(5)))


def test_a_reference_is_always_left() -> None:
    for count in range(1, 5):
        places = read_places(FIVE, count, "salt")
        assert len(set(places)) == count
        assert len(unread(FIVE, places)) == 5 - count
        assert not {FIVE.captions[location] for location in places} & set(unread(FIVE, places))
    with pytest.raises(InputError, match="photo 9 of coco has 5 captions; expected more than the 5"):
        read_places(FIVE, 5, "salt")


def test_every_caption_is_read_for_some_photo() -> None:
    places = [tuple(read_places(Photo("coco", str(number), FIVE.captions), 1, "a")) for number in range(200)]
    assert set(places) == {(0,), (1,), (2,), (3,), (4,)}
    assert places != [tuple(read_places(Photo("coco", str(number), FIVE.captions), 1, "b")) for number in range(200)]


def test_systems_are_drawn_for_each_photo() -> None:
    sample = [sample_systems(("a", "b", "c", "d"), 2, Photo("coco", str(number), ()), 0) for number in range(300)]
    assert {len(each) for each in sample} == {2}
    for name in "abcd":
        assert 110 < sum(name in each for each in sample) < 190
    assert sample_systems(("a", "b"), 0, FIVE, 0) == {"a", "b"}


def test_near_captions_are_of_other_photos_with_the_same_words() -> None:
    dogs = [Photo("coco", f"d{k}", (f"a dog on a beach {k}", "dogs play near the sea")) for k in range(12)]
    trains = [Photo("coco", f"t{k}", (f"a train in a station {k + 99}", "trains at a platform")) for k in range(12)]
    photos = [*dogs, *trains]
    neighbours = near_captions(photos, seed=1)
    assert neighbours == near_captions(photos, seed=1)
    for photo, text in zip(photos, neighbours, strict=True):
        assert ("dog" in text) == ("dog" in photo.captions[0])
        assert text != photo.captions[0]
    assert near_captions(dogs[:1]) == [""]
    assert near_captions([]) == []


def test_rows_of_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"source": "coco", "photo": "9", "system": "writer", "candidate": "A dog.", "read": [2], "image_id": "9"}
    path.write_text(json.dumps(row) + "\n")
    assert list(read_rows(path)) == [WrittenRow("coco", "9", "writer", "A dog.", (2,))]
    for bad in ({**row, "photo": 9}, {**row, "read": ["2"]}, {**row, "read": None}, [], {"source": "coco"}):
        path.write_text(json.dumps(row) + "\n" + json.dumps(bad) + "\n")
        with pytest.raises(InputError, match="line 2: expected"):
            list(read_rows(path))


def test_ways_of_writing_have_names() -> None:
    for writing in SYSTEMS.values():
        assert parse_writing(str(writing)) == writing
    assert str(WriterSystem()) == "writer"
    assert parse_writing("writer(strength=300,near=0.25,decode=beam)") == WriterSystem(
        strength="300", near=0.25, decode="beam"
    )
    assert named_systems([]) == SYSTEMS
    assert named_systems(["a=writer", "b=writer(read=2)"]) == {"a": WriterSystem(), "b": WriterSystem(read=2)}
    assert all(writing.read == 1 for writing in SYSTEMS.values())  # so that as many references are left as for people


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reader", "expected writer"),
        ("writer(kept=1.5)", "kept=1.5 is not a share"),
        ("writer(read=0)", "read=0, expected 1 or more"),
        ("writer(temperature=0)", "temperature=0.0, expected more than 0"),
        ("writer(strength=../x)", "strength="),
        ("writer(keep=0.5)", "did you mean kept"),
        ("writer(decode=best)", "decode=best"),
    ],
)
def test_bad_ways_of_writing(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_writing(text)


def test_bad_systems(tmp_path: Path) -> None:
    for bad in ("writer", "=writer", "writer(near=0.5)"):
        with pytest.raises(InputError, match="expected NAME=WRITING"):
            named_systems([bad])
    with pytest.raises(InputError, match="duplicate name 'a'"):
        named_systems(["a=writer", "a=writer(read=2)"])
    assert strength_folder("x", "final") == "x"
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(AssetError, match="no weights of strength 300"):
        strength_folder(tmp_path, "300")


def test_trigrams_by_hand() -> None:
    """Two sentences, a b and a c: the bigram a has two successors, and follows the beginning in both."""
    model = Trigrams([["a", "b"], ["a", "c"]])
    uniform = 1 / 5  # a, b, c, end, unknown
    # distinct bigrams: ^ a, a b, a c, b $, c $: each word has one predecessor, the end has two
    single = dict.fromkeys("abc", (0.25 + 0.75 * 4 * uniform) / 5) | {END: (1.25 + 0.75 * 4 * uniform) / 5}
    after_a = (1 - 0.75 + 0.75 * 2 * single["b"]) / 2
    assert model.probability(("\x02", "a"), "b") == pytest.approx((1 - 0.75 + 0.75 * 2 * after_a) / 2)
    assert model.probability(("b", "c"), END) == pytest.approx(0.25 + 0.75 * single[END])  # b c never occurred, c $ did
    assert model.probability(("c", "b"), "z") == pytest.approx(0.75 * 0.75 * 4 * uniform / 5)
    for context in (("\x02", "a"), ("a", "b"), ("z", "z")):
        assert sum(model.probability(context, word) for word in ["a", "b", "c", END, UNKNOWN]) == pytest.approx(1)


def test_perplexity() -> None:
    model = Trigrams([["a", "b"], ["a", "c"]])
    logs = [
        math.log(model.probability(context, word))
        for context, word in ((("\x02", "\x02"), "a"), (("\x02", "a"), "b"), (("a", "b"), END))
    ]
    assert model.perplexity([["a", "b"]]) == pytest.approx(math.exp(-sum(logs) / 3))
    assert model.perplexity([["a", "b"]]) < model.perplexity([["b", "a"]]) < model.perplexity([["x", "y"]])
    assert model.perplexity([]) == 1
    assert math.isfinite(Trigrams([]).perplexity([["a"], []]))


def test_measures() -> None:
    photos = {f"coco {number}": made_photo("coco", number) for number in range(144)}
    names = ReferenceNgrams.of(list(photos.values()))
    keys = list(photos)
    local = {key: photo.captions[1] for key, photo in photos.items()}
    wrong = {key: photos[other].captions[2] for key, other in zip(keys, keys[1:] + keys[:1], strict=True)}
    new = dict.fromkeys(keys, "Purple, purple ducks!")
    result = describe({"own": local, "wrong": wrong, "new": new}, {"own": {key: [2] for key in keys}}, photos, names)
    assert list(result["own"].to_dict())[-1] == "cider_d"
    assert list(result) == ["human", "own", "wrong", "new"]
    assert {each.captions for each in result.values()} == {144}
    assert result["own"].cider_d > result["wrong"].cider_d > result["new"].cider_d == 0
    assert result["new"].novel == 1
    assert result["own"].novel < 0.1
    assert (result["new"].words, result["new"].distinct_1, result["new"].distinct_2) == (3, 2 / 432, 2 / 288)
    assert result["new"].perplexity > 2 * result["own"].perplexity
    with pytest.raises(InputError, match="none of 1 photos is held out"):
        ReferenceNgrams.of([next(photo for photo in photos.values() if not photo.held_out)])


def test_critics_tell_people_from_systems() -> None:
    photos = {f"coco {number}": made_photo("coco", number) for number in range(144)}
    names = ReferenceNgrams.of(list(photos.values()))
    wrong = dict.fromkeys(photos, "Purple, purple ducks!")
    result = describe({"wrong": wrong}, {}, photos, names, critics={"overlap": parse("rouge-l")})
    # against themselves: every pair has its mirror image
    assert result["human"].to_dict()["pairwise accuracy of overlap"] == 0.5
    assert result["wrong"].pairwise_accuracy == {"overlap": 1.0}


def test_the_page_lists_the_systems_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "writer.md").read_text(encoding="utf-8")
    table = page.partition("| system | configuration |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| `{name}` | `{system}` |" for name, system in SYSTEMS.items()]
