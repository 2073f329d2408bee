"""The captioner's network: geometric attention by hand, torch's Transformer without geometry, sizes, decoding."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the captioner needs the neural extra")

from capmeter_research.common.transformer import decoding  # noqa: E402
from capmeter_research.common.transformer.decoding import BEGIN, END, PAD  # noqa: E402
from capmeter_research.papers.subicap.network import (  # noqa: E402
    CaptionerModule,
    RegionBatch,
    displacements,
    embedded,
    parameter_count,
    sinusoids,
)
from capmeter_research.papers.subicap.shape import CaptionerShape  # noqa: E402

from capmeter.core.errors import InputError  # noqa: E402

SMALL = CaptionerShape(
    features=6, width=16, hidden=24, heads=2, encoder_layers=2, decoder_layers=2, geometry=16, dropout=0.0
)
PLAIN = CaptionerShape(
    features=6, width=16, hidden=24, heads=2, encoder_layers=3, decoder_layers=2, geometry=0, dropout=0.0
)
# two boxes: centres (.1, .1) and (.6, .2), widths .2 and .4, heights .2 and .4
BOXES = torch.tensor([[[0.0, 0.0, 0.2, 0.2], [0.4, 0.0, 0.8, 0.4]]], dtype=torch.float64)


def regions(counts: list[int], features: int = 6, seed: int = 0) -> RegionBatch:
    """Pictures with so many regions each."""
    rng = np.random.default_rng(seed)
    made = []
    for count in counts:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)[:, [0, 1, 2, 3]].astype(np.float32)
        size = corners[:, 2:] - corners[:, :2]
        places = np.concatenate([corners, size, size[:, :1] * size[:, 1:]], axis=1)
        made.append((rng.standard_normal((count, features)).astype(np.float32), places))
    return RegionBatch.of(made)


def module(shape: CaptionerShape, pieces: int = 11, longest: int = 7, seed: int = 0) -> CaptionerModule:
    torch.manual_seed(seed)
    return CaptionerModule(shape, pieces, longest).eval()


def test_displacements_by_hand() -> None:
    found = displacements(BOXES)[0]
    assert found.shape == (2, 2, 4)
    near = math.log(1e-3)  # the distance of a box to itself is 0, whose logarithm is not finite
    assert found[0, 0].tolist() == pytest.approx([near, near, 0, 0])
    assert found[0, 1].tolist() == pytest.approx([math.log(2.5), math.log(0.5), math.log(2), math.log(2)])
    assert found[1, 0].tolist() == pytest.approx([math.log(1.25), math.log(0.25), math.log(0.5), math.log(0.5)])


def test_the_embedding_by_hand() -> None:
    rates = [100.0, 100 / math.sqrt(1000)]
    numbers = [0.3, -0.2, 0.0, 1.0]
    angles = [number * rate for number in numbers for rate in rates]
    expected = [*map(math.sin, angles), *map(math.cos, angles)]
    assert embedded(torch.tensor(numbers, dtype=torch.float64), 16).tolist() == pytest.approx(expected, abs=1e-5)


def test_geometric_weights_by_hand() -> None:
    """ReLU(Emb(λ) W_G) with one wavelength: w_G of head 0 is the sine of 100 λ_3, of head 1 minus the cosine of it."""
    shape = CaptionerShape(
        features=6, width=16, hidden=24, heads=2, encoder_layers=1, decoder_layers=1, geometry=8, dropout=0.0
    )
    made = module(shape)
    with torch.no_grad():
        made.geometric[0].weight.zero_()
        made.geometric[0].weight[0, 2], made.geometric[0].weight[1, 6] = 1.0, -1.0
        found = made.geometric_weights(BOXES.float())[0][0]
    wider = 100 * math.log(2)
    assert found[0].numpy() == pytest.approx(
        np.array([[0, max(0, math.sin(wider))], [max(0, math.sin(-wider)), 0]]), abs=2e-4
    )
    assert found[1].numpy() == pytest.approx(
        np.array([[0, max(0, -math.cos(wider))], [max(0, -math.cos(-wider)), 0]]), abs=2e-4
    )


def attended(states: Any, weights: dict[str, Any], geometric: Any, heads: int) -> Any:
    """Equations A.1 to A.6, written out for one picture: what all heads attend to."""
    count, width = states.shape
    key_value = states @ weights["pair.weight"].T + weights["pair.bias"]
    query = states @ weights["query.weight"].T + weights["query.bias"]
    key, value = key_value[:, :width], key_value[:, width:]
    each = width // heads
    joined = np.zeros((count, width))
    for head in range(heads):
        own = slice(head * each, (head + 1) * each)
        for row in range(count):
            visual = [query[row, own] @ key[other, own] / math.sqrt(each) for other in range(count)]
            share = [geometric[head, row, other] * math.exp(visual[other]) for other in range(count)]
            joined[row, own] = sum(s / sum(share) * value[other, own] for other, s in enumerate(share))
    return joined @ weights["out.weight"].T + weights["out.bias"]


def test_a_layer_multiplies_visual_by_geometric_weights() -> None:
    """One layer equals Eq. A.1 to A.7 in numpy, float64, where no geometric weight is 0."""
    made = module(SMALL).double()
    pictures = regions([5])
    pictures = RegionBatch(pictures.features.double(), pictures.positions.double(), pictures.there)
    rng = np.random.default_rng(1)
    geometric = rng.random((2, 5, 5)) + 0.1
    states = torch.from_numpy(rng.standard_normal((1, 5, 16)))
    layer = made.encoders[0]
    with torch.no_grad():
        found = layer(states, torch.from_numpy(geometric)[None].log())[0].numpy()
    known = {name: values.numpy() for name, values in layer.state_dict().items()}

    def normed(given: Any, number: int) -> Any:
        middle = given - given.mean(-1, keepdims=True)
        scaled = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * known[f"norms.{number}.weight"] + known[f"norms.{number}.bias"]

    given = states[0].numpy()
    own = {name.removeprefix("attention."): values for name, values in known.items()}
    middle = given + attended(normed(given, 0), own, geometric, 2)
    inner = np.maximum(0, normed(middle, 1) @ known["feed.inner.weight"].T + known["feed.inner.bias"])
    expected = middle + inner @ known["feed.out.weight"].T + known["feed.out.bias"]
    assert found == pytest.approx(expected, abs=1e-10)


def test_the_encoder_uses_its_geometric_weights() -> None:
    """`encoded` is its layers one after another, each with the logarithm of its own w_G, at least 1e-6."""
    made, pictures = module(SMALL), regions([5, 3])
    with torch.no_grad():
        found = made.encoded(pictures)
        states = torch.relu(made.see(pictures.features))
        weights = made.geometric_weights(pictures.positions[..., :4])
        assert not torch.equal(weights[0], weights[1])
        absent = torch.where(pictures.there, 0.0, -torch.inf)[:, None, None]
        for layer, each in zip(made.encoders, weights, strict=True):
            states = layer(states, each.clamp_min(1e-6).log() + absent)
        moved = RegionBatch(pictures.features, pictures.positions * 0.5, pictures.there)
        apart = pictures.positions.clone()
        apart[:, 0, :4] += torch.tensor([0.0, 0.3, 0.0, 0.3])
        assert torch.allclose(found, made.encoder_norm(states), atol=1e-6)
        assert torch.allclose(made.encoded(moved)[0], found[0], atol=2e-3), "geometry is relative"
        assert not torch.allclose(
            made.encoded(RegionBatch(pictures.features, apart, pictures.there))[0], found[0], atol=2e-3
        )


def test_without_geometry_it_is_torchs_encoder() -> None:
    made, pictures = module(PLAIN).double(), regions([5, 2, 7])
    pictures = RegionBatch(pictures.features.double(), pictures.positions.double(), pictures.there)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True)
    standard = torch.nn.TransformerEncoder(layer, 3, torch.nn.LayerNorm(16), enable_nested_tensor=False)
    standard = standard.double().eval()
    with torch.no_grad():
        for own, other in zip(made.encoders, standard.layers, strict=True):
            attention = own.attention
            for name in ("weight", "bias"):
                joined = torch.cat([getattr(attention.query, name), getattr(attention.pair, name)])
                getattr(other.self_attn, f"in_proj_{name}").copy_(joined)
                getattr(other.self_attn.out_proj, name).copy_(getattr(attention.out, name))
                for ours, theirs in ((own.feed.inner, other.linear1), (own.feed.out, other.linear2)):
                    getattr(theirs, name).copy_(getattr(ours, name))
        states = torch.relu(made.see(pictures.features))
        expected = standard(states, src_key_padding_mask=~pictures.there)
        found = made.encoded(pictures)
    assert found[pictures.there].numpy() == pytest.approx(expected[pictures.there].numpy(), abs=1e-9)
    assert expected.abs().max() > 1


@pytest.mark.parametrize(
    ("entries", "millions"),
    [(9_486, 54.9), (95, 45.3), (1_076, 46.3), (1_085, 46.3)],
    ids=["word", "char", "bpe", "1k"],
)
def test_the_papers_sizes_have_the_papers_parameters(entries: int, millions: float) -> None:
    """Table A.2."""
    assert parameter_count(CaptionerShape(), entries) == pytest.approx(millions * 1e6, rel=0.002)


def test_places_are_the_transformers() -> None:
    found = sinusoids(3, 4)
    assert found[2].tolist() == pytest.approx([math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)])


def test_padding_of_regions_changes_nothing() -> None:
    made, together = module(SMALL), regions([2, 9])
    alone = RegionBatch(together.features[:1, :2], together.positions[:1, :2], together.there[:1, :2])
    targets = torch.tensor([[BEGIN, 5, 6]])
    with torch.no_grad():
        wide = made(together, targets.expand(2, 3))[0]
        assert wide.numpy() == pytest.approx(made(alone, targets)[0].numpy(), abs=1e-5)


def test_step_by_step_decoding_equals_the_whole_network() -> None:
    made, pictures = module(SMALL), regions([4, 2, 6])
    with torch.inference_mode():
        written = decoding.greedy_search(made, pictures)
        assert any(each.pieces for each in written)
        for row, found in enumerate(written):
            one = RegionBatch(pictures.features[[row]], pictures.positions[[row]], pictures.there[[row]])
            pieces: list[int] = []
            total = 0.0
            while len(pieces) < made.longest:
                scores = made(one, torch.tensor([[BEGIN, *pieces]]))[0, -1]
                scores[:END] = -torch.inf
                best = int(scores.argmax())
                total += float(scores.log_softmax(-1)[best])
                if best == END:
                    break
                pieces.append(best)
            assert list(found.pieces) == pieces
            assert found.log_probability == pytest.approx(total, abs=1e-4)


def test_beams_and_samples_of_pictures_with_several_captions() -> None:
    made, pictures = module(SMALL), regions([4, 2, 6])
    rng = np.random.default_rng(0)
    with torch.inference_mode():
        greedy, beam = decoding.greedy_search(made, pictures), decoding.beam_search(made, pictures, 5)
        uniform = rng.random((12, made.longest), dtype=np.float32)
        several = decoding.sample(made, pictures.repeated(4), uniform)
        alone = decoding.sample(made, pictures, uniform[[1, 5, 9]])
        rows = [[*each.pieces, END][: made.longest] for each in several]
        targets = torch.tensor([row + [PAD] * (made.longest - len(row)) for row in rows])
        again = decoding.log_probabilities(made, pictures.repeated(4), targets)
    assert all(b.log_probability >= g.log_probability - 1e-6 for g, b in zip(greedy, beam, strict=True))
    assert len(several) == 12
    assert [several[k].pieces for k in (1, 5, 9)] == [each.pieces for each in alone]
    assert len({each.pieces for each in several}) > 3
    assert again.tolist() == pytest.approx([each.log_probability for each in several], abs=1e-4)


def test_beam_search_per_token_finds_the_best_of_all_captions() -> None:
    """With as many hypotheses as there are captions it is an exhaustive search."""
    made, pictures = module(SMALL, pieces=6, longest=4, seed=7), regions([4, 2])
    with torch.no_grad():
        made.predict.bias[END] += 0.9  # so that the greedy caption ends, too
    tokens = range(END + 1, 6)
    known = [row for size in range(4) for row in itertools.product(tokens, repeat=size)]
    rows = torch.tensor([[*row, END, *[PAD] * (3 - len(row))] for row in known])
    with torch.inference_mode():
        found = decoding.beam_search(made, pictures, 30, per_token=True)
        plain = decoding.beam_search(made, pictures, 30)
        for number, (each, other) in enumerate(zip(found, plain, strict=True)):
            one = RegionBatch(pictures.features[[number]], pictures.positions[[number]], pictures.there[[number]])
            worth = decoding.log_probabilities(made, one.repeated(len(rows)), rows).numpy()
            sizes = np.array([len(row) + 1 for row in known])
            assert each.pieces == known[int((worth / sizes).argmax())]
            assert other.pieces == known[int(worth.argmax())]
            assert each.log_probability == pytest.approx(worth[int((worth / sizes).argmax())], abs=1e-4)
    assert sum(len(each.pieces) for each in found) > sum(len(each.pieces) for each in plain)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 17}, "even"),
        ({"heads": 3}, "divisible by 3 heads"),
        ({"geometry": 12}, "multiple of 8"),
        ({"features": 0}, "whole number from 1"),
        ({"decoder_layers": 1.5}, "whole number"),
        ({"positions": 1}, "true or false"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_sizes_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CaptionerShape(**wrong)
