"""The adaptation of an encoder to captions: captions of similar photos become similar, to the degree the photos are.

    σ(slope · cos(v(c_j), mean of v(r_i)) + offset)  →  1 if i = j, else cos(photo i, photo j)^target_power

c_j is a caption of photo j, r_i one to four captions of photo i. cos(photo i, photo j) compares the mean embeddings of
all captions of the two photos by the original encoder: a soft target, which no single caption can reach. A step takes
clusters of similar photos, and all pairs of their captions and references; own captions have .3 of the weight of the
loss, other pairs within a cluster .45, all others .25.

An encoder that reads references (`capmeter_research.common.reference_reader`) has its own logit instead of that of the
cosine. A step takes the pairs within clusters, and for each photo's references captions of two photos outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, PieceTable, load_encoder
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import KIND, LAYERS, LORA_A, LORA_B, attach_factors
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo
from capmeter_research.common.loop import Learner, Run, set_seed
from capmeter_research.common.recipe import Recipe
from capmeter_research.common.reference_reader import PREFIX, ReaderWeights, ReferenceReader
from capmeter_research.common.similar_photos import embed_photos, nearest_neighbours, number_captions
from capmeter_research.common.transformer.network import AdaptedLayers


@dataclass(frozen=True)
class EncoderRecipe(Recipe):
    """The settings of a run."""

    epochs: int = 12
    lr: float = 5e-4
    warmup: float = 0.05
    lr_schedule: str = "linear"
    max_grad_norm: float = 1.0
    precision: str = "bfloat16"
    steps: int = 100  # per epoch
    clusters: int = 12  # per step, each a photo and some of its nearest photos
    cluster_size: int = 3  # photos per cluster
    mean_neighbour_rank: float = 20.0  # mean rank of the others among the nearest photos
    target_power: float = 1.5  # the target of two photos is this power of the similarity of their captions
    rank: int = 16  # of the adapter
    dropout: float = 0.1  # in training
    weight_decay: float = 0.01  # of AdamW
    slope: float = 10.0  # initial values of the logistic function of a cosine
    offset: float = -6.0
    calibration_lr_scale: float = 20.0  # learning rate of all other parameters, as a multiple of the adapters'
    reads_references: bool = False  # whether captions are read together with references
    other_photos: int = 2  # then, photos outside the cluster for each photo's references
    stored_rank: int | None = None  # of the adapter in the checkpoint; None means that of training


READING = EncoderRecipe(
    epochs=10,
    steps=93,
    warmup=0.1,
    clusters=16,
    cluster_size=4,
    dropout=0.0,
    calibration_lr_scale=2.0,
    reads_references=True,
    stored_rank=8,
)
"""The settings of a run of an encoder that reads references."""


_NEIGHBOURS = 200
_LENGTH_GROUPS = 5
_OWN, _CLUSTER, _OTHER = 0.3, 0.45, 0.25  # weights of the loss
_EVALUATION_BATCH = 512
_INITIAL_ATTENTION = -2.0

Rows = NDArray[np.int64]


class AdaptedBert(AdaptedLayers):
    """Sentence vectors of an adapted encoder, and a logistic function of their cosines.

    Args:
        bert, rank, dropout: see `AdaptedLayers`.
        slope, offset: of the logistic function.
    """

    def __init__(self, bert: Bert, rank: int, slope: float, offset: float, dropout: float = 0.0) -> None:
        super().__init__(bert, rank, dropout=dropout)
        self.logistic = nn.Parameter(torch.tensor([slope, offset]))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors (batch, width), the direction of the mean hidden state; ids, mask: see `states`."""
        return normalize((self.states(ids, mask) * mask[:, :, None]).sum(1), dim=1)


