"""Training of a regression head: squared error against human scores, the best reference of each caption counts.

L = mean over captions of (max_r σ(MLP(x_r) + w · y_r) - h)²             h: the mean human score, scaled to 0 to 1

A head of InfoMetIC's shape:

L = mean (σ(s) - h)²  +  mean over pairs of captions of one picture with h_a > h_b of log(1 + exp(s_b - s_a))
    + cross-entropy of words (right or wrong)  +  cross-entropy of regions (mentioned or not)

s: the logit of the score. Words and regions count where they are known. As in the paper, whole captions are learned by
contrast, with wrong captions of the same picture, and words by which of them were exchanged; there the contrast is with
all other captions and pictures of a batch as well.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, softplus

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import MemoryCache, Settings
from capmeter.encoders import SentenceVectors, find_encoder, find_joint_encoder, load_encoder
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.encoders.text.tokenizer import PieceTable
from capmeter.images.joint_features import ImageReader
from capmeter.metrics.vision.image_text import add_prefix, normalise_rows
from capmeter.stats.kendall import TauC
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed, split_rows
from capmeter_research.papers.infometic.head import RegressionHead, joint_parts
from capmeter_research.papers.infometic.infometic import MIN_PROBABILITY, word_scores
from capmeter_research.papers.infometic.inputs import InputSpec
from capmeter_research.papers.infometic.joint_states import load_state_encoder
from capmeter_research.papers.infometic.network import HeadOutput, HeadShape, InfoMetIC
from capmeter_research.papers.infometic.regressor import KIND, TUNED_ENCODER
from capmeter_research.papers.infometic.training.examples import (
    Floats,
    RegressionExamples,
    Rows,
    StateExamples,
    read_examples,
    read_rated,
    read_states,
)
from capmeter_research.papers.infometic.training.labels import Labels
from capmeter_research.papers.infometic.training.recipe import InfoMetICRecipe, RegressorRecipe

_AT_ONCE = 256  # held-out captions


class HeadModule(nn.Module):
    """A perceptron, and the weights of the cosines beside it; at first only these speak."""

    def __init__(self, inputs: int, cosines: int, recipe: RegressorRecipe) -> None:
        super().__init__()
        output_layer = nn.Linear(recipe.hidden, 1)
        nn.init.zeros_(output_layer.weight)
        input_layer = nn.Linear(inputs, recipe.hidden)
        self.perceptron = nn.Sequential(
            nn.Dropout(recipe.dropout), input_layer, nn.Tanh(), nn.Dropout(recipe.dropout), output_layer
        )
        self.cosines = nn.Parameter(torch.full((cosines,), 0.5))

    def forward(self, values: Tensor) -> Tensor:
        """The logits [n] of standardised inputs [n, k]."""
        logits: Tensor = self.perceptron(values)[:, 0] + values[:, : len(self.cosines)] @ self.cosines
        return logits


class RegressorLearner(Learner[Rows]):
    """The learner of the shared loop; a batch is the numbers of its captions."""

    select = "tau-c less error"  # of epochs that rank alike, the one with the smaller error

    def __init__(self, examples: RegressionExamples, recipe: RegressorRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe = examples, recipe
        trained_values = examples.values[np.isin(examples.rows, examples.rated.trained)]
        self.mean = trained_values.mean(axis=0).astype(np.float32)
        self.deviation = np.maximum(trained_values.std(axis=0), 1e-6).astype(np.float32)
        self._values = torch.from_numpy(((examples.values - self.mean) / self.deviation).astype(np.float32)).to(device)
        self._first = torch.from_numpy(examples.starts).to(device)
        self._human = torch.from_numpy(examples.rated.human.astype(np.float32)).to(device)
        self.head_module = HeadModule(examples.values.shape[1], examples.cosines, recipe)
        self.module: nn.Module = self.head_module

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=lr, weight_decay=self.recipe.weights)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """The captions in random order."""
        caption_order = rng.permutation(self.examples.rated.trained)
        return split_rows(caption_order, self.recipe.batch)

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The squared error."""
        rows = torch.from_numpy(batch).to(self._human.device)
        return {"error": (self._scores(rows) - self._human[rows]).square().mean()}

    def evaluate(self) -> Mapping[str, float]:
        """On held-out images: Kendall's tau-c with the human scores, and the mean squared error."""
        held_out_rows = torch.from_numpy(self.examples.rated.held_out).to(self._human.device)
        scores = (
            torch.cat([self._scores(part) for part in torch.split(held_out_rows, _AT_ONCE)])
            .cpu()
            .numpy()
            .astype(np.float64)
        )
        human_scores = self.examples.rated.human[self.examples.rated.held_out]
        tau, error = float(TauC(scores, human_scores)()), float(((scores - human_scores) ** 2).mean())
        return {"tau-c": tau, "error": error, "tau-c less error": tau - error}

    def _scores(self, captions: Tensor) -> Tensor:
        """The highest score over the references of these captions."""
        input_starts, input_ends = self._first[captions], self._first[captions + 1]
        input_counts = input_ends - input_starts
        owner_rows = torch.repeat_interleave(torch.arange(len(captions), device=captions.device), input_counts)
        input_offsets = (
            torch.arange(len(owner_rows), device=captions.device) - (input_counts.cumsum(0) - input_counts)[owner_rows]
        )
        scores = torch.sigmoid(self.head_module(self._standardised(input_starts[owner_rows] + input_offsets)).float())
        best_scores = torch.full((len(captions),), -1.0, device=captions.device)
        return best_scores.scatter_reduce(0, owner_rows, scores, "amax", include_self=False)

    def _standardised(self, rows: Tensor) -> Tensor:
        """These rows of inputs as the head reads them."""
        return self._values[rows]

    def weights(self, outcome: Outcome) -> Mapping[str, npt.NDArray[np.float32]]:
        """The arrays of the head with the selected weights."""
        return self.head(outcome).to_weights()

    def head(self, outcome: Outcome) -> RegressionHead:
        """The head with the selected weights."""
        weights = outcome.weights
        layers = tuple((weights[f"perceptron.{k}.weight"].T.copy(), weights[f"perceptron.{k}.bias"]) for k in (1, 4))
        return RegressionHead(layers, self.mean, self.deviation, weights["cosines"])


