"""The captions of all systems as the page's columns: every distinct sentence and set of references once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.endings import cut_off
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.meta.standing import Standing
from capmeter.metrics.base import Floats
from capmeter.metrics.scores import Results
from capmeter.report.payload import Payload

HUMAN = "human judgment"
ENDS = "ends in a function word"
_EXAMPLES, _WORDS = 3, 6


class _Numbers(dict[Any, int]):
    """Distinct values, numbered in order of first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


@dataclass(frozen=True)
class PageData:
    """The payload without evidence and pictures, and what is needed to add them."""

    payload: Payload
    first_row: dict[str, int]  # the page's row of each system's first caption
    metrics: list[str]
    places: dict[str, str]  # image id: the location of its picture
    images: list[str]


def columns(systems: Mapping[str, Results], standing: Mapping[str, Standing]) -> PageData:
    """The columns of these systems' captions and scores."""
    metrics = list(standing)
    texts, ids, images, sets = _Numbers(), _Numbers(), _Numbers(), _Numbers()
    system_of: list[int] = []
    text_of: list[int] = []
    id_of: list[int] = []
    image_of: list[int] = []
    set_of: list[int] = []
    humans: list[float] = []
    first_row: dict[str, int] = {}
    places: dict[str, str] = {}
    for number, (name, results) in enumerate(systems.items()):
        captions = _captions(name, results)
        first_row[name] = len(text_of)
        index = [texts[sentence] for sentence in captions.pool.sentences]
        for row in range(len(captions)):
            system_of.append(number)
            text_of.append(index[captions.candidates[row]])
            id_of.append(ids[captions.ids[row]])
            image = captions.image_ids[row]
            image_of.append(images[image])
            set_of.append(sets[tuple(index[k] for k in captions.references[row].tolist())])
            picture, human = captions.images[row], captions.humans[row]
            if picture is not None:
                places.setdefault(image, picture)
            humans.append(float(np.mean(human)) if human else np.nan)
    described: list[dict[str, Any]] = []
    payload = Payload(
        {
            "systems": list(systems),
            "metrics": described,
            "texts": list(texts),
            "ids": list(ids),
            "notes": [],
            "table": _table(systems, metrics, standing),
        }
    )
    payload.column("system", system_of)
    payload.column("text", text_of)
    payload.column("id", id_of)
    payload.column("image", image_of)
    payload.column("references", set_of)
    payload.column("referenceValues", [k for each in sets for k in each])
    payload.column("referenceOffsets", np.cumsum([0, *(len(each) for each in sets)]))
    for name in metrics:
        values = np.concatenate([_scores(results, name) for results in systems.values()])
        described.append(_described(payload, len(described), name, values))
    judged = np.array(humans, np.float64)
    if np.isfinite(judged).any():
        described.append({**_described(payload, len(described), HUMAN, judged), "human": True})
    payload.head["notes"] = _notes(payload, systems, first_row)
    return PageData(payload, first_row, metrics, places, list(images))


def _captions(name: str, results: Results) -> CaptionSet:
    """The captions of these results; rejects results without them, or with captions other than those scored."""
    if results.captions is None:
        raise InputError(
            f"the results of {name} contain no captions (streamed, or written by another program); score them "
            "again with `capmeter score --no-stream --output`, which stores the captions with the scores"
        )
    if list(results.captions.ids) != list(results.ids.names):
        raise InputError(f"{name}: the captions in the results are not those that were scored; score them again")
    return results.captions


def _scores(results: Results, metric: str) -> Floats:
    if metric in set(results):
        return results[metric].items.array
    return np.full(len(results.ids.names), np.nan)


def _described(payload: Payload, number: int, name: str, values: Floats) -> dict[str, Any]:
    known = values[np.isfinite(values)]
    decimals = payload.numbers(f"score{number}", values)
    return {"name": name, "decimals": decimals, "low": float(known.min()), "high": float(known.max())}


def _table(
    systems: Mapping[str, Results], metrics: list[str], standing: Mapping[str, Standing]
) -> list[dict[str, Any]]:
    cells = []
    for m, metric in enumerate(metrics):
        for s, (system, results) in enumerate(systems.items()):
            if metric in set(results):
                low, high = standing[metric].intervals.get(system, (None, None))
                score = results[metric].score
                cells.append({"system": s, "metric": m, "score": score, "low": low, "high": high})
    return cells


def _notes(payload: Payload, systems: Mapping[str, Results], first_row: Mapping[str, int]) -> list[dict[str, str]]:
    """The reasons for which metrics noted captions, each with a column of rows."""
    rows: dict[str, dict[int, None]] = {}
    for name, results in systems.items():
        position = results.ids.position
        noted = [(reason, ids) for scores in results.values() for reason, ids in scores.notes.items()]
        ends = [(ENDS, cut_off(candidates(results)))]
        for reason, ids in [*results.notes.items(), *noted, *ends]:
            known = rows.setdefault(reason.replace("_", " "), {})
            known.update(dict.fromkeys(first_row[name] + position[id] for id in ids if id in position))
    kept = [(reason, known) for reason, known in rows.items() if known]
    for number, (_, known) in enumerate(kept):
        payload.column(f"note{number}", list(known))
    return [{"reason": reason} for reason, _ in kept]


def candidates(results: Results) -> dict[str, str]:
    """id → candidate."""
    captions = results.captions
    if captions is None:
        return {}
    return {id: captions.pool[k] for id, k in zip(captions.ids, captions.candidates, strict=True)}


def endings(systems: Mapping[str, Results]) -> list[tuple[int, str, str]]:
    """For each system with captions that end in a function word: its number, how many, and examples."""
    rows = []
    for number, results in enumerate(systems.values()):
        texts = candidates(results)
        found = cut_off(texts)
        if found:
            shown = dict.fromkeys(_last_words(texts[id]) for id in found)
            count = f"{len(found):,} of {len(texts):,} ({len(found) / len(texts):.1%})"
            rows.append((number, count, "; ".join(list(shown)[:_EXAMPLES])))
    return rows


def _last_words(text: str) -> str:
    words = text.split()
    return ("… " if len(words) > _WORDS else "") + " ".join(words[-_WORDS:])[-60:]
