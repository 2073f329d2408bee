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
from capmeter_research.papers.subicap.network import CaptionerModule, RegionBatch, displacements, embedded, sinusoids  # noqa: E402
from capmeter_research.papers.subicap.recipe import CaptionerShape  # noqa: E402

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
    output = []
    for count in counts:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)[:, [0, 1, 2, 3]].astype(np.float32)
        size = corners[:, 2:] - corners[:, :2]
        places = np.concatenate([corners, size, size[:, :1] * size[:, 1:]], axis=1)
        output.append((rng.standard_normal((count, features)).astype(np.float32), places))
    return RegionBatch.from_regions(output)


def module(shape: CaptionerShape, pieces: int = 11, longest: int = 7, seed: int = 0) -> CaptionerModule:
    torch.manual_seed(seed)
    return CaptionerModule(shape, pieces, longest).eval()


def test_displacements_by_hand() -> None:
    result = displacements(BOXES)[0]
    assert result.shape == (2, 2, 4)
    neighbours = math.log(1e-3)  # the distance of a box to itself is 0, whose logarithm is not finite
    assert result[0, 0].tolist() == pytest.approx([neighbours, neighbours, 0, 0])
    assert result[0, 1].tolist() == pytest.approx([math.log(2.5), math.log(0.5), math.log(2), math.log(2)])
    assert result[1, 0].tolist() == pytest.approx([math.log(1.25), math.log(0.25), math.log(0.5), math.log(0.5)])


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
    output = module(shape)
    with torch.no_grad():
        output.geometric[0].weight.zero_()
        output.geometric[0].weight[0, 2], output.geometric[0].weight[1, 6] = 1.0, -1.0
        result = output.geometric_weights(BOXES.float())[0][0]
    wider = 100 * math.log(2)
    assert result[0].numpy() == pytest.approx(
        np.array([[0, max(0, math.sin(wider))], [max(0, math.sin(-wider)), 0]]), abs=2e-4
    )
    assert result[1].numpy() == pytest.approx(
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
        local = slice(head * each, (head + 1) * each)
        for row in range(count):
            visual = [query[row, local] @ key[other, local] / math.sqrt(each) for other in range(count)]
            share = [geometric[head, row, other] * math.exp(visual[other]) for other in range(count)]
            joined[row, local] = sum(s / sum(share) * value[other, local] for other, s in enumerate(share))
    return joined @ weights["out.weight"].T + weights["out.bias"]


def test_a_layer_multiplies_visual_by_geometric_weights() -> None:
    """One layer equals Eq. A.1 to A.7 in numpy, float64, where no geometric weight is 0."""
    output = module(SMALL).double()
    pictures = regions([5])
    pictures = RegionBatch(pictures.features.double(), pictures.positions.double(), pictures.there)
    rng = np.random.default_rng(1)
    geometric = rng.random((2, 5, 5)) + 0.1
    states = torch.from_numpy(rng.standard_normal((1, 5, 16)))
    layer = output.encoders[0]
    with torch.no_grad():
        result = layer(states, torch.from_numpy(geometric)[None].log())[0].numpy()
    names = {name: values.numpy() for name, values in layer.state_dict().items()}

    def normed(inputs: Any, number: int) -> Any:
        middle = inputs - inputs.mean(-1, keepdims=True)
        scaled = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * names[f"norms.{number}.weight"] + names[f"norms.{number}.bias"]

    inputs = states[0].numpy()
    local = {name.removeprefix("attention."): values for name, values in names.items()}
    middle = inputs + attended(normed(inputs, 0), local, geometric, 2)
    inner = np.maximum(0, normed(middle, 1) @ names["feed.inner.weight"].T + names["feed.inner.bias"])
    expected = middle + inner @ names["feed.out.weight"].T + names["feed.out.bias"]
    assert result == pytest.approx(expected, abs=1e-10)


def test_the_encoder_uses_its_geometric_weights() -> None:
    """`encoded` is its layers one after another, each with the logarithm of its own w_G, at least 1e-6."""
    output, pictures = module(SMALL), regions([5, 3])
    with torch.no_grad():
        result = output.encoded(pictures)
        states = torch.relu(output.see(pictures.features))
        weights = output.geometric_weights(pictures.positions[..., :4])
        assert not torch.equal(weights[0], weights[1])
        absent = torch.where(pictures.there, 0.0, -torch.inf)[:, None, None]
        for layer, each in zip(output.encoders, weights, strict=True):
            states = layer(states, each.clamp_min(1e-6).log() + absent)
        moved = RegionBatch(pictures.features, pictures.positions * 0.5, pictures.there)
        separate = pictures.positions.clone()
        separate[:, 0, :4] += torch.tensor([0.0, 0.3, 0.0, 0.3])
        assert torch.allclose(result, output.encoder_norm(states), atol=1e-6)
        assert torch.allclose(output.encoded(moved)[0], result[0], atol=2e-3), "geometry is relative"
        assert not torch.allclose(
            output.encoded(RegionBatch(pictures.features, separate, pictures.there))[0], result[0], atol=2e-3
        )


def test_without_geometry_it_is_torchs_encoder() -> None:
    output, pictures = module(PLAIN).double(), regions([5, 2, 7])
    pictures = RegionBatch(pictures.features.double(), pictures.positions.double(), pictures.there)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True, norm_first=True)
    standard = torch.nn.TransformerEncoder(layer, 3, torch.nn.LayerNorm(16), enable_nested_tensor=False)
    standard = standard.double().eval()
    with torch.no_grad():
        for local, other in zip(output.encoders, standard.layers, strict=True):
            attention = local.attention
            for name in ("weight", "bias"):
                joined = torch.cat([getattr(attention.query, name), getattr(attention.pair, name)])
                getattr(other.self_attn, f"in_proj_{name}").copy_(joined)
                getattr(other.self_attn.out_proj, name).copy_(getattr(attention.out, name))
                for ours, other_values in ((local.feed.inner, other.linear1), (local.feed.out, other.linear2)):
                    getattr(other_values, name).copy_(getattr(ours, name))
        states = torch.relu(output.see(pictures.features))
        expected = standard(states, src_key_padding_mask=~pictures.there)
        result = output.encoded(pictures)
    assert result[pictures.there].numpy() == pytest.approx(expected[pictures.there].numpy(), abs=1e-9)
    assert expected.abs().max() > 1


