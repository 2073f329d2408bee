"""A captioner trained with Lightning, measured by capmeter after every epoch: python examples/lightning_captioner.py

The pictures are made: noisy vectors of a subject and a deed, which a small network has to name. What matters is the
metric: `CaptionMetric` is given each validation batch with the ids of its pictures, and is computed, over as many
processes as the trainer has, at the end of the epoch.
"""

from __future__ import annotations

import lightning
import torch
from torch.utils.data import DataLoader, Dataset

from capmeter.integrations.torchmetrics import CaptionMetric

SUBJECTS = ("a dog", "two cats", "a woman", "an old man", "three children", "a red bus")
DEEDS = ("runs over the grass", "sleeps on a sofa", "waits at the station", "looks at the sea", "plays with a ball")
OTHER_WORDS = {"runs over": "is running on", "sleeps on": "lies on", "waits at": "stands at", "looks at": "watches"}


def people(subject: str, deed: str) -> list[str]:
    """What two people wrote."""
    other = next((deed.replace(message, meant) for message, meant in OTHER_WORDS.items() if message in deed), deed)
    return [f"{subject} {deed}", f"{subject} {other}"]


class Pictures(Dataset[tuple[int, torch.Tensor, int, int]]):
    """Pictures as vectors: a subject, a deed, and noise."""

    def __init__(self, number: int, first_id: int, seed: int) -> None:
        sample = torch.Generator().manual_seed(seed)
        self.first_id = first_id
        self.subjects = torch.randint(len(SUBJECTS), (number,), generator=sample)
        self.deeds = torch.randint(len(DEEDS), (number,), generator=sample)
        visits = torch.cat([torch.eye(len(SUBJECTS))[self.subjects], torch.eye(len(DEEDS))[self.deeds]], 1)
        self.vectors = visits + 0.45 * torch.randn(visits.shape, generator=sample)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, k: int) -> tuple[int, torch.Tensor, int, int]:
        return self.first_id + k, self.vectors[k], int(self.subjects[k]), int(self.deeds[k])


class Captioner(lightning.LightningModule):
    """Names the subject and the deed."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = torch.nn.Linear(len(SUBJECTS) + len(DEEDS), len(SUBJECTS))
        self.deed = torch.nn.Linear(len(SUBJECTS) + len(DEEDS), len(DEEDS))
        self.metric = CaptionMetric("bleu-4,cider-d")  # part of the module: Lightning moves it to the device

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """The loss of naming both."""
        _, vectors, subjects, deeds = batch
        cross_entropy = torch.nn.functional.cross_entropy
        return cross_entropy(self.subject(vectors), subjects) + cross_entropy(self.deed(vectors), deeds)

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        """Says a caption of each picture and hands it to the metric."""
        ids, vectors, subjects, deeds = batch
        message = zip(self.subject(vectors).argmax(1).tolist(), self.deed(vectors).argmax(1).tolist(), strict=True)
        true = zip(subjects.tolist(), deeds.tolist(), strict=True)
        self.metric.update(
            [f"{SUBJECTS[subject]} {DEEDS[deed]}" for subject, deed in message],
            [people(SUBJECTS[subject], DEEDS[deed]) for subject, deed in true],
            ids=ids.tolist(),
        )

    def on_validation_epoch_end(self) -> None:
        """The scores of all validation pictures."""
        self.log_dict(self.metric.compute())
        self.metric.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.05)


def train(epochs: int = 3) -> list[dict[str, float]]:
    """The scores on the validation pictures after each epoch."""
    lightning.seed_everything(0, verbose=False)
    scores: list[dict[str, float]] = []

    class Told(lightning.Callback):
        """Keeps what was logged."""

        def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
            """The scores as floats."""
            scores.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[Told()],
    )
    trainer.fit(
        Captioner(),
        DataLoader(Pictures(320, 0, seed=1), batch_size=32, shuffle=True),
        DataLoader(Pictures(100, 1000, seed=2), batch_size=32),
    )
    return scores


if __name__ == "__main__":
    for epoch, result in enumerate(train()):
        print(f"epoch {epoch}", *(f"{name} {score:.4f}" for name, score in result.items()))