_ENCODER = "encoder."
_WEIGHTS = "model.safetensors"
_PICTURE_BYTES = 1 << 30  # of pictures in memory


class TunedLearner(RegressorLearner):
    """A head whose joint encoder is tuned with it: the same loss, and the inputs are encoded anew at every step.

    The encoder learns at a share of the head's rate, without decay of its weights. Inputs are standardised by the means
    and deviations that they have with the encoder as it was, from which the head and the encoder begin. Vectors of a
    text encoder stay as they are. Pictures are decoded anew when they are needed; the last ones used stay in memory.
    The network is the head and a copy of the joint encoder.
    """

    def __init__(
        self,
        examples: RegressionExamples,
        recipe: RegressorRecipe,
        device: str,
        *,
        captions: CaptionSet,
        inputs: InputSpec,
        settings: Settings,
    ) -> None:
        super().__init__(examples, recipe, device)
        self._values = self._values[:0]  # encoded anew instead
        self._joint = load_joint_encoder(find_joint_encoder(inputs.encoder), settings)
        self.encoder: Any = copy.deepcopy(self._joint.model).float().requires_grad_(True)
        self.module = nn.ModuleDict({"head": self.head_module, "encoder": self.encoder})
        self._moments = tuple(torch.from_numpy(moment).to(device) for moment in (self.mean, self.deviation))
        self._reader = ImageReader(captions.image_pool.items, self._joint.preprocessing)
        self._pixels = MemoryCache(_PICTURE_BYTES)
        self._captions, self._with_references = captions, inputs.shape == "polos"
        sentence_indices = [captions.candidates, *([captions.references.values] if self._with_references else [])]
        self._sentences = np.unique(np.concatenate(sentence_indices))
        self._pieces: PieceTable = self._joint.pieces(
            [add_prefix(inputs.prefix, captions.pool[k]) for k in self._sentences.tolist()]
        )
        self._texts: Tensor | None = None
        if self._with_references and inputs.text_encoder:
            text_encoder = find_encoder(inputs.text_encoder)
            layer = load_encoder(text_encoder, settings).layers
            text_vectors = normalise_rows(captions.pool.analyse(SentenceVectors(text_encoder, layer, settings)))
            self._texts = torch.from_numpy(text_vectors.astype(np.float32)).to(device)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW; the encoder has its share of the rate, and no decay."""
        return torch.optim.AdamW(
            [
                {"params": self.head_module.parameters(), "weight_decay": self.recipe.weights},
                {"params": self.encoder.parameters(), "weight_decay": 0.0, "lr_scale": self.recipe.tune},
            ],
            lr=lr,
        )

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """The captions with their pictures in random order: those of one picture side by side, for which it is encoded
        once in a batch.
        """
        trained_rows = self.examples.rated.trained
        place = rng.permutation(int(self._captions.image_indices.max()) + 1)[self._captions.image_indices[trained_rows]]
        caption_order = trained_rows[np.lexsort((rng.random(len(trained_rows)), place))]
        return split_rows(caption_order, self.recipe.batch)

    def _standardised(self, rows: Tensor) -> Tensor:
        row_array = rows.cpu().numpy()
        caption_rows = self.examples.rows[row_array]
        candidate_rows = self._captions.candidates[caption_rows]
        picture_features = self._image_features(self._captions.image_indices[caption_rows])
        references = texts = None
        if self._with_references:
            reference_rows = self._captions.references.values[row_array]
            sentence_features = self._sentence_features(np.concatenate([candidate_rows, reference_rows]))
            candidates, references = sentence_features[: len(caption_rows)], sentence_features[len(caption_rows) :]
            if self._texts is not None:
                texts = self._texts[candidate_rows.tolist()], self._texts[reference_rows.tolist()]
        else:
            candidates = self._sentence_features(candidate_rows)
        mean, deviation = self._moments
        values = torch.cat(joint_parts(picture_features, candidates, references, texts), dim=1)
        return (values - mean) / deviation

    def _image_features(self, picture_rows: npt.NDArray[Any]) -> Tensor:
        """The unit features of these pictures."""
        distinct_rows, inverse = np.unique(picture_rows, return_inverse=True)
        pixels = torch.from_numpy(np.stack([self._picture(row) for row in distinct_rows.tolist()])).to(self.device)
        return _unit(self.encoder.get_image_features(pixel_values=pixels))[torch.from_numpy(inverse)]

    def _picture(self, row: int) -> npt.NDArray[np.float32]:
        cached_pixels: npt.NDArray[np.float32] | None = self._pixels.get(row)
        if cached_pixels is None:
            raw_pixels = self._reader.pixels(row)
            self._reader.check()
            cached_pixels = self._joint.preprocessing(np.asarray(raw_pixels))
            self._pixels.put(row, cached_pixels)
        return cached_pixels

    def _sentence_features(self, sentences: npt.NDArray[Any]) -> Tensor:
        """The unit features of these sentences of the pool; those of one length go through the encoder together."""
        distinct_rows, inverse = np.unique(np.searchsorted(self._sentences, sentences), return_inverse=True)
        lengths = self._pieces.lengths[distinct_rows]
        length_order = np.argsort(lengths, kind="stable")
        length_groups = np.split(distinct_rows[length_order], np.flatnonzero(np.diff(lengths[length_order])) + 1)
        feature_parts = []
        for group in length_groups:
            piece_ids = torch.from_numpy(np.stack([self._pieces[row] for row in group.tolist()]).astype(np.int64))
            feature_parts.append(_unit(self.encoder.get_text_features(input_ids=piece_ids.to(self.device))))
        inverse_order = np.empty(len(length_order), np.int64)
        inverse_order[length_order] = np.arange(len(length_order))
        return torch.cat(feature_parts)[torch.from_numpy(inverse_order[inverse])]

    def weights(self, outcome: Outcome) -> Any:
        """The arrays of the head with the selected weights."""
        return super().weights(replace(outcome, weights=_within(outcome, "head.")))

    def save_encoder(self, outcome: Outcome, folder: Path) -> None:
        """Writes the tuned encoder: the files of the one that it began from, and the selected weights."""
        folder.mkdir(parents=True, exist_ok=True)
        model = copy.deepcopy(self.encoder)
        encoder_weights = _within(outcome, _ENCODER)
        model.load_state_dict({name: torch.from_numpy(values) for name, values in encoder_weights.items()})
        model.save_pretrained(folder)
        for file in self._joint.handle.folder.iterdir():
            if file.suffix in (".json", ".txt", ".model") and "index" not in file.name:
                shutil.copyfile(file, folder / file.name)


def _within(outcome: Outcome, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in outcome.weights.items() if name.startswith(prefix)}


def _unit(features: Any) -> Tensor:
    """The model's features, of length 1; from version 5 the library wraps them."""
    return normalize(getattr(features, "pooler_output", features).float(), dim=1)


