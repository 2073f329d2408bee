"""Every format in, one set out; ids, systems, splits, and how references find their captions."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from pyarrow import Table, parquet

import capmeter.meta
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load, load_systems
from capmeter.captions.load_options import LoadKeywords, LoadOptions, ReferenceKeywords
from capmeter.captions.reading import open_rows
from capmeter.core.errors import InputError
from capmeter.evaluation.runner import score

RESULTS = [{"image_id": 7, "caption": "a dog runs"}, {"image_id": 30, "caption": "two cats"}]
ANNOTATIONS = {
    "images": [{"id": 7, "file_name": "COCO_val2014_000000000007.jpg"}, {"id": 30, "file_name": "b.jpg"}],
    "annotations": [
        {"id": 1, "image_id": 30, "caption": "two cats sleep"},
        {"id": 2, "image_id": 7, "caption": "a dog is running"},
        {"id": 3, "image_id": 30, "caption": "cats"},
    ],
}
KARPATHY = {
    "dataset": "coco",
    "images": [
        {
            "cocoid": 7,
            "filename": "COCO_val2014_000000000007.jpg",
            "split": "test",
            "sentences": [{"raw": "a dog is running"}],
        },
        {"cocoid": 30, "filename": "b.jpg", "split": "test", "sentences": [{"raw": "two cats sleep"}, {"raw": "cats"}]},
        {"cocoid": 31, "filename": "c.jpg", "split": "train", "sentences": [{"raw": "a bus"}]},
    ],
}
ROWS = [
    {"image_id": "7", "candidate": "a dog runs", "references": ["a dog is running"]},
    {"image_id": "30", "candidate": "two cats", "references": ["two cats sleep", "cats"]},
]
CANDIDATES: dict[str, Any] = {
    "coco": RESULTS,
    "pycocoevalcap": {"7": ["a dog runs"], "30": ["two cats"]},
    "clipscore": {"7": "a dog runs", "30": "two cats"},
    "objects": {"7": [{"caption": "a dog runs"}], "30": [{"caption": "two cats"}]},
    "json": ROWS,
}
REFERENCES: dict[str, Any] = {
    "coco": ANNOTATIONS,
    "coco without images": {"annotations": ANNOTATIONS["annotations"]},
    "coco list": ANNOTATIONS["annotations"],
    "pycocoevalcap": {"7": ["a dog is running"], "30": ["two cats sleep", "cats"]},
    "objects": {"7": [{"caption": "a dog is running"}], "30": [{"caption": "two cats sleep"}, {"caption": "cats"}]},
    "karpathy": KARPATHY,
    "json": [{"image_id": row["image_id"], "references": row["references"]} for row in ROWS],
}


def write(path: Path, content: Any) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def as_expected(captions: CaptionSet) -> None:
    assert [(c.id, c.image_id, c.candidate, c.references) for c in captions] == [
        ("7", "7", "a dog runs", ("a dog is running",)),
        ("30", "30", "two cats", ("two cats sleep", "cats")),
    ]


@pytest.mark.parametrize("ending", ["json", "json.gz"])
@pytest.mark.parametrize("references", REFERENCES)
@pytest.mark.parametrize("candidates", CANDIDATES)
def test_any_two_formats_go_together(tmp_path: Path, candidates: str, references: str, ending: str) -> None:
    first = write(tmp_path / f"a.{ending}", CANDIDATES[candidates])
    second = write(tmp_path / f"b.{ending}", REFERENCES[references])
    as_expected(load(first, second))
    as_expected(load(CANDIDATES[candidates], REFERENCES[references]))


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_is_recognised_however_it_is_laid_out(tmp_path: Path, indent: int | None) -> None:
    expected = {**{name: name for name in CANDIDATES}, "objects": "pycocoevalcap"}
    for name, content in CANDIDATES.items():
        path = write(tmp_path / "x", b"\xef\xbb\xbf\n \n" + json.dumps(content, indent=indent).encode() + b"\n")
        assert open_rows(path).format == expected[name]


def test_rows_in_lines_and_tables(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(row) for row in ROWS)
    texts = {
        "jsonl": lines + "\n",
        "csv": 'image_id,candidate,references\n7,a dog runs,"[""a dog is running""]"\n30,two cats,"[""two cats sleep"", ""cats""]"\n',
        "tsv": "candidate\timage_id\treference_1\treference_2\na dog runs\t7\ta dog is running\t\ntwo cats\t30\ttwo cats sleep\tcats",
    }
    for name, text in texts.items():
        for path in (write(tmp_path / "x", text.encode()), write(tmp_path / "x.gz", text.encode())):
            assert open_rows(path).format == name
            as_expected(load(path))
    assert open_rows(write(tmp_path / "one", lines.split("\n")[0].encode())).format == "jsonl"
    assert len(load(write(tmp_path / "systems", json.dumps(SYSTEMS[0]).encode()))) == 2
    one_row = write(tmp_path / "named", b'{"photo": "1", "output": "a dog runs"}')
    assert open_rows(one_row, columns={"output": "candidate"}).format == "jsonl"


@pytest.mark.parametrize("zipped", [False, True])
def test_parquet_from_another_writer(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "x.parquet"
    table = Table.from_pylist([{**row, "image_id": int(str(row["image_id"])), "other": 1} for row in ROWS])
    parquet.write_table(table, path)
    if zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    as_expected(load(path))


def test_lists_have_positions_as_ids() -> None:
    captions = load(["a dog", "two cats"], [["one", "two"], ["three"]])
    assert captions.ids == ("0", "1")
    assert captions["1"].references == ("three",)


def test_a_named_format_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"annotations": ["a"], "other": ["b"]})
    assert load(path, on_missing="keep", format="pycocoevalcap").image_ids == ("annotations", "other")
    with pytest.raises(InputError, match="is not in the format csv"):
        load(path, format="csv")
    with pytest.raises(InputError, match="the formats are jsonl"):
        load(path, format="xml")


def test_ids(tmp_path: Path) -> None:
    rows = [
        {"image_id": 1, "candidate": "a", "references": ["x"]},
        {"image_id": 2, "candidate": "b", "references": ["x"]},
        {"image_id": 1, "candidate": "c", "references": ["x"], "id": "mine"},
        {"image_id": 1, "candidate": "d", "references": ["x"], "id": 5},
        {"image_id": 1, "candidate": "e", "references": ["x"]},
    ]
    assert load(rows).ids == ("1#0", "2", "mine", "5", "1#3")


def test_several_candidates_of_an_image_share_its_references() -> None:
    captions = load({"7": ["a", "b"], "8": ["c"]}, {"7": ["x", "y"], "8": ["z"]})
    assert [(c.id, c.references) for c in captions] == [("7#0", ("x", "y")), ("7#1", ("x", "y")), ("8", ("z",))]


def test_the_rows_extra_fields() -> None:
    row = {"image_id": "1", "candidate": "a", "references": ["b"], "image": "1.jpg", "system": "s", "human": [1, 2.5]}
    caption = load([row])["1"]
    assert (caption.image, caption.system, caption.human) == ("1.jpg", "s", (1.0, 2.5))
    for rating in (3, np.int64(3), np.float32(3)):
        assert load([{**row, "human": rating}])["1"].human == (3.0,)


SYSTEMS = [
    {"image_id": "7", "references": ["a dog is running"], "captions": {"one": "a dog", "two": "a cat"}},
    {"image_id": "30", "references": ["two cats sleep", "cats"], "captions": {"one": "cats", "two": "two dogs"}},
]


def test_systems_in_one_row() -> None:
    systems = load_systems(SYSTEMS)
    assert {name: [(c.id, c.candidate) for c in part] for name, part in systems.items()} == {
        "one": [("7", "a dog"), ("30", "cats")],
        "two": [("7", "a cat"), ("30", "two dogs")],
    }
    assert systems["two"]["30"].references == ("two cats sleep", "cats")
    assert load(SYSTEMS).ids == ("7#0", "7#1", "30#0", "30#1")
    assert load(SYSTEMS, system="two").ids == ("7", "30")
    assert load_systems(
        [*SYSTEMS, {"image_id": "7", "candidate": "a dog", "system": "one"}], {"7": ["x"]}, on_missing="skip"
    )["one"].notes == {"skipped_without_references": ["30"], "repeated_candidates": ["7#1"]}
    with pytest.raises(InputError, match="there are no candidates of system 'three'; it has system one, system two"):
        load(SYSTEMS, system="three")


def test_systems_in_rows_of_their_own(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "system": "one"}, {**ROWS[0], "system": "two"}, {**ROWS[1], "system": "one"}, ROWS[1]]
    path = write(tmp_path / "mine.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert {name: part.ids for name, part in load_systems(path).items()} == {
        "one": ("7", "30"),
        "two": ("7",),
        "mine": ("30",),
    }
    assert list(load_systems(write(tmp_path / "plain.json.gz", ROWS))) == ["plain"]
    assert list(load_systems(CANDIDATES["coco"], ANNOTATIONS)) == ["candidates"]


def test_splits() -> None:
    results = [*RESULTS, {"image_id": 31, "caption": "a car"}]
    assert load(results, KARPATHY, on_missing="skip", split="test").ids == ("7", "30")
    assert load(results, KARPATHY).ids == ("7", "30", "31")
    assert load(RESULTS[:1], KARPATHY).notes == {"references_without_candidate": ["30"]}, "train is no one's concern"
    with pytest.raises(InputError, match="no image belongs to the split 'dev'; the splits are test, train"):
        load(results, KARPATHY, split="dev")
    rows = [{**ROWS[0], "split": "a"}, {**ROWS[1], "split": "b"}]
    assert load(rows, split="b").ids == ("30",)


@pytest.mark.parametrize(
    ("candidate", "reference", "way"),
    [
        ("COCO_val2014_000000000007.jpg", 7, "file name"),
        ("images/COCO_val2014_000000000007.jpg", 7, "file name"),
        ("COCO_val2014_000000000007", 7, "file name without its ending"),
        ("000000000007.jpg", 7, "COCO number in the file name"),
        ("COCO_train2014_000000000007.jpg", 7, "COCO number in the file name"),
    ],
)
def test_images_are_found_by_other_names(candidate: str, reference: int, way: str) -> None:
    captions = load({candidate: "a dog"}, ANNOTATIONS)
    assert captions[candidate].references == ("a dog is running",)
    assert captions.notes["matched_by"] == [way]
    assert captions[candidate].image == "COCO_val2014_000000000007.jpg"


def test_a_name_of_two_images_finds_neither() -> None:
    table = {"a/7.jpg": ["x"], "b/7.jpg": ["y"], "8.jpg": ["z"]}
    assert load({"7": "dog", "8": "cat"}, table, on_missing="skip").ids == ("8",)


def test_what_does_not_match_is_named() -> None:
    candidates = {f"c{k}": "a dog" for k in range(8)}
    with pytest.raises(InputError) as caught:
        load(candidates, {f"r{k}": ["a dog"] for k in range(7)} | {"c7": ["a dog"]})
    message = str(caught.value)
    assert '7 of 8 candidates have no references in the references: "c0", "c1", "c2", "c3", "c4" and more.' in message
    assert '7 images there have no candidate: "r0", "r1", "r2", "r3", "r4" and 2 more.' in message
    assert "--on-missing skip" in message


def test_missing_references() -> None:
    rows: list[Any] = [ROWS[0], {**ROWS[1], "references": []}]
    with pytest.raises(InputError, match='1 of 2 candidates has no references: "30"'):
        load(rows)
    skipped, with_all = load(rows, on_missing="skip"), load(rows, on_missing="keep")
    assert (skipped.ids, skipped.notes) == (("7",), {"skipped_without_references": ["30"]})
    assert (with_all.ids, with_all.notes) == (("7", "30"), {"kept_without_references": ["30"]})
    with pytest.raises(InputError, match="2 of 2"):
        load({"1": "a", "2": "b"}, on_missing="skip")
    with pytest.raises(InputError, match="expected 'error', 'skip' or 'keep'"):
        load(rows, on_missing="drop")  # type: ignore[arg-type]


def test_repeated_candidates_are_noted() -> None:
    results = [*RESULTS, RESULTS[0], {"image_id": 7, "caption": "another"}]
    assert load(results, ANNOTATIONS).notes == {"repeated_candidates": ["7#1"]}


def test_unknown_fields_are_remembered(tmp_path: Path) -> None:
    reading = open_rows([{**ROWS[0], "category": "x"}, {**ROWS[1], "split": "test"}])
    list(reading.rows("candidates"))
    assert reading.fields.ignored == {"category"}


def test_strange_but_honest_text_stays_as_it_is(tmp_path: Path) -> None:
    strange = ["", "  ", "a\0b", "a\u2028b", "a\rb\r\nc\nd", "\x85", "😀 🏳️‍🌈", "كلب يجري", 'say "hi", ok\t']
    strange += ["x" * 1_000_000, "nan", "[1]", "1.5"]
    if sys.version_info < (3, 11):
        strange.remove("a\0b")  # its csv module knows no NUL
    rows = [{"image_id": k, "candidate": text, "references": [text, "b"]} for k, text in enumerate(strange)]
    lines = write(tmp_path / "x.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    table = tmp_path / "x.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", "candidate", "references"])
        writer.writerows([[row["image_id"], row["candidate"], json.dumps(row["references"])] for row in rows])
    for source in (rows, lines, table):
        captions = load(source)
        assert [c.candidate for c in captions] == strange
        assert [c.references for c in captions] == [(text, "b") for text in strange]


def test_real_files(shared: Path) -> None:
    systems = load_systems(shared / "data" / "coco_karpathy_test_captions.jsonl.gz")
    assert {name: len(part) for name, part in systems.items()} == dict.fromkeys(
        [
            *("m2_transformer", "blip2", "llava15_7b_brief", "llava15_7b_default"),
            *("visionmetrics_prediction", "smurf_human", "smurf_system_3", "smurf_system_4"),
        ],
        5000,
    )
    assert all(
        len(part.references.values) == 25_010 or len(part.references.values) == 25_000 for part in systems.values()
    )
    expert = load(shared / "data" / "flickr8k_expert.jsonl.gz")
    assert len(expert) == 5822
    assert len(set(expert.image_ids)) == 1000


@pytest.mark.parametrize("name", ["options", "columns", "reference_columns", "split", "images_root", "regions"])
def test_parameters_of_other_types_get_a_sentence(name: str) -> None:
    for value in (3, True, 0.5, *([{"a": 1}] if name in ("options", "images_root") else [])):
        with pytest.raises(InputError, match=f"^{name} is .*, expected"):
            load(["a dog"], [["a dog"]], **{name: value})


def test_settings_and_workers_of_other_types_get_a_sentence() -> None:
    for others in ({"settings": "cpu"}, {"settings": {"device": "cpu"}}, {"workers": "2"}, {"workers": 2.5}):
        with pytest.raises(InputError, match="expected"):
            score(candidates=["a dog"], references=[["a dog"]], metrics="bleu-1", **others)


@pytest.mark.parametrize("wrong", [None, 7, ["a.json"], object(), {"a": 1}])
def test_paths_and_results_of_other_types_get_a_sentence(tmp_path: Path, wrong: Any) -> None:
    results, path = score(candidates=["a dog"], references=[["a dog"]], metrics="bleu-1"), tmp_path / "x"
    calls: list[Callable[[], object]] = [lambda: results.save(wrong), lambda: capmeter.read_all(wrong)]
    for systems, file in ((results, path), (wrong, path), ({"a": results}, wrong)):
        calls += [partial(capmeter.save_all, systems, file), partial(capmeter.write_page, systems, file)]
    calls += [lambda: capmeter.write_page({"a": results}, path, images_root=wrong)]
    calls += [lambda: capmeter.convert({"1": "a dog"}, wrong, to="csv")]
    calls += [partial(capmeter.meta.run, "bleu-1", benchmark=name, data=wrong) for name in ("flickr8k-expert", wrong)]
    calls += [lambda: capmeter.Settings(device=wrong), lambda: capmeter.save(wrong, path, to="csv")]
    for call in calls:
        with pytest.raises(InputError, match=r"expected|unknown benchmark"):
            call()
    assert not path.exists()
    capmeter.convert({"1": "a dog"}, path, to="jsonl")
    for source, folder in ((wrong, tmp_path), (path, wrong)):
        with pytest.raises(InputError, match=r"expected|no such file"):
            capmeter.score_parts(source, "distinct", folder)


def test_images_without_references_and_splits() -> None:
    with pytest.raises(InputError, match=r'2 of 2 candidates have no references: "1"\. Name'):
        load({"1": ["a dog", "a cat"]})
    images = [{"filename": f"{k}.jpg", "split": split, "sentences": [{"raw": "a"}]} for k, split in enumerate((1, "b"))]
    with pytest.raises(InputError, match="the splits are 1, b"):
        load({"0.jpg": "a"}, {"images": images}, split="test")


def test_options_are_the_keywords_of_load() -> None:
    keywords = {**get_type_hints(ReferenceKeywords), **get_type_hints(LoadKeywords)}
    assert {*keywords, "references"} == {each.name for each in fields(LoadOptions)}
    rows = [{"image_id": 7, "hyp": "a dog", "references": ["dog"]}, {"image_id": 8, "hyp": "a cat"}]
    options = LoadOptions(columns={"hyp": "candidate"}, on_missing="keep")
    assert load(rows, options=options).ids == ("7", "8")
    assert load(rows, options=options, on_missing="skip").ids == ("7",), "keywords replace options"
    assert load(rows, {"7": ["x"], "8": ["y"]}, options=options)["8"].references == ("y",)
    with pytest.raises(TypeError, match="on_mising"):
        load(rows, on_mising="skip")  # type: ignore[call-arg]


def test_what_pandas_has_in_an_empty_cell_is_none() -> None:
    pandas = pytest.importorskip("pandas")
    gaps = [None, float("nan"), pandas.NA, pandas.NaT]
    rows = [{"image_id": k, "candidate": "a", "ref1": "b", "ref2": gap, "system": gap} for k, gap in enumerate(gaps)]
    assert [(each.references, each.system) for each in load(rows)] == [(("b",), None)] * 4
