"""Machine captions for training: what is read and what is left, near photos, rows, named systems."""

from __future__ import annotations

from pathlib import Path

import pytest
from capmeter_research.common.corpus import Photo
from capmeter_research.networks.caption_writer.machine import near_captions, read_places, sample_systems, unread
from capmeter_research.networks.caption_writer.writer import strength_folder
from capmeter_research.networks.caption_writer.writing import SYSTEMS, WriterSystem, named_systems, parse_writing

from capmeter.core.errors import AssetError, InputError

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


def test_the_page_lists_the_systems_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "writer.md").read_text(encoding="utf-8")
    table = page.partition("| system | configuration |\n|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| `{name}` | `{system}` |" for name, system in SYSTEMS.items()]
