"""Images from files: machine captions join their photos, rows that are none are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from capmeter_research.common.corpus import Photo, PhotoCorpus
from capmeter_research.papers.leic.training.examples import MachineText
from capmeter_research.papers.leic.training.reading import read_images

from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError


def corpus(count: int = 200) -> PhotoCorpus:
    photos = tuple(Photo("coco", str(k), (f"a dog {k}", f"the dog {k}")) for k in range(count))
    return PhotoCorpus(photos, 3, TrainingData("coco", "0", 2 * count))


def rows(path: Path, *output: object) -> str:
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in output))
    return str(path)


def test_machine_captions_join_their_photos(tmp_path: Path) -> None:
    machine = rows(
        tmp_path / "machine.jsonl",
        {"source": "coco", "photo": "7", "system": "one", "candidate": "dogs", "read": [1]},
        {"image_id": "COCO_val2014_000000000007.jpg", "candidate": "a cat"},
        {"source": "flickr30k", "photo": "7", "candidate": "of another source"},
        {"source": "coco", "photo": "999", "candidate": "of another photo"},
        "",
    )
    samples = rows(tmp_path / "samples.jsonl", {"photo": 8, "candidate": "dog dog", "system": "s"})
    result = read_images([corpus()], [machine], [samples])
    by_id = {image.id: image for image in (*result.learned, *result.held_out)}
    assert len(by_id) == 200 and len(result.held_out) == sum(photo.held_out for photo in corpus().photos) > 0
    assert by_id["7"].machine == (MachineText("dogs", (1,), "one"), MachineText("a cat")) and by_id["7"].samples == ()
    assert by_id["8"].samples == (MachineText("dog dog", (), "s"),) and by_id["8"].human == ("a dog 8", "the dog 8")
    assert [(each.name, each.examples) for each in result.data] == [
        ("coco", 400),
        ("machine.jsonl", 2),
        ("samples.jsonl", 1),
    ]


def test_a_share_of_the_photos_is_drawn_by_seed() -> None:
    first, again, other = (read_images([corpus()], most=30, seed=seed) for seed in (0, 0, 1))
    ids = [[image.id for image in (*each.learned, *each.held_out)] for each in (first, again, other)]
    assert len(ids[0]) == 30 and ids[0] == ids[1] != ids[2]
    assert len(read_images([corpus(20)], most=30).learned) + len(read_images([corpus(20)], most=30).held_out) == 20


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("no json", "neither JSON nor a table"),
        ({"photo": "7"}, "line 1: expected a machine caption such as"),
        ({"photo": "7", "candidate": "a dog", "read": ["0"]}, "line 1: expected a machine caption such as"),
        ({"candidate": "a dog"}, "line 1: image_id is missing"),
        ([1], "expected a caption"),
        ({"photo": "999", "candidate": "a dog"}, "none of its captions is of a photo that is trained on"),
    ],
)
def test_rows_that_are_no_machine_captions_are_named(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_images([corpus()], [rows(tmp_path / "m.jsonl", row)])
