"""Much data in a small page: JSON and integer columns, packed, compressed and base64-encoded.

The page unpacks it with the browser's own `DecompressionStream`. Columns are 32-bit integers whose four byte planes are
stored separately: the planes of small numbers are nearly constant and compress to almost nothing. Decimal numbers are
kept as integers with a number of decimals, so that what the page shows is rounded only once, here.

>>> packed = Payload({"title": "two numbers"})
>>> packed.column("x", [3, -4])
>>> unpack(packed.text())
({'title': 'two numbers'}, {'x': [3, -4]})
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MISSING = -(2**31)
"""The integer that stands for "no number here"."""
_DIGITS = 5


class Payload:
    """A JSON object and named columns of integers, which `text` writes as one base64 string."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self.head = dict(head)
        self._columns: dict[str, npt.NDArray[np.int32]] = {}

    def column(self, name: str, values: Sequence[int] | npt.NDArray[Any]) -> None:
        """Adds a column of whole numbers."""
        self._columns[name] = np.asarray(values, np.int32)

    def numbers(self, name: str, values: npt.NDArray[np.float64]) -> int:
        """Adds a column of decimal numbers (NaN: missing), rounded; returns the number of decimals that were kept."""
        known = values[np.isfinite(values)]
        decimals = decimals_for(float(np.abs(known).max()) if len(known) else 1.0)
        scaled = np.round(np.where(np.isfinite(values), values, 0.0) * 10.0**decimals)
        self.column(name, np.where(np.isfinite(values), scaled, MISSING).astype(np.int64))
        return decimals

    def text(self) -> str:
        """Everything as one string of ASCII characters that need no escaping in HTML."""
        columns = {name: len(values) for name, values in self._columns.items()}
        # ASCII escapes keep lone surrogates, which UTF-8 cannot encode
        head = json.dumps({"head": self.head, "columns": columns}, ensure_ascii=True, separators=(",", ":")).encode()
        planes = [values.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes() for values in self._columns.values()]
        raw = b"".join([len(head).to_bytes(4, "little"), head, *planes])
        return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")


def decimals_for(largest: float) -> int:
    """How many decimals give five digits for numbers of this size: 4 for 27.1, 5 for 0.3."""
    if largest == 0:
        return _DIGITS
    return int(np.clip(_DIGITS - np.ceil(np.log10(largest)), 0, 9))


def unpack(text: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """What `Payload.text` packed: the JSON object and the columns."""
    raw = gzip.decompress(base64.b64decode(text))
    at = 4 + int.from_bytes(raw[:4], "little")
    parsed = json.loads(raw[4:at])
    columns = {}
    for name, length in parsed["columns"].items():
        planes = np.frombuffer(raw, np.uint8, 4 * length, at).reshape(4, length)
        columns[name] = np.ascontiguousarray(planes.T).view("<i4").reshape(-1).tolist()
        at += 4 * length
    return parsed["head"], columns
