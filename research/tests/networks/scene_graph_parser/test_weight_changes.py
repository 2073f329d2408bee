"""Changes of weights: what they restore, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
from capmeter_research.networks.scene_graph_parser.documents import pack_changes
from capmeter_research.networks.scene_graph_parser.factual_parser import SCALE, _apply_changes

RANDOM = np.random.default_rng(0)
START = {
    "layer": RANDOM.normal(size=(5, 7)).astype(np.float16),
    "bias": RANDOM.normal(size=4).astype(np.float16),
    "frozen": RANDOM.normal(size=(2, 3)).astype(np.float16),
}


def test_changes_restore_each_row_within_half_a_step() -> None:
    trained = {**START, "layer": START["layer"] + RANDOM.normal(size=(5, 7)).astype(np.float16), "bias": -START["bias"]}
    changes = pack_changes(START, trained)
    assert set(changes) == {"layer", "layer" + SCALE, "bias"} and changes["layer"].dtype == np.int8
    restored = _apply_changes(START, changes)
    step = changes["layer" + SCALE].astype(np.float32)[:, None]
    difference = np.abs(restored["layer"] - trained["layer"].astype(np.float32))
    assert (difference <= 0.5 * step + 127 * step * 2.0**-10).all()  # and the scale's rounding to float16
    assert restored["bias"].tolist() == trained["bias"].tolist()
    assert restored["frozen"] is START["frozen"]


def test_a_row_that_did_not_change_stays_exact() -> None:
    trained = {**START, "layer": START["layer"].copy()}
    trained["layer"][0] += 1
    restored = _apply_changes(START, pack_changes(START, trained))
    assert np.array_equal(restored["layer"][1:], START["layer"][1:].astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"other": np.zeros((5, 7), np.int8)}, "a change of other"),
        ({"layer": np.zeros((5, 6), np.int8)}, "another shape"),
        ({"layer": np.zeros((5, 7), np.int8), "layer.scale": np.zeros(4, np.float16)}, "scale of layer"),
    ],
)
def test_changes_of_another_network_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _apply_changes(START, changes)
