"""Documents with their rows under a key: the ids in the rows count, or the document is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import capmeter
from capmeter.captions.validation import examine
from capmeter.core.errors import InputError

ROWS = [{"image_id": "v1", "caption": "a man talks"}, {"image_id": "v2", "caption": "a dog runs"}]
REFERENCES = {"v1": ["a man is talking"], "v2": ["the dog runs"]}


def candidates(source: Any, **options: Any) -> dict[str, str]:
    return {each.image_id: each.candidate for each in capmeter.load(source, REFERENCES, **options)}


EXPECTED = {"v1": "a man talks", "v2": "a dog runs"}


@pytest.mark.parametrize(
    "document",
    [
        {"predictions": ROWS},
        {"model": "ours", "outputs": ROWS, "scores": [0.5, 0.7], "errors": []},
        {"anything": ROWS},
        {"results": {"predictions": ROWS}},
        {"results": EXPECTED, "version": "1.0"},
        {"test": {"predictions": ROWS}},
        {"overall": {"CIDEr": 0.9}, "imgToEval": {row["image_id"]: row | {"CIDEr": 0.5} for row in ROWS}},
        {"indoor": ROWS[:1], "outdoor": ROWS[1:]},
        {str(k): row for k, row in enumerate(ROWS)},
        {"predictions": {"v1": ["a man talks"], "v2": [{"caption": "a dog runs"}]}},
        {"images": [{"image_id": row["image_id"], "candidate": row["caption"]} for row in ROWS]},
        {row["image_id"]: {"caption": row["caption"], "score": 0.5} for row in ROWS},
        {"model": "ours", "temperature": 0.2, **{row["image_id"]: [row | {"id": 3}] for row in ROWS}},
        [row | {"caption": [row["caption"]]} for row in ROWS],
    ],
)
def test_inner_ids_are_those_of_the_images(document: Any) -> None:
    assert candidates(document) == EXPECTED


IMAGES = {f"{place}.jpg": f"a quiet {place}" for place in ("harbour", "market", "forest")}
CALLED = ("version", "model", "id", "images", "info", "candidate", "references", "caption", "captions", "sentences")


@pytest.mark.parametrize(
    "name", [*CALLED, "output", "response", "text", "test", "columns", "timestamps", "annotations"]
)
def test_an_image_that_is_called_like_a_field_or_a_setting_is_one(name: str) -> None:
    texts, keep = {**IMAGES, name: "a red kite over a hill"}, {"on_missing": "keep"}
    assert candidates(texts, **keep) == texts
    lists = {image_id: (text, "a hill") for image_id, text in texts.items()}
    assert capmeter.load_references({image_id: list(each) for image_id, each in lists.items()}) == lists
    if name == "captions":
        with pytest.raises(InputError, match="image_id is missing"):
            candidates({key: ["a table of columns"] * 9 for key in texts})
    if name in ("version", "model"):
        for settings in ({name: "ours 1.0 of May"}, {"prompt": texts[name]}):
            assert candidates(IMAGES | settings, **keep) == IMAGES


def test_chosen_columns_are_read_inside_a_key() -> None:
    rows = [{"video": row["image_id"], "text": row["caption"]} for row in ROWS]
    assert candidates({"predictions": rows}, columns={"video": "image_id", "text": "candidate"}) == EXPECTED


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"ours": ROWS, "theirs": ROWS}, "rows of captions under several keys (ours, theirs)"),
        ({"v1": [{"image_id": "v2", "caption": "a"}], "v2": [{"image_id": "v2", "caption": "b"}]}, "rows of captions"),
        ({"v1": [{"image_id": "v1", "caption": "a"}, ROWS[1]], "v2": []}, 'image_id is "v2" under the key "v1"'),
        ({"v1": {"image_id": "v2", "caption": "a"}, "v2": {"caption": "a"}}, 'image_id is "v2" under the key "v1"'),
        ({"predictions": [{"text": "a"}, {"text": "b"}]}, "the fields are text"),
        ({"results": [{"caption": "a"}, {"caption": "b"}]}, "image_id is missing"),
        ([ROWS, ROWS], "[0]: a list of objects where one row was expected; join the lists"),
        ({"results": {"predictions": ROWS}, "data": {"captions": ROWS}}, "under several keys (results, data)"),
        ({"7": {"scores": [{"CIDEr": 1}]}, "9": {"scores": [{"CIDEr": 2}]}}, "which are objects or lists of them"),
    ],
)
def test_what_cannot_be_meant_is_refused(document: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        candidates(document)
    assert message in str(caught.value)


def test_lists_by_split_are_references_of_these_splits() -> None:
    document = {
        "train": [{"id": "c1", "report": "the heart is normal", "image_path": ["a.png"]}],
        "val": [],
        "test": [{"id": "c2", "report": "no effusion", "image_path": ["b.png"]}],
    }
    assert capmeter.load_references(document) == {"c1": ("the heart is normal",), "c2": ("no effusion",)}
    assert capmeter.load_references(document, split="test") == {"c2": ("no effusion",)}
    renamed = {
        split: [{"name": row["id"], "report": row["report"]} for row in rows] for split, rows in document.items()
    }
    columns = {"name": "image_id", "report": "references"}
    assert capmeter.load_references(renamed, split="test", columns=columns) == {"c2": ("no effusion",)}


def test_fields_and_keys_that_are_not_read_are_listed() -> None:
    document = {"predictions": [row | {"logprob": -1.5} for row in ROWS]}
    for each in (document | {"config": {"beam": 5}}, {"results": document, "config": {"beam": 5}}):
        assert examine(each, REFERENCES).facts["fields not used"] == ["config", "logprob"]
    by_image = {row["image_id"]: [{"caption": row["caption"], "logprob": -1.5}] for row in ROWS}
    assert examine(by_image, REFERENCES).facts["fields not used"] == ["logprob"]


@pytest.mark.parametrize("order", [("train", "test"), ("test", "train")])
def test_ids_that_every_split_counts_anew_are_not_joined(order: tuple[str, str]) -> None:
    """Two images of one id in two splits do not share references, and either split can be chosen."""
    document = {
        split: [{"id": k, "report": f"{split} {k}", "image_path": ["a.png"]} for k in range(2)] for split in order
    }
    with pytest.raises(InputError, match=f"image '0' is of the split '{order[1]}' here and of '{order[0]}' before"):
        capmeter.load_references(document)
    for split in order:
        assert capmeter.load_references(document, split=split) == {"0": (f"{split} 0",), "1": (f"{split} 1",)}
    with pytest.raises(InputError, match="no image belongs to the split 'val'; the splits are test, train"):
        capmeter.load_references(document, split="val")


def test_columns_without_images_but_a_row_of_equal_lists_and_captions_by_id_are_no_columns() -> None:
    captions = capmeter.load({"captions": ["a dog runs", "a cat sits"], "references": [["a dog"], ["a cat"]]})
    assert [(each.image_id, each.references) for each in captions] == [("0", ("a dog",)), ("1", ("a cat",))]
    assert capmeter.load_references({"image": "a.jpg", "caption": ["a dog", "a cat"]}) == {"a.jpg": ("a dog", "a cat")}
    events = {"v": {"timestamps": [[0, 1], [2, 3]], "sentences": ["a dog", "a cat"]}}
    assert [each.candidate for each in capmeter.load(events, events)] == ["a dog a cat"]
    with pytest.raises(InputError, match="image_urls"):
        capmeter.load({"image_urls": ["u", "v"], "captions": ["a dog", "a cat"]}, {"u": ["a dog"], "v": ["a cat"]})


def test_lines_that_begin_with_the_name_of_a_clip(tmp_path: Path) -> None:
    lines = [
        "# ids, then captions",
        "mv89psg6zh4_33_46 a bird sings",
        "mv89psg6zh4_33_46 a bird is in a sink",
        "_0nX-El-ySo_83_93 a man runs",
    ]
    (tmp_path / "msvd.txt").write_text("\n".join(lines))
    expected = {"mv89psg6zh4_33_46": ("a bird sings", "a bird is in a sink"), "_0nX-El-ySo_83_93": ("a man runs",)}
    assert capmeter.load_references(tmp_path / "msvd.txt") == expected
    (tmp_path / "plain.txt").write_text("2 dogs run\na4 paper lies here\nthree cats sit")
    assert capmeter.load_references(tmp_path / "plain.txt")["1"] == ("a4 paper lies here",)


def test_captions_by_image_under_splits_or_classes_are_read() -> None:
    assert candidates({"val": EXPECTED, "test": {"v3": "a cat"}, "train": {}}, on_missing="skip") == EXPECTED
    keyed = {"v1": ["a"]}, {"v2": ["b"], "v3": ["c"]}
    assert list(capmeter.load_references(dict(zip(("beach", "park"), keyed, strict=True)))) == ["v1", "v2", "v3"]
    assert list(capmeter.load_references(dict(zip(("val", "test"), keyed, strict=True)), split="test")) == ["v2", "v3"]
    with pytest.raises(InputError, match="systems"):
        candidates({"one": EXPECTED, "two": EXPECTED})
    for names in (("candidates", "references"), ("preds", "gts")):
        both = capmeter.load({"results": dict(zip(names, (EXPECTED, REFERENCES), strict=True)), "seed": 3})
        assert {each.id: each.references for each in both} == {"v1": ("a man is talking",), "v2": ("the dog runs",)}


def test_the_image_that_a_change_begins_with_is_no_caption() -> None:
    rows = [{"candidate": "B2", "target": "B1", "captions": ["is longer", "has a belt"]}]
    assert capmeter.load_references(rows) == {"B1": ("is longer", "has a belt")}
    with pytest.raises(InputError, match="hold references"):
        capmeter.load(rows)
