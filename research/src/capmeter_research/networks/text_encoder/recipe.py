"""The settings of the training of an encoder's adapter."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter_research.common.recipe import Recipe


@dataclass(frozen=True)
class EncoderRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 12
    lr: float = 5e-4
    warmup: float = 0.05
    lr_schedule: str = "linear"
    max_grad_norm: float = 1.0
    precision: str = "bfloat16"
    steps: int = 100  # per epoch
    clusters: int = 12  # per step, each a photo and some of its nearest photos
    cluster_size: int = 3  # photos per cluster
    mean_neighbour_rank: float = 20.0  # mean rank of the others among the nearest photos
    target_power: float = 1.5  # the target of two photos is this power of the similarity of their captions
    rank: int = 16  # of the adapter
    dropout: float = 0.1  # in training
    weight_decay: float = 0.01  # of AdamW
    slope: float = 10.0  # initial values of the logistic function of a cosine
    offset: float = -6.0
    calibration_lr_scale: float = 20.0  # learning rate of all other parameters, as a multiple of the adapters'
    reads_references: bool = False  # whether captions are read together with references
    other_photos: int = 2  # then, photos outside the cluster for each photo's references
    stored_rank: int | None = None  # of the adapter in the checkpoint; None means that of training


READING = EncoderRecipe(
    epochs=10,
    steps=93,
    warmup=0.1,
    clusters=16,
    cluster_size=4,
    dropout=0.0,
    calibration_lr_scale=2.0,
    reads_references=True,
    stored_rank=8,
)
"""The settings of a run of an encoder that reads references."""
