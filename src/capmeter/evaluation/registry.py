"""Names of metrics: `parse("cider-d(sigma=5.0)")` is the metric whose text form is `cider-d(sigma=5.0)`.

Case, hyphens and underscores do not matter (`Bleu_4`, `ROUGE_L`), with one exception: what papers and pycocoevalcap
call CIDEr is `cider-d`, and only lower-case `cider` is the formula of the first paper. A list may contain bundles:
`bleu` and `coco`. Other packages add metrics through the entry point group `capmeter.metrics` (name = "module:Class").

>>> str(parse("cider-d( n = 4, sigma=5 )"))
'cider-d(sigma=5.0)'
>>> [str(metric) for metric in parse_list("BLEU,ROUGE_L")]
['bleu-1', 'bleu-2', 'bleu-3', 'bleu-4', 'rouge-l']
"""

from __future__ import annotations

import warnings

from capmeter.core.json_text import read_bundled_json
from capmeter.core.named import split_name
from capmeter.core.registry import Entry, Registry, fold_name
from capmeter.evaluation.base import CapmeterWarning, Metric

BUNDLES = {
    "bleu": ("bleu-1", "bleu-2", "bleu-3", "bleu-4"),
    "coco": ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "meteor", "rouge-l", "cider-d", "spice"),
}
"""Names of several metrics, for lists: BLEU of all orders, and what MS COCO's evaluation reports."""


class _MetricRegistry(Registry[Metric]):
    """The registry of metrics, with the names that people type."""

    def builtin_name(self, name: str) -> str | None:
        """capmeter's name that this is; CIDEr, in any case but the lower one, is `cider-d`."""
        return "cider-d" if _is_papers_cider(name) else super().builtin_name(name)

    def suggest(self, name: str) -> str:
        """What may have been meant: the metrics of a bundle, what is near a metric that is absent, or similar names."""
        if name.lower() in BUNDLES:
            return (
                f"it is the bundle of {', '.join(BUNDLES[name.lower()])}, which lists of metrics may contain; name one"
            )
        # what people ask for and capmeter lacks: what is near, and why
        absent: dict[str, str] = read_bundled_json("absent_metrics.json")
        return absent.get(fold_name(name)) or super().suggest(name)

    def parse(self, text: str | Metric) -> Metric:
        """The metric with this text form, with a warning where the name is read as another metric's."""
        if isinstance(text, str) and _is_papers_cider(split_name(text, self.what)[0]):
            warnings.warn(
                f"{text.strip()} is read as cider-d, which papers and pycocoevalcap call CIDEr; the first paper's "
                "formula is cider, in lower case",
                CapmeterWarning,
                stacklevel=2,
            )
        return super().parse(text)


def _is_papers_cider(name: str) -> bool:
    return name.lower() == "cider" and name != "cider"


METRICS = _MetricRegistry(
    "metric",
    Metric,  # type: ignore[type-abstract]
    "capmeter.metrics",
    {
        "bleu-1": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 1}),
        "bleu-2": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 2}),
        "bleu-3": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 3}),
        "bleu-4": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 4}),
        "rouge-l": Entry("capmeter.metrics.ngram.rouge:RougeL", aliases=("rouge",)),
        "cider": Entry("capmeter.metrics.ngram.cider:Cider"),
        "cider-d": Entry("capmeter.metrics.ngram.cider:CiderD"),
        "cider-r": Entry("capmeter.metrics.ngram.cider:CiderR"),
        "meteor": Entry("capmeter.metrics.ngram.meteor:Meteor"),
        "spice": Entry("capmeter.metrics.scene_graph.spice:Spice"),
        "spider": Entry("capmeter.metrics.combined.spider:Spider"),
        "soft-spice": Entry("capmeter.metrics.scene_graph.soft_spice:SoftSpice"),
        "capture": Entry("capmeter.metrics.scene_graph.capture:Capture"),
        "bertscore": Entry("capmeter.metrics.embedding.bertscore:BertScore"),
        "sbert": Entry("capmeter.metrics.embedding.sbert:Sbert"),
        "hallucination": Entry("capmeter.metrics.hallucination.hallucination:Hallucination"),
        "aloha": Entry("capmeter.metrics.hallucination.aloha:Aloha"),
        "amber": Entry("capmeter.metrics.hallucination.amber:Amber"),
        "chair": Entry("capmeter.metrics.hallucination.chair:Chair"),
        "capmeter": Entry("capmeter.metrics.own.capmeter:Capmeter"),
        "clipscore": Entry("capmeter.metrics.vision.clipscore:ClipScore", aliases=("clip-s",)),
        "refclipscore": Entry("capmeter.metrics.vision.clipscore:RefClipScore", aliases=("refclip-s",)),
        "pac-s": Entry("capmeter.metrics.vision.pac_s:PacS", aliases=("pacscore",)),
        "refpac-s": Entry("capmeter.metrics.vision.pac_s:RefPacS", aliases=("refpacscore",)),
        "siglip-score": Entry("capmeter.metrics.vision.siglip_score:SiglipScore"),
        "captionqa": Entry("capmeter.metrics.judges.judges:CaptionQa"),
        "capeval": Entry("capmeter.metrics.judges.judges:CapEval"),
        "caprl-qa": Entry("capmeter.metrics.judges.judges:CaprlQa"),
        "autodq": Entry("capmeter.metrics.judges.judges:AutoDq"),
        "judge": Entry("capmeter.metrics.judges.judges:OwnJudge"),
        "clair": Entry("capmeter.metrics.judges.judges:Clair"),
        "clair-a": Entry("capmeter.metrics.judges.judges:ClairA"),
        "fleur": Entry("capmeter.metrics.judges.judges:Fleur"),
        "g-veval": Entry("capmeter.metrics.judges.judges:GVEval"),
        "soda-c": Entry("capmeter.metrics.video.soda:SodaC"),
        "dense": Entry("capmeter.metrics.video.dense:Dense"),
        "gated": Entry("capmeter.metrics.video.gated:Gated"),
        "proposals": Entry("capmeter.metrics.video.proposals:Proposals"),
        "fer": Entry("capmeter.metrics.audio.fluency:FluencyErrorRate"),
        "penalised": Entry("capmeter.metrics.audio.fluency:Penalised"),
        "spider-fl": Entry("capmeter.metrics.audio.fluency:SpiderFl"),
        "fense": Entry("capmeter.metrics.audio.fluency:Fense"),
        "repetition": Entry("capmeter.metrics.ngram.repetition:RepetitionShare"),
        "distinct": Entry("capmeter.metrics.ngram.repetition:DistinctShare"),
        "blip-itm": Entry("capmeter.metrics.vision.blip_itm:BlipItm"),
        "mean": Entry("capmeter.metrics.combined.combination:Combination", {"weights": None}),
        "combine": Entry("capmeter.metrics.combined.combination:Combination"),
    },
    BUNDLES,
)
parse, parse_list, names = METRICS.parse, METRICS.parse_list, METRICS.names
