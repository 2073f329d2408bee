"""A vision-and-language encoder for scoring: pairs of a caption and a picture's regions, batch by batch.

Pairs of equal total length go through the network together, so that none is padded. Regions are embedded once per
picture, captions once per distinct sentence of a part; what depends on both is computed for every pair.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capmeter.core.assets import CheckpointStamp, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError
from capmeter.core.ragged import gather
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Precision, Rows, batch_threads, batch_tokens, run_batches
from capmeter.encoders.text.layers import check_shapes
from capmeter.encoders.text.tokenizer import PieceTable
from capmeter_research.common.state_dicts import check_sizes
from capmeter_research.papers.umic.uniter import HEADS, KIND, PairLayout, Uniter, UniterShape, head_shapes
from capmeter_research.papers.umic.word_piece import WordPieceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

_GPU_TOKENS = 65536
Output = TypeVar("Output")


@dataclass(frozen=True, eq=False)
class PairStates:
    """A batch's last states [b, t, width]; words and regions per pair; the last layer's attention [b, heads, t, t]."""

    states: Tensor
    words: NDArray[np.int64]
    regions: NDArray[np.int64]
    attention: Tensor | None


class PairEncoder:
    """A UNITER with its tokenizer, loaded once per process by `load_pair_encoder`.

    shape: its sizes. label: for signatures. heads: the heads its checkpoint has (`rank_output`, `itm_output`).
    """

    def __init__(self, checkpoint: Checkpoint, precision: Precision) -> None:
        import torch

        self.device, self.dtype, self.label = precision.device, precision.dtype, checkpoint.label
        with rebuilding("a UNITER", checkpoint.label):
            check_sizes(checkpoint.parameters["shape"], checkpoint.weights)
            self.shape = UniterShape(**checkpoint.parameters["shape"])
            self.tokenizer = WordPieceTokenizer(checkpoint.vocabulary, bool(checkpoint.parameters["lowercase"]))
            if len(checkpoint.vocabulary) > self.shape.vocabulary or self.shape.width % self.shape.heads:
                raise ValueError(f"{len(checkpoint.vocabulary)} word pieces and {self.shape} do not fit")
            self.heads = frozenset(head_name for head_name in HEADS if f"{head_name}.weight" in checkpoint.weights)
            weight_shapes = self.shape.weights()
            for head_name in self.heads:
                weight_shapes |= head_shapes(self.shape, head_name)
            used_weights = {name: array for name, array in checkpoint.weights.items() if name in weight_shapes}
            check_shapes(weight_shapes, used_weights)
            weights = {name: torch.tensor(array).to(self.device, self.dtype) for name, array in used_weights.items()}
            self.uniter = Uniter(weights, self.shape)

    def pieces(self, sentences: Sequence[str], lower: bool = False) -> PieceTable:
        """Word-piece ids of the sentences; what does not fit before the model's last position is cut, [SEP] kept."""
        rows = self.tokenizer.ids([sentence.lower() for sentence in sentences] if lower else sentences)
        most = self.shape.positions
        cut = [len(row) > most for row in rows]
        rows = [[*row[: most - 1], self.tokenizer.end_id] if long else row for row, long in zip(rows, cut, strict=True)]
        return PieceTable.from_rows(rows, cut)

    def embed(self, features: NDArray[np.float32], boxes: NDArray[np.float32]) -> Tensor:
        """The embeddings of one picture's regions: features [n, features], boxes [n, 7]."""
        import torch

        if features.shape[1] != self.shape.features:
            raise InputError(
                f"these regions have {features.shape[1]} features, but {self.label} was trained with "
                f"{self.shape.features}; extract regions with the detector that the checkpoint was trained with"
            )
        with torch.inference_mode():
            feature_tensor, box_tensor = (
                torch.from_numpy(region_array).to(self.device, self.dtype) for region_array in (features, boxes)
            )
            return self.uniter.regions(feature_tensor, box_tensor)

    def run_pairs(
        self,
        pieces: PieceTable,
        captions: NDArray[np.int64],
        embedded: Sequence[Tensor],
        pictures: NDArray[np.int64],
        work: Callable[[PairStates], Output],
        settings: Settings,
        attention: bool = False,
    ) -> Iterator[tuple[Rows, Output]]:
        """Runs pairs of captions and pictures through the network.

        Args:
            pieces: word pieces of the captions.
            captions: each pair's row of `pieces`.
            embedded: regions of each picture.
            pictures: each pair's index into `embedded`.
            work: from the states of a batch to its output.
            settings: memory of the device.
            attention: whether states have attention maps.

        Yields:
            Rows of each batch, and what `work` makes of its states.
        """
        import torch

        words, regions = pieces.lengths[captions], np.array([len(picture) for picture in embedded], np.int64)[pictures]

        def forward(rows: Rows) -> Output:
            piece_positions, _ = gather(pieces.offsets, captions[rows])
            distinct, which = np.unique(pictures[rows], return_inverse=True)
            picture_sizes = np.array([len(embedded[picture_index]) for picture_index in distinct.tolist()], np.int64)
            layout = PairLayout.from_lengths(
                words[rows], regions[rows], (np.cumsum(picture_sizes) - picture_sizes)[which]
            )
            maps: list[Tensor] | None = [] if attention else None
            with torch.inference_mode():
                piece_ids = torch.from_numpy(pieces.ids[piece_positions].astype(np.int64)).to(self.device)
                states = self.uniter.states(
                    self.uniter.words(piece_ids, torch.from_numpy(layout.places).to(self.device)),
                    torch.cat([embedded[picture_index] for picture_index in distinct.tolist()]),
                    torch.from_numpy(layout.index).to(self.device),
                    None if layout.mask is None else torch.from_numpy(layout.mask).to(self.device),
                    maps,
                )
                return work(PairStates(states, words[rows], regions[rows], maps[-1] if maps else None))

        token_budget = batch_tokens(settings, self.device, _GPU_TOKENS)
        yield from run_batches(
            words + regions,
            forward,
            lambda length: token_budget // length,
            threads=batch_threads(settings, self.device),
            device=self.device,
            description="captions with their pictures",
        )


def load_pair_encoder(name: str, settings: Settings, advice: str = "") -> PairEncoder:
    """The encoder of a checkpoint, loaded only once.

    Args:
        name: a bundled checkpoint, one in the user's data folder, or a folder.
        settings: where it runs.
        advice: how to get a checkpoint, for messages.

    Raises:
        AssetError: there is none, with `advice` on how to get one; or it is damaged or of another kind.
    """
    stamp = checkpoint_stamp(name)
    if stamp is None and advice:
        raise AssetError(f"there is no checkpoint {name!r}; {advice}")
    return _load(name, stamp, Precision.from_settings(settings))


@functools.lru_cache(maxsize=2)
def _load(checkpoint_name: str, stamp: CheckpointStamp | None, precision: Precision) -> PairEncoder:
    return PairEncoder(load_checkpoint(checkpoint_name, KIND), precision)


def attention_to_regions(batch: PairStates) -> list[Any]:
    """How much [CLS] attends to each region in the last layer, mean over heads, for each pair: sums to 1."""
    import torch

    if batch.attention is None:
        raise ValueError("attention maps were not asked for")
    attention_shares = []
    for pair_index, (words, regions) in enumerate(zip(batch.words.tolist(), batch.regions.tolist(), strict=True)):
        given = batch.attention[pair_index, :, 0, words : words + regions].to("cpu", torch.float64).mean(dim=0)
        attention_shares.append((given / given.sum()).numpy())
    return attention_shares
