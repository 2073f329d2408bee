"""Estimates the standard of human captions that SMURF needs for an encoder: mean and spread of its components.

As the authors did, each caption is a human one, scored against the *other* captions of its image (`held_out`).
"""

from __future__ import annotations

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.mima import Mima, Spurts
from capmeter.metrics.sparcs import Sparcs
from capmeter.metrics.standards import Scale, Standard
from capmeter.settings import Settings


def standardize(
    captions: CaptionSet, mima_encoder: str, spurts_encoder: str, *, source: str, settings: Settings | None = None
) -> Standard:
    """The standard that these human captions set for these encoders; `source` says where the captions come from."""
    among = sum(caption.candidate in caption.references for caption in captions)
    if among * 2 > len(captions):
        raise InputError(
            f"{among:,} of {len(captions):,} human captions stand among their own references, so that SPARCS would say "
            "little but 1; hold them out (--hold-out), or give references without them"
        )
    metrics = Sparcs(), Mima(encoder=mima_encoder), Spurts(encoder=spurts_encoder)
    results = evaluate(captions, metrics, settings=settings)
    scales = []
    for metric in metrics:
        scores = results[str(metric)].items.array
        scale = Scale(float(scores.mean()), float(scores.std()))  # ddof 0, as released
        if not scale.deviation > 0:
            raise InputError(
                f"all {len(scores)} captions have the same {metric}: {scale.mean:g}; a spread needs more, and different"
            )
        scales.append(scale)
    sparcs, mima, spurts = scales
    return Standard(source, len(captions), mima_encoder, spurts_encoder, sparcs, mima, spurts)


def spread(standard: Standard) -> dict[str, tuple[float, float]]:
    """The constants as rows of a table: component → mean, deviation."""
    return {
        "sparcs": (standard.sparcs.mean, standard.sparcs.deviation),
        "mima": (standard.mima.mean, standard.mima.deviation),
        "spurts": (standard.spurts.mean, standard.spurts.deviation),
    }
