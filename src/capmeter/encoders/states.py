"""States of a picture's regions and of a sentence's word pieces, beside the features of both, from one encoder.

    from capmeter.encoders.states import load_states

For heads that say which words are wrong and which regions are not mentioned. Regions, and what pieces say, are in the
space in which the encoder compares pictures with sentences, wherever its projections apply to them:

| model | regions | what a piece says |
|---|---|---|
| CLIP | patches, normalised and projected as the class token is | its state, projected as the end token's is |
| SigLIP | patches | its state |
| BLIP (image-text retrieval) | patches, projected as the first token is | its state, projected as the first token's |
| the made world's CLIP | a slot for each kind of thing and the background | what it says, and of which slots |

Only pieces of the sentence itself are kept: neither begin, end and padding nor what is put before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.batches import run_batches
from capmeter.encoders.joint import JointEncoder, load_joint
from capmeter.encoders.matching import MatchEncoder, load_match
from capmeter.encoders.models import JOINT_ENCODERS, find_encoder
from capmeter.encoders.pieces import PieceTable
from capmeter.encoders.preprocessing import Pixels
from capmeter.encoders.side_by_side import torch_threads
from capmeter.errors import AssetError
from capmeter.settings import Settings

if TYPE_CHECKING:
    from torch import Tensor

Floats32 = NDArray[np.float32]
Said = tuple[Floats32, Floats32, Floats32, Floats32]  # features, pieces, what they say, and of which regions
_CPU_TOKENS, _GPU_TOKENS = 2048, 32768
FAMILIES = ("clip", "siglip", "siglip2", "blip", "capmeter-world-clip")
"""The architectures, as `config.json` names them."""


@dataclass(frozen=True, eq=False)
class PictureStates:
    """features: [n, width], those of `JointEncoder.picture_features`. regions: [n, p, k]. boxes: [n, p, 4], x0, y0, x1,
    y1 relative to what the encoder sees of the picture. there: bool[n, p], false where the encoder finds nothing.
    """

    features: Floats32
    regions: Floats32
    boxes: Floats32
    there: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SentenceStates:
    """features: [n, width], those of `JointEncoder.text_features`. truncated: bool[n].

    Of each sentence, pieces: [t, k], their states; says: [t, r], what they say, as wide as regions; about: [t, p], how
    much a piece speaks of a region, or [t, 0] where only the picture tells; words: the word of each piece, by its place
    in `sentence.split()`.
    """

    features: Floats32
    pieces: tuple[Floats32, ...]
    says: tuple[Floats32, ...]
    about: tuple[Floats32, ...]
    words: tuple[NDArray[np.int64], ...]
    truncated: NDArray[np.bool_]


class StateEncoder:
    """A joint encoder that gives states; `load_states` finds it."""

    def __init__(self, encoder: JointEncoder | MatchEncoder, family: str) -> None:
        self.encoder, self.family = encoder, family
        self.files, self.preprocessing = encoder.files, encoder.preprocessing
        if not getattr(encoder.tokenizer, "is_fast", False):
            raise AssetError(
                f"encoder {self.files.name!r}: its tokenizer cannot say where its pieces are in the sentence; it needs "
                "the file tokenizer.json"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """What each region is called; empty where regions are patches."""
        return tuple(getattr(self.encoder.model.config, "region_labels", None) or ())

    @property
    def device(self) -> str:
        """Where the encoder runs."""
        return self.encoder.running.device

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """The number of regions; the widths of a region, of a word piece's state, and of the features."""
        size = self.encoder.model.config.vision_config.image_size
        pixels = np.zeros((1, 3, int(size), int(size)), np.float32)
        seen, said = self._seen(pixels), self.sentences(["a"], "")
        return seen.regions.shape[1], seen.regions.shape[2], said.pieces[0].shape[1], seen.features.shape[1]

    def facts(self) -> dict[str, str]:
        """Everything about the encoder that affects scores, for signatures."""
        return self.encoder.facts()

    def pictures(self, count: int, read: Callable[[int], Pixels | None]) -> PictureStates:
        """The states of so many pictures.

        read: gives the pixels of picture i; None (it cannot be read) gives states of 0.
        """

        def encode(rows: NDArray[np.int64]) -> list[PictureStates | None]:
            inputs = [None if (pixels := read(row)) is None else self.preprocessing(pixels) for row in rows.tolist()]
            good = [each for each in inputs if each is not None]
            if not good:
                return [None] * len(inputs)
            seen, places = self._seen(np.stack(good)), iter(range(len(good)))
            return [None if each is None else _picture(seen, next(places)) for each in inputs]

        regions, width, _, features = self.shape
        made = PictureStates(
            np.zeros((count, features), np.float32),
            np.zeros((count, regions, width), np.float32),
            np.zeros((count, regions, 4), np.float32),
            np.zeros((count, regions), np.bool_),
        )
        for rows, found in self._batches(np.full(count, regions, np.int64), encode):
            for row, each in zip(rows.tolist(), found, strict=True):
                if each is not None:
                    made.features[row], made.regions[row] = each.features, each.regions
                    made.boxes[row], made.there[row] = each.boxes, each.there
        return made

    def sentences(self, sentences: Sequence[str], prefix: str) -> SentenceStates:
        """The states of these sentences, each after the prefix (which ends in a blank, or is empty)."""
        said = [prefix + each for each in sentences]
        longest = self.encoder.max_length
        if isinstance(self.encoder, MatchEncoder):
            table: PieceTable = self.encoder.pieces(said, longest)
        else:
            table = self.encoder.pieces(said)
        places = [self._places(text, len(prefix), longest) for text in said]

        def encode(rows: NDArray[np.int64]) -> list[Said]:
            ids = np.stack([table[row] for row in rows.tolist()]).astype(np.int64)
            return self._said(ids)

        found: dict[int, Said] = {}
        for rows, batch in self._batches(table.lengths, encode):
            found.update(zip(rows.tolist(), batch, strict=True))
        pieces, says, about = (tuple(found[row][k][place] for row, (place, _) in enumerate(places)) for k in (1, 2, 3))
        return SentenceStates(
            np.stack([found[row][0] for row in range(len(said))]),
            pieces,
            says,
            about,
            tuple(words for _, words in places),
            table.truncated,
        )

    def _places(self, text: str, start: int, longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the sentence's own pieces are among all, and the word of each."""
        offsets = self.encoder.tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        own = text[start:]
        begins = np.array([k for k, each in enumerate(own) if not each.isspace() and (not k or own[k - 1].isspace())])
        places, words = [], []
        kept = offsets if len(offsets) <= longest else offsets[: longest - 1]
        for place, (first, last) in enumerate(kept):
            if last > max(first, start) and not text[last - 1].isspace():
                places.append(place)
                words.append(int(np.searchsorted(begins, last - 1 - start, side="right")) - 1)
        return np.array(places, np.int64), np.array(words, np.int64)

    def _batches(self, lengths: NDArray[np.int64], encode: Callable[[NDArray[np.int64]], list[Any]]) -> Any:
        settings, device = self.encoder.settings, self.encoder.running.device
        tokens = settings.tokens or (_CPU_TOKENS if device == "cpu" else _GPU_TOKENS)
        return run_batches(
            lengths,
            encode,
            lambda length: tokens // length,
            threads=(settings.threads or torch_threads()) if device == "cpu" else 1,
            device=device,
            description=f"encoding with {self.files.name}",
        )

    def _seen(self, inputs: Floats32) -> PictureStates:
        """The states of prepared pictures."""
        import torch

        model, running = self.encoder.model, self.encoder.running
        with torch.inference_mode():
            pixels = torch.from_numpy(inputs).to(running.device, running.dtype)
            if self.family == "capmeter-world-clip":
                slots, boxes, there = model.vision_model.regions(pixels)
                regions = model.visual_projection.each(slots)
                return PictureStates(
                    _numbers(regions.flatten(1)), _numbers(regions), _numbers(boxes), there.cpu().numpy()
                )
            output = model.vision_model(pixel_values=pixels)
            states = output.last_hidden_state
            if self.family == "clip":
                states = model.visual_projection(model.vision_model.post_layernorm(states))
            elif self.family == "blip":
                states = model.vision_proj(states)
            features = output.pooler_output if self.family.startswith("siglip") else states[:, 0]
            regions = states if self.family.startswith("siglip") else states[:, 1:]
        count = regions.shape[1]
        boxes = np.broadcast_to(_grid(count), (len(inputs), count, 4))
        return PictureStates(_numbers(features), _numbers(regions), boxes, np.ones((len(inputs), count), np.bool_))

    def _said(self, ids: NDArray[np.int64]) -> list[Said]:
        """The features of sentences of equal length, all their pieces, what these say, and of which regions."""
        import torch

        model = self.encoder.model
        with torch.inference_mode():
            given = torch.from_numpy(ids).to(self.encoder.running.device)
            if self.family == "blip":
                states = model.text_encoder(input_ids=given, attention_mask=torch.ones_like(given)).last_hidden_state
                says = model.text_proj(states)
                features = says[:, 0]
            else:
                output = model.text_model(input_ids=given)
                states = says = output.last_hidden_state
                features = output.pooler_output
            about = states.new_zeros((*states.shape[:2], 0))
            if self.family == "clip":
                says, features = model.text_projection(states), model.text_projection(features)
            elif self.family == "capmeter-world-clip":
                says, about = model.text_model.said(states), model.text_model.about(states).relu()
        return list(zip(*map(_numbers, (features, states, says, about)), strict=True))


def load_states(name: str, settings: Settings | None = None) -> StateEncoder:
    """The encoder called `name` (an alias, a hub id in the local cache, or a folder), loaded only once.

    Raises:
        AssetError: it is none of `FAMILIES`, or its tokenizer does not tell where pieces are.
    """
    files = find_encoder(name, JOINT_ENCODERS)
    try:
        family = str(json.loads((files.folder / "config.json").read_bytes())["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"encoder {name!r}: cannot read config.json in {files.folder}: {error}") from error
    if family not in FAMILIES:
        raise AssetError(
            f"encoder {name!r} is a {family} model, of which no states of regions and words are known; expected one of "
            f"{', '.join(FAMILIES)}"
        )
    encoder = load_match(name, settings) if family == "blip" else load_joint(name, settings)
    return StateEncoder(encoder, family)


def _picture(seen: PictureStates, row: int) -> PictureStates:
    return PictureStates(seen.features[row], seen.regions[row], seen.boxes[row], seen.there[row])


def _grid(count: int) -> Floats32:
    """The boxes of so many patches in rows, [count, 4]."""
    side = round(count**0.5)
    rows, columns = np.divmod(np.arange(count), side)
    boxes: Floats32 = np.stack([columns, rows, columns + 1, rows + 1], axis=1).astype(np.float32) / side
    return boxes


def _numbers(tensor: Tensor) -> Floats32:
    import torch

    numbers: Floats32 = tensor.to("cpu", torch.float32).numpy()
    return numbers
