"""Every mistake in a file of captions gets a sentence that says where, what, and what to do."""

# ruff: noqa: E501

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.caption_sets import read_parts

from capmeter.captions.load import load
from capmeter.captions.reading import NAMES
from capmeter.core.errors import InputError

GOOD: dict[str, Any] = {"image_id": "1", "candidate": "a dog", "references": ["the dog", "dog"]}


def lines(*rows: Any) -> bytes:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"x: the file is empty; expected captions in one of the formats"),
    "only blanks": (b"\xef\xbb\xbf \n\n", "the file is empty"),
    "not JSON": (b"a dog runs\n", r'x: neither JSON nor a table: it begins with the text "a dog runs"'),
    "truncated document": (b'{"1": ["a dog"],\n "2": ["a c', r"x, line 2, column 8: not valid JSON: the file ends in the middle"),
    "truncated list": (b'[{"image_id": 1, "caption": "a"},', "the file ends in the middle"),
    "truncated line": (lines(GOOD, '{"image_id": "2", "cand'), "x, line 2, column 19: not valid JSON: the line ends in the middle"),
    "broken line": (lines(GOOD, '{"image_id": 2 "candidate": "a"}'), r"x, line 2, column 16: not valid JSON: Expecting ',' delimiter"),
    "line that is no object": (lines(GOOD, GOOD, "[1]"), "x, line 3: a list of 1, expected an object with image_id"),
    "fields under a key": (b'{"1": {"text": "a dog", "score": 1}}', r"the fields are text, score; --column candidate=NAME"),
    "nothing under a key": (b'{"1": {}}', "the fields are none; --column candidate=NAME"),
    "key twice": (b'{"1": ["a"], "2": ["b"], "1": ["c"]}', "x: duplicate key '1' in one object"),
    "key twice in a line": (lines(GOOD, '{"image_id": 2, "image_id": 3, "candidate": "a"}'), "x, line 2: duplicate key 'image_id' in one object"),
    "too deep": (b"[" * 100_000, "nested too deeply"),
    "huge number": (b'{"1": ' + b"9" * 5000 + b"}", "holds a whole number of thousands of digits; write an id as text"),
    "a number": (b"[1, 2]", r"x\[0\]: the entry is the number 1, expected a caption"),
    "an empty list": (b"[]", "x: an empty list; no captions were written"),
    "an empty object": (b"{}", "x: an empty object, expected captions"),
    "a null": (b"[null]", r"x\[0\]: the entry is missing \(null\)"),
    "images alone": (b'{"images": [{"id": 1}]}', "neither annotations .* nor sentences"),
    "image_id missing": (lines({"candidate": "a", "text": "b"}), r"x, line 1: image_id is missing, .* \(the fields are candidate, text\)"),
    "image_id missing later": (lines(GOOD, {"candidate": "a", "references": ["b"]}), "x, line 2: image_id is missing"),
    "image_id missing first": (lines({"candidate": "a", "references": ["b"]}, GOOD), "x, line 1: image_id is missing"),
    "image_id null": (lines({**GOOD, "image_id": None}), "image_id is missing"),
    "image_id empty": (lines({**GOOD, "image_id": " "}), "image_id is empty"),
    "image_id a list": (lines({**GOOD, "image_id": [1]}), "image_id is a list of 1, expected the id as text or a whole number"),
    "image_id true": (lines({**GOOD, "image_id": True}), "image_id is true"),
    "image_id half": (lines({**GOOD, "image_id": 1.5}), "image_id is the number 1.5"),
    "candidate missing": (lines(GOOD, {"image_id": 1, "text": "a"}), "x, line 2: candidate is missing, .* the fields are image_id, text"),
    "candidate null": (lines({**GOOD, "candidate": None}), r"candidate is missing \(null\), expected a caption as text"),
    "candidate NaN": (b'{"image_id": 1, "candidate": NaN, "references": ["a"]}', "x, line 1: candidate is NaN, expected a caption as text"),
    "candidate a number": (lines({**GOOD, "candidate": 3}), "candidate is the number 3"),
    "candidate infinite": (b'{"image_id": 1, "candidate": -Infinity, "references": ["a"]}', "candidate is infinite"),
    "candidate a list": (lines({**GOOD, "candidate": ["a", "b"]}), "candidate is a list of 2"),
    "candidate an object": (lines({**GOOD, "candidate": {"caption": "a"}}), "candidate is an object with the fields caption"),
    "candidate twice": (lines({**GOOD, "caption": "b"}), "candidate and caption are all given"),
    "references a number": (lines({**GOOD, "references": 3}), "references is the number 3, expected a list"),
    "a reference NaN": (b'{"image_id": 1, "candidate": "a", "references": ["a", NaN]}', r"references\[1\] is NaN"),
    "a reference null": (lines({**GOOD, "references": ["a", None]}), r"references\[1\] is missing"),
    "references only": (lines({"image_id": 1, "references": ["a"]}), "it holds references only: name the file as references"),
    "pairs": (lines({"image_id": 1, "candidate_a": "a", "candidate_b": "b"}, GOOD), "it holds pairs .* `capmeter meta`"),
    "captions a list": (lines({"image_id": 1, "captions": ["a"]}, GOOD), "it holds references only"),
    "captions a number": (lines({"image_id": 1, "captions": 3}, GOOD), "captions is the number 3, expected a list of captions"),
    "captions empty": (lines({"image_id": 1, "captions": {}}, GOOD), "captions is an empty object"),
    "a system's NaN": (b'{"image_id": 1, "captions": {"s": NaN}, "references": ["a"]}', r"captions\['s'\] is NaN"),
    "human NaN": (b'{"image_id": 1, "candidate": "a", "references": ["a"], "human": [NaN]}', "human holds NaN"),
    "human too large for a float": (b'{"image_id": 1, "candidate": "a", "references": ["a"], "human": [1' + b"0" * 400 + b"]}", "x, line 1: human holds a number of more than 40 digits"),
    "huge number in a line": (lines(GOOD, '{"image_id": ' + "9" * 5000 + ', "candidate": "a"}'), "x, line 2: holds a whole number of thousands of digits; write an id as text"),
    "too deep in a line": (lines(GOOD, '{"image_id": ' + "[" * 100_000 + "}"), "x, line 2: the JSON is nested too deeply"),
    "references that are file names": (lines({**GOOD, "references": ["refs.json"]}), "x: the references look like file names"),
    "human text": (lines({**GOOD, "human": "good"}), 'human holds the text "good"'),
    "ids twice": (lines({**GOOD, "id": 5}, {**GOOD, "id": 6}, {**GOOD, "id": "5"}), "x, line 3: duplicate id '5', also at .*x, line 1"),
    "id and image id": (lines({**GOOD, "id": "2"}, {**GOOD, "image_id": "2"}), "x, line 2: duplicate id '2', also at .*x, line 1"),
    "id and made id": (lines(GOOD, GOOD, {**GOOD, "image_id": "3", "id": "1#1"}), r"x, line 3: duplicate id '1#1', also at .*x, line 2"),
    "half a surrogate pair": (b'{"image_id": 1, "candidate": "a \\ud83d", "references": ["b"]}', r"x, line 1: candidate holds '\\ud83d', half of a surrogate pair"),
    "half a pair in an id": (b'{"image_id": "\\udc00", "candidate": "a", "references": ["b"]}', "image_id holds .* surrogate"),
    "a table without image_id": (b"picture,caption\na.jpg,a dog\n", "the first line names the columns picture, caption; expected image_id with candidate"),
    "a table without header": (b"1,a dog\n", "the first line names the columns 1, a dog"),
    "a column twice": (b"image_id,candidate,candidate\n1,a,b\n", "duplicate column candidate in the header"),
    "a cell too many": (b"image_id,caption\n1,a dog, running\n", "x, line 2: 3 cells where the header has 2; put quotes"),
    "gzip twice": (gzip.compress(gzip.compress(b"[]")), "compressed twice by gzip; unpack it once"),
    "bzip2": (b"BZh91AY", "compressed by bzip2, which is not read; unpack it with bunzip2"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS .* git lfs pull"),
    "a page": (b"<!DOCTYPE html>\n<html>", "a page of the web, as a failed download leaves"),
    "results of no captions": (b'{"results": {}, "version": "1"}', "results is empty: no captions were written"),
    "predictions of none": (b'{"predictions": [], "model": "ours", "config": {"beam": 5}}', "predictions is empty"),
    "subtitles": (b"1\n00:00:00,000 --> 00:00:04,000\na dog runs\n", "subtitles, .* start, end and caption"),
    "a line for Excel": (b"sep=;\nimage_id;caption\n1;a dog\n", "Excel .* leave it out"),
    "UTF-16 without a mark": ('{"image_id": 1}'.encode("utf-16-le"), "it looks like UTF-16 or UTF-32; save the file as UTF-8"),
    "carriage returns": (b"image_id,candidate,references\r1,a,[]\r", "x, line 1: a line ends in a carriage return alone"),
    "quote left open": (b'image_id,candidate,references\n1,"a dog,[]\n', "x, line 2: not valid CSV or TSV: unexpected end of data"),
    "list cell of tuples": (b"image_id,candidate,references\n1,a,\"[('a dog', 0.9)]\"\n", r"references\[0\] is a list of 2"),
    "set cell": (b"image_id,candidate,references\n1,a,\"{'a dog', 'b'}\"\n", "expected a list of captions as JSON"),
    "list cell of numpy": (b"image_id,candidate,references\n1,a,['a dog' 'dog']\n", "with commas .* write it with json.dumps"),
    "two ways of references": (b"image_id,candidate,references,reference_1\n1,a,[],b\n1,a,\"[\"\"b\"\"]\",b\n", "both references and reference_1 are given"),
    "not UTF-8": ("[\"caf\xe9\"]".encode("latin-1"), "byte 0xe9 is not UTF-8"),
    "not Parquet": (b"PAR1 and more", "not a whole Parquet file"),
    "cut gzip": (gzip.compress(lines(*[GOOD] * 900))[:-20], "gzip data is cut off or damaged"),
}  # fmt: skip


