"""A neural text encoder: word pieces, hidden states of a layer, attention maps, batch by batch.

Sentences of equal length go through the model together, so that no row is ever padded: a sentence's vectors do not
depend on the rest of its batch (beyond the last bits of a matrix product). Attention maps and hidden states are yielded
batch by batch and belong to the caller; the encoder keeps none.

Analyses that a sentence pool memoises: word pieces (for the whole run) and hidden states (one part at a time).

Each carries the settings it runs with, so that a pool keeps results computed in different precisions apart.

Models of the transformers library: loaded completely or refused; any text encoder that `Bert` does not support.
"""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import AssetError, InputError
from capmeter.core.ragged import gather
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Precision, batch_threads, batch_tokens, run_batches, to_numpy
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.compiled import CompiledBert
from capmeter.encoders.text.tokenizer import PieceTable, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

# In the RoBERTa family, positions start after the padding id.
_POSITIONS_AFTER_PADDING = {
    *("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl")
}
_LOAD_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


def load_complete_model(
    model_class: Any, folder: Path, precision: Precision, optional: str = "", **options: Any
) -> Any:
    """Load a model of the transformers library, ready to run.

    Args:
        model_class: such as `AutoModel`.
        folder: its files.
        precision: the device and the type of numbers.
        optional: weights with this in their name may be missing.
        options: other arguments of `from_pretrained`.

    Raises:
        ValueError: weights are missing, which the library would initialise at random.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, loading_info = model_class.from_pretrained(
        str(folder), local_files_only=True, dtype=precision.dtype, output_loading_info=True, **options
    )
    missing_keys = sorted(
        weight_name for weight_name in loading_info["missing_keys"] if not (optional and optional in weight_name)
    )
    if missing_keys:
        raise ValueError(
            f"its weights lack {missing_keys[0]} and {len(missing_keys) - 1} more; the files are incomplete"
        )
    return model.eval().to(precision.device)


@contextmanager
def load_errors(handle: EncoderHandle, purpose: str = "") -> Iterator[None]:
    """Turn everything that loading an encoder raises into an `AssetError`. purpose: " as …", for the message."""
    from safetensors import SafetensorError

    try:
        yield
    except pickle.UnpicklingError as error:  # torch's own message advises running whatever the file contains
        raise AssetError(
            f"encoder {handle.name!r}: cannot load {handle.folder}: its weights are a damaged pickle, or one that "
            "contains more than numbers, which is never loaded; download or convert them as safetensors"
        ) from error
    except (*_LOAD_ERRORS, SafetensorError) as error:
        raise AssetError(f"encoder {handle.name!r}: cannot load {handle.folder}{purpose}: {error}") from error


class _HubModel:
    """A text encoder of the transformers library, with the same attributes and `run` as `Bert`."""

    def __init__(self, folder: Path, precision: Precision) -> None:
        from transformers import AutoModel

        # the pooler is not used here and may be missing
        model = load_complete_model(AutoModel, folder, precision, optional="pooler", attn_implementation="eager")
        if model.config.is_encoder_decoder:
            raise ValueError("it is an encoder-decoder model; capmeter's metrics need an encoder of the BERT kind")
        self._model: Any = model
        self._lock = threading.Lock()
        config = self._model.config
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        self.vocabulary = int(self._model.get_input_embeddings().num_embeddings)
        self.positions = int(config.max_position_embeddings)
        if config.model_type in _POSITIONS_AFTER_PADDING:
            self.positions -= int(config.pad_token_id) + 1

    @property
    def embeddings(self) -> Tensor:
        """Embeddings of word pieces before the first layer, (vocabulary, embedding_dim)."""
        weight: Tensor = self._model.get_input_embeddings().weight.detach()
        return weight

    def run(
        self, ids: Tensor, mask: Tensor | None, hidden: int | None, attentions: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Hidden states of layer `hidden` (0: the embeddings), (batch, tokens, width), and the attention of all layers,
        (batch, layers, heads, tokens, tokens); each only if requested.
        """
        import torch

        mask_arguments = {} if mask is None else {"attention_mask": mask.long()}
        with self._lock:
            model_output = self._model(
                input_ids=ids, output_hidden_states=hidden is not None, output_attentions=attentions, **mask_arguments
            )
        return (
            None if hidden is None else model_output.hidden_states[hidden],
            torch.stack(model_output.attentions, dim=1) if attentions else None,
        )


