"""Standards: the mean and spread that SPARCS, MIMA and SPURTS have on captions that people wrote.

SMURF expresses each of its components in standard deviations from human captions. The constants for that belong to
the encoders that MIMA and SPURTS ran with, and to the captions they were estimated on; a `Standard` is all of it.

Shipped are `paper` (the constants of the code that Feinglass and Yang released, for DistilBERT and DistilRoBERTa) and
`minilm`; `capmeter standardize` estimates others from any human captions and saves them as a file of the same form.

>>> read_standard("paper").sparcs
Scale(mean=0.400853, deviation=0.171832)
>>> read_standard("minilm").encoders
('minilm', 'minilm')
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from capmeter.captions.files import read_text, write_atomic
from capmeter.captions.rows import is_finite
from capmeter.encoders.models import HUB_IDS
from capmeter.errors import InputError
from capmeter.metrics.base import Floats

SHIPPED = ("paper", "minilm")
_FORMAT = "capmeter standard 1"
_FIELDS = ("source", "captions", "mima_encoder", "spurts_encoder", "sparcs", "mima", "spurts")


@dataclass(frozen=True)
class Scale:
    """Mean and population standard deviation of one score on human captions."""

    mean: float
    deviation: float

    def apply(self, scores: Floats) -> Floats:
        """The scores in standard deviations from the mean of human captions."""
        standardised: Floats = (scores - self.mean) / self.deviation
        return standardised


@dataclass(frozen=True)
class Standard:
    """The scales of SMURF's components, the encoders they hold for, and where they come from."""

    source: str
    captions: int
    mima_encoder: str
    spurts_encoder: str
    sparcs: Scale
    mima: Scale
    spurts: Scale

    @property
    def encoders(self) -> tuple[str, str]:
        """The encoders of MIMA and of SPURTS."""
        return self.mima_encoder, self.spurts_encoder

    @property
    def label(self) -> str:
        """The constants as a signature has them."""
        scales = (("sparcs", self.sparcs), ("mima", self.mima), ("spurts", self.spurts))
        return " ".join(f"{name} {scale.mean:.6g}/{scale.deviation:.6g}" for name, scale in scales)

    def holds_for(self, mima_encoder: str, spurts_encoder: str) -> bool:
        """Whether these are the encoders that the constants were estimated with."""
        asked = (_same(mima_encoder), _same(spurts_encoder))
        return asked == (_same(self.mima_encoder), _same(self.spurts_encoder))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the standard as JSON."""
        write_atomic(path, json.dumps({"format": _FORMAT, **asdict(self)}, indent=2, ensure_ascii=False) + "\n")


def read_standard(name: str) -> Standard:
    """The standard of this name, or in this file; an `InputError` says what is wrong with another."""
    if name in SHIPPED:
        place = resources.files("capmeter.metrics") / "data" / f"standard-{name}.json"
        return _parsed(place.read_text("utf-8"), name)
    if not Path(name).is_file():
        raise InputError(
            f"{name!r} is neither a standard that is shipped ({', '.join(SHIPPED)}) nor a file; "
            "make one from human captions with:  capmeter standardize HUMAN --encoder NAME --output FILE.json"
        )
    return _parsed(read_text(name), name)


def standard_for(mima_encoder: str, spurts_encoder: str) -> Standard:
    """The shipped standard of these encoders; an `InputError` says how to make one where there is none."""
    for name in SHIPPED:
        found = read_standard(name)
        if found.holds_for(mima_encoder, spurts_encoder):
            return found
    raise InputError(
        f"no standardisation constants are shipped for {_said(mima_encoder, spurts_encoder)}; {_advice(mima_encoder)}"
    )


def require_encoders(standard: Standard, mima_encoder: str, spurts_encoder: str) -> None:
    """An `InputError` that names the way out where a standard was made for other encoders."""
    if not standard.holds_for(mima_encoder, spurts_encoder):
        raise InputError(
            f"the standardisation constants were estimated with {_said(*standard.encoders)}, but the scores are of "
            f"{_said(mima_encoder, spurts_encoder)}, which have another mean and spread; leave the standard out to "
            f"use the constants shipped for an encoder, or estimate them: {_advice(mima_encoder)}"
        )


def _advice(encoder: str) -> str:
    return (
        f"run  capmeter standardize HUMAN --encoder {encoder} --output FILE.json  on captions that people wrote, "
        f"then name  smurf(encoder={encoder},standard=FILE.json)"
    )


def _said(mima_encoder: str, spurts_encoder: str) -> str:
    if mima_encoder == spurts_encoder:
        return f"the encoder {mima_encoder}"
    return f"the encoders {mima_encoder} (MIMA) and {spurts_encoder} (SPURTS)"


def _same(encoder: str) -> str:
    """One name for an encoder that has several."""
    return HUB_IDS.get(encoder, encoder).rpartition("/")[2] if encoder not in ("", "/") else encoder


def _parsed(text: str, name: str) -> Standard:
    try:
        content: Any = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: not JSON ({error}); expected a file that capmeter standardize wrote") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{name}: not a standard; expected a file that capmeter standardize wrote")
    missing = [key for key in _FIELDS if key not in content]
    if missing:
        raise InputError(f"{name}: {', '.join(missing)} is missing; write the file again with capmeter standardize")
    scales = {key: _scale(content[key], key, name) for key in ("sparcs", "mima", "spurts")}
    return Standard(
        str(content["source"]),
        int(content["captions"]),
        str(content["mima_encoder"]),
        str(content["spurts_encoder"]),
        **scales,
    )


def _scale(given: Any, key: str, name: str) -> Scale:
    scale: dict[str, Any] = given if isinstance(given, dict) else {}
    mean: Any = scale.get("mean")
    deviation: Any = scale.get("deviation")
    if not (is_finite(mean) and is_finite(deviation) and deviation > 0):
        raise InputError(f"{name}: {key} is {given!r}; expected a finite mean and a deviation above 0")
    return Scale(float(mean), float(deviation))
