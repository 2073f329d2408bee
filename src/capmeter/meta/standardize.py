"""Estimates SMURF's normalisation constants for an encoder: mean and deviation of its components on human captions.

As in the paper, each caption is a human one, scored against the *other* captions of its image (`held_out`).
"""

from __future__ import annotations

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.mima import Mima, Spurts
from capmeter.metrics.normalisation import NormalisationConstants, Scale
from capmeter.metrics.sparcs import Sparcs
from capmeter.settings import Settings


def standardize(
    captions: CaptionSet, mima_encoder: str, spurts_encoder: str, *, source: str, settings: Settings | None = None
) -> NormalisationConstants:
    """The normalisation constants of these human captions and encoders; `source` describes the captions."""
    among = sum(caption.candidate in caption.references for caption in captions)
    if among * 2 > len(captions):
        raise InputError(
            f"{among:,} of {len(captions):,} human captions are among their own references, so SPARCS would mostly be "
            "1; hold them out (--hold-out), or give references without them"
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


def spread(standard: NormalisationConstants) -> dict[str, tuple[float, float]]:
    """The constants as rows of a table: component → mean, deviation."""
    return {
        "sparcs": (standard.sparcs.mean, standard.sparcs.deviation),
        "mima": (standard.mima.mean, standard.mima.deviation),
        "spurts": (standard.spurts.mean, standard.spurts.deviation),
    }