_MAP_BYTES = 1 << 28  # attention maps of the batches in progress
_SENTENCES_PER_LOOKUP = 4096  # looked up in the cache and written to it together


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """The model's output for some sentences of equal length t.

    rows: int64[b], indices of these sentences among those given. ids: int64[b, t].
    mask: bool[b, t], false at positions that were not attended to. hidden: float32[b, t, width] or None.
    attentions: float32[b, layers, heads, t (queries), t (keys)] or None.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    hidden: NDArray[np.float32] | None
    attentions: NDArray[np.float32] | None


class Encoder:
    """A transformer and its tokenizer, loaded once per process by `load_encoder`.

    layers, heads, width: the model's sizes. max_length: the maximum number of word pieces, begin and end included.
    settings: batch size, threads and cache of this encoder; encoders of the same model share the weights.
    """

    def __init__(self, handle: EncoderHandle, precision: Precision) -> None:
        self.handle, self.device, self.precision = handle, precision.device, precision
        self.settings = Settings(device=precision.device)
        with load_errors(handle):
            self.model = _load_model(handle, precision)
            self.tokenizer = Tokenizer(handle.folder, isinstance(self.model, Bert))
        self.layers, self.heads, self.width = self.model.layers, self.model.heads, self.model.width
        self.max_length = min(self.model.positions, self.tokenizer.longest)
        self.begin_id, self.end_id = self.tokenizer.begin_id, self.tokenizer.end_id

    def __repr__(self) -> str:
        return f"Encoder({self.handle.label}, {self.layers} layers, {self.heads} heads, width {self.width})"

    def layer(self, layer: int | None, default: int | None = None) -> int:
        """The requested layer, checked; None means `default` or the last layer, whichever is lower."""
        if layer is None:
            return self.layers if default is None else min(default, self.layers)
        if not 0 <= layer <= self.layers:
            raise InputError(f"layer: encoder {self.handle.name!r} has layers 0 to {self.layers}, but got {layer}")
        return layer

    def pieces(self, sentences: Sequence[str]) -> PieceTable:
        """Word-piece ids with begin and end tokens; sentences too long for the model are truncated before the end."""
        piece_rows: list[list[int]] = []
        for batch_start in range(0, len(sentences), 8192):
            piece_rows.extend(self.tokenizer.ids(sentences[batch_start : batch_start + 8192]))
        truncated = [len(piece_row) > self.max_length for piece_row in piece_rows]
        piece_rows = [
            [*piece_row[: self.max_length - 1], self.end_id] if is_long else piece_row
            for piece_row, is_long in zip(piece_rows, truncated, strict=True)
        ]
        return PieceTable.from_rows(piece_rows, truncated)

    def embeddings(self) -> NDArray[np.float32]:
        """The vector of each word piece before the first layer, without its place: float32[vocabulary, width]."""
        return to_numpy(self.model.embeddings)

    def encode_ids(
        self,
        sequences: PieceTable | Sequence[Sequence[int]],
        *,
        masks: Sequence[Sequence[bool]] | None = None,
        hidden: int | None = None,
        attentions: bool = False,
    ) -> Iterator[EncodedBatch]:
        """Runs word-piece sequences (begin and end tokens included) through the model, longest first.

        Args:
            sequences: word pieces, begin and end tokens included.
            masks: of each sequence the positions that may be attended to; None: all. Masked positions stay in place.
            hidden: the layer whose states are returned (0: the embeddings); None: none are.
            attentions: whether all attention maps are returned.
        """
        piece_table = sequences if isinstance(sequences, PieceTable) else PieceTable.from_rows(sequences)
        sequence_lengths = piece_table.lengths
        self._check(piece_table, masks)
        thread_count = batch_threads(self.settings, self.device)

        def forward(rows: NDArray[np.int64]) -> EncodedBatch:
            piece_positions, _ = gather(piece_table.offsets, rows)
            piece_ids = piece_table.ids[piece_positions].astype(np.int64).reshape(len(rows), -1)
            attention_flags = True if masks is None else [masks[row] for row in rows]
            attention_mask = np.full(piece_ids.shape, attention_flags, np.bool_)
            return self._pass(EncodedBatch(rows, piece_ids, attention_mask, None, None), hidden, attentions)

        encoded_batches = run_batches(
            sequence_lengths,
            forward,
            lambda length: self._rows_per_batch(length, attentions, thread_count),
            threads=thread_count,
            device=self.device,
            description=f"encoding with {self.handle.name}",
        )
        for _, batch in encoded_batches:
            yield batch

    def _check(self, table: PieceTable, masks: Sequence[Sequence[bool]] | None) -> None:
        lengths = table.lengths
        if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= self.max_length:
            raise InputError(
                f"encoder {self.handle.name!r} reads 1 to {self.max_length} word pieces, but the given sequences have "
                f"{int(lengths.min())} to {int(lengths.max())}"
            )
        if len(table.ids) and int(table.ids.max()) >= self.model.vocabulary:
            raise AssetError(
                f"encoder {self.handle.name!r}: its tokenizer gives word piece {int(table.ids.max())}, but the model "
                f"knows {self.model.vocabulary}; {self.handle.folder} contains the tokenizer of another model"
            )
        if masks is not None and [len(mask) for mask in masks] != lengths.tolist():
            raise InputError("masks: expected one flag per word piece of every sequence")

    def _rows_per_batch(self, length: int, attentions: bool, thread_count: int) -> int:
        row_count = batch_tokens(self.settings, self.device) // length
        if attentions:
            row_count = min(row_count, _MAP_BYTES // (4 * thread_count * self.layers * self.heads * length * length))
        return row_count

    def _pass(self, batch: EncodedBatch, hidden: int | None, attentions: bool) -> EncodedBatch:
        import torch

        piece_ids = torch.from_numpy(batch.ids).to(self.device)
        attention_mask = None if batch.mask.all() else torch.from_numpy(batch.mask).to(self.device)
        # what is kept on disk and in memory has the encoder's own precision, whoever asks for it, a training as well
        with torch.inference_mode(), torch.autocast(piece_ids.device.type, enabled=False):
            hidden_states, attention_maps = self.model.run(piece_ids, attention_mask, hidden, attentions)
        return replace(
            batch,
            hidden=None if hidden_states is None else to_numpy(hidden_states),
            attentions=None if attention_maps is None else to_numpy(attention_maps),
        )

    def hidden_states(self, pieces: PieceTable, layer: int) -> NDArray[np.float32]:
        """Hidden states of one layer, float32[total pieces, width], in the order of `pieces.ids`.

        Recently encoded sentences, and those in the on-disk cache if there is one, are not encoded again.
        """
        layer = self.layer(layer)
        cache, states = self.settings.result_cache(), np.empty((len(pieces.ids), self.width), np.float32)
        for batch_start in range(0, len(pieces), _SENTENCES_PER_LOOKUP):
            batch_rows = range(batch_start, min(batch_start + _SENTENCES_PER_LOOKUP, len(pieces)))

            def encode(missing: list[int], batch_start: int = batch_start) -> list[NDArray[np.float32]]:
                rows = batch_start + np.array(missing)
                for batch in self.encode_ids(pieces.take(rows), hidden=layer):
                    if batch.hidden is not None:
                        piece_positions, _ = gather(pieces.offsets, rows[batch.rows])
                        states[piece_positions] = batch.hidden.reshape(-1, self.width)
                return [states[pieces.offsets[row] : pieces.offsets[row + 1]] for row in rows]

            batch_states = cache.results(
                f"{self.handle.sha256} layer={layer} {self.precision.name} {self.precision.engine}",
                [pieces[row].tobytes() for row in batch_rows],
                encode,
                batch_size=_SENTENCES_PER_LOOKUP,
            )
            for row, sentence_states in zip(batch_rows, batch_states, strict=True):
                states[pieces.offsets[row] : pieces.offsets[row + 1]] = sentence_states
        return states


def load_encoder(handle: EncoderHandle, settings: Settings | None = None) -> Encoder:
    """Load an encoder, once per process.

    Args:
        handle: the encoder (`find_encoder`).
        settings: device, precision, batch size, threads and caches; None means those of the environment.

    Raises:
        AssetError: its files are damaged, or are not those of a supported model.
        MissingBackend: torch or transformers is not installed.
    """
    settings = settings or Settings()
    encoder = copy.copy(
        _load_universal(handle) if handle.is_universal else _load(handle, Precision.from_settings(settings))
    )
    encoder.settings = settings
    return encoder


def _load_model(handle: EncoderHandle, precision: Precision) -> Bert | _HubModel:
    """The model of an encoder."""
    import torch

    if Bert.supports(handle.folder):
        factors = (adapter.factors() for adapter in handle.adapters)
        adapters = [{name: torch.from_numpy(array) for name, array in arrays.items()} for arrays in factors]
        model_class = CompiledBert if precision.engine == "openvino" else Bert
        return model_class(handle.folder, precision.device, precision.dtype, adapters)
    if handle.adapters:
        raise ValueError("only encoders of the BERT family can be adapted")
    return _HubModel(handle.folder, precision)


@functools.lru_cache(maxsize=1)
def _load_universal(handle: EncoderHandle) -> Any:
    from capmeter.encoders.text.universal import UniversalEncoder

    return UniversalEncoder(handle)


@functools.lru_cache(maxsize=4)
def _load(handle: EncoderHandle, precision: Precision) -> Encoder:
    return Encoder(handle, precision)


_TINY = np.finfo(np.float32).tiny


class _MemoisingPool(Protocol):
    """Distinct sentences with memoised analyses (capmeter.captions.caption_set.SentencePool)."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""

    def analyse(self, analysis: Any) -> Any:
        """The table of an analysis, row i for sentence i."""


