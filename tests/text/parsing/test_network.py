"""The forward pass in numpy equals that in torch."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.text.parsing.network import ParserNetwork, ParserShape

torch = pytest.importorskip("torch", reason="the training network needs the neural extra")


@pytest.mark.parametrize("length", [1, 2, 13, 40])
def test_numpy_and_torch_agree(length: int) -> None:
    from capmeter_research.networks.parser.network import ParserModule

    torch.manual_seed(5)
    shape = ParserShape(heads=2, layers=3, tags_after=1)
    module = ParserModule(features=50, tags=7, labels=5, shape=shape, width=16, hidden=24).eval()
    with torch.no_grad():
        for values in module.parameters():  # away from the initial values, where biases are 0 and scales 1
            values += 0.1 * torch.randn(values.shape)
    network = ParserNetwork({name: values.numpy() for name, values in module.state_dict().items()}, shape)
    rows = np.random.default_rng(1).integers(1, 50, (9, 4))
    words = np.random.default_rng(2).integers(0, 9, (6, length))
    with torch.no_grad():
        tags, arcs, relations = module(torch.from_numpy(rows[words]), torch.zeros((6, length), dtype=torch.int64))
    states, scores = network.read_words(words, network.embed_words(rows))
    predicted_tags = scores.argmax(-1)
    np.testing.assert_allclose(scores, tags.numpy(), atol=2e-4, rtol=1e-4)
    states = network.read_tagged(states, predicted_tags)
    governors = network.score_governors(states)
    np.testing.assert_array_equal(predicted_tags, tags.argmax(-1).numpy())
    np.testing.assert_allclose(governors, arcs.numpy(), atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(
        network.score_relations(states, governors.argmax(-1)), relations.numpy(), atol=2e-4, rtol=1e-4
    )