class InfoMetICLearner(Learner[Rows]):
    """The learner of the shared loop; a batch is the numbers of its captions, those of a picture together."""

    select = "tau-c and words"

    def __init__(self, examples: StateExamples, shape: HeadShape, recipe: RegressorRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe, self.on = examples, recipe, device
        self.network = self.module = InfoMetIC(shape, recipe.dropout)
        self._human = torch.from_numpy(examples.rated.human.astype(np.float32)).to(device)
        self._picture = torch.from_numpy(examples.states.image).to(device)
        self._regions = torch.from_numpy(examples.regions.astype(np.float32)).to(device)
        trained_rows = examples.rated.trained
        image_order = np.argsort(examples.states.image[trained_rows], kind="stable")
        group_starts = np.flatnonzero(np.diff(examples.states.image[trained_rows][image_order])) + 1
        self._groups = np.split(trained_rows[image_order], group_starts)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=lr, weight_decay=self.recipe.weights)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """Pictures in random order, with all their captions."""
        batches: list[Rows] = []
        batch: list[Rows] = []
        for group_index in rng.permutation(len(self._groups)).tolist():
            batch.append(self._groups[group_index])
            if sum(map(len, batch)) >= self.recipe.batch:
                batches.append(np.concatenate(batch))
                batch = []
        return [*batches, np.concatenate(batch)] if batch else batches

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        output, rows = self._output(batch), torch.from_numpy(batch).to(self.on)
        human, score = self._human[rows], output.score.float()
        losses = {"error": (score.sigmoid() - human).square().mean()}
        same_picture = self._picture[rows][:, None] == self._picture[rows]
        is_better = same_picture & (human[:, None] > human + 1e-6)
        if is_better.any():
            losses["order"] = softplus(score - score[:, None])[is_better].mean()
        for loss_name, logits, labels in (
            ("words", output.right, self._piece_labels(batch, output.right.shape[1])),
            ("regions", output.mentioned, self._regions[rows]),
        ):
            is_labelled = labels.isfinite()
            if is_labelled.any():
                losses[loss_name] = binary_cross_entropy_with_logits(logits[is_labelled].float(), labels[is_labelled])
        return losses

    def evaluate(self) -> Mapping[str, float]:
        """On held-out images: Kendall's tau-c with the human scores, and the mean squared error.

        And shares: of pairs of a picture's captions, those in the order of their human scores; of the exchanged words
        those that are found, of the others those that are kept, of captions with wrong words those in which the worst
        word is one; of regions those that are judged rightly.
        """
        held_out = self.examples.rated.held_out
        scores = np.zeros(len(held_out))
        words: list[tuple[Floats, Floats]] = []
        regions_right: list[bool] = []
        for batch_start in range(0, len(held_out), _AT_ONCE):
            batch_rows = held_out[batch_start : batch_start + _AT_ONCE]
            output = self._output(batch_rows)
            scores[batch_start : batch_start + _AT_ONCE] = output.score.float().sigmoid().cpu().numpy()
            right = output.right.float().sigmoid().cpu().numpy().astype(np.float64)
            is_mentioned = (output.mentioned > 0).cpu().numpy()
            for k, row in enumerate(batch_rows.tolist()):
                places = self.examples.states.sentences.word_indices[self.examples.states.sentence[row]]
                words.append((word_scores(right[k], places, len(self.examples.words[row])), self.examples.words[row]))
                is_labelled = np.isfinite(self.examples.regions[row])
                regions_right.extend(is_mentioned[k, is_labelled] == (self.examples.regions[row, is_labelled] > 0.5))
        human_scores = self.examples.rated.human[held_out]
        measures = {"tau-c": float(TauC(scores, human_scores)()), "error": float(((scores - human_scores) ** 2).mean())}
        measures["right order"] = _ordered(scores, human_scores, self.examples.states.image[held_out])
        measures |= shares_of_words(words)
        if regions_right:
            measures["regions right"] = float(np.mean(regions_right))
        f1 = 0.0
        if "wrong words found" in measures:
            f1 = 0.5 * (measures["wrong words found"] + measures["right words kept"])
        return {**measures, "tau-c and words": measures["tau-c"] - measures["error"] + f1}

    def _output(self, rows: Rows) -> HeadOutput:
        output: HeadOutput = self.network(self.examples.states.batch(rows, self.on))
        return output

    def _piece_labels(self, rows: Rows, longest: int) -> Tensor:
        labels = np.full((len(rows), longest), np.nan, np.float32)
        for row_index, row in enumerate(rows.tolist()):
            pieces_of_row = self.examples.of_pieces(row)
            labels[row_index, : len(pieces_of_row)] = pieces_of_row
        return torch.from_numpy(labels).to(self.on)

    def weights(self, outcome: Outcome) -> dict[str, npt.NDArray[np.float32]]:
        """The selected weights."""
        return {weight_name: array.astype(np.float32) for weight_name, array in outcome.weights.items()}


