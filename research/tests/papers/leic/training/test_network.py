"""The critic in torch computes what the metric's forward pass computes from its exported weights."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capmeter_research.papers.leic.forward import CriticNetwork, cast_weights  # noqa: E402
from capmeter_research.papers.leic.shape import CriticShape  # noqa: E402
from capmeter_research.papers.leic.training.network import CriticModule, critic_weights, forget_by_default  # noqa: E402

from capmeter.core.ragged import Ragged  # noqa: E402

SHAPES = [
    CriticShape(context="none", hidden=(), width=5, embedding=3),
    CriticShape(context="reference", hidden=(7,), width=5, embedding=3, layers=2),
    CriticShape(context="image", hidden=(7, 6), width=5, embedding=3, image=4),
    CriticShape(context="both", hidden=(7,), width=5, embedding=3, image=4),
    CriticShape(context="reference", fusion="bilinear", hidden=(), width=5, embedding=3, pooled=16),
    CriticShape(context="both", fusion="bilinear", hidden=(7,), width=5, embedding=3, image=4, pooled=16),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.fusion}-{shape.context}-{len(shape.hidden)}")
def test_exported_weights_give_the_same_logits(shape: CriticShape) -> None:
    torch.manual_seed(3)
    module = CriticModule(shape, words=20, dropout=0.5).double().eval()
    forget_by_default(module)
    with torch.no_grad():
        for values in module.parameters():
            values += 0.3 * torch.randn_like(values)
    rows = [[4, 5, 6, 3], [7] * 15, [3], [9, 3]]
    windows = torch.zeros(4, 15, dtype=torch.int64)
    for k, row in enumerate(rows):
        windows[k, : len(row)] = torch.tensor(row)
    features = torch.randn(4, 4, dtype=torch.float64)
    with torch.no_grad():
        states = module.read(windows, torch.tensor([len(row) for row in rows]))
        image = features if shape.sees_image else None
        logits = module(image, states.flip(0) if shape.sees_reference else None, states)
    state = {name: values.numpy() for name, values in module.state_dict().items()}
    network = CriticNetwork(cast_weights(critic_weights(state, shape), np.float64), shape)
    read = network.encode(Ragged.from_rows(rows, np.int32))
    np.testing.assert_allclose(read, states.numpy(), atol=1e-6)
    inputs = {"reference": read[::-1], "candidate": read}
    if shape.sees_image:
        inputs["image"] = network.project_image(features.numpy())
    shares = {part: network.fusion_terms(part, inputs[part]) for part in shape.inputs}
    result = network.logits(shares, dict.fromkeys(shape.inputs, np.arange(4)))
    np.testing.assert_allclose(result, logits.numpy(), atol=2e-6)


def test_the_forget_gate_starts_at_one() -> None:
    shape = CriticShape(context="none", hidden=(), width=2, embedding=3)
    module = CriticModule(shape, words=6, dropout=0.0)
    forget_by_default(module)
    assert module.lstm.bias_ih_l0.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]  # torch: input, forget, candidate, output
    exported = critic_weights({name: each.numpy() for name, each in module.state_dict().items()}, shape)
    assert not exported["lstm.0.bias"].any()  # the forward pass adds it
