"""The loss is Eq. 5 of Cui et al.: the mean cross-entropy of one positive and one negative pair of each image."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capmeter_research.papers.leic.forward import CriticNetwork, cast_weights, human_probability  # noqa: E402
from capmeter_research.papers.leic.training.examples import as_examples, learn_vocabulary  # noqa: E402
from capmeter_research.papers.leic.training.network import critic_weights  # noqa: E402
from capmeter_research.papers.leic.training.recipe import CriticRecipe, read_shares  # noqa: E402
from capmeter_research.papers.leic.training.training import CriticLearner  # noqa: E402
from support.leic_captions import captioned  # noqa: E402

from capmeter.core.ragged import Ragged  # noqa: E402


@pytest.mark.parametrize(
    ("negatives", "others"), [("machine,permutation", 1), ("monte-carlo", 1), ("other-caption", 3)]
)
def test_the_loss_is_the_mean_cross_entropy(negatives: str, others: int) -> None:
    """Probabilities by the metric's forward pass, and −log of that of the right class, averaged over all pairs."""
    recipe = CriticRecipe(
        context="reference",
        least=1,
        hidden=(9,),
        width=8,
        embedding=6,
        dropout=0.0,
        negatives=read_shares(negatives),
        others=others,
    )
    images = captioned(12)
    vocabulary = learn_vocabulary(images, recipe)
    learner = CriticLearner(as_examples(images, vocabulary), None, vocabulary, recipe)
    batch = np.array([3, 0, 7, 5])
    with torch.no_grad():
        loss = learner.losses(batch, np.random.default_rng(2))["cross-entropy"].item()
    pairs = learner.sampler.draw(batch, np.random.default_rng(2))
    state = {name: values.detach().numpy() for name, values in learner.module.state_dict().items()}
    shape = learner.module.shape
    network = CriticNetwork(cast_weights(critic_weights(state, shape), np.float64), shape)
    read = network.encode(
        Ragged.from_rows([row[:n] for row, n in zip(pairs.windows.tolist(), pairs.lengths, strict=True)], np.int32)
    )
    parts = {part: network.fusion_terms(part, read) for part in shape.inputs}

    def human(contexts: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return human_probability(network.logits(parts, {"reference": contexts, "candidate": candidates}))

    positive = human(np.arange(4), np.arange(4, 8))
    negative = human(pairs.row, pairs.negative)
    assert len(negative) == 4 * others and pairs.weight.sum() == pytest.approx(4)
    expected = -(np.log(positive).sum() + (pairs.weight * np.log(1 - negative)).sum()) / 8
    assert loss == pytest.approx(expected, abs=2e-6)
