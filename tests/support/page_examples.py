"""Captions of our own for the tests of the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results, enclose_systems
from capmeter.evaluation.runner import evaluate

SUBJECTS = ("a brown dog", "two small cats", "a woman", "an old man", "three children", "a red bus")
DEEDS = ("runs over the grass", "sleeps on a sofa", "waits at the station", "looks at the sea", "plays with a ball")
METRICS = "bleu-1,bleu-4,rouge-l,cider-d"

HOSTILE = [
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script><!--",
    "\"><img src=x onerror='window.pwned = 3'>",
    "' onmouseover='window.pwned = 4' \" & &lt; &amp;",
    "\u202eright to left override \u2066and an isolate",
    "كلب يركض على العشب",
    "long " * 2000,
    "x" * 10_000,
    "a dog 🐕‍🦺 👩‍👩‍👧‍👦 runs 🇩🇪",
    "half a pair \ud83d of surrogates",
    "line\u2028and\u2029paragraph\u0000null\x1b[31mred",
    "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "",
    "   ",
]


def candidates(number: int, shift: int) -> list[str]:
    return [
        f"{SUBJECTS[(k + shift * (k % 3 == 0)) % 6]} {DEEDS[(k // 6 + shift * (k % 4 == 0)) % 5]}"
        for k in range(number)
    ]


def scored(texts: list[str], *, metrics: str = METRICS, prefix: str = "image ", image: str | None = None) -> Results:
    right = candidates(len(texts), 0)
    rows = [
        Caption(f"{prefix}{k}", f"{prefix}{k}", text, (right[k], f"the picture shows how {right[k]}"), image=image)
        for k, text in enumerate(texts)
    ]
    return evaluate(CaptionSet.from_captions(rows), parse_list(metrics))


def systems(number: int = 60) -> dict[str, Results]:
    return {name: scored(candidates(number, shift)) for shift, name in enumerate(("exact", "close", "far"))}


def results(columns: dict[str, dict[str, np.ndarray[Any, Any]]]) -> Results:
    """Results of these metrics: name → part ("score" among them) → a number per caption."""
    ids = [str(k) for k in range(len(next(iter(columns.values()))["score"]))]
    captions = scored(candidates(len(ids), 0), metrics="rouge-l", prefix="").to_dict("a")["systems"]["a"]["captions"]

    def by_id(values: np.ndarray[Any, Any]) -> dict[str, float]:
        return dict(zip(ids, values.tolist(), strict=True))

    metrics = {
        name: {
            "score": float(parts["score"].mean()),
            "signature": name,
            "parts": {part: float(values.mean()) for part, values in parts.items() if part != "score"},
            "items": by_id(parts["score"]),
            "part_items": {part: by_id(values) for part, values in parts.items() if part != "score"},
            "notes": {},
        }
        for name, parts in columns.items()
    }
    return Results.from_dict(enclose_systems({"a": {"metrics": metrics, "captions": captions}}))


def fused(mean: tuple[float, float], seed: int) -> Results:
    random = np.random.default_rng(seed)
    x, y = random.normal(mean, 1.0, (200, 2)).T
    zero = np.zeros(200)
    parts = {"score": x + y, "G": zero - 0.5, "D": zero, "sparcs": x, "mima": zero, "spurts": y}
    return results({"smurf(encoder=minilm)": parts})
