"""The scene-graph parser's networks in torch and in numpy decode the same tokens, also with ensembles and beams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from capmeter_research.networks.scene_graph_parser.forward import DecoderShape, SceneGraphNetwork, SentenceEncoderShape
from capmeter_research.networks.scene_graph_parser.triples import STOP_ID, UNKNOWN_ID

torch = pytest.importorskip("torch")

from capmeter_research.networks.scene_graph_parser.network import (  # noqa: E402
    GraphDecoderModule,
    SceneGraphModule,
    SentenceEncoderModule,
)

pytestmark = pytest.mark.neural
SHAPES = SentenceEncoderShape(layers=1, heads=2, places=9), DecoderShape(layers=1, heads=2, hidden=12, steps=12)


def both_networks(
    encoder: SentenceEncoderModule,
    decoders: Sequence[GraphDecoderModule],
    std: float,
    predicate_end_ids: Sequence[int] = (),
) -> tuple[SceneGraphModule, SceneGraphNetwork]:
    """The network with random weights, in torch and in numpy."""
    module = SceneGraphModule(encoder, decoders).eval()
    for values in module.parameters():
        torch.nn.init.normal_(values, std=std)
    weights = {name: each.numpy() for name, each in module.state_dict().items()}
    return module, SceneGraphNetwork(weights, encoder.shape, decoders[0].shape, len(decoders), predicate_end_ids)


def next_probabilities(module: Any, rows: np.ndarray, copied: np.ndarray, prefix: list[int]) -> np.ndarray:
    """The mean of the decoders' probabilities of each token after the prefix, in torch."""
    source_ids = torch.from_numpy(copied[None])
    total: Any = 0
    with torch.no_grad():
        for logits in module(module.encode(torch.from_numpy(rows[None])), source_ids, torch.tensor([prefix])):
            probabilities, count = logits[:, -1].softmax(dim=1), logits.shape[2] - len(copied)
            generated = torch.nn.functional.pad(probabilities[:, :count], (0, len(copied)))
            total = total + generated.scatter_add(1, source_ids, probabilities[:, count:])
    total[:, [0, UNKNOWN_ID]] = 0
    return (total / len(module.writers))[0].numpy()


def decode_greedily(module: Any, rows: np.ndarray, copied: np.ndarray, max_steps: int) -> list[int]:
    prefix = [0]
    while len(prefix) <= max_steps and prefix[-1] != STOP_ID:
        probabilities = next_probabilities(module, rows, copied, prefix)
        probabilities[prefix[-1]] = 0  # no token follows itself
        prefix.append(int(probabilities.argmax()))
    return [token for token in prefix[1:] if token != STOP_ID]


def test_both_networks_decode_the_same() -> None:
    shape, encoder_shape = (
        DecoderShape(layers=2, heads=4, hidden=24, steps=20),
        SentenceEncoderShape(layers=2, heads=3, places=9),
    )
    torch.manual_seed(2)
    encoder = SentenceEncoderModule(30, encoder_shape, width=12, hidden=20)
    module, network = both_networks(encoder, [GraphDecoderModule(24, 16, 12, shape)], 0.4)
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 30, (6, 5, 3))
    rows[rng.random(rows.shape) < 0.3] = 0
    rows[:, :, 0] = 7
    copied = np.where(rng.random((6, 10)) < 0.5, rng.integers(6, 12, (6, 10)), 12 + np.arange(10))
    expected = [decode_greedily(module, rows[k], copied[k], 20) for k in range(6)]
    assert len({tuple(each) for each in expected}) > 2
    vectors = network.encoder.embed_words(rows.reshape(30, 3))
    words = np.arange(30).reshape(6, 5)
    with torch.no_grad():
        read = module.encode(torch.from_numpy(rows)).numpy()
    assert network.encoder.encode(words, vectors) == pytest.approx(read, abs=1e-5)
    assert network.decode(network.encoder.encode(words, vectors), copied, 20, beam_size=1) == expected
    encoded = [network.encoder.encode(words[k : k + 1], vectors) for k in range(6)]
    alone = [network.decode(encoded[k], copied[k : k + 1], 20, beam_size=1) for k in range(6)]
    assert [tokens for (tokens,) in alone] == expected
    weights = {name: each.numpy() for name, each in module.state_dict().items()}
    with pytest.raises(ValueError, match="steps"):
        SceneGraphNetwork(weights, encoder_shape, replace(shape, steps=9))
    with pytest.raises(ValueError, match="places"):
        SceneGraphNetwork(weights, replace(encoder_shape, places=8), shape)


