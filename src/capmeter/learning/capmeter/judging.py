"""The training of the network that judges words, with the lower layers of the encoder that it reads.

The loss is that of words (`words.py`), of captions with one wrong word, of those with as many as there may be, and of
captions of other photos, whose content words are wrong that no caption of the photo says. The layers are adapted by
factors of low rank (`capmeter.encoders.adaptation`) as the judge learns; of an encoder that cannot be adapted they are
read as they are. A step encodes its own sentences, so that nothing of a million others is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from capmeter.encoders import Encoder, PieceTable, StateTable, find_encoder, load_encoder
from capmeter.encoders.bert import Bert
from capmeter.encoders.pieces import gather
from capmeter.learning.capmeter.batch import Batch
from capmeter.learning.capmeter.examples import CAPTIONS, Examples, Rows, WrongForm
from capmeter.learning.capmeter.recipe import JudgeRecipe
from capmeter.learning.capmeter.training import HeldOut, held_out_rows
from capmeter.learning.capmeter.words import Read, WordLearner
from capmeter.learning.capmeter.wrong import OF_ANOTHER, not_said
from capmeter.learning.encoder.network import AdaptedLayers
from capmeter.metrics.capmeter.network import Judge, JudgeShape, Side

DOUBTED = 0.049
"""The share of word pieces of held-out captions that is doubted: of people's own words fewer than one in twenty."""
_GROUPS = 4  # of rows of about equal length
_READ_AT_ONCE = 64  # sentences
_AT_ONCE = 256
Floats = NDArray[np.float64]


class ReadingJudge(nn.Module):
    """The judge with what it reads: adapted layers, or those of an encoder as it is."""

    def __init__(self, layers: AdaptedLayers | None, encoder: Encoder, layer: int, judge: Judge) -> None:
        super().__init__()
        self.layers, self.judge = layers, judge
        self._encoder, self._layer = encoder, layer

    def states(self, pieces: PieceTable) -> Tensor:
        """The unit states of all pieces [pieces, width], in their order."""
        layers = self.layers
        if layers is None:
            return normalize(torch.from_numpy(self._encoder.hidden_states(pieces, self._layer)), dim=1)
        device = next(self.parameters()).device
        order = np.argsort(pieces.lengths, kind="stable")
        found = []
        for rows in np.split(order, range(_READ_AT_ONCE, len(order), _READ_AT_ONCE)):
            ids, mask = pieces.padded(rows)
            spare = ((0, _READ_AT_ONCE - len(rows)), (0, 0))  # products of shapes seen before are much faster
            there = torch.from_numpy(np.pad(mask, spare)).to(device)
            found.append(layers.states(torch.from_numpy(np.pad(ids, spare)).to(device), there)[there])
        places, _ = gather(pieces.offsets, order)
        return normalize(torch.cat(found)[torch.from_numpy(np.argsort(places)).to(device)], dim=1)