def shares_of_words(words: Sequence[tuple[Floats, Floats]]) -> dict[str, float]:
    """How well right and wrong words are distinguished, from each caption's scores and labels; empty without labels.

    >>> shares_of_words([(np.array([0.9, 0.2, 0.8]), np.array([1.0, 0.0, 0.0])), (np.array([0.4]), np.array([1.0]))])
    {'wrong words found': 0.5, 'right words kept': 0.5, 'worst word is wrong': 1.0}
    """
    labelled = [
        (caption_scores, labels) for caption_scores, labels in words if len(labels) and np.isfinite(labels).all()
    ]
    if not labelled:
        return {}
    scores, labels = (np.concatenate(parts) for parts in zip(*labelled, strict=True))
    is_wrong = labels < 0.5
    if not is_wrong.any() or is_wrong.all():
        return {}
    worst_is_wrong = [
        labels[int(caption_scores.argmin())] < 0.5 for caption_scores, labels in labelled if (labels < 0.5).any()
    ]
    return {
        "wrong words found": float((scores[is_wrong] < MIN_PROBABILITY).mean()),
        "right words kept": float((scores[~is_wrong] >= MIN_PROBABILITY).mean()),
        "worst word is wrong": float(np.mean(worst_is_wrong)),
    }


def _ordered(scores: Floats, human: Floats, pictures: Rows) -> float:
    """The share of pairs of one picture's captions, of different human scores, in the order of these."""
    in_order: list[npt.NDArray[np.bool_]] = []
    for picture in np.unique(pictures):
        same_picture = pictures == picture
        own_scores, own_human = scores[same_picture], human[same_picture]
        is_better = own_human[:, None] > own_human + 1e-6
        in_order.append((own_scores[:, None] > own_scores)[is_better])
    all_pairs = np.concatenate(in_order)
    return float(all_pairs.mean()) if len(all_pairs) else 0.0


