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
import os
from typing import TYPE_CHECKING, Any

from capmeter._version import __version__ as __version__

# The threads of numpy's OpenBLAS wait busily for work: so many cycles (2²⁰, under a millisecond) in place of 2²⁶, which
# cost every start .07 s of processor time. It has no effect where numpy is loaded already, or where it is set.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

if TYPE_CHECKING:
    from capmeter.captions.io import load as load
    from capmeter.captions.io import load_references as load_references
    from capmeter.captions.io import load_systems as load_systems
    from capmeter.captions.model import Caption as Caption
    from capmeter.captions.model import CaptionSet as CaptionSet
    from capmeter.captions.streaming import stream as stream
    from capmeter.captions.writing import convert as convert
    from capmeter.captions.writing import save as save
    from capmeter.errors import AssetError as AssetError
    from capmeter.errors import CapmeterError as CapmeterError
    from capmeter.errors import InputError as InputError
    from capmeter.errors import MetricError as MetricError
    from capmeter.errors import MissingBackend as MissingBackend
    from capmeter.errors import ProtocolError as ProtocolError
    from capmeter.integrations.scst import Reward as Reward
    from capmeter.integrations.scst import reward as reward
    from capmeter.meta.compare import compare as compare
    from capmeter.meta.robustness import robustness as robustness
    from capmeter.metrics.base import AdditiveMetric as AdditiveMetric
    from capmeter.metrics.base import CapmeterWarning as CapmeterWarning
    from capmeter.metrics.base import Context as Context
    from capmeter.metrics.base import Corpus as Corpus
    from capmeter.metrics.base import MeanMetric as MeanMetric
    from capmeter.metrics.base import Measurement as Measurement
    from capmeter.metrics.base import Metric as Metric
    from capmeter.metrics.composite import CompositeMetric as CompositeMetric
    from capmeter.metrics.evaluation import Evaluation as Evaluation
    from capmeter.metrics.evaluation import score as score
    from capmeter.metrics.evidence import Evidence as Evidence
    from capmeter.metrics.evidence import Link as Link
    from capmeter.metrics.evidence import Mark as Mark
    from capmeter.metrics.registry import parse as parse
    from capmeter.metrics.scores import Results as Results
    from capmeter.metrics.scores import Scores as Scores
    from capmeter.metrics.scores import read_all as read_all
    from capmeter.metrics.scores import save_all as save_all
    from capmeter.report.explain import Explanation as Explanation
    from capmeter.report.explain import explain as explain
    from capmeter.report.page import write_page as write_page
    from capmeter.settings import Settings as Settings
    from capmeter.transforms.degradations import Degradation as Degradation

# module: its public names, imported on first use
_MODULES = {
    "capmeter.captions.io": (
        "load",
        "load_systems",
        "load_references",
    ),
    "capmeter.captions.model": (
        "Caption",
        "CaptionSet",
    ),
    "capmeter.captions.streaming": ("stream",),
    "capmeter.captions.writing": (
        "convert",
        "save",
    ),
    "capmeter.errors": (
        "AssetError",
        "CapmeterError",
        "InputError",
        "MetricError",
        "MissingBackend",
        "ProtocolError",
    ),
    "capmeter.integrations.scst": (
        "Reward",
        "reward",
    ),
    "capmeter.meta.compare": ("compare",),
    "capmeter.meta.robustness": ("robustness",),
    "capmeter.metrics.base": (
        "AdditiveMetric",
        "CapmeterWarning",
        "Context",
        "Corpus",
        "MeanMetric",
        "Measurement",
        "Metric",
    ),
    "capmeter.metrics.composite": ("CompositeMetric",),
    "capmeter.metrics.evaluation": (
        "Evaluation",
        "score",
    ),
    "capmeter.metrics.evidence": (
        "Evidence",
        "Link",
        "Mark",
    ),
    "capmeter.metrics.registry": ("parse",),
    "capmeter.metrics.scores": (
        "Results",
        "Scores",
        "read_all",
        "save_all",
    ),
    "capmeter.report.explain": (
        "Explanation",
        "explain",
    ),
    "capmeter.report.page": ("write_page",),
    "capmeter.settings": ("Settings",),
    "capmeter.transforms.degradations": ("Degradation",),
}
_PUBLIC = {name: module for module, names in _MODULES.items() for name in names}
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
