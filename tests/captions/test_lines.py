"""Plain text: a caption a line; NAME#k, a tab and a caption; tables with bars."""

from __future__ import annotations

from pathlib import Path

import pytest

import capmeter
from capmeter.captions.reading import open_rows
from capmeter.core.errors import InputError

CANDIDATES = "a man rides a horse\n\nwell, a dog, and a cat\n"
REFERENCES = "someone rides\r\na bus\r\na dog with a cat\r\n"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("names", [("hyp.txt", "ref1.txt"), ("test.en", "test.de"), ("out.pred", "gold.ref")])
def test_the_kth_line_belongs_to_the_kth(tmp_path: Path, names: tuple[str, str]) -> None:
    candidates, references = write(tmp_path / names[0], CANDIDATES), write(tmp_path / names[1], REFERENCES)
    captions = capmeter.load(candidates, references)
    assert [(each.id, each.candidate, each.references) for each in captions] == [
        ("0", "a man rides a horse", ("someone rides",)),
        ("1", "", ("a bus",)),
        ("2", "well, a dog, and a cat", ("a dog with a cat",)),
    ]
    assert any(str(candidates) in each for each in captions.notes["read_as_lines"])
    more = write(tmp_path / "ref2.txt", REFERENCES.upper())
    assert capmeter.load(candidates, [references, more])["1"].references == ("a bus", "A BUS")


def test_files_of_other_names_are_read_so_if_the_user_says_it(tmp_path: Path) -> None:
    candidates, references = write(tmp_path / "hyp", CANDIDATES), write(tmp_path / "ref.csv", REFERENCES)
    with pytest.raises(InputError, match=r"hyp: neither JSON nor a table: .* one caption a line: --input-format list"):
        capmeter.load(candidates, references)
    assert len(capmeter.load(candidates, references, format="list", references_format="list")) == 3
    cells = write(tmp_path / "cells.csv", '7,"a dog, running"\n9,two cats\n')
    assert capmeter.load_references(cells, format="named") == {"7": ("a dog, running",), "9": ("two cats",)}
    values = write(tmp_path / "values.jsonl", '["a dog", "one dog"]\n["two cats"]\n')
    assert capmeter.load_references(values) == {"0": ("a dog", "one dog"), "1": ("two cats",)}


def test_files_of_other_lengths_and_tables_are_refused(tmp_path: Path) -> None:
    candidates, references = write(tmp_path / "a.txt", "a dog\na cat\n"), write(tmp_path / "b.txt", "a dog\n")
    with pytest.raises(InputError, match="2 candidates, but 1 lists"):
        capmeter.load(candidates, references)
    for header in ("photo,text", "photo;text", "photo\ttext", "photo|text"):
        with pytest.raises(InputError, match="the first line names the columns"):
            capmeter.load(write(tmp_path / "t.txt", f"{header}\n1,a dog\n"))
    with pytest.raises(InputError, match="the first line names the column generated_caption"):
        capmeter.load(write(tmp_path / "t.csv", '"generated_caption"\n"a wolf"\n'))


def test_lines_with_the_name_of_their_image(tmp_path: Path) -> None:
    path = write(
        tmp_path / "Flickr8k.token.txt", "1.jpg#0\tA dog runs , fast .\n1.jpg#1\tIt runs .\n2.jpg#0\tA bus .\n"
    )
    assert open_rows(path).format == "named"
    references = {"1.jpg": ("A dog runs , fast .", "It runs ."), "2.jpg": ("A bus .",)}
    assert capmeter.load_references(path) == references
    assert [each.candidate for each in capmeter.load(path, references)] == [
        "A dog runs , fast .",
        "It runs .",
        "A bus .",
    ]
    listed = write(tmp_path / "listed.txt", "1.jpg#0\t['a dog', 'a cat']\n1.jpg#1\tIt runs .\n")
    assert capmeter.load_references(listed) == {"1.jpg": ("['a dog', 'a cat']", "It runs .")}
    with pytest.raises(InputError, match=r"line 2: the text \"no tab\", expected NAME#0, a tab and a caption"):
        capmeter.load_references(write(path, "1.jpg#0\tA dog .\nno tab\n"))


def test_lines_with_a_file_name(tmp_path: Path) -> None:
    path = write(tmp_path / "refs.txt", "1.jpg A dog runs.\n2.jpg\tA bus stops.\n\n1.jpg It runs.\n")
    assert capmeter.load_references(path) == {"1.jpg": ("A dog runs.", "It runs."), "2.jpg": ("A bus stops.",)}
    with pytest.raises(InputError, match=r"line 3: the text \"A dog.\", expected NAME#0, a tab and a caption, or NAME"):
        capmeter.load_references(write(path, "1.jpg A dog.\n2.jpg A bus.\nA dog.\n"))
    # a caption that only begins with a file's name is a caption
    assert len(capmeter.load_references(write(path, "1.jpg is on a screen\nA dog runs.\n"))) == 2


@pytest.mark.parametrize("first", ["1.jpg", 1, "391895", "img_1"])
def test_pairs_of_an_image_and_a_caption(first: str | int) -> None:
    pairs = [[first, "A dog runs."], ["2.jpg", "A bus stops."], [first, "It runs."]]
    references = {str(first): ("A dog runs.", "It runs."), "2.jpg": ("A bus stops.",)}
    assert capmeter.load_references(pairs) == references
    assert [each.image_id for each in capmeter.load(pairs[:2], references)] == [str(first), "2.jpg"]


def test_pairs_of_references_stay_references() -> None:
    for two in (["A dog runs.", "It runs fast."], ["dog", "a dog runs"], ["7", "dog"]):
        assert capmeter.load_references([two]) == {"0": tuple(two)}


def test_tables_with_bars(tmp_path: Path) -> None:
    text = 'image_name| comment_number| comment\n1.jpg| 0| "Stop" , he said .\n1.jpg| 4   A dog runs .\n'
    text += "2.jpg| 0| A bus .\n"
    path = write(tmp_path / "results.csv", text)
    expected = {"1.jpg": ('"Stop" , he said .', "A dog runs ."), "2.jpg": ("A bus .",)}
    assert capmeter.load_references(path) == expected
    assert capmeter.load({"1.jpg": "x"}, path)["1.jpg"].references == expected["1.jpg"]


def test_an_address_ends_at_the_comma_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("url,caption\nhttps://x.org/a,a dog runs\nhttps://x.org/b,a cat sits\n")
    assert capmeter.load_references(path) == {"https://x.org/a": ("a dog runs",), "https://x.org/b": ("a cat sits",)}
