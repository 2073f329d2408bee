"""The settings of LCEval's training; the defaults are those of section 7.4.6."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.core.errors import InputError
from capmeter_research.common.recipe import Recipe


@dataclass(frozen=True)
class LcEvalRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 800  # maximum number of epochs; `patience` may end a run earlier
    lr: float = 5e-4
    patience: int = 40
    hidden: tuple[int, ...] = (12,)  # nodes of each hidden layer: none, one or two layers
    batch: int = 75  # examples per batch
    weight_decay: float = 1e-4  # β of the L2 penalty, β/2 Σ w² over weights without biases (the released code's value)
    # 1: the paper's training, by Adam; more: the network is distilled from an ensemble of this many random restarts
    # (`seed_ensemble.py`), and epochs, lr, batch and patience are not used
    restarts: int = 1
    ranking_weight: float = 0.5  # of the ranking loss, where captions are compared with their perturbed forms

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hidden) > 2 or any(nodes < 1 for nodes in self.hidden):
            raise InputError(f"hidden: expected at most two layers of one or more nodes, but got {self.hidden}")
        for field_name in ("batch", "restarts"):
            if getattr(self, field_name) < 1:
                raise InputError(f"{field_name}: expected 1 or more, but got {getattr(self, field_name)}")
        for field_name in ("ranking_weight", "weight_decay"):
            if getattr(self, field_name) < 0:
                raise InputError(f"{field_name}: expected 0 or more, but got {getattr(self, field_name)}")
