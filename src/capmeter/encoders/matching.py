"""Encoders that read a picture and a sentence together (BLIP's image-text matching): a number for each pair.

A picture goes through its own network once, however many sentences are compared with it; the sentences then attend to
it. Pairs with sentences of equal length go through together, so that none is padded.

Li, Li, Xiong, Hoi: BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language Understanding and
Generation. ICML 2022.
"""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter import progress
from capmeter.encoders.batches import run_batches
from capmeter.encoders.hub_model import complete_model
from capmeter.encoders.joint import UNREADABLE, Precision, pieces_of
from capmeter.encoders.models import JOINT_ENCODERS, EncoderFiles, find_encoder, require_neural, versions
from capmeter.encoders.pieces import PieceTable
from capmeter.encoders.preprocessing import Pixels, Preprocessing
from capmeter.encoders.side_by_side import torch_threads
from capmeter.errors import AssetError
from capmeter.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

Head = Literal["itm", "itc"]
Pairs = NDArray[np.int64]
_PICTURES = 8  # whose states are in memory together
_CPU_PAIRS, _GPU_PAIRS = 16, 256


class MatchEncoder:
    """BLIP with its heads for matching; `load_match` loads it only once.

    max_length: the maximum number of word pieces that the model takes, begin and end included.
    """

    def __init__(self, files: EncoderFiles, running: Precision) -> None:
        from safetensors import SafetensorError

        self.files, self.running = files, running
        self.settings = Settings(device=running.device)
        try:
            from transformers import AutoTokenizer, BlipForImageTextRetrieval

            self.model: Any = complete_model(BlipForImageTextRetrieval, files.folder, running.device, running.dtype)
            self.preprocessing = Preprocessing(files.folder)
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(files.folder), local_files_only=True)
            self.max_length = int(self.model.config.text_config.max_position_embeddings)
        except pickle.UnpicklingError as error:
            raise AssetError(
                f"encoder {files.name!r}: cannot load {files.folder}: its weights are a damaged pickle, or one that "
                "contains more than numbers, which is never loaded; download or convert them as safetensors"
            ) from error
        except (*UNREADABLE, SafetensorError) as error:
            raise AssetError(
                f"encoder {files.name!r}: cannot load {files.folder} as BLIP for image-text retrieval: {error}"
            ) from error

    def pieces(self, sentences: Sequence[str], longest: int) -> PieceTable:
        """Word pieces with begin and end tokens; those over `longest` are cut before the end token."""
        return pieces_of(self.tokenizer, sentences, min(longest, self.max_length))

    def match(
        self, pairs: Pairs, pieces: PieceTable, read: Callable[[int], Pixels | None], head: Head
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """The score of each pair (picture, sentence), a few pictures at a time: rows of `pairs`, and their scores.

        Pairs of a picture that cannot be read (`read` gives None) are left out. `itm`: the probability of a match, by
        the head that reads both together. `itc`: the cosine of both alone.
        """
        order = np.argsort(pairs[:, 0], kind="stable")
        starts = np.flatnonzero(np.diff(pairs[order, 0], prepend=-1))
        groups = np.split(order, starts[1:]) if len(pairs) else []
        with progress.task(f"matching with {self.files.name}", total=len(groups)) as advance:
            for first in range(0, len(groups), _PICTURES):
                some = groups[first : first + _PICTURES]
                pictures = [int(pairs[rows[0], 0]) for rows in some]
                inputs = [None if (pixels := read(k)) is None else self.preprocessing(pixels) for k in pictures]
                good = [k for k, each in enumerate(inputs) if each is not None]
                if good:
                    states = self._states(np.stack([each for each in inputs if each is not None]))
                    of_picture = {pictures[k]: position for position, k in enumerate(good)}
                    rows = np.concatenate([some[k] for k in good])
                    yield rows, self._scores(pairs[rows], pieces, states, of_picture, head)
                advance(len(some))

    def facts(self) -> dict[str, str]:
        """Everything about the model that affects scores, for signatures."""
        facts = {"weights": self.files.sha256[:12], "preprocessing": self.preprocessing.identity[:8]}
        return facts | {"software": versions("transformers", "torch", "pillow"), "precision": self.running.name}

    def _states(self, inputs: NDArray[np.float32]) -> Tensor:
        """The picture network's output for these pictures, [pictures, patches, width]."""
        import torch

        threads = self._threads()

        def encode(rows: NDArray[np.int64]) -> list[Tensor]:
            with torch.inference_mode():
                pixels = torch.from_numpy(inputs[rows]).to(self.running.device, self.running.dtype)
                return list(self.model.vision_model(pixel_values=pixels).last_hidden_state)

        share = -(-len(inputs) // threads)
        made = run_batches(
            np.ones(len(inputs), np.int64), encode, lambda _: share, threads=threads, device=self.running.device
        )
        states: dict[int, Tensor] = {}
        for rows, outputs in made:
            states.update(zip(rows.tolist(), outputs, strict=True))
        return torch.stack([states[row] for row in range(len(inputs))])

    def _scores(
        self, pairs: Pairs, pieces: PieceTable, states: Tensor, of_picture: dict[int, int], head: Head
    ) -> NDArray[np.float64]:
        import torch

        def score(rows: NDArray[np.int64]) -> NDArray[np.float64]:
            ids = torch.from_numpy(np.stack([pieces[int(k)] for k in pairs[rows, 1]]).astype(np.int64))
            ids = ids.to(self.running.device)
            shown = states[[of_picture[int(k)] for k in pairs[rows, 0]]]
            mask = torch.ones_like(ids)
            with torch.inference_mode():
                if head == "itm":
                    seen = torch.ones(shown.shape[:-1], dtype=torch.long, device=ids.device)
                    read = self.model.text_encoder(
                        input_ids=ids, attention_mask=mask, encoder_hidden_states=shown, encoder_attention_mask=seen
                    )
                    logits = self.model.itm_head(read.last_hidden_state[:, 0]).to(torch.float64)
                    return _numbers(logits.softmax(-1)[:, 1])
                read = self.model.text_encoder(input_ids=ids, attention_mask=mask)
                text = self.model.text_proj(read.last_hidden_state[:, 0]).to(torch.float64)
                picture = self.model.vision_proj(shown[:, 0]).to(torch.float64)
                return _numbers(torch.nn.functional.cosine_similarity(text, picture))

        most = _CPU_PAIRS if self.running.device == "cpu" else _GPU_PAIRS
        found = np.zeros(len(pairs))
        lengths = pieces.lengths[pairs[:, 1]]
        for rows, scores in run_batches(
            lengths, score, lambda _: most, threads=self._threads(), device=self.running.device
        ):
            found[rows] = scores
        return found

    def _threads(self) -> int:
        return (self.settings.threads or torch_threads()) if self.running.device == "cpu" else 1


def load_match(name: str, settings: Settings | None = None) -> MatchEncoder:
    """The model called `name` (an alias, a hub id in the local cache, or a folder), loaded only once."""
    settings = settings or Settings()
    require_neural()
    encoder = copy.copy(_load(find_encoder(name, JOINT_ENCODERS), Precision.of(settings)))
    encoder.settings = settings
    return encoder


@functools.lru_cache(maxsize=2)
def _load(files: EncoderFiles, running: Precision) -> MatchEncoder:
    return MatchEncoder(files, running)


def _numbers(tensor: Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = tensor.cpu().numpy()
    return numbers
