"""What is learned of the graph maker: the next token of a caption's facts, given those before.

The loss is the cross-entropy of tokens; a word of the sentence may be written or copied. A run is selected by the
share of held-out training captions whose facts are written exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capmeter.learning.factual.examples import Packed
from capmeter.learning.factual.network import FactModule, loss_of, write
from capmeter.learning.loop import Learner
from capmeter.learning.recipe import Recipe
from capmeter.text.fact_network import READER, WriterShape
from capmeter.text.fact_vocabulary import NOTHING_NUMBER, STOP_NUMBER

Batch = tuple[int, npt.NDArray[np.int64]]  # the captions' length, and which of them
_VECTORS = (READER + "pieces", READER + "places")  # which keep their values: rare words stay beside frequent ones
_MOST_WRITTEN = 40  # tokens, while a run is selected


@dataclass(frozen=True)
class FactRecipe(Recipe):
    """The settings of a run.

    Args:
        together: passes in which the reader learns too, after the `epochs` in which the writer learns alone.
        words: words per batch.
        reader_rate: learning rate of the reader, as a share of the writer's; 0: it stays as it was.
        dropout: inside the network.
        word_dropout: share of the words that are hidden while the reader learns.
        token_dropout: share of the tokens written so far that are hidden.
        layers, hidden: the writer's sizes, as in `WriterShape`.
        width: of the writer.
        reader_layers: of the encoder, that the reader begins as.
        pieces: number of the encoder's word pieces that are kept.
    """

    epochs: int = 12
    rate: float = 2e-3
    warmup: float = 0.04
    decay: str = "linear"
    clip: float = 2.0
    average: float = 0.99
    together: int = 10
    words: int = 640
    reader_rate: float = 0.1
    dropout: float = 0.15
    word_dropout: float = 0.05
    token_dropout: float = 0.05
    layers: int = 2
    hidden: int = 384
    width: int = 128
    reader_layers: int = 2
    pieces: int = 7000

    @property
    def shape(self) -> WriterShape:
        """The writer's sizes."""
        return WriterShape(layers=self.layers, hidden=self.hidden)


class FactLearner(Learner[Batch]):
    """The graph maker in training.

    Args:
        module: the network, as it begins.
        examples: training captions, packed by length.
        held_out: captions for selection.
        recipe: settings.
    """

    select = "exact"

    def __init__(
        self, module: FactModule, examples: Mapping[int, Packed], held_out: Mapping[int, Packed], recipe: FactRecipe
    ) -> None:
        self.module: FactModule = module
        self.recipe = recipe
        self.examples = {length: _Tensors(packed) for length, packed in examples.items()}
        self.known: dict[int, Tensor] = {}
        self.held_out = {length: _Tensors(packed) for length, packed in held_out.items()}

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Adam; the reader, which has learned before, moves more slowly."""
        groups: dict[bool, list[Tensor]] = {True: [], False: []}
        for name, values in self.module.named_parameters():
            read = name.startswith(READER)
            values.requires_grad_(not read or (bool(self.recipe.reader_rate) and not name.startswith(_VECTORS)))
            groups[read].append(values)
        shares = [{"params": groups[read], "share": self.recipe.reader_rate if read else 1.0} for read in groups]
        return _Shared(shares, lr=rate, betas=(0.9, 0.98), fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Captions of one length whose facts are about as long, in a new order each epoch."""
        batches: list[Batch] = []
        for length, packed in self.examples.items():
            size = max(8, self.recipe.words // length)
            order = rng.permutation(len(packed.sizes))
            for start in range(0, len(order), 16 * size):
                part = order[start : start + 16 * size]
                part = part[np.argsort(packed.sizes[part], kind="stable")]
                batches += [(length, part[begin : begin + size]) for begin in range(0, len(part), size)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy of the tokens."""
        length, chosen = batch
        rows, copied, tokens = self.examples[length].at(chosen, self.device)
        read = self.module.read(rows) if self.recipe.reader_rate else self._read(length, chosen)
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=NOTHING_NUMBER)
        return {"tokens": loss_of(self.module(read, copied, before), copied, tokens)}

    def _read(self, length: int, chosen: npt.NDArray[np.int64]) -> Tensor:
        """What a reader that does not learn has read, once."""
        if length not in self.known:
            training = self.module.training
            self.module.eval()
            rows = self.examples[length].all(self.device)
            with torch.no_grad():
                self.known[length] = torch.cat(
                    [self.module.read(rows[start : start + 1024]) for start in range(0, len(rows), 1024)]
                )
            self.module.train(training)
        return self.known[length][torch.from_numpy(chosen).to(self.device)]

    def measured(self) -> Mapping[str, float]:
        """Of the held-out captions, those whose tokens are all written right, in per cent."""
        right = count = 0
        for packed in self.held_out.values():
            rows, copied, tokens = packed.at(np.arange(len(packed.sizes)), self.device)
            made_rows = write([self.module], rows, copied, _MOST_WRITTEN)
            for made, true in zip(made_rows, tokens.tolist(), strict=True):
                right += [*made, STOP_NUMBER] == [token for token in true if token != NOTHING_NUMBER]
                count += 1
        return {"exact": round(100 * right / max(1, count), 3)}


class _Shared(torch.optim.Adam):
    """Adam whose groups move by a share of the rate that is set."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step."""
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] *= group["share"]
        super().step(closure)
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate


class _Tensors:
    """Packed captions of one length on a device."""

    def __init__(self, packed: Packed) -> None:
        self._values: tuple[Tensor, ...] = tuple(map(torch.from_numpy, (packed.rows, packed.copied, packed.tokens)))
        self.sizes: npt.NDArray[np.int64] = (packed.tokens != NOTHING_NUMBER).sum(axis=1)

    def all(self, device: torch.device) -> Tensor:
        """The rows of all."""
        return self._values[0].to(device)

    def at(self, rows: npt.NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, copied and tokens of some captions, without steps that are empty for all."""
        if self._values[0].device != device:
            self._values = tuple(values.to(device) for values in self._values)
        chosen = torch.from_numpy(rows).to(device)
        found, copied, tokens = (values[chosen] for values in self._values)
        return found, copied, tokens[:, : int(self.sizes[rows].max())]
