"""Distils a larger encoder that reads references into the matcher of `capmeter`: its score costs what it did.

`capmeter(size=large)` adds λ_6 g_6 to the matcher's logit, where g_6 is the logit of a larger encoder that reads a
caption together with its references. Here a student, a head of one hidden layer, learns to estimate it from the pooled
states of the frozen matcher (`capmeter.metrics.own.network`):

    loss = mean (student(c) - λ_6 g_6(c))² / var λ_6 g_6 + μ mean log(1 + exp(score(c') - score(c)))

In the first sum c are captions of training photos against captions of the same photo, of a similar one, or of any; in
the second c' are perturbations of c, which must not score above it. Of several μ one is selected as the other weights
of the score are (`tuning.py`): Kendall's τ with a half of the judgments within .0005 of the best, then pairwise
accuracy on perturbed captions of held-out photos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.options import option
from capmeter.core.progress import report_progress
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, sample_splits
from capmeter_research.common.model_selection import describe_judgments, kendall_tau, load_selection_judgments
from capmeter_research.common.options import TrainingReport, read_corpora
from capmeter_research.common.similar_photos import embed_photos, nearest_neighbours, number_captions
from capmeter_research.networks.own_metric.larger import LargerOptions, ReadCaptions, perturb_held_out, report_scores

Student = Mapping[str, NDArray[np.float16]]
"""The student's arrays by their names in a checkpoint."""
_NAMES = "0.weight", "0.bias", "3.weight", "3.bias"
_RANKING_WEIGHTS = (0.0, 0.1, 0.3, 1.0)  # μ
_SHARES = 0.33, 0.87  # cumulative: captions of the photo itself, or of a similar one
_NEIGHBOURS, _MEAN_RANK = 200, 20.0  # of similar photos
_EPOCHS, _BATCH, _WIDTH, _LR, _WEIGHT_DECAY, _DROPOUT = 30, 256, 64, 1e-3, 0.05, 0.2


@dataclass(frozen=True, kw_only=True)
class DistillationOptions(LargerOptions):
    """The captions, the network, the larger encoder, and the judgments."""

    encoder: str = option("capmeter-large", "Name or folder of the larger encoder's checkpoint.")
    pairs: int = option(8192, "Number of captions that the larger encoder reads.", minimum=2)
    photos: int = option(10000, "Number of training photos that they are drawn from.", minimum=CAPTIONS_PER_PHOTO)
    perturbed_photos: int = option(1000, "Number of training photos with perturbed captions.", minimum=2)


def train(options: DistillationOptions) -> TrainingReport:
    """Distil the larger encoder of `capmeter(size=large)` into a network of the base size.

    `capmeter train capmeter-distilled coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --threads 2 --output capmeter-distilled/`

    `capmeter score results.json -r references.json -m "capmeter(checkpoint=capmeter-distilled/)"`
    """
    options.run.start()
    from capmeter.core.checkpoints import load_checkpoint
    from capmeter.metrics.own.capmeter import KIND, Capmeter
    from capmeter_research.networks.own_metric.run import fit_logistic
    from capmeter_research.networks.own_metric.training import PAIRWISE_ACCURACY, pairwise_accuracy
    from capmeter_research.networks.own_metric.tuning import select_trial

    settings, seed = options.run.settings, options.run.seed
    network = load_checkpoint(options.network, KIND)
    if network.parameters["shape"].get("student_width"):
        raise InputError(f"--network {options.network} is distilled already; name the network that it was made from")
    trained = Capmeter(checkpoint=options.network, size=options.encoder).load(settings)
    base = replace(trained, larger=None)
    limit = len(load_selection_judgments(options.select, options.judgments).captions) // 2
    half = load_selection_judgments(options.select, options.judgments, limit=limit)
    corpora = read_corpora(options.captions, options.exclusions)
    photos, held_out = sample_splits(corpora, options.photos, options.held_out, seed)
    order = np.random.default_rng(seed).permutation(len(photos))[: options.perturbed_photos]
    perturbed, batch = perturb_held_out([photos[k] for k in order.tolist()], seed)
    held_out_captions, held_out_batch = perturb_held_out(held_out, seed)
    report_progress(f"{options.pairs:,} captions for the larger encoder, {len(perturbed):,} perturbed captions")
    captions, sentences = number_captions(photos)
    directions = embed_photos(sentences, captions, trained.encoder, settings)
    pairs = sample_pairs([photo.captions for photo in photos], directions, options.pairs, seed)
    teacher = ReadCaptions.from_captions(pairs, trained, settings)
    examples, held, judged = (
        ReadCaptions.from_captions(captions, base, settings)
        for captions in (perturbed, held_out_captions, half.captions)
    )
    originals, trials = np.array([row.original for row in batch.rows]), []
    for ranking_weight in _RANKING_WEIGHTS:
        student = fit_student(teacher, examples, originals, ranking_weight, seed)
        scores = held.logits + student_terms(student, held.pooled)
        judged_scores = (judged.logits + student_terms(student, judged.pooled))[half.rows]
        tau = kendall_tau(half.protocol.statistic, judged_scores, half.human)
        accuracy = pairwise_accuracy(held_out_batch, scores)
        trials.append((tau, accuracy[PAIRWISE_ACCURACY], (ranking_weight, student, scores, accuracy)))
    tau, _, (ranking_weight, student, scores, accuracy) = select_trial(trials)
    is_original = np.array([row.perturbation is None for row in held_out_batch.rows])
    parameters, calibration = network.parameters, list(fit_logistic(scores[is_original], scores[~is_original]))
    by_weight = {f"τ with ranking weight {trial[0]:g}": value for value, _, trial in trials}
    checkpoint = replace(
        network,
        parameters={
            **parameters,
            "shape": {**parameters["shape"], "student_width": _WIDTH},
            "calibration": {**parameters["calibration"], "score": calibration},
        },
        weights={**network.weights, **student},
        data=tuple(corpus.data for corpus in corpora),
        training={**network.training, "distilled": {"seed": seed, "pairs": options.pairs, "μ": ranking_weight}},
        selection=f"{network.selection}; ranking weight: {describe_judgments(half)}, and perturbed captions",
        scores={name: round(value, 4) for name, value in {**network.scores, **accuracy, **by_weight, "τ": tau}.items()},
    )
    checkpoint.save(options.output)
    messages = f"ranking weight: {ranking_weight:g}", f"capmeter(checkpoint={options.output})"
    return report_scores({"scores": dict(checkpoint.scores), "ranking_weight": ranking_weight}, *messages)


