"""One small thing of each kind that a package can add beside metrics; pyproject.toml announces them."""

import json
from dataclasses import dataclass

import numpy as np

from capmeter import Degradation
from capmeter.core.assets import Asset
from capmeter.images.regions import Regions
from capmeter.meta.metric_scores import Baseline
from capmeter.report.page_plot import SystemPlot

ASSETS = (Asset("chrf-letters", "encoder", "MIT", "hf download someone/chrf-letters", environment="CHRF_LETTERS"),)


@dataclass(frozen=True, kw_only=True)
class Shout(Degradation):  # capmeter robustness --degradations "shout(marks=3)"
    NAME, SUMMARY = "shout", "captions in capitals"
    marks: int = 1

    def fit(self, captions, seed=0, scorer=None):
        texts = [each.candidate for each in captions]
        return lambda row, strength: texts[row].upper() + "!" * self.marks if strength else texts[row]


@dataclass(frozen=True, kw_only=True)
class Words(Baseline):  # capmeter meta -b rated -m words,chrf
    NAME, SUMMARY = "words", "number of words"

    def scores(self, judgments):
        return np.array([len(each.candidate.split()) for each in judgments.captions], np.float64)


def register_letters():  # then encoders of this type are loaded: bertscore(encoder=FOLDER)
    from transformers import AutoConfig, AutoModel, BertConfig, BertModel

    config = type("LettersConfig", (BertConfig,), {"model_type": "chrf-letters"})
    AutoConfig.register("chrf-letters", config)
    AutoModel.register(config, type("LettersModel", (BertModel,), {"config_class": config}))


class JsonRegions:
    def __init__(self, path):
        self.location, self._regions = str(path), json.loads(path.read_text("utf-8"))
        self.names = list(self._regions)

    def read(self, name):
        arrays = [np.array(self._regions[name][key], np.float32) for key in ("features", "boxes")]
        return Regions(*arrays)


def open_json_regions(folder):  # capmeter score -m umic --regions FOLDER; None: the folder is something else
    path = folder / "regions.json"
    return JsonRegions(path) if path.is_file() else None


def plot_systems(systems, *, human=None, seed=0):  # on the page of results that have both scores
    if not all({"chrf", "rouge-l"} <= set(results) for results in systems.values()):
        return None
    plot = SystemPlot("chrF", "ROUGE-L", "Each point is a system.", ["chrF"])
    for k, results in enumerate(systems.values()):
        plot.points.append((k, results["chrf"].score, results["rouge-l"].score))
        plot.rows.append((k, [f"{results['chrf'].score:.4f}"]))
    return plot
