"""Preprocessing of images by a model's own image processor, on Pillow as in the released code of CLIPScore.

With torchvision the library's default processors resize tensors, which gives other pixels; they are not used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import MissingBackend

Pixels = NDArray[np.uint8]
_WITHOUT_EFFECT = {"image_processor_type", "processor_class", "feature_extractor_type", "backend", "_processor_class"}


def import_pillow() -> Any:
    """Pillow's module `Image`; a `MissingBackend` if it is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingBackend("reading images needs Pillow; install it with: pip install 'capmeter[images]'") from None
    return Image


class Preprocessing:
    """The image processor in a model's folder.

    Attributes:
        identity: a hash of its settings, which affect every score.
        edge: the length to which it scales an image's shorter side (0: it scales to a fixed size).
    """

    def __init__(self, folder: Path) -> None:
        self._from_array = import_pillow().fromarray
        from transformers import AutoImageProcessor, __version__

        on_pillow: dict[str, Any] = {"use_fast": False} if __version__.startswith("4.") else {"backend": "pil"}
        self._processor: Any = AutoImageProcessor.from_pretrained(str(folder), local_files_only=True, **on_pillow)
        processor_settings = {
            setting_name: setting_value
            for setting_name, setting_value in self._processor.to_dict().items()
            if setting_name not in _WITHOUT_EFFECT
        }
        self.identity = hashlib.sha256(json.dumps(processor_settings, sort_keys=True, default=str).encode()).hexdigest()
        size = processor_settings.get("size")
        self.edge = int(size["shortest_edge"]) if isinstance(size, dict) and size.get("shortest_edge") else 0

    def pixels_after(self, height: int, width: int) -> int:
        """The number of pixels to which an image of this size is scaled, before it is cropped."""
        shorter_side, longer_side = sorted((height, width))
        return self.edge * -(-self.edge * longer_side // shorter_side)

    def __call__(self, pixels: Pixels) -> NDArray[np.float32]:
        """The model's input, float32 (channels, height, width), from an image uint8 (height, width, 3)."""
        pixel_values: NDArray[np.float32] = self._processor(
            images=self._from_array(pixels), return_tensors="np", input_data_format="channels_last"
        )["pixel_values"][0]
        return np.asarray(pixel_values, np.float32)
