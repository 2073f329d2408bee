"""A neural text encoder: word pieces, hidden states of a layer, attention maps, batch by batch.

Sentences of equal length go through the model together, so that no row is ever padded: a sentence's vectors do not
depend on the rest of its batch (beyond the last bits of a matrix product). Attention maps and hidden states are yielded
batch by batch and belong to the caller; the encoder keeps none.
"""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.adaptation import read_factors
from capmeter.encoders.batches import run_batches
from capmeter.encoders.bert import Bert
from capmeter.encoders.cache import RecentStates, StateCache
from capmeter.encoders.hub_model import HubModel
from capmeter.encoders.models import EncoderFiles, find_encoder, require_neural
from capmeter.encoders.pieces import PieceTable, gather
from capmeter.encoders.side_by_side import torch_threads
from capmeter.encoders.tokenizer import Tokenizer
from capmeter.errors import AssetError, InputError
from capmeter.settings import Settings
from capmeter.store import store_of

_CPU_TOKENS, _GPU_TOKENS = 2048, 32768  # on a CPU, per thread
_MAP_BYTES = 1 << 28  # attention maps of the batches in progress
_SENTENCES_AT_ONCE = 4096  # looked up in caches and written to them together
_RECENT_BYTES = 1 << 27  # hidden states kept in memory for the next part of a run