@dataclass(frozen=True)
class WordPieces:
    """Word-piece ids of every sentence: a PieceTable."""

    encoder: EncoderHandle
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: _MemoisingPool) -> PieceTable:
        """The table for all sentences of the pool."""
        return load_encoder(self.encoder, self.settings).pieces(pool.sentences)


@dataclass(frozen=True, eq=False)
class StateTable:
    """Hidden states of n sentences: states [total pieces, width], float32 or float16, laid out like pieces.ids."""

    pieces: PieceTable
    states: NDArray[Any]

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.states[self.pieces.offsets[row] : self.pieces.offsets[row + 1]]

    def unit(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states at these flat positions, normalised to unit length; 0 where a position is -1."""
        unit_states: NDArray[np.float32] = self.states.take(positions, axis=0).astype(np.float32, copy=False)
        unit_states *= np.where(positions >= 0, self._scale[positions], np.float32(0))[..., None]
        return unit_states

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        """The reciprocal of each state's length."""
        state_lengths = np.sqrt(np.einsum("td,td->t", self.states, self.states, dtype=np.float32))
        state_scale: NDArray[np.float32] = 1 / np.maximum(state_lengths, _TINY)
        return state_scale

    def unit_row(self, row: int) -> NDArray[np.float32]:
        """One sentence's states, normalised to unit length."""
        return self.unit(np.arange(self.pieces.offsets[row], self.pieces.offsets[row + 1]))


@dataclass(frozen=True)
class HiddenStates:
    """Hidden states of one layer for every sentence, each encoded once: a StateTable."""

    encoder: EncoderHandle
    layer: int
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: _MemoisingPool) -> StateTable:
        """The table for all sentences of the pool."""
        pieces: PieceTable = pool.analyse(WordPieces(self.encoder, self.settings))
        return StateTable(pieces, load_encoder(self.encoder, self.settings).hidden_states(pieces, self.layer))


