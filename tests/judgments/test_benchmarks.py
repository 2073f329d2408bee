"""Loaders: the real files (where they are), the original layouts, and files that are not what they should be."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from capmeter.core.errors import CapmeterError, InputError, ProtocolError
from capmeter.judgments.benchmarks import all_benchmarks, find_benchmark

# file, benchmark, protocol, judged, captions, what is left out, is a sample
REAL = [
    ("flickr8k_expert", "flickr8k-expert", None, 16992, 5664, {"own-captions": 158}, False),
    ("flickr8k_expert", "flickr8k-expert", "averaged", 5664, 5664, {"own-captions": 158}, False),
    ("flickr8k_expert", "flickr8k-expert", "umic", 16992, 28320, {"own-captions": 158}, False),
    ("flickr8k_cf", "flickr8k-cf", None, 47830, 47830, {}, False),
    ("composite", "composite", None, 11985, 11985, {}, False),
    ("abstract50s", "abstract50s", None, 388, 776, {"tied judgments": 12}, False),
    ("reformulations", "reformulations", None, 4037, 8074, {"identical": 864, "unreferenced": 307}, False),
    ("wmt16_da_segment_to_english", "wmt16", None, 3360, 3360, {}, False),
    ("coco2015_challenge_system_level", "coco2015", None, 17, 0, {}, False),
    ("nebula_val_noref", "nebula-val", None, 2901, 2901, {}, False),
    ("polaris_val_noref", "polaris-val", None, 4237, 4237, {}, False),
    ("samples/pascal50s", "pascal50s", None, 200, 400, {}, True),
    ("samples/pascal50s", "pascal50s", "pascal-direct", 200, 400, {}, True),
    ("samples/pascal50s", "pascal50s", "wembsim", 100, 200, {"machine-captions": 100}, True),
    ("samples/capeval1k", "capeval1k", None, 100, 100, {}, True),
    ("samples/thumb1_mscoco", "thumb1", None, 200, 200, {"human-captions": 50}, True),
    ("samples/nebula_test", "nebula-test", None, 300, 300, {}, True),
    ("samples/foil_valse", "foil", None, 24, 48, {"invalid": 7, "unreferenced": 69}, True),
    ("samples/whereimage_humaneval", "whereimage", None, 81, 81, {"human-captions": 19}, True),
]


@pytest.mark.parametrize(
    ("file", "name", "protocol", "judged", "captions", "left", "sample"), REAL, ids=[f"{r[1]}-{r[2]}" for r in REAL]
)
def test_real_files(shared: Path, file, name, protocol, judged, captions, left, sample) -> None:
    path = shared / "data" / f"{file}.jsonl.gz"
    if sample:
        with pytest.raises(ProtocolError, match=r"has \d+ rows, but .* has [\d,]+.*--sample"):
            find_benchmark(name).load(path, protocol)
    found = find_benchmark(name).load(path, protocol, sample=sample)
    assert (len(found), len(found.captions), dict(found.notes)) == (judged, captions, left)


def test_own_captions_leave_the_references_of_their_image(shared: Path) -> None:
    found = find_benchmark("flickr8k-cf").load(shared / "data/flickr8k_cf.jsonl.gz").captions
    counts = [len(found.references[k]) for k in range(len(found))]
    assert {n: counts.count(n) for n in set(counts)} == {3: 120, 4: 36070, 5: 11640}
    composite = find_benchmark("composite").load(shared / "data/composite.jsonl.gz").captions
    assert max(len(composite.references[k]) for k in range(len(composite))) == 4


@pytest.mark.parametrize(
    ("wrong", "asked", "message"),
    [
        ("flickr8k_expert", "flickr8k-cf", "votes of 0 or 1; it looks like flickr8k-expert"),
        ("composite", "flickr8k-expert", "three ratings from 1 to 4; it looks like composite"),
        ("samples/pascal50s", "composite", "it has no candidate, candidate_index; it looks like pascal50s"),
        ("wmt16_da_segment_to_english", "composite", "it looks like wmt16"),
    ],
)
def test_another_benchmarks_file_is_recognised(shared: Path, wrong: str, asked: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_benchmark(asked).load(shared / "data" / f"{wrong}.jsonl.gz", sample=True)


EXPERT = {"image_id": "a.jpg", "candidate": "x", "references": ["y"], "human": [1, 2, 3]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**EXPERT, "human": [1, 2, "3"]}, r"line 2: 'human' is \[1, 2, '3'\]; expected a number or a list of numbers"),
        (
            {**EXPERT, "human": [1, 2, float("inf")]},
            r"line 2: 'human' is \[1, 2, inf\]; expected a number or a list of numbers",
        ),
        ({**EXPERT, "human": [1, 2, 10**400]}, r"line 2: 'human' is .* expected a number or a list of numbers"),
        ({**EXPERT, "candidate": 7}, "line 2: 'candidate' is 7; expected text"),
        ({**EXPERT, "references": "y"}, "line 2: 'references' is 'y'; expected a list of texts"),
        ([1], "line 2: expected an object"),
    ],
)
def test_a_bad_field_is_named_with_its_line(tmp_path: Path, row, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(EXPERT) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(InputError, match=message):
        find_benchmark("flickr8k-expert").load(path, sample=True)


ROWS: list[dict[str, Any]] = [
    {
        "image_id": "1",
        "candidate_a": "a dog",
        "candidate_b": "x",
        "references": ["a \U0001f600", "b/c"],
        "human": [1, 1],
    },
    {"image_id": "2", "candidate_a": "a cat", "candidate_b": "y", "references": ["d"], "human": [-1, 1, -1]},
]


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "txt", "xlsx"])
@pytest.mark.parametrize(
    ("benchmark", "names"), [("pairs", {}), ("rated", {"candidate_a": "caption", "references": "refs"})]
)
def test_every_container_is_read(tmp_path: Path, benchmark: str, names: dict[str, str], ending: str) -> None:
    rows: list[dict[str, Any]] = [{names.get(name, name): value for name, value in row.items()} for row in ROWS]
    table = [[*rows[0]], *([v if isinstance(v, str) else json.dumps(v) for v in row.values()] for row in rows)]
    path, workbook = tmp_path / f"rows.{ending}", openpyxl.Workbook()
    if ending == "xlsx":
        for cells in table:
            workbook.active.append(cells)
        workbook.save(path)
    elif ending in ("csv", "txt"):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(table)
    else:
        path.write_text(
            "\ufeff" + (json.dumps(rows) if ending == "json" else "\n".join(map(json.dumps, rows))), "utf-8"
        )
    found: Any = find_benchmark(benchmark).load(path)
    assert {each.references for each in found.captions} == {tuple(row["references"]) for row in ROWS}
    assert (found.better if benchmark == "pairs" else found.human * [1, 3]).tolist() == pytest.approx([1, -1])


@pytest.mark.parametrize("line", ["a.jpg", "a.jpg a.jpg#0 1 1e999 0", "a.jpg a.jpg#0 1 1e18 0"])
def test_a_damaged_line_of_flickr8k_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "Flickr8k.token.txt").write_text("a.jpg#0\ta dog\n")
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text(line)
    with pytest.raises(InputError, match="line 1: expected an image, a caption id and share"):
        find_benchmark("flickr8k-cf").load(tmp_path, sample=True)


def test_a_damaged_file_of_matlab_is_named(tmp_path: Path) -> None:
    for name in ("pair_pascal.mat", "consensus_pascal.mat"):
        (tmp_path / name).write_text("cut")
    with pytest.raises(InputError, match="its MATLAB data is cut off or damaged"):
        find_benchmark("pascal50s").load(tmp_path)


def test_files_that_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text('{"image_id": ')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 99)[:20])
    for name in ("empty.jsonl", "broken.jsonl", "cut.jsonl.gz", "absent.jsonl", ""):
        with pytest.raises(CapmeterError, match=name or "is a folder"):
            find_benchmark("flickr8k-expert").load(tmp_path / name)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean flickr8k-expert"):
        find_benchmark("flickr8k-experts")
    with pytest.raises(InputError, match="did you mean"):
        find_benchmark("nebula")  # test or val?
    with pytest.raises(ProtocolError, match="expected one of clipscore2021, cui2018"):
        find_benchmark("flickr8k-expert").protocol("clipscore")


@pytest.mark.parametrize(
    ("written", "name"),
    [("Flickr8k_Expert", "flickr8k-expert"), ("PASCAL-50S", "pascal50s"), ("foil-coco", "foil-coco")],
)
def test_names_as_they_are_written_elsewhere(written: str, name: str) -> None:
    assert find_benchmark(written).name == name


def test_original_flickr8k_folder(tmp_path: Path) -> None:
    captions = {f"{image}.jpg#{k}": f"{image} does {k} ." for image in "ab" for k in range(5)}
    tokens = "".join(f"{id}\t{text}\n" for id, text in captions.items())
    (tmp_path / "Flickr8k.token.txt").write_text(tokens)
    (tmp_path / "ExpertAnnotations.txt").write_text("a.jpg\tb.jpg#2\t1\t1\t2\na.jpg\ta.jpg#0\t4\t4\t4\n")
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("a.jpg\tb.jpg#2\t0.25\t1\t3\nb.jpg\tb.jpg#1\t1\t3\t0\n")
    expert = find_benchmark("flickr8k-expert").load(tmp_path, sample=True)
    assert expert.human.tolist() == [1, 1, 2] and expert.captions[expert.ids[0]].candidate == "b does 2 ."
    assert expert.notes == {"own-captions": 1}
    crowd = find_benchmark("flickr8k-cf").load(tmp_path, sample=True)
    assert crowd.human.tolist() == [0.25, 1.0]
    (tmp_path / "ExpertAnnotations.txt").write_text("a.jpg\tc.jpg#2\t1\t1\t2\n")
    with pytest.raises(InputError, match=r"no caption 'c.jpg#2'"):
        find_benchmark("flickr8k-expert").load(tmp_path, sample=True)


def test_clipscore_json(tmp_path: Path) -> None:
    entry = {
        "image_path": "a.jpg",
        "ground_truth": ["one dog", "a dog"],
        "human_judgement": [{"caption": "a cat", "rating": r} for r in (1.0, 2.0, 1.0)],
    }
    (tmp_path / "flickr8k.json").write_text(json.dumps({"a": entry}))
    found = find_benchmark("flickr8k-expert").load(tmp_path / "flickr8k.json", sample=True)
    assert found.human.tolist() == [1, 2, 1] and found.captions["a"].references == ("one dog", "a dog")


def test_polos_csv(tmp_path: Path) -> None:
    (tmp_path / "polaris_test.csv").write_text("mt,refs,score,imgid\n\"a dog, red\",\"['a dog', 'one dog']\",0.75,x1\n")
    found = find_benchmark("polaris").load(tmp_path / "polaris_test.csv")
    assert found.captions["x1"].references == ("a dog", "one dog") and found.human.tolist() == [0.75]
    (tmp_path / "polaris_test.csv").write_text("mt,refs,score\na,b,c\n")
    with pytest.raises(InputError, match="line 2 is not a valid row of polaris: it has no imgid"):
        find_benchmark("polaris").load(tmp_path / "polaris_test.csv")


def test_expert_json(tmp_path: Path) -> None:
    entry = {"imgid": "x1", "mt": "a dog", "refs": ["a dog runs", "one dog"], "score": 0.25}
    path = tmp_path / "nebula_test.json"
    path.write_text(json.dumps([entry]))
    found = find_benchmark("nebula-test").load(path, sample=True)
    assert found.captions["x1"].references == ("a dog runs", "one dog") and found.human.tolist() == [0.25]
    path.write_text(json.dumps([{**entry, "score": "high"}]))
    with pytest.raises(InputError, match="item 0: 'score' is 'high'; expected a number"):
        find_benchmark("nebula-test").load(path, sample=True)


def test_fleur_json(tmp_path: Path) -> None:
    pair = {"image": "V/J/2008_1.jpg", "captions": ["a dog", "a cat"], "label": 1, "references": ["cats", "a cat sits"]}
    path = tmp_path / "pascal_50s.json"
    path.write_text(json.dumps({"HI": [pair], "MM": [{**pair, "label": 0}]}))
    found = find_benchmark("pascal50s").load(path, sample=True)
    assert found.better.tolist() == [-1, 1] and found.groups == ("HI", "MM") and found.clusters == ("2008_1",) * 2
    with pytest.raises(InputError, match="there is no 'human'"):
        find_benchmark("pascal50s").load(path, "pascal-direct", sample=True)
    path.write_text(json.dumps({"HI": [{**pair, "label": 2}]}))
    with pytest.raises(InputError, match="HI 0: expected image, two captions"):
        find_benchmark("pascal50s").load(path, sample=True)


def test_original_pascal_folder(tmp_path: Path) -> None:
    import numpy as np
    from scipy.io import savemat

    def cells(values: list[object]) -> np.ndarray:
        output = np.empty((1, len(values)), object)
        output[0, :] = values
        return output

    def pair(image: str, a: str, b: str) -> np.ndarray:
        return cells([image, a, b])[0].reshape(3, 1)

    def triplets(a: str, b: str, wins: int) -> list[object]:
        return [cells([f"ref {k}", a, b, 1 if k < wins else -1])[0].reshape(4, 1) for k in range(48)]

    votes = [("a dog", "a cat", 30), ("x", "y", 24), ("p", "q", 3)]
    inputs = [pair(f"2008_{k}.jpg", a, b) for k, (a, b, _) in enumerate(votes)]
    savemat(tmp_path / "pair_pascal.mat", {"new_input": cells(inputs), "category": np.asarray([[1, 2, 4]])})
    every = [triplet for a, b, wins in votes for triplet in triplets(a, b, wins)]
    savemat(tmp_path / "consensus_pascal.mat", {"triplets": cells(every)})
    found = find_benchmark("pascal50s").load(tmp_path, "pascal-consensus(references=all)", sample=True)
    assert found.better.tolist() == [1, -1] and found.groups == ("HC", "MM") and found.notes == {"tied judgments": 1}
    assert found.clusters == ("2008_0", "2008_2") and found.captions["2008_0/a"].candidate == "a dog"
    assert found.captions["2008_2/b"].references[:2] == ("ref 0", "ref 1")


def test_original_thumb(tmp_path: Path) -> None:
    line = {"SYS": "Human", "seg_id": "9", "hyp": "a dog", "image": "i.jpg", "P": 4.0, "R": 3.0, "human_score": 3.5}
    path = tmp_path / "mscoco_THumB-1.0.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, "SYS": "VinVL-base", "human_score": 5.0}) + "\n")
    with pytest.raises(InputError, match=r"put THumB's mscoco_references\.json in the same folder"):
        find_benchmark("thumb1").load(path, sample=True)
    (tmp_path / "mscoco_references.json").write_text(json.dumps({"seg_id": 9, "refs": ["a dog runs"]}) + "\n")
    found = find_benchmark("thumb1").load(path, sample=True)
    assert found.human.tolist() == [5.0] and found.notes == {"human-captions": 1}
    assert find_benchmark("thumb1").load(path, "all(judgments=recall)", sample=True).human.tolist() == [3.0, 3.0]


def test_original_foil(tmp_path: Path) -> None:
    sentences = ["a dog runs", "the dog", "a brown dog", "dog", "one dog"]
    coco = [{"image_id": 5, "caption": text} for text in sentences]
    output = [
        {"id": 1, "image_id": 5, "caption": "a dog runs", "foil": False},
        {"id": 1, "image_id": 5, "caption": "a cat runs", "foil": True, "foil_id": 0},
        {"id": 1, "image_id": 5, "caption": "a cow runs", "foil": True, "foil_id": 1},
    ]
    images = [{"id": 5, "file_name": "COCO_5.jpg"}]
    (tmp_path / "captions_val2014.json").write_text(json.dumps({"annotations": coco}))
    (tmp_path / "foilv1.0_test_2017.json").write_text(json.dumps({"images": images, "annotations": output}))
    found = find_benchmark("foil-coco").load(tmp_path)
    assert found.better.tolist() == [1, 1] and found.clusters == ("COCO_5.jpg",) * 2
    assert found.captions["1/b"].candidate == "a cow runs" and found.captions["1/b"].references == tuple(sentences[1:])
    assert find_benchmark("foil-coco").load(tmp_path, "one-reference").captions["0/a"].references == ("the dog",)
    (tmp_path / "foilv1.0_test_2017.json").write_text(json.dumps({"annotations": [{}]}))
    with pytest.raises(InputError, match="expected annotations with id"):
        find_benchmark("foil-coco").load(tmp_path)


def test_valse_json(tmp_path: Path) -> None:
    votes = {"foil": 1, "caption": 2, "other": 0}
    entry = {"caption": "a dog", "foil": "a cat", "image_file": "i.jpg", "mturk": votes}
    weak = {**entry, "mturk": {**votes, "caption": 1}}
    (tmp_path / "foil-it.json").write_text(json.dumps({"f_0": entry, "f_1": weak}))
    found = find_benchmark("foil").load(tmp_path / "foil-it.json", "valid", sample=True)
    assert found.ids == ("f_0/a", "f_0/b") and found.better.tolist() == [1] and found.notes == {"invalid": 1}


def test_rated_tables(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [
        {"image_id": "1", "candidate": "a dog", "references": ["a dog runs", "a dog"], "human": [3.0, 4.0]},
        {"image_id": "2", "candidate": "a cat", "references": ["one cat"], "human": [1.0, 1.0]},
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "r.parquet")
    for name in ("r.jsonl", "r.parquet"):
        found = find_benchmark("rated").load(tmp_path / name)
        assert found.human.tolist() == [3.5, 1.0] and found.captions["1"].references == ("a dog runs", "a dog")
        assert find_benchmark("rated").load(tmp_path / name, "averaged(leave_out=own-captions)").ids == ("2",)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**rows[0], "human": None}]), tmp_path / "n.parquet")
    with pytest.raises(InputError, match="'1' has no human rating"):
        find_benchmark("rated").load(tmp_path / "n.parquet")


def test_a_sheet_may_call_ratings_so(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(
        "image,caption,ref1,ref2,rating\n1.jpg,a dog,a dog runs,one dog,4\n2.jpg,a cat,a cat sits,a cat,2\n"
    )
    found = find_benchmark("rated").load(sheet)
    assert found.human.tolist() == [4.0, 2.0] and found.captions["1.jpg"].references == ("a dog runs", "one dog")
    sheet.write_text("image,caption,ref1,stars\n1.jpg,a dog,a dog runs,4\n")
    with pytest.raises(InputError, match=r"expected a column `human` or `rating`, or --column human=NAME"):
        find_benchmark("rated").load(sheet)


def test_any_pairs(tmp_path: Path) -> None:
    row = {"image_id": "i", "candidate_a": "x", "candidate_b": "y", "references": ["z"]}
    rows = [{**row, "correct": "b"}, {**row, "human": [1, 1, -1]}, {**row, "human": [1, -1]}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = find_benchmark("pairs").load(path)
    assert found.better.tolist() == [-1, 1] and found.notes == {"tied judgments": 1}
    path.write_text(json.dumps({**row, "correct": "c"}))
    with pytest.raises(InputError, match="'correct' is 'c'; expected a, b or tie"):
        find_benchmark("pairs").load(path)
    path.write_text(json.dumps({**row, "correct": ["a"]}))
    with pytest.raises(InputError, match=r"'correct' is \['a'\]; expected a, b or tie"):
        find_benchmark("pairs").load(path)


def test_distractions_by_task(tmp_path: Path) -> None:
    row = {"image_id": "i", "candidate_a": "x", "candidate_b": "y", "references": ["z"], "correct": "a"}
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({**row, "category": task}) + "\n" for task in ("RP", "RS", "JP")))
    assert find_benchmark("distractions").load(path).groups == ("RP", "RS", "JP")


def test_every_benchmark_says_where_it_comes_from() -> None:
    for name, each in all_benchmarks().items():
        assert each.name == name and each.title and each.source and each.protocols


def test_the_page_of_benchmarks_names_them_all() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    for name, each in all_benchmarks().items():
        row = next(line for line in lines if f"`{name}`" in line.split("|")[1])
        assert all(preset.split("-m")[0] in row for preset in each.protocols), name
