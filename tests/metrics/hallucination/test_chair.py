"""CHAIR: a computed example, the official programs' values, properties, and bad input."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import capmeter

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning, RunContext
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.hallucination.chair import Chair
from capmeter.metrics.hallucination.object_words import BUNDLED, load_object_words, singular_form
from capmeter.text.tokenization.treebank import tokenise_caption

CAPTIONS = [
    Caption("1", "42", "A man and two men hold a frisbee. There is a hot dog.", ("a person with a dog",)),
    Caption("2", "7.jpg", "A baby giraffe beside a toilet, whose seat is open", ()),
    Caption("3", "COCO_val2014_000000000009.jpg", "Nothing at all", ()),
]
OBJECTS = {"42": ["person"], "7": ["giraffe", "cat"], "9": []}


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(OBJECTS))
    return path


def test_computed_example(objects: Path) -> None:
    """By hand: of 6 mentions (man, man, frisbee, hot dog; giraffe, toilet), 3 are not shown."""
    results = evaluate(CaptionSet.from_captions(CAPTIONS), [Chair(objects=str(objects))])
    (scores,) = results.values()
    assert scores.values is not None
    assert scores.values.tolist() == [[1, 4, 2, 1, 2, 13], [1, 2, 1, 1, 2, 10], [0, 0, 0, 0, 0, 3]]
    assert scores.parts == pytest.approx(
        {"chair-i": 3 / 6, "chair-s": 2 / 3, "recall": 2 / 4, "f1": 0.5, "length": 26 / 3}
    )
    assert scores.score == 3 / 6
    assert scores.items.array.tolist() == [0.5, 0.5, 0]  # no mention: nothing is hallucinated
    assert list(scores.notes) == ["no references: compared with the objects of the file alone"]
    by_caption = evaluate(CaptionSet.from_captions(CAPTIONS), [Chair(objects=str(objects), level="caption")])
    assert [each.score for each in by_caption.values()] == pytest.approx([2 / 3])
    assert "objects:objects.json/" in scores.signature and "synonyms:bundled/" in scores.signature


def test_length_is_in_words_whatever_marks_stand_around_them(objects: Path) -> None:
    text = "# A room\n\n- **Dog:** it cannot run, can't it?\n- a half"
    part = CaptionSet.from_captions([Caption("1", "42", text, ())])
    for drop, words in ((False, 10), (True, 8)):
        metric = Chair(objects=str(objects), references=False, drop_incomplete_sentence=drop)
        assert metric.measure(part, RunContext()).values[0, -1] == words


def test_objects_of_references_of_coco_and_of_both(tmp_path: Path) -> None:
    instances = {
        "images": [{"id": 42, "file_name": "COCO_val2014_000000000042.jpg"}, {"id": 43}],
        "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "frisbee"}],
        "annotations": [{"image_id": 42, "category_id": 2}, {"image_id": 42, "category_id": 2}],
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(instances))
    captions = CaptionSet.from_captions([Caption("a", "42", "a man throws a frisbee to a dog", ("a person",))])
    expected = {"chair": 2 / 3, f'chair(objects="{path}",references=false)': 2 / 3, f'chair(objects="{path}")': 1 / 3}
    for name, score in expected.items():
        assert evaluate(captions, [parse(name)])[name].score == pytest.approx(score), name
    by_name = captions.replace(image_ids=("COCO_val2014_000000000042.jpg",))
    assert evaluate(by_name, [Chair(objects=str(path))])[Chair(objects=str(path))].score == pytest.approx(1 / 3)


def test_an_incomplete_sentence_can_be_dropped(objects: Path) -> None:
    captions = CaptionSet.from_captions([Caption("1", "42", "A man. A dog", ()), Caption("2", "42", "A dog", ())])
    dropped, remaining = (
        Chair(objects=str(objects), references=False, drop_incomplete_sentence=drop).measure(captions, RunContext())
        for drop in (True, False)
    )
    assert dropped.values[:, 1].tolist() == [1, 1]  # a caption without a full stop stays whole
    assert remaining.values[:, 1].tolist() == [2, 1]


def test_double_words_and_toilets() -> None:
    words = load_object_words(BUNDLED)

    def mentions(caption: str) -> list[tuple[str, int, int]]:
        singular = list(map(singular_form, tokenise_caption(caption)))
        return [(each.node, each.start, each.end) for each in words.find_mentions(singular)]

    assert mentions("hot dogs and a passenger train") == [("hot dog", 0, 2), ("train", 4, 6)]
    assert mentions("the seat of a toilet") == [("toilet", 4, 5)]
    assert mentions("a toilet seat") == [("toilet", 1, 3)]
    assert mentions("a seat") == [("chair", 1, 2)]
    assert mentions("two wine glasses") == [("wine glass", 1, 3)]


def test_what_the_original_never_counts() -> None:
    """pattern.en takes the s off "bus" and makes "ties" of "ty"; WordNet does not."""
    captions = CaptionSet.from_captions([Caption("1", "1", "a bus and ties", ("two buses",))])
    assert Chair().measure(captions, RunContext()).values[0, 1] == 0


@pytest.mark.meteor
def test_variants_differ_in_base_forms() -> None:
    captions = CaptionSet.from_captions([Caption("1", "1", "a man seated on a bus with ties", ("a person",))])
    assert Chair(variant="opera").measure(captions, RunContext()).values[0].tolist() == [1, 4, 3, 1, 1, 8]


def test_explains(objects: Path) -> None:
    captions = CaptionSet.from_captions(CAPTIONS[:1])
    (evidence,) = Chair(objects=str(objects)).explain(captions, RunContext())
    marked = {
        (" ".join(evidence.candidate[each.start : each.end]), each.kind)
        for each in evidence.marks
        if each.side == "candidate"
    }
    assert marked == {("man", "object"), ("men", "object"), ("frisbee", "hallucinated"), ("hot dog", "hallucinated")}
    assert evidence.facts == {"hallucinated": "frisbee, hot dog", "mentions": 4, "objects": "dog, person"}


@given(st.lists(st.sampled_from(["a man", "two dogs", "hot dog", "a bus", "nothing", "toilet seat"]), max_size=5))
def test_parts_add_up(phrases: list[str]) -> None:
    captions = CaptionSet.from_captions(
        [Caption(str(k), str(k), phrase, ("a dog",)) for k, phrase in enumerate([*phrases, "a dog"])]
    )
    metric = Chair()
    rows = metric.measure(captions, RunContext()).values
    parts = [metric.measure(captions.select([k]), RunContext()).values for k in range(len(captions))]
    assert np.array_equal(rows, np.concatenate(parts))
    scores = metric.from_sums(rows.sum(axis=0), np.float64(len(rows)))
    assert all(0 <= float(scores[name]) <= 1 for name in ("score", "chair-i", "chair-s", "recall", "f1"))


OBJECT_FILES = {
    "numbers": {
        "images": [{"id": 1}, {"id": 2}],
        "categories": [{"id": 1.0, "name": "dog"}, {"id": 2, "name": "cat"}],
        "annotations": [{"image_id": 1.0, "category_id": 1}, {"image_id": 2, "category_id": 2.0}],
    },
    "texts": {
        "images": [{"id": "1"}, {"id": "2", "file_name": None}],
        "categories": [{"id": "1", "name": "dog"}, {"id": 2, "name": "cat"}],
        "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": "2 ", "category_id": "2"}],
    },
    "capitals and blanks": {"1": ["Dog"], "2": [], "2 ": ["CAT"], " 2": []},
    "one row": {"image_id": 1, "labels": ["dog"]},
    "one row by a file's name": {"file_name": "1", "objects": ["cat"]},
    "one row by a number": {"id": 1.0, "classes": ["dog"]},
    "rows": [{"image_id": 1, "labels": ["Dog"]}, {"image_id": "2", "labels": []}, {"image_id": "2", "labels": ["cat"]}],
    "Visual Genome": [{"image_id": 1, "objects": [{"names": ["dog"]}]}, {"id": 2, "objects": [{"names": ["cats"]}]}],
    "objects": [{"id": 1, "objects": ["dog"]}, {"id": 2.0, "objects": ["cat"]}],
    "panoptic, one image": {
        "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
        "categories": [{"id": 1, "name": "dog", "isthing": None}, {"id": 2, "name": "cat", "isthing": 0}],
        "annotations": [{"image_id": k, "segments_info": [{"category_id": k}, {"category_id": 2}]} for k in (1, 2)],
    },
    "LVIS and Objects365": {
        "images": [{"id": k, "coco_url": f"http://images.cocodataset.org/val2017/{k}.jpg"} for k in (1, 2)],
        "categories": [
            {"id": 1, "name": "canine_(animal)", "synonyms": ["canine_(animal)", "dog_(animal)"]},
            {"id": 2, "name": "Kitty/Cat"},
        ],
        "annotations": [{"image_id": k, "category_id": k} for k in (1, 2)],
    },
}


@pytest.mark.parametrize("name", OBJECT_FILES)
def test_objects_of_images_in_every_form(name: str, tmp_path: Path) -> None:
    (tmp_path / "objects.json").write_text(json.dumps(OBJECT_FILES[name]))
    captions = load(dict.fromkeys("1" if "one" in name else "12", "a dog and a cat"), on_missing="keep")
    results = evaluate(captions, parse_list(f"chair(objects={tmp_path / 'objects.json'})"))
    assert [scores.score for scores in results.values()] == [0.5]


def test_objects_that_are_not_in_the_list_are_counted_by_name(tmp_path: Path) -> None:
    (tmp_path / "objects.json").write_text(json.dumps({"1": ["Mountain", "dog"], "2": ["French fries"]}))
    captions = load({"1": "a dog on two mountains", "2": "french fries by a mountain"}, on_missing="keep")
    with pytest.warns(UserWarning, match="counted by name alone: Mountain, French fries"):
        results = evaluate(captions, parse_list(f"chair(objects={tmp_path / 'objects.json'})"))
    assert [scores.score for scores in results.values()] == [0.25]  # of four mentions one is not shown


BAD = {
    "pickle": (b"\x80\x04K\x01.", "is a Python pickle"),
    "neither": (b"[1, 2]", r"objects.json\[0\]: the number 1, expected"),
    "text": (b'{"42": "person"}', 'the value is the text "person", expected a list'),
    "a long name": (json.dumps({"42": ["dog " * 20_000]}).encode(), "has 80,000 letters"),
    "two categories": (
        b'{"categories": [{"id": 1, "name": "a"}, {"id": 1.0, "name": "b"}], "annotations": []}',
        "a second category has the id 1",
    ),
    "a number among names": (b'{"42": ["dog", 18]}', r"the value\[1\] is the number 18"),
    "a table": (b"image_id,labels\n42,dog\n", "expected COCO's instances"),
    "Parquet": (b"PAR1\x80", "is not UTF-8 .*expected COCO's instances"),
    "captions": (b'{"images": [], "annotations": [{"image_id": 42, "caption": "a"}]}', "categories is missing"),
    "an empty name": (b'{"categories": [{"id": 1, "name": " "}], "annotations": []}', r"categories\[0\]: name is"),
    "no category": (
        b'{"categories": [{"id": 1, "name": "dog"}], "annotations": [{"image_id": 42, "category_id": null}]}',
        r"annotations\[0\]: category_id is missing",
    ),
    "no name": (
        b'{"images": [{"id": 4, "file_name": [3]}], "categories": [], "annotations": []}',
        "name is a list of 1",
    ),
    "two images": (
        b'{"images": [{"id": 4, "file_name": "a"}, {"id": 4, "file_name": "b"}], "categories": [], "annotations": []}',
        r"images\[1\]: a second image has the id 4",
    ),
    "synonyms": (
        b'{"categories": [{"id": 1, "name": "car", "synonyms": "auto"}], "annotations": []}',
        r"categories\[0\]: synonyms is the text",
    ),
    "without annotations": (b'{"images": [{"id": 4}], "categories": []}', "annotations is missing"),
    "two lists": (b'[{"image_id": 42, "objects": [], "labels": ["dog"]}]', r"\[0\]: objects and labels differ"),
    "missing image": (b'{"41": ["person"]}', "it has no objects of 1 of the images, 42"),
    "images named otherwise": (
        json.dumps(OBJECT_FILES["numbers"] | {"images": [{"id": 3}]}).encode(),  # type: ignore[operator]
        "that it does not list: 1, 2; those that it lists have none",
    ),
    "category": (
        b'{"categories": [], "annotations": [{"image_id": 42, "category_id": 3}]}',
        'category_id "3" is not among the categories; their ids are none',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_objects_get_a_sentence(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    path = tmp_path / "objects.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        evaluate(CaptionSet.from_captions(CAPTIONS[:1]), [Chair(objects=str(path))])


def test_without_any_objects() -> None:
    with pytest.raises(InputError, match="nothing says which objects images show"):
        evaluate(CaptionSet.from_captions(CAPTIONS), [Chair(references=False)])
    with pytest.raises(InputError, match="No such file"):
        evaluate(CaptionSet.from_captions(CAPTIONS[:1]), [Chair(objects="/nowhere.json")])
    with pytest.raises(InputError, match=r"objects='no.*where.json'.*expected COCO's instances"):
        evaluate(CaptionSet.from_captions(CAPTIONS[:1]), [Chair(objects="no\0where.json")])
    with pytest.raises(InputError, match=r"synonyms='no.*where.txt'.*expected `bundled`"):
        evaluate(CaptionSet.from_captions(CAPTIONS[:1]), [Chair(synonyms="no\0where.txt")])


BAD_WORDS = {
    "dog, puppy\ncat, puppy\n": "'puppy' is a word of both 'dog' and 'cat'",
    '{"dog": ["puppy", 3]}': "expected a word that is not blank",
    '{"dog": 3}': "node 'dog' has 3; expected a list of its words",
    '{"person": "man"}': "node 'person' has 'man'; expected a list of its words",
    '{"nodes": [["person", "man"]]}': "node 'person' has 'man'",
    '{"nodes": [3]}': "not a list of object words",
    '["person", "dog"]': "not a list of object words",
    '{"7": ["a dog runs on grass", "the dog runs"]}': "not a list of object words",
    '{"nodes": [["dog", []]], "double_words": {"hot dog": 3}}': "not a list of object words",
    "\n": "there are no words in it",
    **dict.fromkeys(
        ("image_id,caption\n1,a dog\n", "person,man\ndog,puppy\n", "person\tman\n"), "a comma and a blank between"
    ),
}


@pytest.mark.parametrize("text", BAD_WORDS)
def test_bad_word_lists_get_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "words.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=BAD_WORDS[text]):
        load_object_words(str(path))


def test_blanks_and_repetitions_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("dog, puppy, puppy,  hound\nhot dog, hot dog bun\n")
    with pytest.warns(CapmeterWarning) as warned:
        words = load_object_words(str(path))
    messages = [str(each.message) for each in warned]
    assert any("hound begins or ends with a blank" in each for each in messages)
    assert any("puppy is repeated" in each for each in messages)
    assert any("hot dog bun has more than two parts and is never found" in each for each in messages)
    assert words.nodes["puppy"] == "dog" and words.double_words["hot dog"] == "hot dog"
    path.write_text("This is a page.\n\nIt says, briefly, what words are.\n")
    with pytest.warns(CapmeterWarning, match="name none of COCO's 80 objects"):
        load_object_words(str(path))


def test_command(tmp_path: Path, objects: Path) -> None:
    path = tmp_path / "results.jsonl"
    rows = [{"id": each.id, "image_id": each.image_id, "caption": each.candidate} for each in CAPTIONS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = capmeter("chair", path, "--instances", objects, "--worst", 1)
    assert run.returncode == 0, run.stderr
    assert "CHAIRs" in run.stdout and "66.7 [" in run.stdout
    assert 'worst: 1: frisbee, hot dog, in "A man and two men' in run.stdout
    assert "3 captions of 3 images\n" in run.stdout and "each" not in run.stdout
    assert "cite: CHAIRs 66.7 [" in run.stdout and "chair|variant:original" in run.stdout
    scored = json.loads(capmeter("chair", path, "--instances", objects, "--format", "json").stdout)
    assert scored["systems"]["results"]["chair-s"]["score"] == pytest.approx(2 / 3)
    for metric in ("chair", "chair(references=false)"):
        by_score = capmeter("score", path, "--instances", objects, "-m", metric, "--format", "json")
        assert by_score.returncode == 0, by_score.stderr
        explained = capmeter("explain", path, "--instances", objects, "-m", metric, "--worst", 1)
        assert explained.returncode == 0 and "frisbee, hot dog" in explained.stdout, explained.stderr
    without = capmeter("chair", path)
    assert without.returncode == 1 and "of 3 captions show: 1, 2, 3. Name COCO's instances" in without.stderr
    assert "(--instances)" in without.stderr
    refused = capmeter("score", path, "--instances", objects, "-m", "bleu-4")
    assert refused.returncode == 2 and "no metric compares with objects" in refused.stderr


@pytest.fixture
def logs(shared: Path) -> dict[str, list[dict[str, Any]]]:
    path = shared / "data" / "opera_captions.jsonl.gz"
    if not path.exists():
        pytest.skip("needs opera_captions")
    by_log: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            by_log.setdefault(f"{row['model']}/{row['decoding']}", []).append(row)
    return by_log


@pytest.mark.meteor
@pytest.mark.parametrize("variant", ["original", "opera"])
def test_official_values(shared: Path, logs: dict[str, list[dict[str, Any]]], variant: str) -> None:
    """CHAIRs, CHAIRi, recall and every mention of 3,000 long captions equal the program's."""
    expected = json.loads((shared / "oracles" / "chair_opera.json").read_text())["logs"]
    with gzip.open(shared / "oracles" / "chair_mentions.jsonl.gz", "rt") as file:
        mentions = {row["id"]: row[variant] for row in map(json.loads, file)}
    data = shared / "data"
    metric = Chair(
        variant=variant,
        objects=str(data / "chair_objects.json.gz"),
        references=False,
        synonyms=str(data / "chair_words.json"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapmeterWarning)  # the released list has words that begin with a blank
        for log, rows in logs.items():
            captions = CaptionSet.from_captions([Caption(r["id"], str(r["photo"]), r["caption"], ()) for r in rows])
            parts = evaluate(captions, [metric])[metric].parts
            actual = {"CHAIRs": parts["chair-s"], "CHAIRi": parts["chair-i"], "recall": parts["recall"]}
            assert actual == pytest.approx({name: expected[log][variant][name] for name in actual}, abs=1e-8), log
            for row, evidence in zip(rows, metric.explain(captions, RunContext()), strict=True):
                flags = [each.kind == "hallucinated" for each in evidence.marks]
                assert flags == [wrong for _, _, wrong, _ in mentions[row["id"]]], row["id"]
