"""What the loop of training sees of a writer: batches of photos read and captions to write, and the cross-entropy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.ragged import Ragged
from capmeter.text.parsing.caption_parser import CaptionParser
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_research.common.corpus import Photo, PhotoCorpus
from capmeter_research.common.loop import Learner, Run, set_seed, split_rows
from capmeter_research.common.transformer.decoding import BEGIN, PAD
from capmeter_research.networks.caption_writer.network import WriterModule
from capmeter_research.networks.caption_writer.reading import (
    FORMS,
    InputCorruption,
    Integers,
    SourceReader,
    form_mark,
    padded,
    style_mark,
)
from capmeter_research.networks.caption_writer.recipe import STEPS_PER_EPOCH, WriterRecipe
from capmeter_research.networks.caption_writer.subwords import Subwords
from capmeter_research.networks.caption_writer.writing import FINAL, KIND, WriterSystem

Batch = tuple[Integers, Integers]  # sources and targets, padded


class WriterLearner(Learner[Batch]):
    """A writer in training.

    Args:
        reader: of the captions to learn from.
        photos: the rows of each photo's captions in that table, consecutive and at least two: their bounds [n + 1].
        styles: the mark of each photo's style.
        held_out: sources and targets for evaluation.
        recipe: settings.
        pieces: number of subwords.
    """

    select = "log_likelihood"
    betas = (0.9, 0.98)  # of Vaswani et al. (2017)

    def __init__(
        self,
        reader: SourceReader,
        photos: Integers,
        styles: Integers,
        held_out: tuple[Ragged, Ragged],
        recipe: WriterRecipe,
        pieces: int,
    ) -> None:
        set_seed(recipe.seed)
        self.module: WriterModule = WriterModule(recipe.shape, pieces)
        self.reader, self.photos, self.styles, self.recipe = reader, photos, styles, recipe
        self.held_out = _make_batches(*held_out, recipe.batch)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Batches of examples of about the same length, in random order; captions to write are drawn uniformly."""
        targets = rng.integers(0, len(self.reader.table), STEPS_PER_EPOCH * self.recipe.batch)
        target_photos = np.searchsorted(self.photos, targets, side="right") - 1
        read_captions = sample_other_captions(self.photos, target_photos, targets, self.recipe, rng)
        sources = self.reader.read(
            read_captions, _sample_corruption(len(targets), self.recipe, rng), self.styles[target_photos], rng
        )
        batches = _make_batches(sources, self.reader.targets.take(targets), self.recipe.batch)
        return [batches[batch_index] for batch_index in rng.permutation(len(batches))]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy per subword."""
        return {"cross_entropy": self._cross_entropy(batch, "mean")}

    def evaluate(self) -> Mapping[str, float]:
        """The mean log-probability of a subword, and the perplexity, of held-out captions read as words."""
        total_loss, subword_count = 0.0, 0
        for batch in self.held_out:
            total_loss += float(self._cross_entropy(batch, "sum").double())
            subword_count += int((batch[1] != PAD).sum())
        return {"log_likelihood": -total_loss / subword_count, "perplexity": float(np.exp(total_loss / subword_count))}

    def _cross_entropy(self, batch: Batch, reduction: str) -> Tensor:
        sources, targets = (torch.from_numpy(array).to(self.device, non_blocking=True) for array in batch)
        logits = self.module(sources, pad(targets[:, :-1], (1, 0), value=BEGIN))
        return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=PAD, reduction=reduction)


def _make_batches(sources: Ragged, targets: Ragged, size: int) -> list[Batch]:
    """Padded batches of examples with about the same lengths, the shortest first."""
    length_order = np.lexsort((sources.lengths, targets.lengths))
    row_groups = split_rows(length_order, size)
    return [(padded(sources.take(group_rows), PAD), padded(targets.take(group_rows), PAD)) for group_rows in row_groups]


def sample_other_captions(
    photos: Integers, photo: Integers, targets: Integers, recipe: WriterRecipe, rng: np.random.Generator
) -> Ragged:
    """For each caption to write, one or two others of its photo, or none, to read.

    Args:
        photos: where the captions of each photo begin, and the number of all captions, (photos + 1,).
        photo: of each example, (examples,).
        targets: the captions to write, (examples,).
        recipe: how often two or none are read.
        rng: of the sample.

    Returns:
        Captions, a row per example.
    """
    start, size = photos[photo], photos[photo + 1] - photos[photo]
    first_offset = 1 + (rng.random(len(photo)) * (size - 1)).astype(np.int64)
    second_offset = 1 + (first_offset - 1 + 1 + (rng.random(len(photo)) * (size - 2)).astype(np.int64)) % (size - 1)
    target_index = targets - start
    rows = np.stack(
        [start + (target_index + first_offset) % size, start + (target_index + second_offset) % size], axis=1
    )
    read_counts = 1 + ((rng.random(len(photo)) < recipe.two) & (size > 2)).astype(np.int64)
    read_counts[rng.random(len(photo)) < recipe.blank] = 0
    return Ragged.from_lengths(rows[np.arange(2) < read_counts[:, None]], read_counts)


def _sample_corruption(count: int, recipe: WriterRecipe, rng: np.random.Generator) -> InputCorruption:
    """How examples are read, drawn from the recipe. Captions as they are lose half as much as bags."""
    uniforms = rng.random(count)
    form = np.full(count, FORMS.index("words"), np.int64)
    form[uniforms < recipe.captions] = FORMS.index("captions")
    form[uniforms >= 1 - recipe.nouns] = FORMS.index("nouns")
    lost_shares = rng.random(count) * recipe.lost
    lost_shares[form == FORMS.index("captions")] /= 2
    near_shares: npt.NDArray[np.float64] = np.zeros(count)
    return InputCorruption(form, 1 - lost_shares, near_shares, np.full(count, recipe.noise))


Item = TypeVar("Item")
SUBWORDS_FROM, NOUNS_FROM, HELD_OUT_PHOTOS = 50_000, 10_000, 1_000


def train_writer(
    corpora: Sequence[PhotoCorpus],
    recipe: WriterRecipe,
    folder: Path,
    *,
    nouns: Collection[str] | None = None,
    device: str = "cpu",
    threads: int = 1,
) -> Mapping[str, float]:
    """Trains a writer on the photos that are not held out, and writes its checkpoints.

    `folder` gets the selected weights, and `folder/STEPS` those after each of the recipe's `strengths`. An interrupted
    run is resumed.

    Args:
        corpora: photos without those of benchmarks (`read_corpus` leaves them out); each source is a style.
        recipe: settings.
        folder: the output folder.
        nouns: nouns in lower case; None: learned from captions with the parser that ships.
        device: a torch device.
        threads: number of CPU threads; another number gives slightly different weights.

    Returns:
        The held-out scores of the selected weights.

    Raises:
        InputError: no photos to train on, or none held out.
        MissingBackend: tokenizers is not installed.
    """
    torch.set_num_threads(threads)
    photos = [photo for corpus in corpora for photo in corpus.photos]
    rng = np.random.default_rng(recipe.seed)
    training_photos, held_out_photos = _sampled(photos, recipe, rng)
    captions = list(chain.from_iterable(photo.captions for photo in training_photos))
    styles = sorted({photo.source for photo in photos})
    marks = [*map(form_mark, FORMS), *map(style_mark, styles)]
    subwords = Subwords.learned(_sample(captions, SUBWORDS_FROM, rng), recipe.pieces, marks)
    named = sorted(learn_nouns(_sample(captions, NOUNS_FROM, rng)) if nouns is None else nouns)
    reader = SourceReader.from_captions(captions, subwords, named)
    evaluated = _evaluated(held_out_photos, subwords, named, recipe)
    styles_of = style_marks(training_photos, subwords)
    learner = WriterLearner(reader, bounds(training_photos), styles_of, evaluated, recipe, len(subwords))
    run = Run(learner, recipe, folder, description="training the writer", device=device)
    parameters = {"shape": asdict(recipe.shape), "subwords": str(subwords), "nouns": named, "styles": styles}
    unsaved = Checkpoint(
        kind=KIND,
        parameters=parameters,
        weights={},
        data=_learned_from(corpora, training_photos),
        training={**asdict(recipe), "captions": len(captions), "device": device, "threads": threads},
    )
    for steps in sorted(recipe.strengths):
        _keep_strength(run, steps, unsaved, folder / str(steps))
    outcome = run.train()
    selection = f"{FINAL}: the highest held-out log-likelihood (epoch {outcome.epoch} of {recipe.epochs})"
    _save(unsaved, outcome.weights, folder, selection, outcome.scores)
    return outcome.scores


def _sampled(
    photos: list[Photo], recipe: WriterRecipe, rng: np.random.Generator
) -> tuple[Sequence[Photo], Sequence[Photo]]:
    """The photos to train on, and those held out; an `InputError` where there are none of one kind."""
    training_photos = _sample([photo for photo in photos if not photo.held_out], recipe.photos or len(photos), rng)
    held_out_photos = _sample([photo for photo in photos if photo.held_out], HELD_OUT_PHOTOS, rng)
    if not training_photos or not held_out_photos:
        raise InputError(
            f"{len(photos)} photos give {len(training_photos)} to train on and {len(held_out_photos)} held out; "
            "expected some of each: give more photos"
        )
    return training_photos, held_out_photos


def _learned_from(corpora: Sequence[PhotoCorpus], training_photos: Sequence[Photo]) -> tuple[TrainingData, ...]:
    """The corpora, each with the number of captions that are learned from."""
    caption_counts: Counter[str] = Counter()
    for photo in training_photos:
        caption_counts[photo.source] += len(photo.captions)
    return tuple(replace(corpus.data, examples=caption_counts[corpus.data.name]) for corpus in corpora)


def _keep_strength(run: Run[Batch], steps: int, unsaved: Checkpoint, folder: Path) -> None:
    """Trains up to a number of steps and keeps the weights, unless a resumed run is past it or the run is shorter."""
    epochs_ahead = steps // STEPS_PER_EPOCH - run.epoch
    is_past = epochs_ahead < 0 or (epochs_ahead == 0 and run.batch > 0)
    if is_past or steps // STEPS_PER_EPOCH > run.recipe.epochs:
        return
    if epochs_ahead:
        run.train(epochs=epochs_ahead)
    weights = {name: values.detach().cpu().numpy() for name, values in run.learner.module.state_dict().items()}
    held_out_scores = run.history[-1]["scores"] if run.history else {}
    _save(unsaved, weights, folder, f"the weights after {steps} steps", held_out_scores)


def _save(unsaved: Checkpoint, weights: Mapping[str, Any], folder: Path, how: str, scores: Mapping[str, float]) -> None:
    half_weights = {weight_name: values.astype(np.float16) for weight_name, values in weights.items()}
    replace(unsaved, weights=half_weights, selection=how, scores=scores).save(folder)


def bounds(photos: Sequence[Photo]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each photo's captions begin when all are put one after another, and the end of the last."""
    return np.cumsum([0, *(len(photo.captions) for photo in photos)], dtype=np.int64)