@dataclass(frozen=True, eq=False)
class Batch:
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

    def __init__(self, files: EncoderFiles, device: str = "cpu", precision: str = "float32") -> None:
        require_neural()
        import torch
        from safetensors import SafetensorError

        self.files = files
        self.device = device
        self.settings = Settings(device=device, precision=precision)
        half = torch.bfloat16 if device == "cpu" else torch.float16
        dtype = torch.float32 if precision == "float32" else half
        self._dtype_name = str(dtype).removeprefix("torch.")
        try:
            plain = Bert.reads(files.folder)
            self.tokenizer = Tokenizer(files.folder, plain)
            self._model = _model(files, plain, device, dtype)
        except pickle.UnpicklingError as error:  # torch's own message advises running whatever the file contains
            raise AssetError(
                f"encoder {files.name!r}: cannot load {files.folder}: its weights are a damaged pickle, or one that "
                "contains more than numbers, which is never loaded; download or convert them as safetensors"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            raise AssetError(f"encoder {files.name!r}: cannot load {files.folder}: {error}") from error
        self.layers, self.heads, self.width = self._model.layers, self._model.heads, self._model.width
        self.max_length = min(self._model.positions, self.tokenizer.longest)
        self.begin_id, self.end_id = self.tokenizer.begin_id, self.tokenizer.end_id
        self._recent = RecentStates(_RECENT_BYTES)

    def __repr__(self) -> str:
        return f"Encoder({self.files.label}, {self.layers} layers, {self.heads} heads, width {self.width})"

    def layer(self, layer: int | None, default: int | None = None) -> int:
        """The requested layer, checked; None means `default` or the last layer, whichever is lower."""
        if layer is None:
            return self.layers if default is None else min(default, self.layers)
        if not 0 <= layer <= self.layers:
            raise InputError(f"layer: encoder {self.files.name!r} has layers 0 to {self.layers}, but got {layer}")
        return layer

    def pieces(self, sentences: Sequence[str]) -> PieceTable:
        """Word-piece ids with begin and end tokens; sentences too long for the model are truncated before the end."""
        rows: list[list[int]] = []
        for start in range(0, len(sentences), 8192):
            rows.extend(self.tokenizer.ids(sentences[start : start + 8192]))
        truncated = [len(row) > self.max_length for row in rows]
        rows = [
            [*row[: self.max_length - 1], self.end_id] if long else row
            for row, long in zip(rows, truncated, strict=True)
        ]
        return PieceTable.of(rows, truncated)

    def tokens(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """The word pieces of some ids as text."""
        return self.tokenizer.pieces([int(piece) for piece in ids])

    def word_of(self, piece: str) -> str:
        """The word that a piece begins, or the punctuation it is; a piece inside a word begins with ##."""
        return self.tokenizer.word_of(piece)

    def embeddings(self) -> NDArray[np.float32]:
        """The vector of each word piece before the first layer, without its place: float32[vocabulary, width]."""
        return _numpy(self._model.embeddings)

    def batches(
        self, sentences: Sequence[str], *, hidden: int | None = None, attentions: bool = False
    ) -> Iterator[Batch]:
        """Runs the sentences through the model; `hidden` is the layer whose states to return (0: the embeddings)."""
        return self.encode_ids(self.pieces(sentences), hidden=hidden, attentions=attentions)

    def encode_ids(
        self,
        sequences: PieceTable | Sequence[Sequence[int]],
        *,
        masks: Sequence[Sequence[bool]] | None = None,
        hidden: int | None = None,
        attentions: bool = False,
    ) -> Iterator[Batch]:
        """Runs word-piece sequences (begin and end tokens included) through the model, longest first.

        masks: for every sequence, the positions that may be attended to (default: all). Masked positions stay in place.
        """
        table = sequences if isinstance(sequences, PieceTable) else PieceTable.of(sequences)
        lengths = table.lengths
        self._check(table, masks)
        threads = self._threads()

        def forward(rows: NDArray[np.int64]) -> Batch:
            positions, _ = gather(table.offsets, rows)
            ids = table.ids[positions].astype(np.int64).reshape(len(rows), -1)
            allowed = True if masks is None else [masks[row] for row in rows]
            mask = np.full(ids.shape, allowed, np.bool_)
            return self._pass(Batch(rows, ids, mask, None, None), hidden, attentions)

        batches = run_batches(
            lengths,
            forward,
            lambda length: self._rows_per_batch(length, attentions, threads),
            threads=threads,
            device=self.device,
            description=f"encoding with {self.files.name}",
        )
        for _, batch in batches:
            yield batch

    def _check(self, table: PieceTable, masks: Sequence[Sequence[bool]] | None) -> None:
        lengths = table.lengths
        if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= self.max_length:
            raise InputError(
                f"encoder {self.files.name!r} reads 1 to {self.max_length} word pieces, but the given sequences have "
                f"{int(lengths.min())} to {int(lengths.max())}"
            )
        if len(table.ids) and int(table.ids.max()) >= self._model.vocabulary:
            raise AssetError(
                f"encoder {self.files.name!r}: its tokenizer gives word piece {int(table.ids.max())}, but the model "
                f"knows {self._model.vocabulary}; {self.files.folder} contains the tokenizer of another model"
            )
        if masks is not None and [len(mask) for mask in masks] != lengths.tolist():
            raise InputError("masks: expected one flag per word piece of every sequence")

    def _threads(self) -> int:
        """How many batches go through the model concurrently, each on one CPU thread."""
        return (self.settings.threads or torch_threads()) if self.device == "cpu" else 1

    def _rows_per_batch(self, length: int, attentions: bool, threads: int) -> int:
        tokens = self.settings.tokens or (_CPU_TOKENS if self.device == "cpu" else _GPU_TOKENS)
        rows = tokens // length
        if attentions:
            rows = min(rows, _MAP_BYTES // (4 * threads * self.layers * self.heads * length * length))
        return rows

    def _pass(self, batch: Batch, hidden: int | None, attentions: bool) -> Batch:
        import torch

        ids = torch.from_numpy(batch.ids).to(self.device)
        mask = None if batch.mask.all() else torch.from_numpy(batch.mask).to(self.device)
        # what is kept on disk and in memory has the encoder's own precision, whoever asks for it, a training as well
        with torch.inference_mode(), torch.autocast(ids.device.type, enabled=False):
            states, maps = self._model.run(ids, mask, hidden, attentions)
        return replace(
            batch,
            hidden=None if states is None else _numpy(states),
            attentions=None if maps is None else _numpy(maps),
        )

    def hidden_states(self, pieces: PieceTable, layer: int) -> NDArray[np.float32]:
        """Hidden states of one layer, float32[total pieces, width], in the order of `pieces.ids`.

        Recently encoded sentences, and those in the on-disk cache if there is one, are not encoded again.
        """
        layer = self.layer(layer)
        settings = self.settings
        states = np.empty((len(pieces.ids), self.width), np.float32)
        caches: list[StateCache] = [self._recent]
        if (store := store_of(settings)) is not None:
            caches.append(store)
        space = f"{self.files.sha256} layer={layer} {self._dtype_name}"
        for start in range(0, len(pieces), _SENTENCES_AT_ONCE):
            rows = range(start, min(start + _SENTENCES_AT_ONCE, len(pieces)))
            places = {row: states[pieces.offsets[row] : pieces.offsets[row + 1]] for row in rows}
            contents = {row: pieces[row].tobytes() for row in rows}
            absent = list(rows)
            for cache in caches:
                known = cache.get(space, [contents[row] for row in absent])
                missing = []
                for row in absent:
                    found = known.get(contents[row])
                    if isinstance(found, np.ndarray) and found.shape == places[row].shape:
                        places[row][:] = found
                    else:
                        missing.append(row)
                absent = missing
            if absent:
                self._fill(states, pieces, np.array(absent), layer)
                for cache in caches:
                    cache.put(space, {contents[row]: places[row] for row in absent})
        return states

    def _fill(self, states: NDArray[np.float32], pieces: PieceTable, rows: NDArray[np.int64], layer: int) -> None:
        for batch in self.encode_ids(pieces.take(rows), hidden=layer):
            if batch.hidden is not None:
                positions, _ = gather(pieces.offsets, rows[batch.rows])
                states[positions] = batch.hidden.reshape(-1, self.width)


def load_encoder(name: str, settings: Settings | None = None) -> Encoder:
    """The encoder called `name` with these settings (None: from the environment); its weights are loaded only once."""
    return load_files(find_encoder(name), settings or Settings())


def load_files(files: EncoderFiles, settings: Settings) -> Encoder:
    """The encoder in these files with these settings."""
    encoder = copy.copy(_load(files, device_name(settings.device), settings.precision))
    encoder.settings = settings
    return encoder


def _model(files: EncoderFiles, plain: bool, device: str, dtype: Any) -> Bert | HubModel:
    """The model in the files; `plain`: it is one that `Bert` reads."""
    if files.adaptation is None:
        return (Bert if plain else HubModel)(files.folder, device, dtype)
    import torch

    if not plain:
        raise ValueError("only encoders of the BERT kind can be adapted")
    weights = read_factors(files.adaptation, files.prefix)
    return Bert(files.folder, device, dtype, {name: torch.from_numpy(each) for name, each in weights.items()})


@functools.lru_cache(maxsize=4)
def _load(files: EncoderFiles, device: str, precision: str) -> Encoder:
    return Encoder(files, device, precision)


def device_name(name: str) -> str:
    """The torch device that `name` stands for: `auto` is a GPU if there is one.

    Raises:
        InputError: there is no such device here.
    """
    require_neural()
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device: expected auto, cpu, cuda, cuda:1 or mps, but got {name!r}") from error
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= count.get(device.type, 0):
        there = (f"{kind}:{k}" if kind == "cuda" else kind for kind, number in count.items() for k in range(number))
        raise InputError(f"device {name!r} is not available on this machine; available: auto, {', '.join(there)}")
    return name


def _numpy(tensor: Any) -> NDArray[np.float32]:
    import torch

    array: NDArray[np.float32] = tensor.to("cpu", torch.float32).numpy()
    return array
