"""Drop-in replacement for pycocoevalcap 1.2: change the import line, keep the rest.

    from capmeter.integrations.pycocoevalcap import COCOEvalCap      # was: from pycocoevalcap.eval import COCOEvalCap
    from capmeter.integrations.pycocoevalcap import Bleu             # was: from pycocoevalcap.bleu.bleu import Bleu

Same arguments, same shapes, same numbers, no Java. The differences: invalid input raises an `InputError` that names the
place, not an assertion error; the single scorers refuse captions that are not tokenised; each caption is tokenised
separately (see `capmeter.text.tokenization.ptb`); counts are not printed; SPICE reads the parses of capmeter's parser,
which imitates the official one (`Spice(parser="corenlp")` runs the official one; see docs/spice.md); METEOR's tables
and SPICE's synonyms come with the extra `capmeter[meteor]`, without which `COCOEvalCap` warns and skips both.

The scorers expect tokenised captions, words separated by spaces:

>>> gts = {7: ["a dog runs on the grass", "a dog is running"], 9: ["two cats sleep"]}
>>> res = {7: ["a dog runs"], 9: ["two cats sleep"]}
>>> score, scores = Rouge().compute_score(gts, res)
>>> print(f"{score:.4f}", scores.round(4))
0.8144 [0.6289 1.    ]
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.reference_fit import find_untokenised
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, Metric
from capmeter.evaluation.results import Scores
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.ngram.bleu import Bleu as BleuMetric
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.ngram.meteor import Meteor as MeteorMetric
from capmeter.metrics.ngram.rouge import RougeL
from capmeter.metrics.scene_graph.spice import scene_graphs
from capmeter.metrics.scene_graph.spice_results import scores_by_kind
from capmeter.text.meteor.resources import meteor_status
from capmeter.text.parsing.parsers import check_parser, parser_status
from capmeter.text.scene_graphs.extraction import InputName, Scenes
from capmeter.text.scene_graphs.matching import match
from capmeter.text.tokenization import ptb

Texts = Mapping[Hashable, Sequence[str]]
Floats = npt.NDArray[np.float64]


class PTBTokenizer:
    """Tokenises `{id: [{"caption": text}, …]}` to `{id: [tokens separated by spaces, …]}`."""

    def tokenize(self, captions_for_image: Mapping[Hashable, Sequence[Mapping[str, Any]]]) -> dict[Hashable, list[str]]:
        """The captions of each image, in lower case, without punctuation, words separated by spaces.

        >>> PTBTokenizer().tokenize({7: [{"caption": "A dog's ball."}]})
        {7: ["a dog 's ball"]}
        """
        return {
            image_id: [" ".join(ptb.tokenise(text)) for text in _read_annotations(image_id, image_captions)]
            for image_id, image_captions in captions_for_image.items()
        }


class _Scorer:
    _method: ClassVar[str]

    def method(self) -> str:
        """The name of the scorer in pycocoevalcap."""
        return self._method


class Bleu(_Scorer):
    """BLEU-1 … BLEU-n."""

    _method = "Bleu"

    def __init__(self, n: int = 4) -> None:
        self._metric = BleuMetric(n=n, tokenizer="whitespace")

    def compute_score(self, gts: Texts, res: Texts, verbose: int = 1) -> tuple[list[float], list[list[float]]]:
        """The corpus score of each order, and for each order the score of each caption."""
        scores = evaluate(_read_tokens(gts, res), [self._metric])[self._metric]
        orders = [f"bleu-{k}" for k in range(1, self._metric.n + 1)]
        return [scores.parts[name] for name in orders], [scores.part_items[name].array.tolist() for name in orders]


class _MeanScorer(_Scorer):
    """A scorer with one number per caption."""

    _metric: RougeL | CiderD

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, Floats]:
        """The mean, and the score of each caption in the order of `gts`."""
        metric_scores = evaluate(_read_tokens(gts, res), [self._metric])[self._metric]
        return np.float64(metric_scores.score), metric_scores.items.array


class Rouge(_MeanScorer):
    """ROUGE-L."""

    _method = "Rouge"

    def __init__(self) -> None:
        self._metric = RougeL(tokenizer="whitespace")
        self.beta = self._metric.beta

    def calc_score(self, candidate: Sequence[str], refs: Sequence[str]) -> float:
        """The score of one tokenised candidate, in a list, against its references."""
        return float(evaluate(_read_tokens({0: list(refs)}, {0: list(candidate)}), [self._metric])[self._metric].score)


class Cider(_MeanScorer):
    """CIDEr-D, which pycocoevalcap calls CIDEr; idf is computed from the references of the call."""

    _method = "CIDEr"

    def __init__(self, test: Any = None, refs: Any = None, n: int = 4, sigma: float = 6.0) -> None:
        self._metric = CiderD(n=n, sigma=sigma, tokenizer="whitespace")


class Meteor(_Scorer):
    """METEOR 1.5."""

    _method = "METEOR"

    def __init__(self) -> None:
        self._metric = MeteorMetric(tokenizer="whitespace")

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[float]]:
        """The corpus score, and the score of each caption in the order of `gts`."""
        meteor_scores = evaluate(_read_tokens(gts, res), [self._metric])[self._metric]
        return meteor_scores.score, meteor_scores.items.array.tolist()


class Spice(_Scorer):
    """SPICE, from the parses of `parser`: `caption`, which needs no Java, or `corenlp`, the official one.

    Texts are read as they are given, as by pycocoevalcap's class (`raw`), or turned into tokens first.
    """

    _method = "SPICE"

    def __init__(self, parser: str = "caption", input: InputName = "raw") -> None:
        check_parser(parser)
        self.parser, self.input = parser, input

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[dict[str, dict[str, float]]]]:
        """The mean F, and for each caption, ids ascending, f, pr, re, tp, fp, fn, numImages by kind of tuple.

        Where the references have no tuple of a kind ("Color", "Size" …) its f, pr and re are NaN, as in
        pycocoevalcap.
        """
        caption_set = _read_texts(gts, res)
        graph_pairs = scene_graphs(caption_set, Scenes(self.parser, Settings(), self.input), synonyms=True)
        by_key = dict(zip(gts, (scores_by_kind(match(*graph_pair).counts) for graph_pair in graph_pairs), strict=True))
        caption_scores = [
            {
                tuple_kind: {name: float("nan") if value is None else float(value) for name, value in counts.items()}
                for tuple_kind, counts in by_key[image_id].items()
            }
            for image_id in _ascending(gts)
        ]
        return np.mean(np.array([item_scores["All"]["f"] for item_scores in caption_scores])), caption_scores


class COCOEvalCap:
    """Scores the captions `cocoRes` against the references `coco`.

    Both are pycocotools' `COCO` objects, or anything with `getImgIds()` and `imgToAnns` (image id → list of
    `{"caption": text}`). To score only some images, set `params["image_id"]` before `evaluate()`.
    """

    def __init__(self, coco: Any, cocoRes: Any) -> None:  # noqa: N803
        for argument_name, value in (("coco", coco), ("cocoRes", cocoRes)):
            if not hasattr(value, "imgToAnns"):
                raise InputError(
                    f"{argument_name}: expected an object with imgToAnns such as pycocotools' COCO, got {value!r:.80}"
                )
        self.coco, self.cocoRes = coco, cocoRes
        self.params: dict[str, Any] = {"image_id": coco.getImgIds()}
        self.evalImgs: list[dict[str, Any]] = []
        self.eval: dict[str, Any] = {}
        self.imgToEval: dict[Hashable, dict[str, Any]] = {}

    def evaluate(self) -> None:
        """Computes Bleu_1 … Bleu_4, METEOR, ROUGE_L, CIDEr, SPICE, and prints each; see `eval` and `evalImgs`."""
        images = list(self.params["image_id"])
        gts = {image: _read_annotations(image, _captions_of(self.coco, image, "coco")) for image in images}
        res = {image: _read_annotations(image, _captions_of(self.cocoRes, image, "cocoRes")) for image in images}
        caption_set = _make_captions(gts, res)
        bleu, meteor, rouge, cider = BleuMetric(), MeteorMetric(), RougeL(), CiderD()
        other_metrics: list[tuple[str, Metric]] = [("METEOR", meteor), ("ROUGE_L", rouge), ("CIDEr", cider)]
        is_available, reason = meteor_status()
        if not is_available:
            warnings.warn(f"METEOR is skipped: {reason}", CapmeterWarning, stacklevel=2)
            del other_metrics[0]
        results = evaluate(caption_set, [bleu, *(metric for _, metric in other_metrics)])
        for k in range(1, 5):
            part = f"bleu-{k}"
            self._report(f"Bleu_{k}", results[bleu].parts[part], results[bleu].part_items[part].array.tolist(), images)
        for method, metric in other_metrics:
            metric_scores: Scores = results[metric]
            caption_scores = metric_scores.items.array
            if metric is meteor:
                self._report(method, metric_scores.score, caption_scores.tolist(), images)
            else:
                self._report(method, np.float64(metric_scores.score), caption_scores, images)
        self._spice(gts, res)
        self.setEvalImgs()

    def _spice(self, gts: dict[Hashable, list[str]], res: dict[Hashable, list[str]]) -> None:
        """SPICE reads tokens here, as in pycocoevalcap: lower case, without punctuation."""
        for is_available, reason in (meteor_status(), parser_status("caption")):
            if not is_available:
                warnings.warn(f"SPICE is skipped: {reason}", CapmeterWarning, stacklevel=3)
                return
        spice_scorer = Spice(input="tokens")
        corpus_score, caption_scores = spice_scorer.compute_score(gts, res)
        self._report(spice_scorer.method(), corpus_score, caption_scores, _ascending(gts))

    def _report(self, method: str, corpus_score: Any, caption_scores: Iterable[Any], image_ids: list[Hashable]) -> None:
        self.setEval(corpus_score, method)
        self.setImgToEvalImgs(caption_scores, image_ids, method)
        print(f"{method}: {corpus_score:0.3f}")  # as pycocoevalcap does

    def setEval(self, score: Any, method: str) -> None:  # noqa: N802
        """Stores a corpus score."""
        self.eval[method] = score

    def setImgToEvalImgs(self, scores: Iterable[Any], imgIds: Iterable[Hashable], method: str) -> None:  # noqa: N802, N803
        """Stores the score of each image."""
        for image_id, caption_score in zip(imgIds, scores, strict=False):
            self.imgToEval.setdefault(image_id, {"image_id": image_id})[method] = caption_score

    def setEvalImgs(self) -> None:  # noqa: N802
        """Collects the stored scores of each image."""
        self.evalImgs = list(self.imgToEval.values())


def _ascending(gts: Texts) -> list[Hashable]:
    """The ids in ascending order; in their order in `gts` if they cannot be compared."""
    try:
        return sorted(gts)  # type: ignore[type-var]
    except TypeError:
        return list(gts)


def _captions_of(coco: Any, image_id: Hashable, name: str) -> Any:
    image_captions = coco.imgToAnns.get(image_id)  # not [image]: pycocotools has a defaultdict
    if not image_captions:
        raise InputError(
            f"{name} has no caption of image {image_id!r}; set params['image_id'] to images that both have, such as "
            "cocoRes.getImgIds()"
        )
    return image_captions


def _read_annotations(image_id: Hashable, image_annotations: Any) -> list[str]:
    """The texts of `[{"caption": text}, …]`."""
    if isinstance(image_annotations, str | Mapping) or not isinstance(image_annotations, Sequence):
        raise InputError(f'image {image_id!r}: expected a list of {{"caption": text}}, got {image_annotations!r:.80}')
    for annotation in image_annotations:
        if not isinstance(annotation, Mapping) or not isinstance(annotation.get("caption"), str):
            raise InputError(f'image {image_id!r}: expected {{"caption": text}}, got {annotation!r:.80}')
    return [annotation["caption"] for annotation in image_annotations]


def _read_tokens(gts: Any, res: Any) -> CaptionSet:
    """The captions; an `InputError` if most are not tokenised."""
    caption_set = _read_texts(gts, res)
    for name, captions_by_image in (("gts", gts), ("res", res)):
        texts = [text for image_captions in captions_by_image.values() for text in image_captions]
        untokenised = find_untokenised(texts)
        if 2 * len(untokenised) > len(texts):
            raise InputError(
                f"{name}: {len(untokenised):,} of {len(texts):,} captions are not tokenised ({untokenised[0]!r:.80}): "
                "the full stop is part of the last word, so equal words count as different; pass both gts and res "
                "through PTBTokenizer().tokenize(...) first, or use COCOEvalCap, which does"
            )
    return caption_set


def _read_texts(gts: Any, res: Any) -> CaptionSet:
    for name, captions_by_image in (("gts", gts), ("res", res)):
        if not isinstance(captions_by_image, Mapping):
            raise InputError(f"{name}: expected a dict id → list of captions, got {type(captions_by_image).__name__}")
        for key, texts in captions_by_image.items():
            if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{name}[{key!r}]: expected a list of tokenised captions (text), got {texts!r:.80}")
    if gts.keys() != res.keys():
        unmatched_ids = [sorted(map(repr, a.keys() - b.keys()))[:5] for a, b in ((gts, res), (res, gts))]
        raise InputError(
            f"gts and res must have the same ids; only in gts: {', '.join(unmatched_ids[0]) or 'none'}; only in res: "
            f"{', '.join(unmatched_ids[1]) or 'none'} (the first five of each)"
        )
    return _make_captions(gts, res)


def _make_captions(gts: Texts, res: Texts) -> CaptionSet:
    """The captions in the order of `gts`, with their positions as ids, because keys here may be of any type."""
    for key in gts:
        if len(res[key]) != 1:
            raise InputError(f"res[{key!r}]: expected a list of exactly one caption, got {len(res[key])}")
        if not gts[key]:
            raise InputError(f"gts[{key!r}]: expected at least one reference, got none")
    if not gts:
        raise InputError("gts and res are empty; there is no caption to score")
    return CaptionSet.from_captions(Caption(str(k), str(k), res[key][0], tuple(gts[key])) for k, key in enumerate(gts))


__all__ = ["Bleu", "COCOEvalCap", "Cider", "Meteor", "PTBTokenizer", "Rouge", "Spice"]
