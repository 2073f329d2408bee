"""capmeter measures image captions.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs on grass", "two cats sleep"],
...     references=[["a dog is running on the grass"], ["two cats are sleeping", "two cats sleep"]],
...     metrics=["bleu-1", "rouge-l"],
... )
>>> round(results["rouge-l"].score, 4), results["rouge-l"].items["1"]
(0.8236, 1.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from capmeter._version import __version__ as __version__

if TYPE_CHECKING:
    from capmeter.captions.io import load as load
    from capmeter.captions.model import Caption as Caption
    from capmeter.captions.model import CaptionSet as CaptionSet
    from capmeter.captions.streaming import stream as stream
    from capmeter.captions.writing import convert as convert
    from capmeter.captions.writing import save as save
    from capmeter.integrations.scst import reward as reward
    from capmeter.meta.compare import compare as compare
    from capmeter.meta.robustness import robustness as robustness
    from capmeter.metrics.evaluation import score as score
    from capmeter.metrics.registry import parse as parse
    from capmeter.metrics.scores import Results as Results
    from capmeter.settings import Settings as Settings

_PUBLIC = {
    "Caption": "capmeter.captions.model",
    "CaptionSet": "capmeter.captions.model",
    "Results": "capmeter.metrics.scores",
    "Settings": "capmeter.settings",
    "compare": "capmeter.meta.compare",
    "convert": "capmeter.captions.writing",
    "load": "capmeter.captions.io",
    "parse": "capmeter.metrics.registry",
    "reward": "capmeter.integrations.scst",
    "robustness": "capmeter.meta.robustness",
    "save": "capmeter.captions.writing",
    "score": "capmeter.metrics.evaluation",
    "stream": "capmeter.captions.streaming",
}
_ROOMS = (
    *("captions", "encoders", "images", "integrations", "judgments", "learning", "meta", "metrics", "report", "stats"),
    *("text", "transforms"),
)

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"capmeter.{name}")
    raise AttributeError(f"module 'capmeter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
