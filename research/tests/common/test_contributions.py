"""Contributions to a learned score: exact for a linear logit, adding up for any other."""

from __future__ import annotations

import numpy as np
import pytest
from capmeter_research.common.contributions import compute_contributions, occlusion_contributions
from capmeter_research.papers.lceval.feed_forward import DenseLayer, FeedForwardNetwork


def _network(inputs: int, hidden: int, seed: int) -> FeedForwardNetwork:
    rng = np.random.default_rng(seed)
    return FeedForwardNetwork(
        (
            DenseLayer(rng.normal(size=(inputs, hidden)), rng.normal(size=hidden)),
            DenseLayer(rng.normal(size=(hidden, 2)), rng.normal(size=2)),
        )
    )


@pytest.mark.parametrize("inputs", [1, 3, 8, 9, 16])
def test_occlusion_adds_up_to_the_difference_to_the_base(inputs: int) -> None:
    network, rng = _network(inputs, 12, inputs), np.random.default_rng(1)
    values, base = rng.normal(size=inputs), rng.normal(size=inputs)
    names = [f"f{k}" for k in range(inputs)]
    result = compute_contributions(network.logit, names, values, base, "a base")
    total = sum(each[3] for each in result.inputs)
    assert total == pytest.approx(float(network.logit(values) - network.logit(base)), abs=1e-9)
    assert result.start + total == pytest.approx(result.logit, abs=1e-9)
    assert [each[:3] for each in result.inputs] == list(zip(names, values.tolist(), base.tolist(), strict=True))


@pytest.mark.parametrize("inputs", [4, 12])
def test_of_a_linear_logit_occlusion_finds_weight_times_difference(inputs: int) -> None:
    rng = np.random.default_rng(2)
    weights, values, base = rng.normal(size=(3, inputs))
    result = occlusion_contributions(lambda x: x @ weights, values, base)
    np.testing.assert_allclose(result, weights * (values - base), atol=1e-12)


@pytest.mark.parametrize("inputs", [3, 11])
def test_inputs_that_do_not_matter_or_equal_the_base_contribute_nothing(inputs: int) -> None:
    values, base = np.arange(1.0, inputs + 1), np.zeros(inputs)
    values[1] = 0
    result = occlusion_contributions(lambda x: x[..., 0] ** 2 * (1 + x[..., 1]), values, base)
    assert result[0] == pytest.approx(1)
    assert not result[1:].any()
    both = occlusion_contributions(lambda x: x[..., 0] * x[..., 2], values, base)
    assert both[0] == pytest.approx(both[2]) == pytest.approx(1.5)
