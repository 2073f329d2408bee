"""Parquet: hostile and damaged files end with a sentence, long texts are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from capmeter.captions import sources
from capmeter.captions.load import load
from capmeter.captions.writing import convert
from capmeter.core.errors import InputError


@pytest.mark.parametrize("where", ["repeated", "compressed", "listed"])
def test_a_parquet_bomb_is_refused_before_memory_goes(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGEST_DOCUMENT", 1 << 22)
    long = "a dog " * 10_000
    rows = 2 if where == "compressed" else 1200
    texts = [f"{long * 50}{k}" for k in range(rows)] if where == "compressed" else [long] * rows
    columns = {"image_id": [str(k) for k in range(rows)], "candidate": texts, "references": [["a dog"]] * rows}
    if where == "listed":
        columns |= {"candidate": ["a dog"] * rows, "references": [[long, long]] * rows}
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table(columns), path, compression="zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"bomb.parquet.* holds more than 0\.0 GiB and 100 times its size"):
        load(path)


def test_long_texts_in_parquet_are_read(tmp_path: Path) -> None:
    texts = ["a dog " * 100_000, "a", "", "two cats"]
    columns = {
        "image_id": ["1", "2", "3", "4"],
        "candidate": texts,
        "references": [["a", "b"], ["a"], ["c"], [texts[0]]],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "long.parquet")
    captions = load(tmp_path / "long.parquet")
    assert [each.candidate for each in captions] == texts
    assert [each.references for each in captions] == [("a", "b"), ("a",), ("c",), (texts[0],)]


def test_parquet_with_text_that_is_not_utf8(tmp_path: Path) -> None:
    binary = pyarrow.array([b"a\xff"], pyarrow.binary()).view(pyarrow.string())
    table = pyarrow.table({"image_id": ["1"], "candidate": binary, "reference": ["b"]})
    parquet.write_table(table, tmp_path / "x")
    with pytest.raises(InputError, match="text that is not UTF-8"):
        load(tmp_path / "x")


DAMAGED = """
import struct, sys
from pathlib import Path
from capmeter.captions.load import load
from capmeter.core.errors import CapmeterError

path = Path(sys.argv[1])
sound = path.read_bytes()
(footer,) = struct.unpack("<I", sound[-8:-4])
refused = 0
for place in range(len(sound) - 8 - footer, len(sound) - 8):
    path.write_bytes(sound[:place] + bytes([16]) + sound[place + 1 :])
    try:
        load(path, on_missing="skip")
    except CapmeterError as error:
        assert str(error)
        refused += 1
print(refused)
"""


def test_a_damaged_footer_of_a_parquet_file_is_a_sentence_and_never_ends_the_process(tmp_path: Path) -> None:
    """pyarrow calls `terminate` where it shows the metadata of some damaged columns."""
    path = tmp_path / "captions.parquet"
    convert(
        [{"image_id": k, "candidate": "a dog", "references": ["a dog", "a cat"]} for k in range(4)], path, to="parquet"
    )
    done = subprocess.run([sys.executable, "-c", DAMAGED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