class ReadingBert(AdaptedBert):
    """The same, and a reader of captions with references: it attends little to these at first.

    Args:
        bert, rank, slope, offset, dropout: see `AdaptedBert`.
    """

    def __init__(self, bert: Bert, rank: int, slope: float, offset: float, dropout: float = 0.0) -> None:
        super().__init__(bert, rank, slope, offset, dropout)
        self.attention = nn.Parameter(torch.full((bert.layers, bert.heads), _INITIAL_ATTENTION))
        self.direction = nn.Parameter(torch.zeros(bert.width))

    def reader(self) -> ReferenceReader:
        """The reader with the current weights."""
        factors = dict(self.named_parameters())
        stack = [attach_factors(layer, factors, number) for number, layer in enumerate(self.bert.stack)]
        weights = ReaderWeights(self.attention, self.direction, self.logistic)
        dropout = self.dropout if self.training else 0.0
        return ReferenceReader(self.bert, stack, weights, str(self.logistic.device), dropout)


class EncoderLearner(Learner[bool]):
    """The adapter in training. Batches are sampled with the step's random numbers.

    Args:
        module: the network with its initial weights.
        pieces: the word pieces of all sentences.
        captions: (photos, 5), sentence indices; the training photos come first.
        photo_embeddings: unit vectors (training photos, width) by the original encoder.
        recipe: settings.
    """

    def __init__(
        self,
        module: AdaptedBert,
        pieces: PieceTable,
        captions: Rows,
        photo_embeddings: NDArray[np.float32],
        recipe: EncoderRecipe,
    ) -> None:
        self.module: AdaptedBert = module
        self.pieces, self.captions, self.recipe = pieces, captions, recipe
        self.photo_embeddings, self.train_count = photo_embeddings, len(photo_embeddings)
        self._neighbours = nearest_neighbours(photo_embeddings, _NEIGHBOURS)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """One item per step."""
        return [True] * self.recipe.steps

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW, with a higher learning rate for all but the adapters."""
        recipe = self.recipe
        others = [parameter for name, parameter in self.module.named_parameters() if not name.startswith(LAYERS)]
        parameter_groups: list[dict[str, Any]] = [
            {"params": self.module.adapter_parameters()},
            {"params": others, "lr_scale": recipe.calibration_lr_scale},
        ]
        return torch.optim.AdamW(parameter_groups, lr=lr, weight_decay=recipe.weight_decay)

    def losses(self, batch: bool, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        photos, clusters = self.sample_clusters(rng)
        caption_order = rng.permuted(np.tile(np.arange(CAPTIONS_PER_PHOTO), (len(photos), 1)), axis=1)
        sentences = np.take_along_axis(self.captions[photos], caption_order, axis=1)
        candidates, references = self.sample_pairs(clusters, rng)
        logits = self.score_pairs(sentences, candidates, references, rng)

        same_photo = photos[candidates] == photos[references]
        same_cluster = (clusters[candidates] == clusters[references]) & ~same_photo
        photo_vectors = self.photo_embeddings[photos]
        similarity = (photo_vectors @ photo_vectors.T)[candidates, references]
        target = np.maximum(similarity, 0) ** self.recipe.target_power
        target[same_photo] = 1.0
        loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(target).to(self.device), reduction="none")
        pair_kinds = ((_OWN, same_photo), (_CLUSTER, same_cluster), (_OTHER, ~same_photo & ~same_cluster))
        loss_parts = [
            weight * loss[torch.from_numpy(is_pair)].mean() for weight, is_pair in pair_kinds if is_pair.any()
        ]
        return {"similarity": torch.stack(loss_parts).sum()}

    def sample_pairs(self, clusters: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """The pairs of a step, all of them: the photo of the caption and that of the references, (pairs,) each."""
        photo_count = len(clusters)
        candidates, references = np.divmod(np.arange(photo_count**2), photo_count)
        return candidates, references

    def score_pairs(self, sentences: Rows, candidates: Rows, references: Rows, rng: np.random.Generator) -> Tensor:
        """The logits of each photo's first sentence against one to four others of a photo, (pairs,).

        Args:
            sentences: of each photo, (photos, captions).
            candidates, references: the photos of each pair, (pairs,).
            rng: of the number of references.
        """
        vectors = self.embed(sentences.ravel()).view(*sentences.shape, -1)
        centroids = normalize(vectors[:, 1 : 1 + int(rng.integers(1, CAPTIONS_PER_PHOTO))].mean(1), dim=1)
        slope, offset = self.module.logistic
        logits: Tensor = slope * (vectors[:, 0] @ centroids.T)[candidates, references] + offset
        return logits

    def sample_clusters(self, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """The photos of a step, and the cluster of each: (clusters · cluster_size) each."""
        cluster_count, cluster_size = self.recipe.clusters, self.recipe.cluster_size
        first_photos = rng.integers(0, self.train_count, cluster_count)
        ranks = rng.exponential(self.recipe.mean_neighbour_rank, (cluster_count, cluster_size - 1)).astype(np.int64)
        other_photos = self._neighbours[first_photos[:, None], np.minimum(ranks, self._neighbours.shape[1] - 1)]
        return np.column_stack([first_photos, other_photos]).ravel(), np.repeat(np.arange(cluster_count), cluster_size)

    def embed(self, sentences: Rows) -> Tensor:
        """The unit vectors (sentences, width) of sentences by their indices."""
        lengths = self.pieces.lengths[sentences]
        length_order = np.argsort(lengths, kind="stable")
        vectors = []
        for group_rows in np.array_split(length_order, min(_LENGTH_GROUPS, len(length_order))):
            ids, mask = self.pieces.padded(sentences[group_rows])
            vectors.append(self.module(torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)))
        return torch.cat(vectors)[torch.from_numpy(np.argsort(length_order)).to(self.device)]

    def evaluate(self) -> Mapping[str, float]:
        """The percentage of held-out captions whose nearest references are those of their own photo."""
        held_out = self.captions[self.train_count :]
        if not len(held_out):
            return {}
        sentences = held_out.ravel()
        batch_starts = range(0, len(sentences), _EVALUATION_BATCH)
        vector_parts = [
            self.embed(sentences[batch_start : batch_start + _EVALUATION_BATCH]) for batch_start in batch_starts
        ]
        vectors = torch.cat(vector_parts).view(len(held_out), CAPTIONS_PER_PHOTO, -1)
        references = normalize(vectors[:, 1:].mean(1), dim=1)
        nearest_photos = (vectors[:, 0] @ references.T).argmax(1).cpu()
        return {"own photo": 100 * float((nearest_photos == torch.arange(len(held_out))).double().mean())}


class ReadingLearner(EncoderLearner):
    """A reader in training, on some of the pairs, each of which is read separately."""

    module: ReadingBert

    def sample_pairs(self, clusters: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """The pairs within clusters, and for the references of each photo captions of other photos."""
        photo_count, cluster_size = len(clusters), self.recipe.cluster_size
        references = np.repeat(np.arange(photo_count), cluster_size)
        candidates = references // cluster_size * cluster_size + np.tile(np.arange(cluster_size), photo_count)
        others = rng.integers(0, photo_count, (photo_count, self.recipe.other_photos))
        reference_photos = np.broadcast_to(np.arange(photo_count)[:, None], others.shape)
        is_outside = clusters[others] != clusters[reference_photos]
        return (
            np.concatenate([candidates, others[is_outside]]),
            np.concatenate([references, reference_photos[is_outside]]),
        )

    def score_pairs(self, sentences: Rows, candidates: Rows, references: Rows, rng: np.random.Generator) -> Tensor:
        """The reader's logits, (pairs,); each photo has one to four references.

        Args:
            sentences, candidates, references, rng: as in `EncoderLearner.score_pairs`.
        """
        counts = rng.integers(1, CAPTIONS_PER_PHOTO, len(sentences))
        photo_references = Ragged.from_rows(
            [row[1 : 1 + count] for row, count in zip(sentences, counts, strict=True)], np.int64
        )
        return self.module.reader().read(self.pieces, sentences[candidates, 0], photo_references.take(references))


def train_encoder(
    train: Sequence[Photo],
    held_out: Sequence[Photo],
    recipe: EncoderRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    encoder: EncoderHandle,
    device: str = "cpu",
) -> Checkpoint:
    """Trains an adapter of an encoder and writes its checkpoint.

    Args:
        train: training photos, with at least five captions each.
        held_out: photos for evaluation, with at least five captions each.
        recipe: settings.
        folder: the output folder; an interrupted run is resumed from `run` there.
        data: the sources of the captions.
        encoder: the encoder that is adapted.
        device: a torch device.

    Raises:
        AssetError: the encoder is not a BERT, or has adapters.
    """
    if encoder.adapters or not Bert.supports(encoder.folder):
        raise AssetError(f"encoder {encoder.name!r} cannot be adapted; name a BERT without adapters")
    captions, sentences = number_captions([*train, *held_out])
    settings = Settings(device=device)
    bert = Bert(encoder.folder, device, torch.float32)
    set_seed(recipe.seed)
    module_class, learner_class = (
        (ReadingBert, ReadingLearner) if recipe.reads_references else (AdaptedBert, EncoderLearner)
    )
    module = module_class(bert, recipe.rank, recipe.slope, recipe.offset, recipe.dropout)
    embeddings = embed_photos(sentences, captions[: len(train)], encoder, settings, folder / "run")
    pieces = load_encoder(encoder, settings).pieces(sentences)
    learner = learner_class(module, pieces, captions, embeddings, recipe)
    outcome = Run(learner, recipe, folder / "run", description="adapting the encoder", device=device).train()
    rank = recipe.rank if recipe.stored_rank is None else min(recipe.rank, recipe.stored_rank)
    factors = {name: values for name, values in outcome.weights.items() if name.startswith(LAYERS)}
    weights = {name: values.astype(np.float16) for name, values in reduce_rank(factors, rank).items()}
    if recipe.reads_references:  # without a reader, the logistic function serves training alone
        weights |= {PREFIX + name: values for name, values in outcome.weights.items() if name not in factors}
    checkpoint = Checkpoint(
        kind=KIND,
        parameters={"encoder": encoder.name, "encoder_sha256": encoder.sha256, "rank": rank},
        weights=weights,
        data=tuple(data),
        training={**asdict(recipe), "photos": len(train)},
        selection=f"the last of {len(outcome.history)} epochs",
        scores=outcome.scores,
    )
    checkpoint.save(folder)
    return checkpoint


def reduce_rank(factors: Mapping[str, NDArray[Any]], rank: int) -> dict[str, NDArray[Any]]:
    """The factors whose product is closest to that of the given ones; unchanged where their rank is not higher.

    Args:
        factors: A (rank, inputs) and B (outputs, rank) of each matrix, by name.
        rank: the highest rank.

    >>> a, b = np.array([[3.0, 0.0], [0.0, 1.0]]), np.eye(2)
    >>> reduced = reduce_rank({"m.down": a, "m.up": b}, 1)
    >>> np.abs(reduced["m.up"] @ reduced["m.down"]).round(6).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    reduced = dict(factors)
    for name in factors:
        matrix, _, factor = name.rpartition(".")
        if factor != LORA_A or len(factors[name]) <= rank:
            continue
        a_basis, a_triangle = np.linalg.qr(factors[name].T)
        b_basis, b_triangle = np.linalg.qr(factors[f"{matrix}.{LORA_B}"])
        left, singular_values, right = np.linalg.svd(b_triangle @ a_triangle.T)
        scale = np.sqrt(singular_values[:rank])
        reduced[name] = (a_basis @ right[:rank].T * scale).T
        reduced[f"{matrix}.{LORA_B}"] = b_basis @ left[:, :rank] * scale
    return reduced
