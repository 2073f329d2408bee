"""The architecture of a critic of LEIC: its context, how that is fused with the candidate, and sizes.

>>> CriticShape(context="reference", hidden=(512,)).inputs
('reference', 'candidate')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from capmeter.core.errors import InputError

CONTEXTS = ("none", "image", "reference", "both")
FUSIONS = ("concatenation", "bilinear")
CriticInput = Literal["image", "reference", "candidate"]
MAX_WORDS = 15
"""The paper's number of LSTM steps: longer captions are truncated (A.2)."""
_MAX_LAYERS, _MAX_HIDDEN, _MAX_STEPS = 4, 2, 10_000


@dataclass(frozen=True)
class CriticShape:
    """The architecture of a critic.

    Args:
        context: inputs besides the candidate: `none`, `image`, `reference` or `both`.
        fusion: `concatenation` (Eq. 3), or compact `bilinear` pooling of context and candidate (Eq. 4).
        hidden: widths of the classifier's hidden layers with ReLU, none to two; none is the linear classifier.
        layers: number of LSTM layers.
        width: width of the LSTM, and of the image after its linear projection.
        embedding: width of the word vectors.
        image: width of the image features; 0 if the context has no image.
        pooled: width of compact bilinear pooling.
        steps: maximum number of words of a caption; longer ones are truncated. 15 as published.
        sketches: seeds of the count sketches: positions and signs of the context, and of the candidate.

    Raises:
        InputError: the sizes are inconsistent.
    """

    context: str = "both"
    fusion: str = "concatenation"
    hidden: tuple[int, ...] = (512,)
    layers: int = 1
    width: int = 512
    embedding: int = 300
    image: int = 0
    pooled: int = 8192
    steps: int = MAX_WORDS
    sketches: tuple[int, int, int, int] = (1, 3, 5, 7)

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise InputError(f"context: expected one of {', '.join(CONTEXTS)}, but got {self.context!r}")
        if self.fusion not in FUSIONS:
            raise InputError(f"fusion: expected one of {', '.join(FUSIONS)}, but got {self.fusion!r}")
        if self.fusion == "bilinear" and self.context == "none":
            raise InputError(
                "bilinear pooling multiplies context and candidate: expected context=image, reference or both, but got "
                "none"
            )
        if not 1 <= self.layers <= _MAX_LAYERS:
            raise InputError(f"expected 1 to {_MAX_LAYERS} LSTM layers, but got {self.layers}")
        if len(self.hidden) > _MAX_HIDDEN:
            raise InputError(f"expected at most {_MAX_HIDDEN} hidden layers, but got {len(self.hidden)}")
        sizes = (self.width, self.embedding, self.pooled, self.steps, *self.hidden)
        if not all(type(size) is int for size in (*sizes, self.layers, self.image)) or min(sizes) < 1:
            raise InputError("expected whole numbers as widths and as the number of LSTM steps, of 1 or more")
        if self.steps > _MAX_STEPS:
            raise InputError(f"expected at most {_MAX_STEPS} LSTM steps, but got {self.steps}")
        if (self.image > 0) != self.sees_image or self.image < 0:
            expected_width = "a positive" if self.sees_image else "no"
            raise InputError(
                f"context={self.context}: expected {expected_width} width of image features, but got {self.image}"
            )

    @property
    def sees_image(self) -> bool:
        """Whether the image is part of the context."""
        return self.context in ("image", "both")

    @property
    def sees_reference(self) -> bool:
        """Whether a reference is part of the context."""
        return self.context in ("reference", "both")

    @property
    def inputs(self) -> tuple[CriticInput, ...]:
        """The inputs that are fused, in the order of the released code: image, reference, candidate."""
        used: dict[CriticInput, bool] = {"image": self.sees_image, "reference": self.sees_reference, "candidate": True}
        return tuple(input_name for input_name, is_used in used.items() if is_used)

    @property
    def fused_width(self) -> int:
        """The width after fusion."""
        return self.pooled if self.fusion == "bilinear" else self.width * len(self.inputs)

    @property
    def dense_layers(self) -> tuple[tuple[str, int, int], ...]:
        """The classifier's layers: name, width of the input, width of the output; the last has two outputs."""
        widths = (self.fused_width, *self.hidden, 2)
        layer_names = [*(f"hidden.{k}" for k in range(len(self.hidden))), "output"]
        return tuple(zip(layer_names, widths, widths[1:], strict=False))

    def to_dict(self) -> dict[str, Any]:
        """The shape as JSON values."""
        return {
            field_name: list(value) if isinstance(value, tuple) else value for field_name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, sizes: Mapping[str, Any]) -> CriticShape:
        """The shape from JSON values."""
        field_values: dict[str, Any] = {
            field_name: tuple(v) if isinstance(v, list) else v for field_name, v in sizes.items()
        }
        return cls(**field_values)
