"""Names of metrics: `parse("cider-d(sigma=5.0)")` is the metric whose text form is `cider-d(sigma=5.0)`.

Other packages add metrics through the entry point group `capmeter.metrics` (name = "module:Class").

>>> str(parse("cider-d( n = 4, sigma=5 )"))
'cider-d(sigma=5.0)'
"""

from __future__ import annotations

from capmeter.metrics.base import Metric
from capmeter.registry import Entry, Registry

# Names of published metrics that are kept for them; one that is in the table below is no longer planned.
PLANNED: dict[str, str] = {}

METRICS: Registry[Metric] = Registry(
    "metric",
    Metric,  # type: ignore[type-abstract]
    "capmeter.metrics",
    {
        "bleu-1": Entry("capmeter.metrics.bleu:Bleu", {"n": 1}),
        "bleu-2": Entry("capmeter.metrics.bleu:Bleu", {"n": 2}),
        "bleu-3": Entry("capmeter.metrics.bleu:Bleu", {"n": 3}),
        "bleu-4": Entry("capmeter.metrics.bleu:Bleu", {"n": 4}),
        "rouge-l": Entry("capmeter.metrics.rouge:RougeL"),
        "cider": Entry("capmeter.metrics.cider:Cider"),
        "cider-d": Entry("capmeter.metrics.cider:CiderD"),
        "cider-r": Entry("capmeter.metrics.cider:CiderR"),
        "meteor": Entry("capmeter.metrics.meteor:Meteor"),
        "spice": Entry("capmeter.metrics.spice:Spice"),
        "spider": Entry("capmeter.metrics.spider:Spider"),
        "soft-spice": Entry("capmeter.metrics.soft_spice:SoftSpice"),
        "sparcs": Entry("capmeter.metrics.sparcs:Sparcs"),
        "mima": Entry("capmeter.metrics.mima:Mima"),
        "spurts": Entry("capmeter.metrics.mima:Spurts"),
        "smurf": Entry("capmeter.metrics.smurf:Smurf"),
        "mean": Entry("capmeter.metrics.combination:Combination", {"weights": None}),
        "combine": Entry("capmeter.metrics.combination:Combination"),
        "bertscore": Entry("capmeter.metrics.bertscore:BertScore"),
        "tbr": Entry("capmeter.metrics.tbr.tbr:Tbr"),
        "tbr-unigram": Entry("capmeter.metrics.tbr.unigram:TbrUnigram"),
        "sbert": Entry("capmeter.metrics.sbert:Sbert"),
        "wembsim": Entry("capmeter.metrics.mowe:WEmbSim"),
        "mowe": Entry("capmeter.metrics.mowe:Mowe"),
        "umic": Entry("capmeter.metrics.umic.umic:Umic"),
        "vilbertscore": Entry("capmeter.metrics.vilbertscore:ViLBertScore"),
        "vifidel": Entry("capmeter.metrics.vifidel:Vifidel"),
        "umic-c": Entry("capmeter.metrics.umic.umic:UmicC"),
        "wmd": Entry("capmeter.metrics.wmd:Wmd"),
        "hwcm": Entry("capmeter.metrics.hwcm:Hwcm"),
        "nneval": Entry("capmeter.metrics.lceval.lceval:NnEval"),
        "lceval": Entry("capmeter.metrics.lceval.lceval:LcEval"),
        "capmeter": Entry("capmeter.metrics.capmeter.capmeter:Capmeter"),
        "leic": Entry("capmeter.metrics.leic.leic:Leic"),
        "clipscore": Entry("capmeter.metrics.clipscore:ClipScore"),
        "refclipscore": Entry("capmeter.metrics.clipscore:RefClipScore"),
        "pac-s": Entry("capmeter.metrics.pac_s:PacS"),
        "refpac-s": Entry("capmeter.metrics.pac_s:RefPacS"),
        "siglip-score": Entry("capmeter.metrics.siglip_score:SiglipScore"),
        "regressor": Entry("capmeter.metrics.regressor.regressor:Regressor"),
        "clair": Entry("capmeter.metrics.judge.clair:Clair"),
        "fleur": Entry("capmeter.metrics.judge.fleur:Fleur"),
        "g-veval": Entry("capmeter.metrics.judge.g_veval:GVEval"),
        "blip-itm": Entry("capmeter.metrics.blip_itm:BlipItm"),
    },
    PLANNED,
)
parse, parse_list, names = METRICS.parse, METRICS.parse_list, METRICS.names