@pytest.mark.parametrize("read", [load, partial(read_parts, rows=9)], ids=["load", "parts"])
@pytest.mark.parametrize("mistake", FILES)
def test_a_file_with_a_mistake(tmp_path: Path, mistake: str, read: Any) -> None:
    content, expected = FILES[mistake]
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=expected):
        read(path)


@pytest.mark.parametrize("mistake", FILES)
def test_the_command_says_so(tmp_path: Path, mistake: str, run) -> None:
    content, expected = FILES[mistake]
    (tmp_path / "x").write_bytes(content)
    code, out, err = run("score", "x", "--metrics", "bleu-4")
    assert (code, out) == (1, "")
    assert err.lstrip("\n").startswith("capmeter: error: ")  # older versions of rich end a bar with a blank line
    assert re.search(expected, err)


class Frame:
    """What data frames have in common."""

    columns = ("candidate",)


R = {"1": ["a dog"], "2": ["a cat"]}
PAIRS: dict[str, tuple[Any, Any, str]] = {
    "annotations as candidates": ({"annotations": [{"image_id": 1, "caption": "a"}]}, R, "these are COCO annotations, .* swapped"),
    "Karpathy as candidates": ({"images": [{"cocoid": 1, "sentences": [{"raw": "a"}]}]}, R, "Karpathy dataset file .* swapped"),
    "swapped pair": ({"1": ["a", "b"], "2": ["c", "d"]}, {"1": ["a dog"], "2": ["a cat"]}, "2 candidates for an image, .* are the two swapped"),
    "swapped lists": ([["a", "b"], ["c"]], ["a dog", "a cat"], r"a list of 2 where one candidate caption was expected; are .* swapped"),
    "swapped rows": ([GOOD], [{"image_id": "1", "candidate": "a dog"}], "holds candidates only: are the two files swapped"),
    "references of one image as texts": (["a dog"], ["the dog", "a puppy"], "1 candidates, but 2 lists of references"),
    "file names as candidates": ({"1": "images/1.jpg", "2": "images/2.jpg"}, R, r"the candidates look like file names, .*images/1.jpg, images/2.jpg"),
    "file names as references": ({"1": "a"}, {"1": ["refs/1.txt"]}, "the references look like file names"),
    "other references": ([GOOD], [GOOD | {"references": ["a"]}, GOOD], r"image '1' has different references here than at the references\[0\]"),
    "no list": ({"1": "a"}, {"1": None}, r"the value is missing \(null\), expected a list of captions"),
    "no caption": ({"1": 3}, R, "the value is the number 3"),
    "no candidates of an image": ({"1": []}, R, "the list of candidates is empty"),
    "a key as number and text": ({1: "a", "1": "b"}, R, "duplicate key, as a number and as text"),
    "a caption missing": ([{"image_id": 1, "caption": "a"}, {"image_id": 2}], R, r"the candidates\[1\]: candidate is missing"),
    "an image missing": ([{"image_id": 1, "caption": "a"}, {"caption": "a"}], R, r"the candidates\[1\]: image_id is missing"),
    "an entry that is none": ([{"image_id": 1, "caption": "a"}, "a"], R, r'the candidates\[1\]: the text "a", expected'),
    "a caption NaN": ([{"image_id": 1, "caption": float("nan")}], R, r"the candidates\[0\]: caption is NaN"),
    "an annotation NaN": ({"1": "a"}, {"annotations": [{"image_id": 1, "caption": float("nan")}]}, r"annotations\[0\]: caption is NaN"),
    "an image with two names": ({"1": "a"}, {"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": []}, "duplicate image id 1 with different file names"),
    "an image without id": ({"1": "a"}, {"images": [{"file_name": "a"}], "annotations": []}, r"images\[0\]: an object with the fields file_name"),
    "no sentences": ({"1": "a"}, {"images": [{"cocoid": 1, "sentences": []}, {"cocoid": 2}]}, r"images\[1\]: neither a candidate .* the fields are cocoid"),
    "no raw sentence": ({"1": "a"}, {"images": [{"cocoid": 1, "sentences": [{"tokens": []}]}]}, r"sentences\[0\] is an object with the fields tokens"),
    "no references at all": ({"1": "a"}, {"annotations": []}, "there are no references"),
    "half a pair": (["a \ud83d"], [["a"]], "surrogate"),
    "no captions": (3, R, "the candidates: the number 3, expected captions as a list or an object"),
    "bytes": (b"a dog", R, "the candidates: a bytes,"),
    "a set": ({"a dog"}, R, "the candidates: a set"),
    "an iterator": (iter(["a"]), R, r"the candidates: a list_iterator, .* give list\(…\)"),
    "a data frame": (Frame(), R, r"the candidates: a Frame, .* read data frames with capmeter.integrations.frames.read\(candidates, references\)$"),
    "references of one row null": ({"1": "a"}, [{"id": k, "gts": ["a"] if k else None} for k in range(3)], r"\[0\]: .* leave out the row"),
    "references that are all empty": ({"1": "a"}, {"1": []}, "lists of references there are empty"),
    "other lengths": (["a", "b", "c"], [["x"], ["y"]], "3 candidates, but 2 lists of references"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PAIRS)
def test_a_pair_with_a_mistake(mistake: str) -> None:
    candidates, references, expected = PAIRS[mistake]
    with pytest.raises(InputError, match=expected):
        load(candidates, references)


def test_few_captions_may_look_like_file_names() -> None:
    captions = load(
        {"1": "www.example.png", "2": "a dog", "3": "a cat"}, {k: ["a sign"] for k in "123"}, on_missing="skip"
    )
    assert len(captions) == 3
    assert len(load({"1": "dog"}, {"1": ["cat."]})) == 1


@pytest.mark.parametrize("key", [0, (1, 2), b"x", range(3), None, True, 1.5, frozenset()])
@pytest.mark.parametrize("format", list(NAMES))
def test_keys_that_are_no_text(key: Any, format: str) -> None:
    for arguments in (({key: "a"}, None, format, None), ({"1": "a"}, {key: ["a"]}, None, format)):
        candidates, references, of_candidates, of_references = arguments
        with suppress(InputError):
            load(candidates, references, format=of_candidates, references_format=of_references)


def test_keys_indices_and_names_of_systems() -> None:
    pandas = pytest.importorskip("pandas")
    row = {pandas.NA: 1, "image_id": 1, "candidate": "a", "references": ["b"]}
    assert len(load([row])) == 1
    pandas = pytest.importorskip("pandas")
    references = pandas.Series([["a cat"], ["a dog"]], index=[1, 0])
    for candidates in (pandas.Series(["a dog", "a cat"]), {"0": "a dog", "1": "a cat"}):
        assert load(candidates, references)["0"].references == ("a dog",)
    rows = [{"image_id": 1, "captions": {1: "first", "1": "second"}, "references": ["x"]}]
    with pytest.raises(InputError, match="names a system twice, as number and as text"):
        load(rows)


@pytest.mark.parametrize(
    "references",
    [
        {"images": [{"id": 1, "file_name": "\ud800.jpg"}], "annotations": [{"image_id": 1, "caption": "a"}]},
        {"images": [{"filename": "\ud800.jpg", "cocoid": 1, "sentences": [{"raw": "a"}]}]},
    ],
)
def test_names_of_pictures_are_text(references: Any) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        load({"1": "a"}, references)


def test_a_path_of_bytes(tmp_path: Path) -> None:
    class BytesPath:
        def __fspath__(self) -> bytes:
            return str(tmp_path / "x").encode()

    (tmp_path / "x").write_text('{"0": ["a"]}')
    assert load(["a"], BytesPath())["0"].references == ("a",)
