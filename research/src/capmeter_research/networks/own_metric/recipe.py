"""The settings of the training of the metric `capmeter`."""

from __future__ import annotations

from dataclasses import dataclass

from capmeter_research.common.recipe import Recipe


@dataclass(frozen=True)
class NetworkRecipe(Recipe):
    """The settings that the runs of both networks have; sizes as in `capmeter.metrics.own.network`."""

    lr: float = 1e-3
    warmup: float = 0.05
    lr_schedule: str = "linear"
    max_grad_norm: float = 1.0
    steps: int = 120  # per epoch
    word_captions: int = 60  # captions per step for the word loss only, each with all its perturbations of one word
    perturbed_photos: int = 20  # photos per step whose caption is contrasted with its perturbations
    width: int = 96
    heads: int = 4
    bottleneck_dim: int = 64
    dropout: float = 0.1  # in training
    weight_decay: float = 0.01  # of AdamW


@dataclass(frozen=True)
class TaggerRecipe(NetworkRecipe):
    """The settings of the word error tagger's run."""

    epochs: int = 22
    precision: str = "bfloat16"
    steps: int = 250
    word_captions: int = 56
    perturbed_photos: int = 8  # with perturbations of known words only
    other_photo_captions: int = 8  # captions per step with the references of another photo
    width: int = 128
    bottleneck_dim: int = 128
    rank: int = 16  # of the adapters of the encoder's layers; 0: the layers are frozen
    encoder_lr_scale: float = 0.5  # learning rate of the adapters, as a multiple of the network's
    hard_negative_weight: float = 2.0  # weight of wrong words that fit the sentence (`substitution`)


@dataclass(frozen=True)
class CapmeterRecipe(NetworkRecipe):
    """The settings of the matcher's run."""

    epochs: int = 14
    pairs: int = 96  # captions per step with the references of more or less similar photos
    fluency_photos: int = 40  # photos per step with a caption for fluency, and as many with perturbations of one
    mean_neighbour_rank: float = 20.0  # mean rank, among the nearest photos, of the other photo of a pair
    target_power: float = 3.0  # the target of a pair is this power of the similarity of the two photos' captions
    word_only_epochs: int = 4  # number of first epochs with the word loss only
    component_loss_weight: float = 0.3  # see `training.py`, as the next one
    word_loss_weight: float = 0.5
    score_weights: tuple[float, float, float, float, float, float] = (24.0, 6.0, 12.0, 1.0, 2.0, 1.2)  # λ, if not tuned
