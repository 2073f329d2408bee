"""One small thing of each kind that a package can add beside metrics; pyproject.toml announces them."""

import json
from dataclasses import dataclass

import numpy as np

from capmeter import Degradation
from capmeter.core.assets import Asset
from capmeter.images.regions import Regions

ASSETS = (Asset("chrf-letters", "encoder", "MIT", "hf download someone/chrf-letters", environment="CHRF_LETTERS"),)


@dataclass(frozen=True, kw_only=True)
class Shout(Degradation):  # capmeter robustness --degradations "shout(marks=3)"
    NAME, SUMMARY = "shout", "captions in capitals"
    marks: int = 1

    def fit(self, captions, seed=0):
        texts = [each.candidate for each in captions]
        return lambda row, strength: texts[row].upper() + "!" * self.marks if strength else texts[row]


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
