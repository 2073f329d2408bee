"""What a critic of LEIC is made of: which context it sees, how that is fused with the candidate, and its sizes.

>>> CriticShape(context="reference", hidden=(512,)).parts
('reference', 'candidate')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from capmeter.errors import InputError

CONTEXTS = ("none", "image", "reference", "both")
FUSIONS = ("concatenation", "bilinear")
Part = Literal["image", "reference", "candidate"]
STEPS = 15
"""The paper's number of LSTM steps: longer captions are cut (A.2)."""
_LAYERS, _HIDDEN = 4, 2


@dataclass(frozen=True)
class CriticShape:
    """The architecture of a critic.

    Args:
        context: what is known besides the candidate: `none`, `image`, `reference` or `both`.
        fusion: `concatenation` (Eq. 3), or compact `bilinear` pooling of context and candidate (Eq. 4).
        hidden: widths of the classifier's hidden layers with ReLU, none to two; none is the linear classifier.
        layers: number of LSTM layers.
        width: width of the LSTM, and of the image after its linear projection.
        embedding: width of the word vectors.
        image: width of the image features; 0 if the context has no image.
        pooled: width of compact bilinear pooling.
        steps: how many words of a caption the LSTM reads; longer ones are cut. 15 as published.
        sketches: seeds of its hashes: positions and signs of the context, positions and signs of the candidate.

    Raises:
        InputError: these do not make a critic.
    """

    context: str = "both"
    fusion: str = "concatenation"
    hidden: tuple[int, ...] = (512,)
    layers: int = 1
    width: int = 512
    embedding: int = 300
    image: int = 0
    pooled: int = 8192
    steps: int = STEPS
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
        if not 1 <= self.layers <= _LAYERS:
            raise InputError(f"expected 1 to {_LAYERS} LSTM layers, but got {self.layers}")
        if len(self.hidden) > _HIDDEN:
            raise InputError(f"expected at most {_HIDDEN} hidden layers, but got {len(self.hidden)}")
        if min(self.width, self.embedding, self.pooled, self.steps, *self.hidden, 1) < 1:
            raise InputError("expected widths, and a number of LSTM steps, of 1 or more")
        if (self.image > 0) != self.sees_image or self.image < 0:
            wanted = "a positive" if self.sees_image else "no"
            raise InputError(f"context={self.context}: expected {wanted} width of image features, but got {self.image}")

    @property
    def sees_image(self) -> bool:
        """Whether the image is part of the context."""
        return self.context in ("image", "both")

    @property
    def sees_reference(self) -> bool:
        """Whether a reference is part of the context."""
        return self.context in ("reference", "both")

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is fused, in the order of the released code: image, reference, candidate."""
        seen: dict[Part, bool] = {"image": self.sees_image, "reference": self.sees_reference, "candidate": True}
        return tuple(part for part, there in seen.items() if there)

    @property
    def fused(self) -> int:
        """The width after fusion."""
        return self.pooled if self.fusion == "bilinear" else self.width * len(self.parts)

    @property
    def dense(self) -> tuple[tuple[str, int, int], ...]:
        """The classifier's layers: name, width of the input, width of the output; the last has two outputs."""
        widths = (self.fused, *self.hidden, 2)
        names = [*(f"hidden.{k}" for k in range(len(self.hidden))), "output"]
        return tuple(zip(names, widths, widths[1:], strict=False))

    def to_dict(self) -> dict[str, Any]:
        """The shape as JSON values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> CriticShape:
        """The shape from JSON values."""
        known: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in said.items()}
        return cls(**known)
