"""One neural text encoder: word pieces, hidden states of a layer, attention maps, batch by batch.

Sentences of equal length go through the model together, so no row is ever padded: a sentence's vectors do not depend on
what else is in its batch (beyond the last bits of a matrix product). Maps and states are handed out batch by batch and
belong to the caller; the encoder keeps none.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter import progress
from capmeter.encoders.cache import RecentStates, StateCache, VectorCache, entry_key
from capmeter.encoders.models import EncoderFiles, find_encoder, require_neural
from capmeter.encoders.pieces import PieceTable, gather
from capmeter.encoders.settings import current
from capmeter.errors import AssetError, InputError

_CPU_TOKENS, _GPU_TOKENS = 4096, 32768
_MAP_BYTES = 1 << 28  # attention maps of one batch
_SENTENCES_AT_ONCE = 4096  # looked up in caches and written to them together
_RECENT_BYTES = 1 << 27  # hidden states kept in memory for the next part of a run
# Their last layer's output is the last hidden state (no norm after it), so a lower layer needs none of those above it.
_POST_NORM = {"bert", "roberta", "distilbert", "xlm-roberta", "camembert", "electra", "mpnet"}


@dataclass(frozen=True, eq=False)
class Batch:
    """What the model said about some sentences of one length t.

    rows: int64[b], which of the given sentences these are. ids: int64[b, t].
    mask: bool[b, t], false where attention was withheld. hidden: float32[b, t, width] or None.
    attentions: float32[b, layers, heads, t (queries), t (keys)] or None.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]
    hidden: NDArray[np.float32] | None
    attentions: NDArray[np.float32] | None


