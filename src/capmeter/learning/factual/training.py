"""What is learned of the graph maker: the next token of a caption's facts, given those before.

The loss is the cross-entropy of tokens; a word of the sentence may be written or copied. A run is selected by the
share of held-out training captions whose facts are written exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capmeter.learning.factual.examples import Packed
from capmeter.learning.factual.network import FactModule, WriterModule, loss_of, write
from capmeter.learning.loop import Learner
from capmeter.learning.recipe import Recipe
from capmeter.text.fact_network import READER, WriterShape
from capmeter.text.fact_vocabulary import NOTHING_NUMBER, STOP_NUMBER

Batch = tuple[int, npt.NDArray[np.int64], bool]  # the captions' length, which of them, whether people wrote the facts
_VECTORS = (READER + "pieces", READER + "places")  # which keep their values: rare words stay beside frequent ones
_LAYERS = READER + "layers."
_MOST_WRITTEN = 40  # tokens, while a run is selected


@dataclass(frozen=True)
class FactRecipe(Recipe):
    """The settings of a run.

    Args:
        writers: how many learn together, so that the reader serves all of them.
        kept: how many of them write in the end, at most.
        words: words per batch.
        reader_rate: learning rate of the reader's upper layer, as a share of the writers'.
        layer_share: each of the reader's layers moves by this share of the rate of the one above it.
        dropout: inside the network.
        word_dropout: share of the words that are hidden while the reader learns.
        token_dropout: share of the tokens written so far that are hidden.
        layers, hidden: a writer's sizes, as in `WriterShape`.
        width: of a writer.
        reader_layers: of the encoder, that the reader begins as.
        parsed: of the epochs, the first ones that learn from facts read from parses, where there are such.
        pieces: number of the encoder's word pieces that are kept.
        named: epochs after the others, in which things are named as in the caption (`named_as_in_caption`).
        named_rate: highest learning rate of these.
    """

    epochs: int = 9
    parsed: int = 1
    rate: float = 2e-3
    warmup: float = 0.04
    decay: str = "linear"
    clip: float = 2.0
    average: float = 0.99
    writers: int = 3
    kept: int = 2
    words: int = 320
    reader_rate: float = 0.1
    layer_share: float = 0.9
    dropout: float = 0.15
    word_dropout: float = 0.05
    token_dropout: float = 0.05
    layers: int = 2
    hidden: int = 384
    width: int = 128
    reader_layers: int = 6
    pieces: int = 7000
    named: int = 3
    named_rate: float = 5e-4

    @property
    def shape(self) -> WriterShape:
        """The writer's sizes."""
        return WriterShape(layers=self.layers, hidden=self.hidden)

    @property
    def last(self) -> FactRecipe:
        """The settings of the last epochs."""
        return replace(self, epochs=self.named, parsed=0, rate=self.named_rate, warmup=0.05)

    def writer(self, read: int, tokens: int) -> WriterModule:
        """A new writer, of what is `read` wide, with so many tokens."""
        hidden = self.token_dropout
        return WriterModule(read, self.width, tokens, self.shape, dropout=self.dropout, token_dropout=hidden)


class FactLearner(Learner[Batch]):
    """The graph maker in training.

    Args:
        module: the network, as it begins.
        examples: training captions, packed by length.
        held_out: captions for selection.
        recipe: settings.
        parsed: captions with facts that were read from parses; none: people's facts alone are learned from.
    """

    select = "exact"

    def __init__(
        self,
        module: FactModule,
        examples: Mapping[int, Packed],
        held_out: Mapping[int, Packed],
        recipe: FactRecipe,
        parsed: Mapping[int, Packed] | None = None,
    ) -> None:
        self.module: FactModule = module
        self.recipe = recipe
        self.examples = {length: _Tensors(packed) for length, packed in examples.items()}
        self.parsed = {length: _Tensors(packed) for length, packed in (parsed or {}).items()}
        self.held_out = {length: _Tensors(packed) for length, packed in held_out.items()}

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Adam; the reader, which has learned before, moves more slowly."""
        groups: dict[float, list[Tensor]] = {}
        for name, values in self.module.named_parameters():
            share = self._share(name)
            values.requires_grad_(bool(share))
            groups.setdefault(share, []).append(values)
        shares = [{"params": values, "share": share} for share, values in groups.items()]
        return torch.optim.Adam(shares, lr=rate, betas=(0.9, 0.98), fused=True)

    def _share(self, name: str) -> float:
        """Of the learning rate, by which a tensor moves."""
        recipe = self.recipe
        if not name.startswith(READER):
            return 1.0
        if name.startswith(_VECTORS):
            return 0.0
        layer = int(name.split(".")[2]) if name.startswith(_LAYERS) else 0
        return recipe.reader_rate * recipe.layer_share ** (recipe.reader_layers - 1 - layer)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Captions of one length whose facts are about as long, in a new order each epoch."""
        batches = self._batches(self.examples, rng, people=True)
        if not self.parsed or epoch >= self.recipe.parsed:
            return batches
        more = self._batches(self.parsed, rng, people=False)[: len(batches)]
        return [more[number] for number in rng.permutation(len(more))]

    def _batches(self, examples: Mapping[int, _Tensors], rng: np.random.Generator, *, people: bool) -> list[Batch]:
        batches: list[Batch] = []
        for length, packed in examples.items():
            size = max(8, self.recipe.words // length)
            order = rng.permutation(len(packed.sizes))
            for start in range(0, len(order), 16 * size):
                part = order[start : start + 16 * size]
                part = part[np.argsort(packed.sizes[part], kind="stable")]
                batches += [(length, part[begin : begin + size], people) for begin in range(0, len(part), size)]
        return [batches[number] for number in rng.permutation(len(batches))]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy of the tokens, the mean of the writers."""
        length, chosen, people = batch
        rows, copied, tokens = (self.examples if people else self.parsed)[length].at(chosen, self.device)
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=NOTHING_NUMBER)
        made = self.module(self.module.read(rows), copied, before)
        return {"tokens": torch.stack([loss_of(scores, copied, tokens) for scores in made]).mean()}

    def measured(self) -> Mapping[str, float]:
        """Of the held-out captions, those whose tokens are all written right, in per cent."""
        right = count = 0
        for packed in self.held_out.values():
            rows, copied, tokens = packed.at(np.arange(len(packed.sizes)), self.device)
            made_rows = write(self.module, rows, copied, _MOST_WRITTEN)
            for made, true in zip(made_rows, tokens.tolist(), strict=True):
                right += [*made, STOP_NUMBER] == [token for token in true if token != NOTHING_NUMBER]
                count += 1
        return {"exact": round(100 * right / max(1, count), 3)}


class _Tensors:
    """Packed captions of one length on a device."""

    def __init__(self, packed: Packed) -> None:
        self._values: tuple[Tensor, ...] = tuple(map(torch.from_numpy, (packed.rows, packed.copied, packed.tokens)))
        self.sizes: npt.NDArray[np.int64] = (packed.tokens != NOTHING_NUMBER).sum(axis=1)

    def at(self, rows: npt.NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, copied and tokens of some captions, without steps that are empty for all."""
        if self._values[0].device != device:
            self._values = tuple(values.to(device) for values in self._values)
        chosen = torch.from_numpy(rows).to(device)
        found, copied, tokens = (values[chosen] for values in self._values)
        return found, copied, tokens[:, : int(self.sizes[rows].max())]
