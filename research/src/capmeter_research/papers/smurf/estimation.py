"""Estimates SMURF's normalisation constants for an encoder: mean and deviation of its components on human captions.

As in the paper, each caption is a human one, scored against the *other* captions of its image (`hold_out_candidates`).
"""

from __future__ import annotations

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.runner import evaluate
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, Scale
from capmeter_research.papers.smurf.sparcs import Sparcs


def estimate_normalisation(
    captions: CaptionSet, mima_encoder: str, spurts_encoder: str, *, source: str, settings: Settings | None = None
) -> NormalisationConstants:
    """The normalisation constants of human captions and encoders.

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