class Encoder:
    """A transformer and its tokenizer, loaded once per process: get it with `load_encoder`."""

    def __init__(self, files: EncoderFiles, device: str = "cpu", precision: str = "float32") -> None:
        require_neural()
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        self.files = files
        self.device, self.precision = device, precision
        logging.disable_progress_bar()
        half = torch.bfloat16 if self.device == "cpu" else torch.float16
        dtype = torch.float32 if precision == "float32" else half
        folder = str(files.folder)
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
            model = AutoModel.from_pretrained(folder, local_files_only=True, dtype=dtype, attn_implementation="eager")
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise AssetError(f"encoder {files.name!r}: cannot load {folder}: {error}") from error
        self._model: Any = model.eval().to(self.device)
        self._lock = threading.Lock()
        self._recent = RecentStates(_RECENT_BYTES)
        config = self._model.config
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        self.max_length = self._longest()
        empty = list(self.tokenizer("")["input_ids"])
        if len(empty) < 2:
            raise AssetError(
                f"encoder {files.name!r}: its tokenizer adds no begin and end tokens around a sentence; capmeter's "
                f"metrics need an encoder of the BERT kind"
            )
        self.begin_id, self.end_id = int(empty[0]), int(empty[-1])
        self.pad_id = int(self.tokenizer.pad_token_id)
        # Byte-level tokenizers split a first word differently from an inner one unless a space precedes it.
        self._lead = " " if "ByteLevel" in str(self.tokenizer.backend_tokenizer.pre_tokenizer) else ""

    def __repr__(self) -> str:
        return f"Encoder({self.files.label}, {self.layers} layers, {self.heads} heads, width {self.width})"

    def _longest(self) -> int:
        positions = int(self._model.config.max_position_embeddings)
        if self._model.config.model_type in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
            positions -= int(self._model.config.pad_token_id) + 1  # their positions start after the padding's
        return min(positions, int(self.tokenizer.model_max_length))

    def layer(self, layer: int | None, default: int | None = None) -> int:
        """The layer asked for, checked; None means `default` or the last, never more than the model has."""
        if layer is None:
            return self.layers if default is None else min(default, self.layers)
        if not 0 <= layer <= self.layers:
            raise InputError(f"layer: encoder {self.files.name!r} has layers 0 to {self.layers}, but got {layer}")
        return layer

    def pieces(self, sentences: Sequence[str]) -> PieceTable:
        """Word-piece ids with begin and end tokens; what is too long for the model is cut before the end token."""
        rows: list[list[int]] = []
        for start in range(0, len(sentences), 8192):
            part = [
                self._lead + sentence.strip() if sentence.strip() else ""
                for sentence in sentences[start : start + 8192]
            ]
            made = self.tokenizer(part, return_attention_mask=False, return_token_type_ids=False, verbose=False)
            rows.extend(made["input_ids"])
        cut = [len(row) > self.max_length for row in rows]
        rows = [
            [*row[: self.max_length - 1], self.end_id] if long else row for row, long in zip(rows, cut, strict=True)
        ]
        return PieceTable.of(rows, cut)

    def tokens(self, ids: Sequence[int] | NDArray[Any]) -> list[str]:
        """The word pieces of some ids as text."""
        return list(self.tokenizer.convert_ids_to_tokens([int(piece) for piece in ids]))

    def word_of(self, piece: str) -> str:
        """The word that a piece begins, or the punctuation it is; a piece inside a word begins with ##."""
        if self._lead:  # byte-level: "Ġdog" begins a word, "dog" goes on with one, "." is punctuation
            return piece[1:] if piece.startswith("Ġ") else (f"##{piece}" if piece.isalnum() else piece)
        return piece

    def batches(
        self, sentences: Sequence[str], *, hidden: int | None = None, attentions: bool = False
    ) -> Iterator[Batch]:
        """Runs the sentences through the model; `hidden` is the layer whose states are wanted (0: the embeddings)."""
        return self.encode_ids(self.pieces(sentences), hidden=hidden, attentions=attentions)

    def encode_ids(
        self,
        sequences: PieceTable | Sequence[Sequence[int]],
        *,
        masks: Sequence[Sequence[bool]] | None = None,
        hidden: int | None = None,
        attentions: bool = False,
    ) -> Iterator[Batch]:
        """Runs given word-piece sequences (begin and end tokens included) through the model, longest first.

        masks: for every sequence, which positions may be attended to (default: all). A masked position keeps its place.
        """
        table = sequences if isinstance(sequences, PieceTable) else PieceTable.of(sequences)
        lengths = table.lengths
        self._check(table, masks)
        order = np.argsort(-lengths, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1) if len(order) else []
        with progress.task(f"encoding with {self.files.name}", total=len(table)) as advance:
            for group in groups:
                length = int(lengths[group[0]])
                ids = table.ids[table.offsets[group][:, None] + np.arange(length)].astype(np.int64)
                mask = np.ones(ids.shape, np.bool_)
                if masks is not None:
                    mask = np.array([masks[row] for row in group], np.bool_).reshape(ids.shape)
                step = self._rows_per_batch(length, attentions)
                for start in range(0, len(group), step):
                    part = slice(start, start + step)
                    for batch in self._forward(
                        Batch(group[part], ids[part], mask[part], None, None), hidden, attentions
                    ):
                        yield batch
                        advance(len(batch.rows))

    def _check(self, table: PieceTable, masks: Sequence[Sequence[bool]] | None) -> None:
        lengths = table.lengths
        if len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= self.max_length:
            raise InputError(
                f"encoder {self.files.name!r} reads 1 to {self.max_length} word pieces, but the sequences given have "
                f"{int(lengths.min())} to {int(lengths.max())}"
            )
        if masks is not None and [len(mask) for mask in masks] != lengths.tolist():
            raise InputError("masks: expected one flag per word piece of every sequence")

    def _rows_per_batch(self, length: int, attentions: bool) -> int:
        tokens = current().tokens or (_CPU_TOKENS if self.device == "cpu" else _GPU_TOKENS)
        rows = tokens // length
        if attentions:
            rows = min(rows, _MAP_BYTES // (4 * self.layers * self.heads * length * length))
        return max(1, rows)

    def _forward(self, batch: Batch, hidden: int | None, attentions: bool) -> Iterator[Batch]:
        """One pass, or two of half the size where memory runs out."""
        import torch

        try:
            yield self._pass(batch, hidden, attentions)
            return
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            if len(batch.rows) == 1:
                raise InputError(
                    f"encoder {self.files.name!r}: one caption of {batch.ids.shape[1]} word pieces does not fit into "
                    f"the memory of {self.device}; choose another device or a smaller encoder"
                ) from error
        if self.device != "cpu":
            torch.cuda.empty_cache()
        middle = len(batch.rows) // 2
        for part in (slice(0, middle), slice(middle, None)):
            smaller = replace(batch, rows=batch.rows[part], ids=batch.ids[part], mask=batch.mask[part])
            yield from self._forward(smaller, hidden, attentions)

    def _pass(self, batch: Batch, hidden: int | None, attentions: bool) -> Batch:
        import torch

        ids = torch.from_numpy(batch.ids).to(self.device)
        # A map needs every layer; without maps the layers above the wanted one are not run.
        depth = self.layers if attentions or hidden is None else hidden
        stack_holder = _layer_stack(self._model)
        post_norm = stack_holder is not None
        shortened = post_norm and 0 < depth < self.layers
        wanted: dict[str, Any] = {"output_attentions": attentions}
        if not batch.mask.all():
            wanted["attention_mask"] = torch.from_numpy(batch.mask.astype(np.int64)).to(self.device)
        with self._lock, torch.inference_mode():
            if shortened:
                whole, stack_holder.layer = stack_holder.layer, stack_holder.layer[:depth]
            try:
                every = hidden is not None and not shortened and not (hidden == self.layers and post_norm)
                output = self._model(input_ids=ids, output_hidden_states=every, **wanted)
            finally:
                if shortened:
                    stack_holder.layer = whole
            states = maps = None
            if hidden is not None:
                states = _numpy(output.hidden_states[hidden] if every else output.last_hidden_state)
            if attentions:
                maps = _numpy(torch.stack(output.attentions, dim=1))
        return replace(batch, hidden=states, attentions=maps)

    def hidden_states(self, pieces: PieceTable, layer: int) -> NDArray[np.float32]:
        """Hidden states of one layer, float32[total pieces, width], in the order of `pieces.ids`.

        Sentences met lately, or found in the on-disk cache where there is one, are not encoded again.
        """
        layer = self.layer(layer)
        settings = current()
        states = np.empty((len(pieces.ids), self.width), np.float32)
        caches: list[StateCache] = [self._recent]
        if settings.cache is not None:
            caches.append(VectorCache(settings.cache, settings.cache_bytes))
        space = f"{self.files.sha256} layer={layer} {self.precision}"
        for start in range(0, len(pieces), _SENTENCES_AT_ONCE):
            rows = range(start, min(start + _SENTENCES_AT_ONCE, len(pieces)))
            places = {row: states[pieces.offsets[row] : pieces.offsets[row + 1]] for row in rows}
            keys = {row: entry_key(space, pieces[row]) for row in rows}
            absent = list(rows)
            for cache in caches:
                known = cache.get([keys[row] for row in absent], self.width)
                for row in absent:
                    found = known.get(keys[row])
                    if found is not None and found.shape == places[row].shape:
                        places[row][:] = found
                    else:
                        known.pop(keys[row], None)
                absent = [row for row in absent if keys[row] not in known]
            if absent:
                self._fill(states, pieces, np.array(absent), layer)
                for cache in caches:
                    cache.put((keys[row], places[row]) for row in absent)
        return states

    def _fill(self, states: NDArray[np.float32], pieces: PieceTable, rows: NDArray[np.int64], layer: int) -> None:
        for batch in self.encode_ids(pieces.take(rows), hidden=layer):
            if batch.hidden is not None:
                positions, _ = gather(pieces.offsets, rows[batch.rows])
                states[positions] = batch.hidden.reshape(-1, self.width)


def load_encoder(name: str) -> Encoder:
    """The encoder called `name`, as the settings in force want it; loaded once for each way of running it."""
    settings = current()
    return _load(find_encoder(name), _device(settings.device), settings.precision)


@functools.lru_cache(maxsize=4)
def _load(files: EncoderFiles, device: str, precision: str) -> Encoder:
    return Encoder(files, device, precision)


def _device(name: str) -> str:
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
        raise InputError(f"device {name!r} is not available on this machine; available: auto, cpu")
    return name


def _layer_stack(model: Any) -> Any:
    """The part of the model that holds its list of layers, where lower layers can be run alone; else None."""
    if model.config.model_type not in _POST_NORM:
        return None
    holder = getattr(model, "encoder", None) or getattr(model, "transformer", None)
    return holder if hasattr(holder, "layer") else None


def _out_of_memory(error: BaseException) -> bool:
    import torch

    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in text or "can't allocate memory" in text


def _numpy(tensor: Any) -> NDArray[np.float32]:
    import torch

    array: NDArray[np.float32] = tensor.to("cpu", torch.float32).numpy()
    return array
