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

from capmeter.core.named import split_name
from capmeter.core.registry import Entry, Registry, fold_name
from capmeter.evaluation.base import CapmeterWarning, Metric

BUNDLES = {
    "bleu": ("bleu-1", "bleu-2", "bleu-3", "bleu-4"),
    "coco": ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "meteor", "rouge-l", "cider-d", "spice"),
}
"""Names of several metrics, for lists: BLEU of all orders, and what MS COCO's evaluation reports."""

_ABSENT = {
    **{f"b{n}": f"BLEU-{n} is `bleu-{n}`" for n in range(1, 5)},
    "clip": "the metrics of CLIP are `clipscore`, `refclipscore` and `pac-s`",
    "blip": "BLIP's image-text matching is `blip-itm`",
    "polos": "Polos's weights are not part of capmeter; `regressor(checkpoint=FOLDER)` is a head of its shape that "
    "`capmeter train regressor` trains on ratings",
    "fid": "FID compares sets of images; a caption is compared with its image by `clipscore`",
    "nlgeval": "nlg-eval's metrics are `coco` (all of MS COCO's evaluation) and `mowe`",
    "spiceu": "SPICE-U is not part of capmeter; `spice` is what it extends",
    "spidermax": "SPIDEr-max is not part of capmeter; `spider` scores each candidate of which it takes the best",
    "comet": "COMET needs the source sentence of a translation; captions have images and references: `bertscore` "
    "compares embeddings, `refclipscore` also reads the image",
    "bleurt": "BLEURT is trained on ratings of translations; of trained metrics capmeter has `capmeter` and `lceval`",
    "rouge1": "ROUGE-1 (overlap of words) is not part of capmeter; captioning papers report `rouge-l`, and `bleu-1` is "
    "the precision of words",
    "rouge2": "ROUGE-2 (overlap of bigrams) is not part of capmeter; captioning papers report `rouge-l`, and `bleu-2` "
    "is a precision of words and bigrams",
    "chrf": "chrF (character n-grams) is not part of capmeter; for languages without spaces see `cider-d(tokenizer=…)` "
    "in `capmeter list cider-d`",
    "ter": "TER (edits) is not part of capmeter, and captioning papers do not report it; they report `cider-d`",
    "wer": "WER (edits) is not part of capmeter, and captioning papers do not report it; they report `cider-d`",
    "moverscore": "MoverScore is not part of capmeter; `wmd` is the word mover's distance it extends, `bertscore` "
    "compares the same embeddings",
    "sacrebleu": "sacreBLEU tokenises for translation; captioning papers report `bleu-4` of PTB tokens",
    "embeddingaveragecosinesimilarity": "embedding averages are `mowe` here",
    "skipthoughtcs": "skip-thought vectors are not part of capmeter; `sbert` compares sentence vectors",
    "selfcider": "metrics of diversity are not part of capmeter, which scores single captions",
    "vqascore": "VQAScore is not part of capmeter; `blip-itm` and `clipscore` compare a caption with its image",
    **dict.fromkeys(
        ("mbleu", "selfbleu", "div1", "div2", "distinct1", "distinct2"),
        "metrics of diversity over captions "
        "are not part of capmeter; `distinct(n=1)` and `distinct(n=2)` look for repetitions inside each caption",
    ),
    **dict.fromkeys(("chairs", "chairi"), "CHAIRs and CHAIRi are parts of `chair`"),
    "nist": "NIST (n-grams weighted by how rare they are) is not part of capmeter; `cider-d` weights n-grams so, too",
    **dict.fromkeys(("rougew", "rouges", "rougesu", "rougelsum", "rougen"), "captioning papers report `rouge-l` alone"),
    **dict.fromkeys(
        ("perplexity", "ppl"),
        "a language model's perplexity says nothing of the image; `spurts` scores "
        "style without references, `fer` counts errors of fluency",
    ),
    "r4": "R@4 is `repetition`",
    "pope": "POPE asks a model questions, and scores no captions; `chair`, `aloha` and `hallucination` find objects "
    "that captions make up",
    "geval": "G-Eval's way of scoring is `g-veval(model=NAME)` here, or a prompt of your own with `judge`",
    **{
        paper.lower(): f"{paper}'s prompts are not part of capmeter; `judge(model=NAME,task={task})` is modelled on it"
        for paper, task in (
            *(("VDCscore", "answers"), ("DCScore", "facts"), ("FaithScore", "claims"), ("PoSh", "elements")),
            *(("CapArena", "pairs"), ("CAPability", "capability")),
        )
    },
    "infometic": "InfoMetIC's weights are not part of capmeter; `regressor(checkpoint=FOLDER)` is a head of its shape",
    "uniter": "UNITER is the encoder of `umic`",
    "tiger": "TIGEr is not part of capmeter; `vilbertscore`, `umic` and `vifidel` compare a caption with regions",
    **dict.fromkeys(
        ("lpips", "hpsv2", "imagereward", "pickscore"),
        "it scores images, not captions; a caption is compared with its image by `clipscore`, `pac-s` and `blip-itm`",
    ),
    **dict.fromkeys(
        ("accuracy", "exactmatch", "em", "f1"),
        "captions have no single right answer; `captionqa` scores "
        "what questions about a caption show, `cider-d` agreement with references",
    ),
    "gpt4": "a language model is a judge here: `clair(model=NAME)`, or `g-veval(model=NAME)`",
}
"""Metrics that people ask for and capmeter lacks: what is near, and why."""


class MetricRegistry(Registry[Metric]):
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
        return _ABSENT.get(fold_name(name)) or super().suggest(name)

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


METRICS = MetricRegistry(
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
