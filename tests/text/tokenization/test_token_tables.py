"""Token tables: ids over one vocabulary, white space, hashes."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.captions.caption_set import SentencePool
from capmeter.core.errors import InputError
from capmeter.text.tokenization.token_tables import Tokens, Vocabulary, WhitespaceTokens


def test_tokens_and_words_are_ids_over_one_vocabulary() -> None:
    table = SentencePool(["A dog runs.", "a dog", ""]).analyse(Tokens())
    assert table.vocabulary.words == ("a", "dog", "runs")
    assert [table.ids[k].tolist() for k in range(3)] == [[0, 1, 2], [0, 1], []]
    assert table.row(1) == ("a", "dog")
    table = SentencePool(["a  b", ""]).analyse(Tokens("whitespace"))
    assert [table.row(0), table.row(1)] == [("a", "", "b"), ("",)]
    assert SentencePool(["a  b", ""]).analyse(WhitespaceTokens("whitespace")).row(0) == ("a", "b")
    pool = SentencePool(["add 1 1/2 cups", "two cups"])
    assert "1\u00a01/2" in pool.analyse(Tokens()).row(0)
    assert pool.analyse(WhitespaceTokens()).row(0) == ("add", "1", "1/2", "cups")
    assert pool.analyse(WhitespaceTokens()).row(1) == ("two", "cups")


def test_words_of_letters_alone() -> None:
    assert SentencePool(["a t-shirt & hat"]).analyse(WhitespaceTokens("whitespace", letters=True)).row(0) == (
        "a",
        "t",
        "shirt",
        "hat",
    )


def test_shared_tables_hashes_and_unknown_tokenizers() -> None:
    pool = SentencePool(["a dog"])
    assert pool.analyse(WhitespaceTokens()) is pool.analyse(Tokens())
    hashes = Vocabulary(("dog", "\ud800")).hashes
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [11501171807684625465, 7497787021708494914]
    with pytest.raises(InputError, match="unknown tokenizer 'moses'"):
        SentencePool(["a"]).analyse(Tokens("moses"))
