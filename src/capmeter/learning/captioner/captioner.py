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

from capmeter.checkpoints import load_checkpoint
from capmeter.encoders.models import require_neural
from capmeter.errors import AssetError, InputError
from capmeter.learning.captioner.examples import Pictures
from capmeter.learning.captioner.segmentation import Segmentation
from capmeter.learning.captioner.shape import CaptionerShape
from capmeter.named import Named, read_parameters, split_name
from capmeter.progress import task

if TYPE_CHECKING:
    from capmeter.learning.captioner.network import RegionBatch
    from capmeter.learning.transformer.decoding import Written

KIND = "captioner"
_WAYS = ("greedy", "beam", "sample")
_AT_ONCE = {"cpu": 64, "cuda": 512}  # captions


@dataclass(frozen=True, kw_only=True)
class Decoding(Named):
    """How tokens are chosen; a named value.

    Beam search takes the caption with the highest log-probability per token.

    >>> str(Decoding(decode="sample", temperature=0.7))
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

    @property
    def name(self) -> str:
        """The name without parameters."""
        return self.NAME


def parse_decoding(text: str) -> Decoding:
    """The value of a text form such as `captioner(decode=beam)`, or of `greedy`, `beam` or `sample` alone."""
    name, inside = split_name(f"{KIND}(decode={text})" if text in _WAYS else text, "way of decoding")
    if name != KIND:
        raise InputError(f"{text!r}: expected greedy, beam, sample, or captioner(parameter=value,…)")
    return Decoding(**read_parameters(Decoding, inside, name))


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
        found = load_checkpoint(str(checkpoint), KIND)
        require_neural()
        import torch

        from capmeter.learning.captioner.network import CaptionerModule

        try:
            kept = found.parameters["segmentation"]
            self.segmentation = Segmentation(kept["kind"], kept["model"])
            self.shape = CaptionerShape(**found.parameters["shape"])
            self.longest = int(found.parameters["longest"])
            self.module = CaptionerModule(self.shape, len(self.segmentation), self.longest + 1)
            weights = {name: torch.from_numpy(np.asarray(each, np.float32)) for name, each in found.weights.items()}
            self.module.load_state_dict(weights)
        except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
            raise AssetError(
                f"captioner {checkpoint}: its parameters or weights are not those of a captioner ({error}); train it "
                "again"
            ) from error
        self.module.to(device).eval()
        self.device, self.label = device, found.label

    def write(self, pictures: Pictures, how: Decoding | None = None, *, samples: int = 1, seed: int = 0) -> list[str]:
        """A caption for each picture, or several.

        Args:
            pictures: to caption.
            how: how tokens are chosen; None: greedily.
            samples: captions per picture, which follow one another; more than 1 with `decode=sample`.
            seed: of samples.

        Raises:
            InputError: regions of another width than the captioner's, or several captions without sampling.
        """
        how = how or Decoding()
        if samples < 1 or (samples > 1 and how.decode != "sample"):
            raise InputError(f"samples={samples}: expected 1, or more with decode=sample")
        if len(pictures) and pictures.features != self.shape.features:
            raise InputError(
                f"regions have {pictures.features} features each, but this captioner reads {self.shape.features}; give "
                "regions of the extractor that it was trained with"
            )
        return self.segmentation.decode([each.pieces for each in self._written(pictures, how, samples, seed)])

    def _written(self, pictures: Pictures, how: Decoding, samples: int, seed: int) -> list[Written]:
        import torch

        from capmeter.learning.captioner.network import RegionBatch

        kind = torch.device(self.device).type
        width = how.beams if how.decode == "beam" else samples
        size = max(1, _AT_ONCE.get(kind, 64) // width)
        decode = self._decoder(how, len(pictures), samples, seed)
        written: list[Written] = []
        with torch.inference_mode(), task("captioner", total=len(pictures)) as advance:
            for start in range(0, len(pictures), size):
                rows = np.arange(start, min(start + size, len(pictures)))
                written += decode(rows, RegionBatch.of([pictures.regions(row) for row in rows.tolist()], self.device))
                advance(len(rows))
        return written

    def _decoder(
        self, how: Decoding, count: int, samples: int, seed: int
    ) -> Callable[[np.ndarray[Any, Any], RegionBatch], list[Written]]:
        from capmeter.learning.transformer import decoding

        if how.decode == "greedy":
            return lambda rows, pictures: decoding.greedy(self.module, pictures)
        if how.decode == "beam":
            return lambda rows, pictures: decoding.beam(self.module, pictures, how.beams, per_token=True)
        uniform = np.random.default_rng(seed).random((count, samples, self.longest + 1), dtype=np.float32)

        def sample(rows: np.ndarray[Any, Any], pictures: RegionBatch) -> list[Written]:
            drawn = uniform[rows].reshape(-1, self.longest + 1)
            return decoding.sampled(self.module, pictures.repeated(samples), drawn, how.temperature)

        return sample