def sample_pairs(texts: Sequence[Sequence[str]], directions: NDArray[np.float32], count: int, seed: int) -> CaptionSet:
    """Captions with one to five references, of the same photo, of a similar one, or of any.

    Args:
        texts: five captions of each photo.
        directions: of their mean embeddings, (photos, dim).
        count: number of captions.
        seed: of the sample.
    """
    neighbours = nearest_neighbours(directions, _NEIGHBOURS)
    rng, captions = np.random.default_rng(seed), []
    for number in range(count):
        photo, order = int(rng.integers(len(texts))), rng.permutation(CAPTIONS_PER_PHOTO)
        similar = neighbours[photo, min(neighbours.shape[1] - 1, int(rng.exponential(_MEAN_RANK)))]
        other = int((photo, similar, rng.integers(len(texts)))[np.searchsorted(_SHARES, rng.random())])
        candidate, first = texts[other][order[0]], int(other == photo)  # a caption is not its own reference
        references = tuple(texts[photo][k] for k in order[first : first + int(rng.integers(1, CAPTIONS_PER_PHOTO + 1))])
        captions.append(Caption(str(number), str(photo), candidate, references))
    return CaptionSet.from_captions(captions)


def fit_student(
    teacher: ReadCaptions, examples: ReadCaptions, originals: NDArray[np.int64], ranking_weight: float, seed: int
) -> Student:
    """Fits a student.

    Args:
        teacher: captions with what the larger encoder adds.
        examples: captions and their perturbations.
        originals: the row of the caption of each example, also of itself.
        ranking_weight: μ.
        seed: of weights, batches and dropout.
    """
    import torch
    from torch import nn
    from torch.nn.functional import softplus

    torch.manual_seed(seed)
    mean, deviation = teacher.pooled.mean(0), np.maximum(teacher.pooled.std(0), 1e-3)
    unit, offset = float(teacher.larger_terms.std()), float(teacher.larger_terms.mean())
    pooled, example_pooled = (torch.from_numpy((each.pooled - mean) / deviation) for each in (teacher, examples))
    targets = torch.from_numpy((teacher.larger_terms - offset) / unit).float()
    logits, original_rows = torch.from_numpy(examples.logits).float(), torch.from_numpy(originals)
    perturbed_rows = torch.from_numpy(np.flatnonzero(originals != np.arange(len(originals))))
    layers = nn.Dropout(_DROPOUT), nn.Linear(pooled.shape[1], _WIDTH), nn.ReLU(), nn.Dropout(_DROPOUT)
    network = nn.Sequential(*layers, nn.Linear(_WIDTH, 1))
    optimiser = torch.optim.AdamW(network.parameters(), _LR, weight_decay=_WEIGHT_DECAY)
    steps = _EPOCHS * -(-len(targets) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _LR, total_steps=steps)
    for _ in range(steps):
        rows = torch.randint(len(targets), (_BATCH,))
        worse = perturbed_rows[torch.randint(len(perturbed_rows), (_BATCH // 2,))]
        scores, original_scores = (
            logits[each] + unit * network(example_pooled[each])[:, 0] for each in (worse, original_rows[worse])
        )
        loss = (network(pooled[rows])[:, 0] - targets[rows]).square().mean()
        loss = loss + ranking_weight * softplus(scores - original_scores).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    weight, bias, last_weight, last_bias = (each.detach().numpy() for each in network.parameters())
    weight = weight / deviation  # the student takes the states as they are
    arrays = weight, bias - weight @ mean, unit * last_weight, unit * last_bias + offset
    return {f"student.{name}": array.astype(np.float16) for name, array in zip(_NAMES, arrays, strict=True)}


def student_terms(student: Student, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a student adds to the logits of captions, (captions,).

    Args:
        student: its arrays.
        pooled: the matcher's states, (captions, k).
    """
    weight, bias, last_weight, last_bias = (array.astype(np.float32) for array in student.values())
    terms: NDArray[np.float32] = (np.maximum(pooled @ weight.T + bias, 0) @ last_weight.T + last_bias)[:, 0]
    return terms
