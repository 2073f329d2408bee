"""The critic's forward pass: against the released network written out in numpy, and by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.leic.forward import CriticNetwork, human_probability, weight_shapes
from capmeter_research.papers.leic.pooling import CountSketch, bilinear_form, convolve, spectrum
from capmeter_research.papers.leic.shape import CriticShape
from capmeter_research.papers.leic.vocabulary import END

from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged

PARTS = ("image", "reference", "candidate")
# the oracle's names of networks: our shape, its width of pooling
RELEASED = {
    "concat_img_0": CriticShape(context="both", hidden=(), width=16, embedding=12, image=24),
    "mlp_1_img": CriticShape(context="both", hidden=(20,), width=16, embedding=12, image=24),
    "mlp_1_no_img": CriticShape(context="reference", hidden=(20,), width=16, embedding=12),
    "mlp_1_only_img": CriticShape(context="image", hidden=(20,), width=16, embedding=12, image=24),
    "bilinear_img_0": CriticShape(
        context="both", fusion="bilinear", hidden=(), width=16, embedding=12, image=24, pooled=256
    ),
}


@pytest.fixture(scope="module")
def vectors(shared: Path) -> dict[str, np.ndarray]:
    return dict(np.load(shared / "oracles" / "leic_numpy_vectors.npz", allow_pickle=False))


def weights_of(vectors: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    shape = RELEASED[name]
    weights = {"embedding": vectors["emb"], "lstm.0.kernel": vectors["kernel"], "lstm.0.bias": vectors["bias"]}
    if shape.sees_image:
        weights |= {"image.kernel": vectors["img_k"], "image.bias": vectors["img_b"]}
    for layer, _, _ in shape.dense_layers:
        released = "out" if layer == "output" else "fc" + layer[-1]
        kernel, bias = (vectors[f"{name}__{released}_{kind}"] for kind in "kb")
        weights |= {f"{layer}.kernel": kernel, f"{layer}.bias": bias}
    return weights


def released_states(network: CriticNetwork, ids: np.ndarray) -> np.ndarray:
    """As released: the state at the end token, the zero vector if the window has none."""
    rows = [row[: row.tolist().index(END) + 1].tolist() if END in row else [] for row in ids]
    return network.encode(Ragged.from_rows(rows, np.int32))


def outputs(network: CriticNetwork, vectors: dict[str, np.ndarray]) -> np.ndarray:
    encoded = {
        "reference": released_states(network, vectors["ref"]),
        "candidate": released_states(network, vectors["cand"]),
    }
    if network.shape.sees_image:
        encoded["image"] = network.project_image(vectors["img"])
    every = np.arange(len(vectors["ref"]))
    terms = {name: network.fusion_terms(name, encoded[name]) for name in network.shape.inputs}
    return network.logits(terms, dict.fromkeys(network.shape.inputs, every))


@pytest.mark.parametrize("name", RELEASED)
def test_every_vector_is_that_of_the_released_network(vectors: dict[str, np.ndarray], name: str) -> None:
    network = CriticNetwork(weights_of(vectors, name), RELEASED[name])
    read = released_states(network, vectors["ref"])
    np.testing.assert_allclose(read, vectors["lstm_feature_ref"], atol=1e-9)
    assert not read[[3, 4]].any()  # 15 words: no end token inside the window
    logits = outputs(network, vectors)
    np.testing.assert_allclose(logits, vectors[f"{name}__logits"], atol=1e-9)
    human = human_probability(logits)
    np.testing.assert_allclose(human, vectors[f"{name}__score"][:, 0], atol=1e-9)


@pytest.mark.parametrize("name", RELEASED)
def test_single_precision_stays_within_the_tolerance(vectors: dict[str, np.ndarray], name: str) -> None:
    weights = {key: value.astype(np.float32) for key, value in weights_of(vectors, name).items()}
    network = CriticNetwork(weights, RELEASED[name])
    logits = outputs(network, vectors)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(human_probability(logits), vectors[f"{name}__score"][:, 0], atol=1e-6)


def test_compact_bilinear_pooling_is_that_of_the_released_code(vectors: dict[str, np.ndarray]) -> None:
    first, second = CountSketch.from_seeds(1024, 8192, 1, 3), CountSketch.from_seeds(512, 8192, 5, 7)
    for sketch, which, size in ((first, 1, 1024), (second, 2, 512)):
        assert (sketch.positions == vectors[f"cbp_h{which}_{size}"]).all()
        assert (sketch.signs == vectors[f"cbp_s{which}_{size}"]).all()
    left, right = spectrum(first(vectors["cbp_in1"])), spectrum(second(vectors["cbp_in2"]))
    np.testing.assert_allclose(convolve(left, right, 8192), vectors["cbp_out_8192"], atol=1e-10)
    halves = first.take(0, 512)(vectors["cbp_in1"][:, :512]) + first.take(512, 1024)(vectors["cbp_in1"][:, 512:])
    np.testing.assert_allclose(halves, first(vectors["cbp_in1"]), atol=1e-12)


def test_count_sketch_by_hand() -> None:
    first = CountSketch(np.array([0, 1]), np.array([1, -1]), 3)  # (a, b) -> (a, -b, 0)
    second = CountSketch(np.array([2, 1]), np.array([1, 1]), 3)  # (c, d) -> (0, d, c)
    a, b, c, d = 2.0, 3.0, 5.0, 7.0
    pooled = convolve(spectrum(first(np.array([[a, b]]))), spectrum(second(np.array([[c, d]]))), 3)
    # circular convolution: [x0 y0 + x1 y2 + x2 y1, x0 y1 + x1 y0 + x2 y2, x0 y2 + x1 y1 + x2 y0]
    np.testing.assert_allclose(pooled, [[-b * c, a * d, a * c - b * d]], atol=1e-12)
    weight = np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]])  # two outputs
    form = bilinear_form(weight, first, second)
    np.testing.assert_allclose(form[:, 0], [[30, 20], [-10, -30]])
    np.testing.assert_allclose(np.einsum("c,ckd,d->k", [a, b], form, [c, d]), (pooled @ weight)[0], atol=1e-12)


def sample_weights(shape: CriticShape, words: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    sizes = weight_shapes(shape).items()
    return {name: random.normal(size=[words if n == -1 else n for n in size]) for name, size in sizes}


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_lstm_by_hand() -> None:
    """One word vector, one unit: gates in the order input, candidate, forget, output, and 1 added to forget."""
    shape = CriticShape(context="none", hidden=(), width=1, embedding=1)
    weights = {
        "embedding": np.array([[0.0], [0.5], [0.0], [-1.0]]),
        "lstm.0.kernel": np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]),
        "lstm.0.bias": np.array([0.01, 0.02, 0.03, 0.04]),
        "output.kernel": np.zeros((1, 2)),
        "output.bias": np.zeros(2),
    }
    state = memory = 0.0
    for x in (0.5, -1.0):
        enter = sigmoid(0.1 * x + 0.5 * state + 0.01)
        new = math.tanh(0.2 * x + 0.6 * state + 0.02)
        stay = sigmoid(0.3 * x + 0.7 * state + 0.03 + 1)
        leave = sigmoid(0.4 * x + 0.8 * state + 0.04)
        memory = stay * memory + enter * new
        state = leave * math.tanh(memory)
    states = CriticNetwork(weights, shape).encode(Ragged.from_rows([[1, 3], [], [1, 3]], np.int32))
    np.testing.assert_allclose(states, [[state], [0.0], [state]], atol=1e-12)


def test_two_layers_read_one_after_the_other() -> None:
    """The second layer reads the states of the first: equal to two networks of one layer in turn."""
    random = np.random.default_rng(0)
    shape = CriticShape(context="none", hidden=(), width=3, embedding=2, layers=2)
    weights = sample_weights(shape, 6, random)
    both = CriticNetwork(weights, shape).encode(Ragged.from_rows([[4, 5, 3]], np.int32))
    lower = CriticNetwork(weights, CriticShape(context="none", hidden=(), width=3, embedding=2))
    states = np.concatenate([lower.encode(Ragged.from_rows([[4, 5, 3][:k]], np.int32)) for k in (1, 2, 3)])
    upper_weights = {
        "embedding": states,
        "lstm.0.kernel": weights["lstm.1.kernel"],
        "lstm.0.bias": weights["lstm.1.bias"],
        "output.kernel": weights["output.kernel"],
        "output.bias": weights["output.bias"],
    }
    upper = CriticNetwork(upper_weights, CriticShape(context="none", hidden=(), width=3, embedding=3))
    np.testing.assert_allclose(both, upper.encode(Ragged.from_rows([[0, 1, 2]], np.int32)), atol=1e-12)


# fusion and context: what is fused, and the two logits, for image projected to (1, 2), reference (3, 4) and candidate
# (5, 6), with the weights below
IMAGE, REFERENCE, CANDIDATE = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.array([[5.0, 6.0]])
INPUTS = dict(zip(PARTS, (IMAGE, REFERENCE, CANDIDATE), strict=True))


def small(shape: CriticShape) -> CriticNetwork:
    """Every kernel counts 1, -1, 1 … down its rows in the first column and is 1 in the others; biases are 0.5."""
    weights = {}
    for name, size in weight_shapes(shape).items():
        full = tuple(6 if n == -1 else n for n in size)
        weights[name] = np.full(full, 0.5)
        if name.endswith("kernel"):
            weights[name] = np.ones(full)
            weights[name][1::2, 0] = -1
    return CriticNetwork(weights, shape)


@pytest.mark.parametrize(
    ("context", "hidden", "expected"),
    [
        # candidate alone: 5 - 6, 5 + 6, and the biases
        ("none", (), (-0.5, 11.5)),
        # one hidden layer of 2: (ReLU(-0.5), 11.5) = (0, 11.5): 0 - 11.5, 0 + 11.5
        ("none", (2,), (-11.0, 12.0)),
        ("none", (2, 2), (-11.5, 12.5)),  # (ReLU(-11), 12) = (0, 12)
        ("image", (), (1 - 2 + 5 - 6 + 0.5, 14.5)),
        ("image", (2,), (-14.0, 15.0)),
        ("image", (2, 2), (-14.5, 15.5)),
        ("reference", (), (3 - 4 + 5 - 6 + 0.5, 18.5)),
        ("reference", (2,), (-18.0, 19.0)),
        ("reference", (2, 2), (-18.5, 19.5)),
        ("both", (), (-3 + 0.5, 21.5)),
        ("both", (2,), (-21.0, 22.0)),
        ("both", (2, 2), (-21.5, 22.5)),
    ],
)
def test_concatenation_by_hand(context: str, hidden: tuple[int, ...], expected: tuple[float, float]) -> None:
    shape = CriticShape(
        context=context, hidden=hidden, width=2, embedding=2, image=3 if context in ("image", "both") else 0
    )
    network = small(shape)
    terms = {part: network.fusion_terms(part, INPUTS[part]) for part in shape.inputs}
    logits = network.logits(terms, dict.fromkeys(shape.inputs, np.array([0])))
    np.testing.assert_allclose(logits, [expected], atol=1e-12)
    assert human_probability(logits)[0] == pytest.approx(sigmoid(expected[0] - expected[1]), abs=1e-12)


@pytest.mark.parametrize("context", ["image", "reference", "both"])
@pytest.mark.parametrize("hidden", [(), (2,), (2, 2)])
def test_bilinear_pooling_by_hand(context: str, hidden: tuple[int, ...]) -> None:
    """The convolution written out as sums of products over positions."""
    image = 3 if context in ("image", "both") else 0
    shape = CriticShape(context=context, fusion="bilinear", hidden=hidden, width=2, embedding=2, image=image, pooled=5)
    network = small(shape)
    joint = np.concatenate([INPUTS[part] for part in shape.inputs[:-1]], axis=1)[0]
    positions, signs = (
        np.random.RandomState(1).randint(5, size=len(joint)),
        np.random.RandomState(3).randint(2, size=len(joint)),
    )
    other_positions = np.random.RandomState(5).randint(5, size=2)
    other_signs = np.random.RandomState(7).randint(2, size=2)
    pooled = [0.0] * 5
    for x, position, sign in zip(joint, positions, signs, strict=True):
        for y, other_position, other_sign in zip(CANDIDATE[0], other_positions, other_signs, strict=True):
            pooled[(position + other_position) % 5] += x * y * (2 * sign - 1) * (2 * other_sign - 1)
    values = pooled
    for layer in range(len(hidden) + 1):
        if layer:
            values = [max(0.0, value) for value in values]
        values = [sum(v * (-1) ** k for k, v in enumerate(values)) + 0.5, sum(values) + 0.5]
    terms = {part: network.fusion_terms(part, INPUTS[part]) for part in shape.inputs}
    logits = network.logits(terms, dict.fromkeys(shape.inputs, np.array([0])))
    np.testing.assert_allclose(logits, [values], atol=1e-10)


def test_image_is_projected() -> None:
    network = small(CriticShape(context="image", hidden=(), width=2, embedding=2, image=3))
    # first column: 1 - 2 + 4, second: 1 + 2 + 4, bias 0.5
    np.testing.assert_allclose(network.project_image(np.array([[1.0, 2.0, 4.0]])), [[3.5, 7.5]])
    with pytest.raises(InputError, match="context=none has no image"):
        small(CriticShape(context="none", hidden=(), width=2, embedding=2)).project_image(np.zeros((1, 3)))


def test_sentences_are_independent_of_their_batch() -> None:
    random = np.random.default_rng(1)
    shape = CriticShape(context="none", hidden=(), width=8, embedding=4)
    weights = sample_weights(shape, 30, random)
    network = CriticNetwork(weights, shape)
    rows = [random.integers(0, 30, size=n).tolist() for n in random.integers(0, 16, size=700)]
    together = network.encode(Ragged.from_rows(rows, np.int32))
    alone = np.concatenate([network.encode(Ragged.from_rows([row], np.int32)) for row in rows[:40]])
    np.testing.assert_allclose(together[:40], alone, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"context": "picture"}, "context: expected one of none, image, reference, both, but got 'picture'"),
        ({"fusion": "sum", "image": 3}, "fusion: expected one of concatenation, bilinear"),
        ({"context": "none", "fusion": "bilinear"}, "bilinear pooling multiplies context and candidate"),
        ({"context": "reference", "hidden": (4, 4, 4)}, "at most 2 hidden layers, but got 3"),
        ({"context": "reference", "layers": 0}, "1 to 4 LSTM layers, but got 0"),
        ({"context": "reference", "width": 0}, "of 1 or more"),
        ({"context": "both"}, "a positive width of image features, but got 0"),
        ({"context": "reference", "image": 7}, "no width of image features, but got 7"),
    ],
)
def test_impossible_shapes_are_rejected(sizes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CriticShape(**sizes)


def test_missing_and_misshapen_weights_are_named() -> None:
    shape = CriticShape(context="none", hidden=(), width=2, embedding=2)
    weights = {name: np.zeros([6 if n == -1 else n for n in size]) for name, size in weight_shapes(shape).items()}
    with pytest.raises(InputError, match=r"weight lstm.0.kernel: expected the shape \[4, 8\], but got None"):
        CriticNetwork({name: each for name, each in weights.items() if name != "lstm.0.kernel"}, shape)
    with pytest.raises(InputError, match=r"weight output.bias: expected the shape \[2\], but got \(3,\)"):
        CriticNetwork({**weights, "output.bias": np.zeros(3)}, shape)
    with pytest.raises(InputError, match=r"weight embedding: expected the shape \[-1, 2\], but got \(6,\)"):
        CriticNetwork({**weights, "embedding": np.zeros(6)}, shape)
