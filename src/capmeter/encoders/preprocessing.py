"""A picture as its model reads it: the model's own image processor, on Pillow as in the released code of CLIPScore.

With torchvision the library's default processors resize tensors, which gives other pixels; they are not used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.errors import MissingBackend

Pixels = NDArray[np.uint8]


class Preprocessing:
    """The image processor in a model's folder.

    identity: a hash of its settings, which move every score. edge: the length to which it scales a picture's shorter
    side, keeping its shape (0: it scales to a fixed size).
    """

    def __init__(self, folder: Path) -> None:
        try:
            from PIL import Image
        except ImportError:
            raise MissingBackend(
                "reading pictures needs Pillow; install it with: pip install 'capmeter[images]'"
            ) from None
        from transformers import AutoImageProcessor
        from transformers import __version__ as version

        on_pillow: dict[str, Any] = {"use_fast": False} if version.startswith("4.") else {"backend": "pil"}
        self._processor: Any = AutoImageProcessor.from_pretrained(str(folder), local_files_only=True, **on_pillow)
        self._from_array = Image.fromarray
        told = {key: each for key, each in self._processor.to_dict().items() if key not in _UNIMPORTANT}
        self.identity = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()
        size = told.get("size")
        self.edge = int(size["shortest_edge"]) if isinstance(size, dict) and size.get("shortest_edge") else 0

    def pixels_after(self, height: int, width: int) -> int:
        """The number of pixels to which a picture of this size is scaled, before it is cropped."""
        shorter, longer = sorted((height, width))
        return self.edge * -(-self.edge * longer // shorter)

    def __call__(self, pixels: Pixels) -> NDArray[np.float32]:
        """The model's input, float32[channels, height, width], from a picture uint8[height, width, 3]."""
        made: NDArray[np.float32] = self._processor(
            images=self._from_array(pixels), return_tensors="np", input_data_format="channels_last"
        )["pixel_values"][0]
        return np.asarray(made, np.float32)


_UNIMPORTANT = {"image_processor_type", "processor_class", "feature_extractor_type", "backend", "_processor_class"}
