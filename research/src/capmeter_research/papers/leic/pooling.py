"""Compact bilinear pooling (Gao et al. 2016): the outer product of two vectors, sketched in d dimensions (Eq. 4).

A count sketch adds every element, with a random sign, to a random position of d: Φ(x)[h(j)] += s(j) x[j]. The sketch
of the outer product of two vectors is the circular convolution of their sketches, computed as a product of spectra:

    v = Φ(context) ⊗ Φ(candidate) = FFT⁻¹(FFT(Φ(context)) · FFT(Φ(candidate)))

A linear map w of v is a bilinear form, and needs no transform (`bilinear_form`):

    w · v = contextᵀ W candidate,    W_ij = s(i) t(j) w[(h(i) + g(j)) mod d]

Positions and signs follow the released code: numpy's legacy generator with the seeds 1 and 3 (context), 5 and 7
(candidate). There is no signed square root and no normalisation.

>>> import numpy as np
>>> sketch = CountSketch(np.array([0, 2, 0]), np.array([1, 1, -1]), 3)
>>> sketch(np.array([[5.0, 7.0, 2.0]])).tolist()
[[3.0, 0.0, 7.0]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class CountSketch:
    """A count sketch of vectors."""

    positions: npt.NDArray[np.int64]  # h, (size,)
    signs: npt.NDArray[np.int64]  # s, (size,)
    width: int  # d

    @classmethod
    def from_seeds(cls, size: int, width: int, positions: int, signs: int) -> CountSketch:
        """The sketch of vectors from the seeds of its positions and its signs.

        Args:
            size: of the vectors.
            width: of the sketch.
            positions, signs: seeds.
        """
        # the legacy generator: its numbers are those of the released code and never change
        return cls(
            np.random.RandomState(positions).randint(width, size=size).astype(np.int64),
            2 * np.random.RandomState(signs).randint(2, size=size).astype(np.int64) - 1,
            width,
        )

    def take(self, start: int, end: int) -> CountSketch:
        """The sketch of the elements from `start` to `end`; the sketches of a vector's parts add up to its own."""
        return CountSketch(self.positions[start:end], self.signs[start:end], self.width)

    def __call__(self, vectors: Reals) -> Reals:
        """The sketches of the rows: (n, size) → (n, width)."""
        sketched = np.zeros((len(vectors), self.width), vectors.dtype)
        signed = vectors * self.signs.astype(vectors.dtype)
        for element, position in enumerate(self.positions.tolist()):  # one by one: positions may coincide
            sketched[:, position] += signed[:, element]
        return sketched


def spectrum(sketched: Reals) -> Reals:
    """The Fourier transform of each row."""
    return np.fft.rfft(sketched)


def convolve(first: Reals, second: Reals, width: int) -> Reals:
    """The circular convolution of rows, (n, width), from their spectra.

    Args:
        first, second: spectra of real rows, (n, width // 2 + 1).
        width: of the rows.
    """
    return np.fft.irfft(first * second, n=width)


def bilinear_form(weight: Reals, first: CountSketch, second: CountSketch) -> Reals:
    """W: the bilinear forms equal to a linear map of the pooled outer product.

    Args:
        weight: (width, outputs).
        first, second: the sketches of the two vectors.

    Returns:
        (elements of the first, outputs, elements of the second).
    """
    positions = (first.positions[:, None] + second.positions) % first.width
    signs = (first.signs[:, None] * second.signs).astype(weight.dtype)
    form: Reals = (weight[positions] * signs[..., None]).transpose(0, 2, 1)
    return form
