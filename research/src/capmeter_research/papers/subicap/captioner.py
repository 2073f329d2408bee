"""A trained captioner, ready for use.

```python
captioner = Captioner("captioner/")                        # a folder that `capmeter train captioner` wrote
captioner.write(uncaptioned_pictures("regions/"), Decoding(decode="beam"))
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import InputError
from capmeter.core.named import Named, read_parameters, split_name
from capmeter.core.progress import task
from capmeter.encoders.handle import require_neural
from capmeter.encoders.text.layers import load_module
from capmeter_research.common.state_dicts import check_sizes
from capmeter_research.papers.subicap.examples import CaptionedImages
from capmeter_research.papers.subicap.recipe import CaptionerShape
from capmeter_research.papers.subicap.segmentation import Segmentation

if TYPE_CHECKING:
    from capmeter_research.common.transformer.decoding import DecodedCaption
    from capmeter_research.papers.subicap.network import RegionBatch

KIND = "captioner"
_WAYS = ("greedy", "beam", "sample")
_AT_ONCE = {"cpu": 64, "cuda": 512}  # captions


@dataclass(frozen=True, kw_only=True)
class DecodingStrategy(Named):
    """How tokens are chosen; a named value.

    Beam search takes the caption with the highest log-probability per token.

    >>> str(DecodingStrategy(decode="sample", temperature=0.7))
    'captioner(decode=sample,temperature=0.7)'

    Raises:
        InputError: a parameter is out of range.
    """

    NAME = KIND
    SUMMARY = "captions by the captioner"

    decode: Annotated[Literal["greedy", "beam", "sample"], "how tokens are chosen"] = "greedy"
    beams: Annotated[int, "the width of beam search"] = 5
    temperature: Annotated[float, "the temperature of sampling"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beams < 1:
            raise InputError(f"captioner: beams={self.beams}, expected 1 or more")
        if not self.temperature > 0:
            raise InputError(f"captioner: temperature={self.temperature}, expected more than 0")


def parse_decoding(text: str) -> DecodingStrategy:
    """The value of a text form such as `captioner(decode=beam)`, or of `greedy`, `beam` or `sample` alone."""
    strategy_name, parameter_text = split_name(f"{KIND}(decode={text})" if text in _WAYS else text, "way of decoding")
    if strategy_name != KIND:
        raise InputError(f"{text!r}: expected greedy, beam, sample, or captioner(parameter=value,…)")
    return DecodingStrategy(**read_parameters(DecodingStrategy, parameter_text, strategy_name))


class Captioner:
    """A captioner.

    Args:
        checkpoint: the name or folder of a checkpoint.
        device: a torch device.

    Raises:
        AssetError: there is no such checkpoint, or it is damaged or not a captioner's.
        MissingBackend: torch or sentencepiece is not installed.
    """

    def __init__(self, checkpoint: str | Path, *, device: str = "cpu") -> None:
        checkpoint_content = load_checkpoint(str(checkpoint), KIND)
        require_neural()
        from capmeter_research.papers.subicap.network import CaptionerModule

        with rebuilding("a captioner", checkpoint):
            segmentation_parameters = checkpoint_content.parameters["segmentation"]
            self.segmentation = Segmentation(segmentation_parameters["kind"], segmentation_parameters["model"])
            self.shape = CaptionerShape(**checkpoint_content.parameters["shape"])
            layer_counts = {"encoder_layers": self.shape.encoder_layers, "decoder_layers": self.shape.decoder_layers}
            check_sizes(layer_counts, checkpoint_content.weights)
            self.longest = int(checkpoint_content.parameters["longest"])
            network_sizes = self.shape, len(self.segmentation), self.longest + 1
            module = load_module(lambda: CaptionerModule(*network_sizes), checkpoint_content.weights)
        self.module = module.to(device)
        self.device, self.label = device, checkpoint_content.label

    def write(
        self, pictures: CaptionedImages, how: DecodingStrategy | None = None, *, samples: int = 1, seed: int = 0
    ) -> list[str]:
        """A caption for each picture, or several.

        Args:
            pictures: to caption.
            how: how tokens are chosen; None: greedily.
            samples: captions per picture, which follow one another; more than 1 with `decode=sample`.
            seed: of samples.

        Raises:
            InputError: regions of another width than the captioner's, or several captions without sampling.
        """
        how = how or DecodingStrategy()
        if samples < 1 or (samples > 1 and how.decode != "sample"):
            raise InputError(f"samples={samples}: expected 1, or more with decode=sample")
        if len(pictures) and pictures.features != self.shape.features:
            raise InputError(
                f"regions have {pictures.features} features each, but this captioner reads {self.shape.features}; give "
                "regions of the extractor that it was trained with"
            )
        return self.segmentation.decode([caption.pieces for caption in self._decode(pictures, how, samples, seed)])

    def _decode(
        self, pictures: CaptionedImages, how: DecodingStrategy, samples: int, seed: int
    ) -> list[DecodedCaption]:
        import torch

        from capmeter_research.papers.subicap.network import RegionBatch

        device_type = torch.device(self.device).type
        width = how.beams if how.decode == "beam" else samples
        batch_size = max(1, _AT_ONCE.get(device_type, 64) // width)
        decode = self._decoder(how, len(pictures), samples, seed)
        decoded_captions: list[DecodedCaption] = []
        with torch.inference_mode(), task("captioner", total=len(pictures)) as advance:
            for batch_start in range(0, len(pictures), batch_size):
                picture_rows = np.arange(batch_start, min(batch_start + batch_size, len(pictures)))
                decoded_captions += decode(
                    picture_rows,
                    RegionBatch.from_regions([pictures.regions(row) for row in picture_rows.tolist()], self.device),
                )
                advance(len(picture_rows))
        return decoded_captions

    def _decoder(
        self, how: DecodingStrategy, count: int, samples: int, seed: int
    ) -> Callable[[np.ndarray[Any, Any], RegionBatch], list[DecodedCaption]]:
        from capmeter_research.common.transformer import decoding

        if how.decode == "greedy":
            return lambda rows, pictures: decoding.greedy_search(self.module, pictures)
        if how.decode == "beam":
            return lambda rows, pictures: decoding.beam_search(self.module, pictures, how.beams, per_token=True)
        uniform = np.random.default_rng(seed).random((count, samples, self.longest + 1), dtype=np.float32)

        def sample(rows: np.ndarray[Any, Any], pictures: RegionBatch) -> list[DecodedCaption]:
            uniforms = uniform[rows].reshape(-1, self.longest + 1)
            return decoding.sample(self.module, pictures.repeated(samples), uniforms, how.temperature)

        return sample
