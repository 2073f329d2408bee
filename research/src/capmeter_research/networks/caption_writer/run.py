"""A whole run: from photos with captions to the checkpoints of a writer and of its weaker versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.ragged import Ragged
from capmeter.text.parsing.caption_parser import CaptionParser
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_research.common.corpus import Photo, PhotoCorpus
from capmeter_research.networks.caption_writer.reading import FORMS, CaptionTable, SourceReader, form_mark, style_mark
from capmeter_research.networks.caption_writer.recipe import STEPS_PER_EPOCH, WriterRecipe
from capmeter_research.networks.caption_writer.subwords import Subwords
from capmeter_research.networks.caption_writer.writing import FINAL, KIND, WriterSystem

if TYPE_CHECKING:
    from capmeter_research.common.loop import Run
    from capmeter_research.networks.caption_writer.training import Batch

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
        MissingBackend: torch or tokenizers is not installed.
    """
    _set_threads(threads)
    from capmeter_research.common.loop import Run
    from capmeter_research.networks.caption_writer.training import WriterLearner

    photos = [photo for corpus in corpora for photo in corpus.photos]
    rng = np.random.default_rng(recipe.seed)
    training_photos, held_out_photos = _sampled(photos, recipe, rng)
    captions = list(chain.from_iterable(photo.captions for photo in training_photos))
    styles = sorted({photo.source for photo in photos})
    marks = [*map(form_mark, FORMS), *map(style_mark, styles)]
    subwords = Subwords.learned(_sample(captions, SUBWORDS_FROM, rng), recipe.pieces, marks)
    named = sorted(learn_nouns(_sample(captions, NOUNS_FROM, rng)) if nouns is None else nouns)
    reader, evaluated = build_reader(captions, subwords, named), _evaluated(held_out_photos, subwords, named, recipe)
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


def _set_threads(threads: int) -> None:
    try:
        import torch
    except ImportError as error:
        raise MissingBackend('training needs torch: pip install "capmeter[neural]"') from error
    torch.set_num_threads(threads)


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
    fields = {field_name: getattr(unsaved, field_name) for field_name in ("kind", "parameters", "data", "training")}
    Checkpoint(**fields, weights=half_weights, selection=how, scores=scores).save(folder)


def build_reader(captions: Sequence[str], subwords: Subwords, nouns: Collection[str]) -> SourceReader:
    """The reader of captions.

    Args:
        captions, subwords, nouns: as in `CaptionTable.from_captions`.
    """
    table = CaptionTable.from_captions(captions, subwords, frozenset(nouns))
    return SourceReader(table, [subwords.mark(form_mark(form)) for form in FORMS])


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
    reader = build_reader(list(chain.from_iterable(photo.captions for photo in photos)), subwords, nouns)
    first_captions = bounds(photos)[:-1]
    rng = np.random.default_rng(recipe.seed)
    sources = reader.read(
        Ragged.from_lengths(first_captions + 1, np.ones_like(first_captions)),
        WriterSystem().sight(len(photos)),
        style_marks(photos, subwords),
        rng,
    )
    return sources, reader.targets.take(first_captions)
