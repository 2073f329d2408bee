"""A trained writer: reads captions of photos and writes others.

```python
writer = Writer("writer/")                                       # a folder that `capmeter train writer` wrote
writer.write([["A dog runs on the beach."]], Writing(decode="beam"))
writer.sample([["A dog runs on the beach."]], 5, 0.9, seed=0)    # five Monte-Carlo samples for each photo
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.core.assets import CHECKPOINT, find_checkpoint
from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError
from capmeter.core.progress import task
from capmeter.core.ragged import Ragged
from capmeter.encoders.handle import require_neural
from capmeter.encoders.text.layers import load_module
from capmeter_research.common.state_dicts import check_sizes
from capmeter_research.common.transformer.decoding import PAD
from capmeter_research.networks.caption_writer.reading import LONGEST_TARGET, SourceReader, padded, style_mark
from capmeter_research.networks.caption_writer.recipe import WriterShape
from capmeter_research.networks.caption_writer.subwords import Subwords
from capmeter_research.networks.caption_writer.writing import FINAL, KIND, WriterSystem

if TYPE_CHECKING:
    from torch import Tensor

    from capmeter_research.common.transformer.decoding import DecodedCaption

SHIPPED = "writer"
_AT_ONCE = {"cpu": 256, "cuda": 4096}  # captions


class Writer:
    """A caption writer.

    Args:
        checkpoint: the name or folder of a checkpoint.
        device: a torch device.

    Raises:
        AssetError: there is no such checkpoint, or it is damaged or not a writer's.
        MissingBackend: torch, tokenizers or safetensors is not installed.
    """

    def __init__(self, checkpoint: str | Path = SHIPPED, *, device: str = "cpu") -> None:
        checkpoint_content = load_checkpoint(str(checkpoint), KIND)
        require_neural()
        from capmeter_research.networks.caption_writer.network import WriterModule

        with rebuilding("a caption writer", checkpoint):
            self.subwords = Subwords(checkpoint_content.parameters["subwords"])
            self.nouns = frozenset(checkpoint_content.parameters["nouns"])
            self.styles: tuple[str, ...] = tuple(checkpoint_content.parameters["styles"])
            shape = WriterShape(**checkpoint_content.parameters["shape"])
            layer_counts = {"read_layers": shape.read_layers, "write_layers": shape.write_layers}
            check_sizes(layer_counts, checkpoint_content.weights)
            module = load_module(lambda: WriterModule(shape, len(self.subwords)), checkpoint_content.weights)
        self.module = module.to(device)
        self.device = device
        self.label = checkpoint_content.label

    def write(
        self,
        captions: Sequence[Sequence[str]],
        writing: WriterSystem | None = None,
        *,
        style: str | Sequence[str] | None = None,
        similar: Sequence[str] | None = None,
        seed: int = 0,
    ) -> list[str]:
        """A caption for each photo.

        Args:
            captions: the captions of each photo that are read; nothing read gives a caption of anything.
            writing: what is read of them and how words are chosen (`strength` and `read` are the caller's business).
            style: whose captions to imitate, one of `styles`, for all photos or for each; None: the first.
            similar: a caption of a similar photo for each photo, needed where `writing.near` is above 0.
            seed: of what is lost, mistaken and sampled.

        Raises:
            InputError: an unknown style; the number of styles or similar captions is not that of the photos.
        """
        writing = writing or WriterSystem()
        sources = self.sources(captions, writing, style=style, similar=similar, seed=seed)
        return self._texts(self.decoded(sources, writing, seed))

    def sample(
        self, captions: Sequence[Sequence[str]], n: int, temperature: float = 1.0, seed: int = 0
    ) -> list[list[str]]:
        """Monte-Carlo samples: n captions for each photo, drawn from the writer at a temperature.

        Every sample of a photo reads the same. The k-th sample of a photo does not depend on n.

        Args:
            captions: the captions of each photo that are read.
            n: number of samples, 1 or more.
            temperature: above 0; 1 draws from the writer's own probabilities.
            seed: of the samples.

        Raises:
            InputError: n or the temperature is out of range.
        """
        if n < 1:
            raise InputError(f"samples: expected 1 or more, but got {n}")
        sampling_system = WriterSystem(decode="sample", temperature=temperature)
        sources = self.sources(captions, sampling_system, seed=seed)
        sample_rounds = [
            self._texts(self.decoded(sources, sampling_system, seed, sample_number)) for sample_number in range(n)
        ]
        return [list(samples) for samples in zip(*sample_rounds, strict=True)]

    def log_probabilities(
        self, texts: Sequence[str], captions: Sequence[Sequence[str]] | None = None
    ) -> npt.NDArray[np.float64]:
        """The natural logarithm of the probability that the writer writes each text: float64[texts].

        Args:
            texts: captions; of one longer than `LONGEST_TARGET` subwords, its first ones count.
            captions: what the writer has read for each text, as it is; None: nothing.
        """
        import torch

        from capmeter_research.common.transformer.decoding import log_probabilities

        read_captions = [()] * len(texts) if captions is None else captions
        sources = self.sources(read_captions, WriterSystem(form="captions"))
        targets = SourceReader.from_captions(texts, self.subwords, self.nouns).targets

        def measure(rows: npt.NDArray[np.int64], matrix: Tensor) -> list[float]:
            target_ids = torch.from_numpy(padded(targets.take(rows), PAD)).to(self.device)
            log_probs: list[float] = log_probabilities(self.module, matrix, target_ids).tolist()
            return log_probs

        return np.array(self._batched(sources, measure), np.float64)

    def sources(
        self,
        captions: Sequence[Sequence[str]],
        writing: WriterSystem,
        *,
        style: str | Sequence[str] | None = None,
        similar: Sequence[str] | None = None,
        seed: int = 0,
    ) -> Ragged:
        """What is read of each photo, as subwords.

        Args:
            captions: those of each photo that may be read.
            writing: how captions are corrupted.
            style: whose captions are imitated, for all photos or for each; None: the writer's first style.
            similar: a caption of a similar photo for each; None: none is read.
            seed: of the corruption.

        Raises:
            InputError: another number of similar captions than of photos.
        """
        photo_count = len(captions)
        if similar is not None and len(similar) != photo_count:
            raise InputError(f"similar: expected a caption for each of {photo_count} photos, but got {len(similar)}")
        all_captions = [*chain.from_iterable(captions), *(similar or ())]
        read_captions = Ragged.from_lengths(
            np.arange(len(all_captions) - len(similar or ())), np.fromiter(map(len, captions), np.int64, photo_count)
        )
        similar_rows = None if similar is None else np.arange(len(all_captions) - photo_count, len(all_captions))
        rng = np.random.default_rng((seed, 0))
        return SourceReader.from_captions(all_captions, self.subwords, self.nouns).read(
            read_captions, writing.sight(photo_count), self._styles(style, photo_count), rng, similar_rows
        )

    def decoded(self, sources: Ragged, writing: WriterSystem, seed: int = 0, number: int = 0) -> list[DecodedCaption]:
        """What is written for each source, as subwords with log-probabilities.

        Args:
            sources: as `sources` gives them.
            writing: beams, greedy search or sampling.
            seed, number: of the sample, and its number among those of one source.
        """
        from capmeter_research.common.transformer import decoding

        uniform = np.empty((0, 0), np.float32)
        if writing.decode == "sample":
            rng = np.random.default_rng((seed, 1, number))
            uniform = rng.random((len(sources), LONGEST_TARGET), dtype=np.float32)

        def decode(rows: npt.NDArray[np.int64], matrix: Tensor) -> list[DecodedCaption]:
            if writing.decode == "beam":
                return decoding.beam_search(self.module, matrix, writing.beams)
            if writing.decode == "sample":
                return decoding.sample(self.module, matrix, uniform[rows], writing.temperature)
            return decoding.greedy_search(self.module, matrix)

        return self._batched(sources, decode, writing.beams if writing.decode == "beam" else 1)

    def _batched(
        self, sources: Ragged, work: Callable[[npt.NDArray[np.int64], Tensor], list[Any]], width: int = 1
    ) -> list[Any]:
        """The work's results for all sources, done in batches of about the same length."""
        import torch

        length_order = np.argsort(sources.lengths, kind="stable")
        batch_size = max(1, _AT_ONCE.get(torch.device(self.device).type, 256) // width)
        results: list[Any] = [None] * len(sources)
        with torch.inference_mode(), task("caption writer", total=len(sources)) as advance:
            for batch_start in range(0, len(length_order), batch_size):
                batch_rows = length_order[batch_start : batch_start + batch_size]
                matrix = torch.from_numpy(padded(sources.take(batch_rows), PAD)).to(self.device)
                for row, result in zip(batch_rows.tolist(), work(batch_rows, matrix), strict=True):
                    results[row] = result
                advance(len(batch_rows))
        return results

    def _texts(self, decoded: Sequence[DecodedCaption]) -> list[str]:
        return self.subwords.decode([caption.pieces for caption in decoded])

    def _styles(self, style: str | Sequence[str] | None, count: int) -> npt.NDArray[np.int64]:
        style_names = [style or self.styles[0]] * count if style is None or isinstance(style, str) else list(style)
        if len(style_names) != count:
            raise InputError(f"style: expected one for each of {count} photos, but got {len(style_names)}")
        unknown_styles = sorted(set(style_names) - set(self.styles))
        if unknown_styles:
            known = ", ".join(self.styles)
            raise InputError(f"style {unknown_styles[0]!r}: this writer was trained on {known}; choose one by --style")
        style_ids = {style_name: self.subwords.mark(style_mark(style_name)) for style_name in set(style_names)}
        return np.array([style_ids[style_name] for style_name in style_names], np.int64)


def strength_folder(checkpoint: str | Path, strength: str) -> str:
    """The checkpoint of a weaker version of a writer, in the folder of the final one; the final one if that is absent.

    Raises:
        AssetError: there is none of this strength.
    """
    final_folder = find_checkpoint(str(checkpoint))
    if strength == FINAL or final_folder is None:
        return str(checkpoint)
    weaker_folder = final_folder / strength
    if not (weaker_folder / CHECKPOINT).is_file():
        raise AssetError(
            f"{checkpoint}: no weights of strength {strength}; `capmeter train writer` keeps those of its --strength "
            "options"
        )
    return str(weaker_folder)