class JudgeLearner(WordLearner):
    """Words alone, by states of a lower layer, which are still those of words."""

    recipe: JudgeRecipe
    module: ReadingJudge

    def __init__(self, examples: Examples, recipe: JudgeRecipe, layer: int, device: str = "cpu") -> None:
        super().__init__(examples, recipe, device)
        self.of_words = [*examples.judged, *examples.judged_alone]
        self.photos = np.delete(np.arange(len(examples.captions)), slice(examples.trained, examples.matched))
        encoder = load_encoder(find_encoder(examples.encoder).unadapted, examples.settings)
        judge = Judge(JudgeShape(**self.sizes(encoder.width)), recipe.dropout)
        layers = None
        if recipe.rank and Bert.reads(encoder.files.folder):
            layers = AdaptedLayers(Bert(encoder.files.folder, device, torch.float32), recipe.rank, layer)
        self.encoder, self.network, self.module = encoder, judge, ReadingJudge(layers, encoder, layer, judge)

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """AdamW; the layers move more slowly."""
        recipe, layers = self.recipe, self.module.layers
        groups: list[dict[str, Any]] = [{"params": list(self.network.parameters())}]
        if layers is not None:
            groups.append({"params": layers.adaptation(), "share": recipe.layers_rate})
        return torch.optim.AdamW(groups, lr=rate, weight_decay=recipe.decayed)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """Each step is like the others."""
        return [True] * self.recipe.steps

    def losses(self, batch: bool, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The loss of words."""
        drawn = self.drawn(rng)
        read = self.read(drawn.candidates, drawn.references)
        groups = drawn.by_length(self.examples.pieces.lengths, _GROUPS)
        told = ((each, *self.right(each.candidates, each.references, read, each.photo)) for each in groups)
        return {"words": self._words(*told, hardest=self.recipe.hardest)}

    def drawn(self, rng: np.random.Generator) -> Batch:
        """The captions of a step: those with one wrong word, and with as many as there may be; and of other photos.

        Their references are more often many than few.
        """
        number = int(rng.integers(1, CAPTIONS, 2).max())
        examples, batch = self.examples, self.judged(rng, number)
        for i in rng.integers(0, examples.trained, self.recipe.photos).tolist():
            references = examples.captions[i, 1 + rng.permutation(CAPTIONS - 1)[:number]]
            known = [form for form in examples.wrong[i] if form.words]
            batch.add_with_forms(int(examples.captions[i, 0]), references, known, i)
        for i, j in rng.choice(self.photos, (self.recipe.others, 2)).tolist():
            other, of_photo = int(examples.captions[j, rng.integers(CAPTIONS)]), examples.captions[i]
            wrong = not_said(examples.sentences[other], [examples.sentences[each] for each in of_photo.tolist()])
            references = of_photo[rng.permutation(CAPTIONS)[:number]]
            form = WrongForm(OF_ANOTHER, other, 1.0, wrong)
            batch.add(other, references, float("nan"), form, own=len(batch.own), photo=j)
        return batch

    def read(self, candidates: Sequence[int], references: Sequence[Rows]) -> Read:
        """All these sentences, each encoded once."""
        numbers = np.unique(np.concatenate([np.array(candidates, np.int64), *references]))
        pieces = self.examples.pieces.take(numbers)
        table = StateTable(pieces, np.zeros((len(pieces.ids), 0), np.float32))
        return Read(table, self.examples.alone, self.on, numbers, self.module.states(pieces).to(self.on))

    def right(
        self,
        candidates: Sequence[int],
        references: Sequence[Rows],
        read: Read | None = None,
        photos: Sequence[int] = (),
    ) -> tuple[Tensor, Side]:
        """The logits of the candidates' pieces, and these; photos: see `alone`."""
        mine, theirs, flow = self.sides(candidates, references, read or self.read(candidates, references), photos)
        with torch.autocast(torch.device(self.on).type, enabled=False):
            logits: Tensor = self.network(mine, theirs, flow)
        return logits, mine

    def logits(self) -> list[Floats]:
        """Those of the pieces of each row of `judged_rows`."""
        rows = judged_rows(self.examples)
        found: list[Floats] = []
        with torch.no_grad():
            for start in range(0, len(rows), _AT_ONCE):
                some = rows[start : start + _AT_ONCE]
                told, mine = self.right([each[0] for each in some], [each[1] for each in some])
                found.extend(
                    logits[there].cpu().numpy().astype(np.float64)
                    for logits, there in zip(told, mine.there, strict=True)
                )
        return found

    def measured(self) -> Mapping[str, float]:
        """On held-out photos: `words_found`."""
        return words_found(*right_and_wrong(self.examples, self.logits()))


def judged_rows(examples: Examples) -> list[HeldOut]:
    """`held_out_rows`, then the same photos' other captions, each with those beside it as references."""
    rows = held_out_rows(examples)
    for captions in examples.captions[examples.trained : examples.matched]:
        for place in range(1, CAPTIONS):
            rows.append((int(captions[place]), np.delete(captions, place), None, len(rows)))
    return rows


def right_and_wrong(examples: Examples, values: Sequence[Floats]) -> tuple[Floats, dict[str, Floats]]:
    """Of values of the pieces of `judged_rows` those of captions, and by kind those of words made wrong."""
    right: list[Floats] = []
    wrong: dict[str, list[Floats]] = {}
    for (sentence, _, form, _), each in zip(judged_rows(examples), values, strict=True):
        if form is None:
            right.append(each)
        elif form.words and (words := examples.words(sentence)) is not None:
            wrong.setdefault(form.kind, []).append(each[np.isin(words, form.words)])
    return np.concatenate(right), {kind: np.concatenate(found) for kind, found in sorted(wrong.items())}


def words_found(right: Floats, wrong: Mapping[str, Floats]) -> dict[str, float]:
    """By kind the share of the pieces of wrong words that are doubted where `DOUBTED` of those of captions are.

    >>> words_found(np.arange(1000.0), {"exchange": np.array([3.0, 500.0])})
    {'wrong words found, exchange': 0.5}
    """
    doubted = np.quantile(right, DOUBTED)
    return {f"wrong words found, {kind}": float((each < doubted).mean()) for kind, each in wrong.items()}
