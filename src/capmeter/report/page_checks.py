"""Checks of results that may come from a damaged file: what the page shows must have the expected type.

Reading a file checks its numbers and captions. Notes, signatures, commands and paths of images are passed on
unchecked; here a wrong one becomes an `InputError` before anything is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.evaluation.results import Results

MAX_NUMBER = 2_000_000_000
"""Larger numbers are damage: no score or judgment has this size."""


def require_valid(systems: Mapping[str, Results]) -> None:
    """Rejects results that cannot be shown; the error names the system and the problem."""
    if not systems:
        raise InputError("no results to show; give at least one")
    for system_name, results in systems.items():
        if not len(results):
            raise InputError(f"{system_name}: the results contain no metric; score the captions again")
        _require_notes(system_name, "notes", results.notes)
        _require_text(system_name, "command", results.command, optional=True)
        for metric_name, scores in results.items():
            _require_notes(system_name, f"notes of {metric_name}", scores.notes)
            _require_text(system_name, f"signature of {metric_name}", scores.signature)
            _require_size(system_name, metric_name, [scores.score], scores.items.array, scores.values)
        if results.captions is not None:
            for caption_id, image_file in zip(results.captions.ids, results.captions.images, strict=True):
                _require_text(system_name, f"image of {caption_id}", image_file, optional=True)
            for human_scores in results.captions.humans:
                _require_size(system_name, "human judgment", human_scores)


def _require_text(system_name: str, field_name: str, value: Any, *, optional: bool = False) -> None:
    if not (isinstance(value, str) or (optional and value is None)):
        raise _damaged(system_name, field_name, value, "text")


def _require_size(system_name: str, field_name: str, *numbers: npt.ArrayLike | None) -> None:
    for values in numbers:
        largest_value = float(np.abs(values).max(initial=0)) if values is not None else 0.0
        if largest_value > MAX_NUMBER:
            raise InputError(
                f"{system_name}: {field_name} has the number {largest_value:g}, expected none above {MAX_NUMBER:,}; "
                "score the captions again"
            )


def _require_notes(system_name: str, field_name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _damaged(system_name, field_name, value, "an object: reason → ids")
    for reason, ids in value.items():
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise _damaged(system_name, f"{field_name}, {reason!r}", ids, "a list of ids")


def _damaged(system_name: str, field_name: str, value: Any, expected: str) -> InputError:
    text = repr(value)
    text = text if len(text) <= 60 else text[:59] + "…"
    return InputError(f"{system_name}: the {field_name} is {text}, expected {expected}; score the captions again")