@dataclass(frozen=True)
class SentenceVectors:
    """One unit vector per sentence, float32[n, width]: the mean of its word pieces' states, begin and end included.

    This is how sentence-transformers models, including `minilm`, compute sentence vectors.
    """

    encoder: EncoderHandle
    layer: int
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: _MemoisingPool) -> NDArray[np.float32]:
        """The vectors of all sentences of the pool."""
        if self.encoder.is_universal:
            pieces = pool.analyse(WordPieces(self.encoder, self.settings))
            texts: NDArray[np.float32] = _load_universal(self.encoder).vectors(pieces)
            return texts
        import torch
        from torch.nn.functional import embedding_bag  # thirty times as fast as numpy's sums of unequal groups

        state_table: StateTable = pool.analyse(HiddenStates(self.encoder, self.layer, self.settings))
        if not len(state_table):
            return np.zeros((0, state_table.states.shape[1]), np.float32)
        state_tensor, starts = torch.from_numpy(state_table.states), torch.from_numpy(state_table.pieces.offsets[:-1])
        mean_states = embedding_bag(torch.arange(len(state_tensor)), state_tensor, starts, mode="mean").numpy()
        unit_vectors = mean_states / np.maximum(np.linalg.norm(mean_states, axis=1, keepdims=True), _TINY)
        vectors: NDArray[np.float32] = unit_vectors.astype(np.float32)
        return vectors
