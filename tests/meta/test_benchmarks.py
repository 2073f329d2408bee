"""Loaders: the real files (where they are), the original layouts, and files that are not what they should be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from capmeter.errors import CapmeterError, InputError, ProtocolError
from capmeter.meta.benchmarks import benchmark, table

# file, benchmark, protocol, judged, captions, what is left out, is a sample
REAL = [
    ("flickr8k_expert", "flickr8k-expert", None, 16992, 5664, {"own-captions": 158}, False),
    ("flickr8k_expert", "flickr8k-expert", "averaged", 5664, 5664, {"own-captions": 158}, False),
    ("flickr8k_expert", "flickr8k-expert", "umic", 16992, 28320, {"own-captions": 158}, False),
    ("flickr8k_cf", "flickr8k-cf", None, 47830, 47830, {}, False),
    ("composite", "composite", None, 11985, 11985, {}, False),
    ("abstract50s", "abstract50s", None, 388, 776, {"people are tied": 12}, False),
    ("reformulations", "reformulations", None, 4037, 8074, {"identical": 864, "unreferenced": 307}, False),
    ("wmt16_da_segment_to_english", "wmt16", None, 3360, 3360, {}, False),
    ("conll14_gec_sentences", "conll14", None, 12, 15744, {"baselines": 1}, False),
    ("coco2015_challenge_system_level", "coco2015", None, 17, 0, {}, False),
    ("nebula_val_noref", "nebula-val", None, 2901, 2901, {}, False),
    ("polaris_val_noref", "polaris-val", None, 4237, 4237, {}, False),
    ("samples/pascal50s", "pascal50s", None, 200, 400, {}, True),
    ("samples/pascal50s", "pascal50s", "pascal-direct", 200, 400, {}, True),
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
            benchmark(name).load(path, protocol)
    found = benchmark(name).load(path, protocol, sample=sample)
    assert (len(found), len(found.captions), dict(found.notes)) == (judged, captions, left)


def test_own_captions_leave_the_references_of_their_image(shared: Path) -> None:
    found = benchmark("flickr8k-cf").load(shared / "data/flickr8k_cf.jsonl.gz").captions
    counts = [len(found.references[k]) for k in range(len(found))]
    assert {n: counts.count(n) for n in set(counts)} == {3: 120, 4: 36070, 5: 11640}
    composite = benchmark("composite").load(shared / "data/composite.jsonl.gz").captions
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
        benchmark(asked).load(shared / "data" / f"{wrong}.jsonl.gz", sample=True)


EXPERT = {"image_id": "a.jpg", "candidate": "x", "references": ["y"], "human": [1, 2, 3]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**EXPERT, "human": [1, 2, "3"]}, r"line 2: 'human' is \[1, 2, '3'\]; expected a list of numbers"),
        ({**EXPERT, "candidate": 7}, "line 2: 'candidate' is 7; expected text"),
        ({**EXPERT, "references": "y"}, "line 2: 'references' is 'y'; expected a list of texts"),
        ([1], "line 2: expected an object"),
    ],
)
def test_a_bad_field_is_named_with_its_line(tmp_path: Path, row, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(EXPERT) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(InputError, match=message):
        benchmark("flickr8k-expert").load(path, sample=True)


def test_files_that_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text('{"image_id": ')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 99)[:20])
    for name in ("empty.jsonl", "broken.jsonl", "cut.jsonl.gz", "absent.jsonl", ""):
        with pytest.raises(CapmeterError, match=name or "is a folder"):
            benchmark("flickr8k-expert").load(tmp_path / name)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean flickr8k-expert"):
        benchmark("flickr8k-experts")
    with pytest.raises(ProtocolError, match="expected one of clipscore2021, cui2018"):
        benchmark("flickr8k-expert").protocol("clipscore")


def test_original_flickr8k_folder(tmp_path: Path) -> None:
    captions = {f"{image}.jpg#{k}": f"{image} does {k} ." for image in "ab" for k in range(5)}
    tokens = "".join(f"{id}\t{text}\n" for id, text in captions.items())
    (tmp_path / "Flickr8k.token.txt").write_text(tokens)
    (tmp_path / "ExpertAnnotations.txt").write_text("a.jpg\tb.jpg#2\t1\t1\t2\na.jpg\ta.jpg#0\t4\t4\t4\n")
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("a.jpg\tb.jpg#2\t0.25\t1\t3\nb.jpg\tb.jpg#1\t1\t3\t0\n")
    expert = benchmark("flickr8k-expert").load(tmp_path, sample=True)
    assert expert.human.tolist() == [1, 1, 2] and expert.captions[expert.ids[0]].candidate == "b does 2 ."
    assert expert.notes == {"own-captions": 1}
    crowd = benchmark("flickr8k-cf").load(tmp_path, sample=True)
    assert crowd.human.tolist() == [0.25, 1.0]
    (tmp_path / "ExpertAnnotations.txt").write_text("a.jpg\tc.jpg#2\t1\t1\t2\n")
    with pytest.raises(InputError, match=r"no caption 'c.jpg#2'"):
        benchmark("flickr8k-expert").load(tmp_path, sample=True)


def test_clipscore_json(tmp_path: Path) -> None:
    entry = {
        "image_path": "a.jpg",
        "ground_truth": ["one dog", "a dog"],
        "human_judgement": [{"caption": "a cat", "rating": r} for r in (1.0, 2.0, 1.0)],
    }
    (tmp_path / "flickr8k.json").write_text(json.dumps({"a": entry}))
    found = benchmark("flickr8k-expert").load(tmp_path / "flickr8k.json", sample=True)
    assert found.human.tolist() == [1, 2, 1] and found.captions["a"].references == ("one dog", "a dog")


def test_polos_csv(tmp_path: Path) -> None:
    (tmp_path / "polaris_test.csv").write_text("mt,refs,score,imgid\n\"a dog, red\",\"['a dog', 'one dog']\",0.75,x1\n")
    found = benchmark("polaris").load(tmp_path / "polaris_test.csv")
    assert found.captions["x1"].references == ("a dog", "one dog") and found.human.tolist() == [0.75]
    (tmp_path / "polaris_test.csv").write_text("mt,refs,score\na,b,c\n")
    with pytest.raises(InputError, match="row 2: expected the columns mt, refs"):
        benchmark("polaris").load(tmp_path / "polaris_test.csv")


def test_valse_json(tmp_path: Path) -> None:
    votes = {"foil": 1, "caption": 2, "other": 0}
    entry = {"caption": "a dog", "foil": "a cat", "image_file": "i.jpg", "mturk": votes}
    weak = {**entry, "mturk": {**votes, "caption": 1}}
    (tmp_path / "foil-it.json").write_text(json.dumps({"f_0": entry, "f_1": weak}))
    found = benchmark("foil").load(tmp_path / "foil-it.json", "valid", sample=True)
    assert found.ids == ("f_0/a", "f_0/b") and found.better.tolist() == [1] and found.notes == {"invalid": 1}


def test_any_pairs(tmp_path: Path) -> None:
    row = {"image_id": "i", "candidate_a": "x", "candidate_b": "y", "references": ["z"]}
    rows = [{**row, "correct": "b"}, {**row, "human": [1, 1, -1]}, {**row, "human": [1, -1]}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = benchmark("pairs").load(path)
    assert found.better.tolist() == [-1, 1] and found.notes == {"people are tied": 1}
    path.write_text(json.dumps({**row, "correct": "c"}))
    with pytest.raises(InputError, match="'correct' is 'c'; expected a, b or tie"):
        benchmark("pairs").load(path)


def test_distractions_by_task(tmp_path: Path) -> None:
    row = {"image_id": "i", "candidate_a": "x", "candidate_b": "y", "references": ["z"], "correct": "a"}
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({**row, "category": task}) + "\n" for task in ("RP", "RS", "JP")))
    assert benchmark("distractions").load(path).groups == ("RP", "RS", "JP")


def test_every_benchmark_says_where_it_comes_from() -> None:
    for name, each in table().items():
        assert each.name == name and each.title and each.source and each.protocols
