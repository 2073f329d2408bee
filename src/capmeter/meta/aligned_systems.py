"""Systems for a comparison: captions in one order, and scores, of which stored ones are not computed again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric, merge_notes
from capmeter.evaluation.results import Ids, Results, Scores
from capmeter.evaluation.scoring import evaluate

System = CaptionSet | Results | str | os.PathLike[str] | Mapping[Any, Any] | Sequence[Any]


def score_systems(
    systems: Mapping[str, System],
    captions: Mapping[str, CaptionSet],
    metrics: Sequence[Metric],
    settings: Settings | None,
) -> dict[str, Results]:
    """The scores of aligned captions.

    Of results, metrics with rows are taken as they are, unless the systems' signatures then differ (document
    frequencies of other images, another version): such metrics are computed for all.

    Args:
        systems: as given, by name.
        captions: those of each system, aligned.
        metrics: to be compared.
        settings: of what is computed.
    """
    ids = {name: Ids(each.ids, each.image_ids) for name, each in captions.items()}
    stored_scores = {name: _stored_scores(systems[name], ids[name], metrics) for name in captions}
    scores = {name: dict(each) for name, each in stored_scores.items()}
    notes = {name: _stored_notes(systems[name], each) for name, each in captions.items()}

    def compute(name: str, computed: Sequence[Metric]) -> None:
        if computed:
            results = evaluate(captions[name], computed, settings=settings)
            scores[name].update({metric: results[metric] for metric in results})
            notes[name].update(results.notes)

    for name in captions:
        compute(name, [metric for metric in metrics if str(metric) not in stored_scores[name]])
    differing = [metric for metric in metrics if len({each[str(metric)].signature for each in scores.values()}) > 1]
    for name in captions:
        compute(name, [metric for metric in differing if str(metric) in stored_scores[name]])
    return {
        name: Results([scores[name][str(metric)] for metric in metrics], ids[name], notes[name], captions=each)
        for name, each in captions.items()
    }


def _stored_scores(system: System, ids: Ids, metrics: Sequence[Metric]) -> dict[str, Scores]:
    if not isinstance(system, Results):
        return {}
    stored_rows = [system.ids.positions[id] for id in ids.names]
    names = [str(metric) for metric in metrics if str(metric) in set(system)]
    return {name: system[name].select(stored_rows, ids) for name in names if system[name].values is not None}


def _stored_notes(system: System, captions: CaptionSet) -> dict[str, list[str]]:
    """The notes of the captions, and those of stored results on captions that are compared."""
    if not isinstance(system, Results):
        return dict(captions.notes)
    left_out = system.ids.positions.keys() - set(captions.ids)
    stored_notes = {reason: [each for each in noted if each not in left_out] for reason, noted in system.notes.items()}
    return merge_notes([captions.notes, stored_notes])


def align_captions(systems: Mapping[str, CaptionSet], *, common: bool = False) -> dict[str, CaptionSet]:
    """The systems with their captions in the first one's order, matched by id, else by image.

    Captions that only one system has, and different references, are an `InputError` that names the first five; with
    `common` captions that a system lacks are left out of all, and noted.
    """
    if common:
        systems = _select_common(systems)
    (first_name, first), *other_systems = systems.items()
    aligned_captions = {first_name: first}
    for system_name, captions in other_systems:
        matching_rows = _matching_rows(first_name, first, system_name, captions)
        aligned_captions[system_name] = (
            captions if (matching_rows == np.arange(len(matching_rows))).all() else captions.select(matching_rows)
        )
        caption_pairs = zip(first, aligned_captions[system_name], strict=True)
        differing = [a.id for a, b in caption_pairs if sorted(a.references) != sorted(b.references)]
        if differing:
            raise InputError(
                f"{first_name!r} and {system_name!r} have different references for {list_names(differing)}; compare "
                "them against the same ones: give the references separately (references=, --references)"
            )
    return aligned_captions


def _matching_rows(first_name: str, first: CaptionSet, system_name: str, captions: CaptionSet) -> Any:
    """The row of each of the first system's captions among the other's: intp[captions]."""
    first_ids, ids = set(first.ids), set(captions.ids)
    first_images, images = set(first.image_ids), set(captions.image_ids)
    if first_ids == ids:
        keys, other_keys = first.ids, captions.ids
    elif first_images == images and len(first) == len(captions) == len(images):  # one caption of each image
        keys, other_keys = first.image_ids, captions.image_ids
    else:
        only_in = {
            first_name: [id for id in first.ids if id not in ids],
            system_name: [id for id in captions.ids if id not in first_ids],
        }
        missing = "; ".join(f"only in {system!r}: {list_names(each)}" for system, each in only_in.items() if each)
        raise InputError(
            f"{first_name!r} and {system_name!r} do not have the same captions: {missing}. "
            "Compare systems on the same images, with one caption per image from every system, give ids that match "
            "captions to each other, or compare only those that all systems have (common=True, --common)"
        )
    row_of = {key: row for row, key in enumerate(other_keys)}
    return np.array([row_of[key] for key in keys], np.intp)


def _select_common(systems: Mapping[str, CaptionSet]) -> dict[str, CaptionSet]:
    """The captions of each system that all have, by id, else by image."""
    keys = {system_name: list(captions.ids) for system_name, captions in systems.items()}
    if not set.intersection(*map(set, keys.values())):
        keys = {system_name: list(captions.image_ids) for system_name, captions in systems.items()}
    shared_keys = set.intersection(*map(set, keys.values()))
    if not shared_keys:
        raise InputError(f"{', '.join(systems)} have no image in common; are they of the same split?")
    selected_captions = {}
    for system_name, captions in systems.items():
        selected_rows = [row for row, key in enumerate(keys[system_name]) if key in shared_keys]
        left_out = [id for id, key in zip(captions.ids, keys[system_name], strict=True) if key not in shared_keys]
        notes = {**captions.notes, **({"left out, as another system lacks it": left_out} if left_out else {})}
        selected_captions[system_name] = captions.select(selected_rows).replace(notes=notes)
    return selected_captions


def load_system(name: str, system: System, references: Any) -> CaptionSet:
    """The captions of a system: those of results, a caption set, or what `capmeter.load` reads with `references`.

    Raises:
        InputError: the results have no captions, or references are given twice.
    """
    if isinstance(system, Results):
        if system.captions is None:
            raise InputError(f"{name}: its captions were streamed, so that they are not in the results; score it whole")
        system = system.captions
    if not isinstance(system, CaptionSet):
        return load(system, references)
    if references is not None:
        raise InputError("a caption set already holds its references; omit references=, or pass it to load()")
    return system