def test_an_ensemble_of_decoders_and_beam_search() -> None:
    encoder_shape, shape = SHAPES
    torch.manual_seed(1)
    encoder = SentenceEncoderModule(20, encoder_shape, width=8, hidden=12)
    module, network = both_networks(encoder, [GraphDecoderModule(16, 8, 10, shape) for _ in range(2)], 0.5, [6, 7])
    rng = np.random.default_rng(1)
    rows = rng.integers(1, 20, (40, 4, 2))
    copied = 10 + np.tile(np.arange(8), (40, 1))
    read = network.encoder.encode(np.arange(160).reshape(40, 4), network.encoder.embed_words(rows.reshape(160, 2)))
    expected = [decode_greedily(module, rows[k], copied[k], 12) for k in range(40)]
    assert network.decode(read, copied, 12, beam_size=1) == expected

    def mean_log_probability(k: int, tokens: list[int]) -> float:
        """Of the tokens and the stop token."""
        prefix, total = [0], 0.0
        for token in [*tokens, 1][:12]:
            total += float(np.log(next_probabilities(module, rows[k], copied[k], prefix)[token]))
            prefix.append(token)
        return total / (len(prefix) - 1)

    searched = network.decode(read, copied, 12, beam_size=4)
    assert searched == [network.decode(read[k : k + 1], copied[k : k + 1], 12, beam_size=4)[0] for k in range(40)]
    differ = [k for k in range(40) if searched[k] != expected[k]]
    assert differ
    gains = [mean_log_probability(k, searched[k]) - mean_log_probability(k, expected[k]) for k in differ]
    assert np.mean(gains) > 0


def test_a_single_entity_is_not_related_to_itself() -> None:
    encoder_shape, shape = SHAPES
    opened, predicate, first, second, verb = 4, 7, 8, 9, 10  # 3: the next triple; two words, then their base forms
    torch.manual_seed(10)
    encoder = SentenceEncoderModule(20, encoder_shape, width=8, hidden=12)
    _, network = both_networks(encoder, [GraphDecoderModule(16, 8, 8, shape)], 1.0, [predicate])
    rows = np.random.default_rng(1).integers(1, 20, (200, 2, 2))
    read = network.encoder.encode(np.arange(400).reshape(200, 2), network.encoder.embed_words(rows.reshape(400, 2)))
    copied = np.tile([first, second, verb, verb + 1], (200, 1))

    def related_to_itself(tokens: list[int], entity: int) -> bool:
        for triple in "".join(map(chr, tokens)).split(chr(3)):
            subject_tokens, _, object_tokens = triple.partition(chr(predicate))
            subject = "".join(takewhile(lambda token: ord(token) not in (opened, verb, verb + 1), subject_tokens))
            if subject.endswith(chr(entity)) and chr(entity) in object_tokens:
                return True
        return False

    free = network.decode(read, copied, 12)
    single = network.decode(read, copied, 12, unique_ids=[{first}] * 200)
    assert sum(related_to_itself(tokens, first) for tokens in free) > 3
    assert not any(related_to_itself(tokens, first) for tokens in single)
    assert any(related_to_itself(tokens, second) for tokens in single)  # named more than once
    assert network.decode(read, copied, 12, unique_ids=[set()] * 200) == free