@pytest.mark.parametrize(
    ("entries", "millions"),
    [(9_486, 54.9), (95, 45.3), (1_076, 46.3), (1_085, 46.3)],
    ids=["word", "char", "bpe", "1k"],
)
def test_the_papers_sizes_have_the_papers_parameters(entries: int, millions: float) -> None:
    """Table A.2."""
    with torch.device("meta"):
        parameters = CaptionerModule(CaptionerShape(), entries, 1).parameters()
    assert sum(each.numel() for each in parameters) == pytest.approx(millions * 1e6, rel=0.002)


def test_places_are_the_transformers() -> None:
    result = sinusoids(3, 4)
    assert result[2].tolist() == pytest.approx([math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)])


def test_padding_of_regions_changes_nothing() -> None:
    output, together = module(SMALL), regions([2, 9])
    alone = RegionBatch(together.features[:1, :2], together.positions[:1, :2], together.there[:1, :2])
    targets = torch.tensor([[BEGIN, 5, 6]])
    with torch.no_grad():
        wide = output(together, targets.expand(2, 3))[0]
        assert wide.numpy() == pytest.approx(output(alone, targets)[0].numpy(), abs=1e-5)


def test_beams_and_samples_of_pictures_with_several_captions() -> None:
    output, pictures = module(SMALL), regions([4, 2, 6])
    rng = np.random.default_rng(0)
    with torch.inference_mode():
        greedy, beam = decoding.greedy_search(output, pictures), decoding.beam_search(output, pictures, 5)
        uniform = rng.random((12, output.longest), dtype=np.float32)
        several = decoding.sample(output, pictures.repeated(4), uniform)
        alone = decoding.sample(output, pictures, uniform[[1, 5, 9]])
        rows = [[*each.pieces, END][: output.longest] for each in several]
        targets = torch.tensor([row + [PAD] * (output.longest - len(row)) for row in rows])
        again = decoding.log_probabilities(output, pictures.repeated(4), targets)
    assert all(b.log_probability >= g.log_probability - 1e-6 for g, b in zip(greedy, beam, strict=True))
    assert len(several) == 12
    assert [several[k].pieces for k in (1, 5, 9)] == [each.pieces for each in alone]
    assert len({each.pieces for each in several}) > 3
    assert again.tolist() == pytest.approx([each.log_probability for each in several], abs=1e-4)


def test_beam_search_per_token_finds_the_best_of_all_captions() -> None:
    """With as many hypotheses as there are captions it is an exhaustive search."""
    output, pictures = module(SMALL, pieces=6, longest=4, seed=7), regions([4, 2])
    with torch.no_grad():
        output.predict.bias[END] += 0.9  # so that the greedy caption ends, too
    tokens = range(END + 1, 6)
    names = [row for size in range(4) for row in itertools.product(tokens, repeat=size)]
    rows = torch.tensor([[*row, END, *[PAD] * (3 - len(row))] for row in names])
    with torch.inference_mode():
        result = decoding.beam_search(output, pictures, 30, per_token=True)
        plain = decoding.beam_search(output, pictures, 30)
        for number, (each, other) in enumerate(zip(result, plain, strict=True)):
            one = RegionBatch(pictures.features[[number]], pictures.positions[[number]], pictures.there[[number]])
            worth = decoding.log_probabilities(output, one.repeated(len(rows)), rows).numpy()
            sizes = np.array([len(row) + 1 for row in names])
            assert each.pieces == names[int((worth / sizes).argmax())]
            assert other.pieces == names[int(worth.argmax())]
            assert each.log_probability == pytest.approx(worth[int((worth / sizes).argmax())], abs=1e-4)
    assert sum(len(each.pieces) for each in result) > sum(len(each.pieces) for each in plain)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"width": 17}, "even"), ({"heads": 3}, "divisible by 3 heads"), ({"geometry": 12}, "multiple of 8")],
)
def test_sizes_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CaptionerShape(**wrong)