def style_marks(photos: Sequence[Photo], subwords: Subwords) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The mark of each photo's style."""
    source_marks = {source: subwords.mark(style_mark(source)) for source in {photo.source for photo in photos}}
    return np.array([source_marks[photo.source] for photo in photos], np.int64)


def learn_nouns(captions: Sequence[str]) -> set[str]:
    """The content words, in lower case, that the parser that ships most often takes for nouns."""
    noun_votes: dict[str, Counter[bool]] = {}
    for parse in CaptionParser().parse(captions):
        for sentence in parse.sentences if parse else ():
            for word, tag in zip(sentence.words, sentence.tags, strict=True):
                noun_votes.setdefault(strip_punctuation(word), Counter())[tag.startswith("NN")] += 1
    return {word for word, votes in noun_votes.items() if is_content(word) and votes[True] > votes[False]}


def _sample(items: Sequence[Item], count: int, rng: np.random.Generator) -> Sequence[Item]:
    """As many of the items, drawn without replacement, in their order; all if there are no more."""
    if len(items) <= count:
        return items
    return [items[row] for row in np.sort(rng.choice(len(items), count, replace=False))]


def _evaluated(
    photos: Sequence[Photo], subwords: Subwords, nouns: Collection[str], recipe: WriterRecipe
) -> tuple[Ragged, Ragged]:
    """Sources and targets of held-out photos: the first caption is written after reading the second as words."""
    captions = list(chain.from_iterable(photo.captions for photo in photos))
    reader = SourceReader.from_captions(captions, subwords, nouns)
    first_captions = bounds(photos)[:-1]
    rng = np.random.default_rng(recipe.seed)
    sources = reader.read(
        Ragged.from_lengths(first_captions + 1, np.ones_like(first_captions)),
        WriterSystem().sight(len(photos)),
        style_marks(photos, subwords),
        rng,
    )
    return sources, reader.targets.take(first_captions)