def train_regressor(
    captions: CaptionSet,
    inputs: InputSpec,
    recipe: RegressorRecipe,
    folder: Path,
    *,
    labels: Mapping[str, Labels] | None = None,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
    settings: Settings | None = None,
) -> Outcome:
    """Trains a head, and writes its checkpoint; an interrupted run is resumed.

    Args:
        The recipe of the shape `infometic` is an `InfoMetICRecipe`. A tuned encoder is written into the folder
            `encoder` of the checkpoint.
        captions: with human scores.
        inputs: what the head reads.
        recipe: of the training.
        folder: of the checkpoint and the run.
        labels: of the shape `infometic`, what is known of captions' words and regions, by id.
        data: describes the captions, for the checkpoint.
        device: of torch.
        settings: where encoders run.

    Raises:
        InputError: see `read_rated`; or the encoder of a head of another shape than `polos` and `pair` is to be tuned.
    """
    if recipe.tune and inputs.shape not in ("polos", "pair"):
        raise InputError(f"tuning the encoder is for the shapes polos and pair; {inputs.shape} reads it as it is")
    settings = settings or Settings()
    parameters: dict[str, Any] = {}
    learner: RegressorLearner | InfoMetICLearner
    if isinstance(recipe, InfoMetICRecipe):
        rated = read_rated(captions, inputs, share=recipe.held_out, seed=recipe.seed)
        encoder = load_state_encoder(find_joint_encoder(inputs.encoder), settings)
        states = read_states(captions, rated, encoder, inputs.prefix, labels or {}, settings)
        shape = HeadShape(*encoder.shape, width=recipe.width, layers=recipe.layers, heads=recipe.heads)
        learner = InfoMetICLearner(states, shape, recipe, device)
        parameters["network"] = asdict(shape)
    else:
        examples = read_examples(captions, inputs, share=recipe.held_out, seed=recipe.seed, settings=settings)
        if recipe.tune:
            learner = TunedLearner(examples, recipe, device, captions=captions, inputs=inputs, settings=settings)
        else:
            learner = RegressorLearner(examples, recipe, device)
        rated = examples.rated
    run: Run[Any] = Run(learner, recipe, folder / "run", description="training a regressor", device=device)
    outcome = run.train()
    if isinstance(learner, TunedLearner):
        learner.save_encoder(outcome, folder / TUNED_ENCODER)
        parameters["tuned"] = True
    handle = find_joint_encoder(str(folder / TUNED_ENCODER)) if recipe.tune else inputs.handle
    Checkpoint(
        kind=KIND,
        parameters={
            **inputs.to_parameters(),
            **parameters,
            "encoder_sha256": handle.sha256,
            "low": rated.low,
            "high": rated.high,
        },
        weights=learner.weights(outcome),
        data=tuple(data),
        training=asdict(recipe),
        selection=f"highest {learner.select} on {len(rated.held_out)} held-out captions, epoch {outcome.epoch}",
        scores=dict(outcome.scores),
    ).save(folder)
    return outcome
