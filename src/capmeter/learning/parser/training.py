"""The training of the caption parser: Adam, a learning rate that falls to 0, averaged weights, one core.

The loss is the sum of three cross-entropies: tags, governors, relations to the right governor. Batches hold sentences
of one length. A run is a function of its data, settings and seed; it writes a checkpoint after every epoch and resumes
from there with the same final weights as an uninterrupted run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.atomic import atomic_file
from capmeter.errors import InputError
from capmeter.learning.parser.examples import Packed
from capmeter.learning.parser.recipe import AVERAGED_EVERY, Recipe
from capmeter.progress import task
from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import ParserVocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from capmeter.learning.parser.network import ParserModule

STATE, LOG = "training.pt", "log.jsonl"


class Training:
    """A training run, which can be interrupted after any epoch and resumed.

    Args:
        examples: training sentences, packed by length.
        held_out: sentences for evaluation after each epoch.
        vocabulary: features, tags and labels.
        rareness: from `learn_vocabulary`.
        recipe: settings.
        folder: folder of the checkpoint and the log; a checkpoint found there is resumed.
    """

    def __init__(
        self,
        examples: Mapping[int, Packed],
        held_out: Mapping[int, Packed],
        vocabulary: ParserVocabulary,
        rareness: Any,
        recipe: Recipe,
        folder: Path,
    ) -> None:
        import torch

        from capmeter.learning.parser.network import ParserModule

        self.examples, self.held_out, self.recipe, self.folder = examples, held_out, recipe, folder
        self.shape = NetworkShape()
        torch.manual_seed(recipe.seed)
        self.module: ParserModule = ParserModule(
            features=len(vocabulary.features) + 2,
            tags=len(vocabulary.tags),
            labels=len(vocabulary.labels),
            shape=self.shape,
            width=recipe.width,
            hidden=recipe.hidden,
            dropout=recipe.dropout,
            word_dropout=recipe.word_dropout,
            rareness=torch.from_numpy(np.asarray(rareness, np.float32)),
        )
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=recipe.rate, betas=(0.9, 0.98), fused=True)
        self.average = {name: values.clone() for name, values in self.module.state_dict().items()}
        self.step = self.epoch = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._take_up()

    def run(self, *, epochs: int | None = None) -> dict[str, Any]:
        """Trains to the end, or this many more epochs; returns the last line of the log."""
        import torch

        last = self.recipe.epochs if epochs is None else min(self.recipe.epochs, self.epoch + epochs)
        line: dict[str, Any] = {}
        with task("training the parser", total=last - self.epoch) as advance:
            while self.epoch < last:
                started = time.monotonic()
                losses = self._epoch()
                self.epoch += 1
                line = {
                    "epoch": self.epoch,
                    "step": self.step,
                    "seconds": round(time.monotonic() - started, 1),
                    "losses": [round(loss, 4) for loss in losses],
                    **self.measured(),
                }
                self._keep(torch.get_rng_state())
                with (self.folder / LOG).open("a", encoding="utf-8") as log:
                    log.write(json.dumps(line) + "\n")
                advance(1)
        return line

    def _epoch(self) -> list[float]:
        import torch
        from torch.nn import functional
        from torch.nn.utils import clip_grad_norm_

        self.module.train()
        batches = self._batches()
        whole = len(batches) * self.recipe.epochs
        warmup = min(self.recipe.warmup, whole / 10)
        sums = np.zeros(3)
        for length, chosen in batches:
            rate = self.recipe.rate * min(1, (self.step + 1) / warmup) * (1 - self.step / whole)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            packed = self.examples[length]
            tags, heads, labels = map(torch.from_numpy, packed.right(chosen))
            scores = self.module(torch.from_numpy(packed.rows[chosen]), tags, heads, told=self.recipe.told)
            losses: list[Tensor] = [
                functional.cross_entropy(given.flatten(0, 1), right.flatten())
                for given, right in zip(scores, (tags, heads, labels), strict=True)
            ]
            self.optimizer.zero_grad()
            total = losses[0] + losses[1] + losses[2]
            total.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(self.module.parameters(), self.recipe.norm)
            self.optimizer.step()
            self.step += 1
            sums += [loss.item() for loss in losses]
            if not self.step % AVERAGED_EVERY:
                past = min(self.recipe.average, 1 - 1 / (1 + self.step / 20))
                with torch.no_grad():
                    for name, values in self.module.state_dict().items():
                        self.average[name].lerp_(values, 1 - past)
        return [float(each) for each in sums / max(1, len(batches))]

    def _batches(self) -> list[tuple[int, Any]]:
        """The batches of this epoch, in an order determined by seed and epoch."""
        rng = np.random.default_rng((self.recipe.seed, self.epoch))
        batches = []
        for length, packed in self.examples.items():
            order, size = rng.permutation(len(packed)), max(8, self.recipe.tokens // length)
            batches += [(length, order[start : start + size]) for start in range(0, len(order), size)]
        rng.shuffle(batches)
        return batches

    def measured(self) -> dict[str, float]:
        """The scores of the averaged weights on the held-out sentences, in per cent: `tags`, `uas`, `las`, each head on
        its own.
        """
        import torch

        trained = {name: values.clone() for name, values in self.module.state_dict().items()}
        self.module.load_state_dict(self.average)
        self.module.eval()
        right, count = np.zeros(3), 0
        with torch.no_grad():
            for packed in self.held_out.values():
                scores = self.module(torch.from_numpy(packed.rows), torch.from_numpy(packed.tags))
                tags, heads, labels = (given.argmax(-1).numpy() for given in scores)
                governed = heads == packed.heads
                right += [(tags == packed.tags).sum(), governed.sum(), (governed & (labels == packed.labels)).sum()]
                count += tags.size
        self.module.load_state_dict(trained)
        return {
            name: round(100 * float(n) / max(1, count), 2)
            for name, n in zip(("tags", "uas", "las"), right, strict=True)
        }

    def _keep(self, random_state: Tensor) -> None:
        import torch

        with atomic_file(self.folder / STATE) as file:
            torch.save(
                {
                    "recipe": asdict(self.recipe),
                    "module": self.module.state_dict(),
                    "average": self.average,
                    "optimizer": self.optimizer.state_dict(),
                    "random": random_state,
                    "step": self.step,
                    "epoch": self.epoch,
                },
                file,
            )

    def _take_up(self) -> None:
        import torch

        path = self.folder / STATE
        if not path.exists():
            return
        kept = torch.load(path, weights_only=True)
        if kept["recipe"] != asdict(self.recipe):
            raise InputError(
                f"{path} belongs to a run with other settings ({kept['recipe']}); give the same, or another folder"
            )
        try:
            self.module.load_state_dict(kept["module"])
        except RuntimeError as error:
            raise InputError(f"{path} belongs to a run on other data; give the same, or another folder") from error
        self.average = kept["average"]
        self.optimizer.load_state_dict(kept["optimizer"])
        self.step, self.epoch = kept["step"], kept["epoch"]
        torch.set_rng_state(kept["random"])
