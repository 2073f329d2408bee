"""Normalisation constants: the mean and deviation of SPARCS, MIMA and SPURTS on human captions.

SMURF expresses each of its components in standard deviations from the mean of human captions. The constants depend on
the encoders of MIMA and SPURTS, and on the captions from which they were estimated.

Two are bundled: `paper` (the constants of the code released by Feinglass and Yang, for DistilBERT and DistilRoBERTa)
and `minilm`; `capmeter standardize` estimates others from any human captions and saves them in a file of this format.

>>> read_constants("paper").sparcs
Scale(mean=0.400853, deviation=0.171832)
>>> read_constants("minilm").encoders
('minilm', 'minilm')
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.rows import is_finite
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.output_files import write_atomic
from capmeter.core.settings import Settings
from capmeter.encoders.handle import HUB_IDS
from capmeter.evaluation.base import Floats
from capmeter.evaluation.runner import evaluate
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.sparcs import Sparcs

BUNDLED = ("paper", "minilm")
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
class NormalisationConstants:
    """The scales of SMURF's components, the encoders they are valid for, and their source."""

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
        """The constants as given in signatures."""
        named_scales = (("sparcs", self.sparcs), ("mima", self.mima), ("spurts", self.spurts))
        return " ".join(
            f"{component_name} {scale.mean:.6g}/{scale.deviation:.6g}" for component_name, scale in named_scales
        )

    def holds_for(self, mima_encoder: str, spurts_encoder: str) -> bool:
        """Whether these are the encoders that the constants were estimated with."""
        return [*map(_canonical_name, (mima_encoder, spurts_encoder))] == [*map(_canonical_name, self.encoders)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the constants as JSON."""
        write_atomic(path, json.dumps({"format": _FORMAT, **asdict(self)}, indent=2, ensure_ascii=False) + "\n")


def estimate_normalisation(
    captions: CaptionSet, mima_encoder: str, spurts_encoder: str, *, source: str, settings: Settings | None = None
) -> NormalisationConstants:
    """The normalisation constants of human captions and encoders: means and deviations of the components.

    As in the paper, each caption is a human one, scored against the *other* captions of its image
    (`hold_out_candidates`).

    Args:
        captions: human captions with references.
        mima_encoder, spurts_encoder: names.
        source: describes the captions.
        settings: where encoders run.

    Raises:
        InputError: most captions are among their own references, or all have the same score.
    """
    among_references = sum(caption.candidate in caption.references for caption in captions)
    if among_references * 2 > len(captions):
        raise InputError(
            f"{among_references:,} of {len(captions):,} human captions are among their own references, so SPARCS would "
            "mostly be 1; hold them out (--hold-out), or give references without them"
        )
    metrics = Sparcs(), Mima(encoder=mima_encoder), Spurts(encoder=spurts_encoder)
    results = evaluate(captions, metrics, settings=settings)
    scales = []
    for metric in metrics:
        scores = results[str(metric)].items.array
        scale = Scale(float(scores.mean()), float(scores.std()))  # ddof 0, as released
        if not scale.deviation > 0:
            raise InputError(
                f"all {len(scores)} captions have the same {metric}, {scale.mean:g}; give captions that differ"
            )
        scales.append(scale)
    sparcs, mima, spurts = scales
    return NormalisationConstants(source, len(captions), mima_encoder, spurts_encoder, sparcs, mima, spurts)


def read_constants(name: str) -> NormalisationConstants:
    """The constants with this name or in this file; an `InputError` if there are none."""
    if name in BUNDLED:
        bundled_file = resources.files("capmeter_research.papers.smurf") / "standards" / f"standard-{name}.json"
        return _parse(bundled_file.read_text("utf-8"), name)
    if not Path(name).is_file():
        raise InputError(
            f"{name!r} names neither bundled normalisation constants ({', '.join(BUNDLED)}) nor a file; "
            "estimate them from human captions with:  capmeter standardize HUMAN --encoder NAME --output FILE.json"
        )
    return _parse(CaptionSource.resolve(name).read_text(), name)


def find_constants(mima_encoder: str, spurts_encoder: str) -> NormalisationConstants:
    """The bundled constants for these encoders; if there are none, an `InputError` says how to estimate them."""
    for constants_name in BUNDLED:
        constants = read_constants(constants_name)
        if constants.holds_for(mima_encoder, spurts_encoder):
            return constants
    raise InputError(
        f"no normalisation constants are bundled for {_describe(mima_encoder, spurts_encoder)}; {_advice(mima_encoder)}"
    )


def require_encoders(standard: NormalisationConstants, mima_encoder: str, spurts_encoder: str) -> None:
    """Refuses constants that were estimated with other encoders.

    Args:
        standard: the constants.
        mima_encoder, spurts_encoder: names of the encoders of the scores.

    Raises:
        InputError: they differ.
    """
    if not standard.holds_for(mima_encoder, spurts_encoder):
        raise InputError(
            f"the normalisation constants were estimated with {_describe(*standard.encoders)}, but the scores are from "
            f"{_describe(mima_encoder, spurts_encoder)}, with a different mean and spread; leave `standard` out to "
            f"use the constants bundled for an encoder, or estimate them: {_advice(mima_encoder)}"
        )


def _advice(encoder_name: str) -> str:
    return (
        f"run  capmeter standardize HUMAN --encoder {encoder_name} --output FILE.json  on human captions, "
        f"then use  smurf(encoder={encoder_name},standard=FILE.json)"
    )


def _describe(mima_encoder: str, spurts_encoder: str) -> str:
    if mima_encoder == spurts_encoder:
        return f"the encoder {mima_encoder}"
    return f"the encoders {mima_encoder} (MIMA) and {spurts_encoder} (SPURTS)"


def _canonical_name(encoder_name: str) -> str:
    """The name of an encoder without its hub organisation."""
    return HUB_IDS.get(encoder_name, encoder_name).rpartition("/")[2] if encoder_name not in ("", "/") else encoder_name


def _parse(file_text: str, source_name: str) -> NormalisationConstants:
    try:
        content: Any = json.loads(file_text)
    except ValueError as error:
        raise InputError(
            f"{source_name}: not JSON ({error}); expected a file that capmeter standardize wrote"
        ) from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{source_name}: not normalisation constants; expected a file that capmeter standardize wrote")
    missing_fields = [key for key in _FIELDS if key not in content]
    if missing_fields:
        raise InputError(
            f"{source_name}: {', '.join(missing_fields)} is missing; write the file again with capmeter standardize"
        )
    component_scales = {key: _parse_scale(content[key], key, source_name) for key in ("sparcs", "mima", "spurts")}
    return NormalisationConstants(
        str(content["source"]),
        int(content["captions"]),
        str(content["mima_encoder"]),
        str(content["spurts_encoder"]),
        **component_scales,
    )


def _parse_scale(value: Any, field_name: str, source_name: str) -> Scale:
    scale: dict[str, Any] = value if isinstance(value, dict) else {}
    mean: Any = scale.get("mean")
    deviation: Any = scale.get("deviation")
    if not (is_finite(mean) and is_finite(deviation) and deviation > 0):
        raise InputError(f"{source_name}: {field_name} is {value!r}; expected a finite mean and a deviation above 0")
    return Scale(float(mean), float(deviation))
