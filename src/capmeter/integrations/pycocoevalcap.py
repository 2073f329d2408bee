"""Drop-in replacement for pycocoevalcap 1.2: change the package's name, keep the rest.

    from capmeter.integrations.pycocoevalcap.eval import COCOEvalCap    # was: from pycocoevalcap.eval import …
    from capmeter.integrations.pycocoevalcap.bleu.bleu import Bleu      # was: from pycocoevalcap.bleu.bleu import …

Same paths, arguments, shapes and numbers, no Java; every name can also be imported from here. Scripts call more than
pycocoevalcap has, and what they call is here as in the code that they come from:

* `Cider(references)`, M2 Transformer's: document frequencies of these references in place of those of the call;
  `PTBTokenizer.tokenize` on the class, of `{id: [text]}` or `[text]`; `str(scorer)`.
* `CiderD(df=…)` and `Cider(df=…)`, pyciderevalcap's: CIDEr-D, and CIDEr as first published; `df` is `corpus` (the
  references of the call) or a file that `capmeter idf` saved; results are a list of `{"image_id": …, "caption":
  [text]}`, in which an image may stand several times.
* `COCOEvalCap` of captions of sounds, from caption-evaluation-tools: `getAudioIds`, `audioToAnns`, `audioToEval`.
* `Meteor.lock` and `Meteor.meteor_p`, with which scripts end the Java process: there is none to end.

The differences: invalid input raises an `InputError` that names the place, not an assertion error; the single scorers
refuse captions that are not tokenised; each caption is tokenised separately (see `capmeter.text.tokenization.ptb`);
counts are not printed; SPICE reads the parses of capmeter's parser, which imitates the official one
(`Spice(parser="corenlp")` runs the official one; see docs/spice.md); METEOR's tables and SPICE's synonyms come with the
extra `capmeter[meteor]`, without which `COCOEvalCap` warns and skips both; `WMD` is in capmeter-research.

The scorers expect tokenised captions, words separated by spaces:

>>> gts = {7: ["a dog runs on the grass", "a dog is running"], 9: ["two cats sleep"]}
>>> res = {7: ["a dog runs"], 9: ["two cats sleep"]}
>>> score, scores = Rouge().compute_score(gts, res)
>>> print(f"{score:.4f}", scores.round(4))
0.8144 [0.6289 1.    ]
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.words import find_untokenised
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, Metric
from capmeter.evaluation.registry import parse
from capmeter.evaluation.results import Scores
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.integrations.module_paths import add_modules
from capmeter.metrics.ngram.bleu import Bleu as BleuMetric
from capmeter.metrics.ngram.cider import Cider as CiderMetric
from capmeter.metrics.ngram.cider import CiderD as CiderDMetric
from capmeter.metrics.ngram.document_frequencies import read_frequencies
from capmeter.metrics.ngram.meteor import Meteor as MeteorMetric
from capmeter.metrics.ngram.rouge import RougeL
from capmeter.metrics.scene_graph.spice import scene_graphs
from capmeter.metrics.scene_graph.spice_results import scores_by_kind
from capmeter.text.meteor.resources import meteor_status
from capmeter.text.parsing.parsers import check_parser, parser_status
from capmeter.text.scene_graphs.extraction import InputName, Scenes
from capmeter.text.scene_graphs.graph import match
from capmeter.text.tokenization import ptb

Texts = Mapping[Hashable, Sequence[str]]
Floats = npt.NDArray[np.float64]


class PTBTokenizer:
    """Tokenises captions: `{id: [{"caption": text}, …]}` to `{id: [words separated by spaces, …]}`.

    Args:
        verbose: accepted, as by pycocoevalcap; nothing is printed.
    """

    def __init__(self, verbose: bool = True) -> None:
        pass

    @classmethod
    def tokenize(cls, captions_for_image: Any) -> dict[Hashable, list[str]]:
        """The captions of each image, in lower case, without punctuation, words separated by spaces.

        Args:
            captions_for_image: `{id: [{"caption": text}, …]}`, `{id: [text, …]}`, or a list of texts or of lists of
                texts, whose ids are their positions.

        >>> PTBTokenizer.tokenize({7: [{"caption": "A dog's ball."}]}), PTBTokenizer.tokenize(["A cat."])
        ({7: ["a dog 's ball"]}, {0: ['a cat']})
        """
        if isinstance(captions_for_image, list | tuple):
            lists = [[each] if isinstance(each, str) else each for each in captions_for_image]
            captions_for_image = dict(enumerate(lists))
        if not isinstance(captions_for_image, Mapping):
            raise InputError(
                f'expected {{id: [{{"caption": text}}]}}, {{id: [text]}} or a list of texts, got '
                f"{describe(captions_for_image)}"
            )
        return {
            image_id: [" ".join(ptb.tokenise(text)) for text in _read_annotations(image_id, image_captions)]
            for image_id, image_captions in captions_for_image.items()
        }


class _Scorer:
    _method: ClassVar[str]
    _metric: Metric

    def method(self) -> str:
        """The name of the scorer in pycocoevalcap."""
        return self._method

    def __str__(self) -> str:
        """The key of the scorer's results in M2 Transformer's code: BLEU, METEOR, ROUGE, CIDEr, SPICE."""
        return {"Bleu": "BLEU", "Rouge": "ROUGE"}.get(self._method, self._method)

    def _evaluate(self, gts: Any, res: Any) -> Scores:
        return evaluate(_read_tokens(gts, res), [self._metric])[self._metric]


class Bleu(_Scorer):
    """BLEU-1 … BLEU-n."""

    _method = "Bleu"

    def __init__(self, n: int = 4) -> None:
        self._metric = BleuMetric(n=n, tokenizer="whitespace")
        self._n = n

    def compute_score(self, gts: Texts, res: Texts, verbose: int = 1) -> tuple[list[float], list[list[float]]]:
        """The corpus score of each order, and for each order the score of each caption.

        Args:
            gts, res: references and candidate (a list of one text) by image.
            verbose: accepted, as by pycocoevalcap; nothing is printed.
        """
        scores = self._evaluate(gts, res)
        orders = [f"bleu-{k}" for k in range(1, self._n + 1)]
        return [scores.parts[name] for name in orders], [scores.part_items[name].array.tolist() for name in orders]


class _MeanScorer(_Scorer):
    """A scorer with one number per caption."""

    def compute_score(self, gts: Texts, res: Any) -> tuple[float, Floats]:
        """The mean, and the score of each caption in the order of `gts`, or of `res` if that is a list."""
        metric_scores = self._evaluate(gts, res)
        return np.float64(metric_scores.score), metric_scores.items.array


class Rouge(_MeanScorer):
    """ROUGE-L."""

    _method = "Rouge"

    def __init__(self) -> None:
        self._metric = RougeL(tokenizer="whitespace")
        self.beta = self._metric.beta

    def calc_score(self, candidate: Sequence[str], refs: Sequence[str]) -> float:
        """The score of one tokenised candidate, in a list, against its references."""
        return float(self._evaluate({0: list(refs)}, {0: list(candidate)}).score)


class Cider(_MeanScorer):
    """CIDEr-D, which pycocoevalcap calls CIDEr; with `df`, as in pyciderevalcap, CIDEr as first published.

    Args:
        test: M2 Transformer's first argument: the references, `{id: [tokenised text]}`, whose document frequencies
            are used. None: those of the references of each call.
        refs: the same, by name; pycocoevalcap takes and ignores both.
        n: longest n-gram.
        sigma: width of the length penalty, in words.
        df: `corpus`, or a file of document frequencies.

    Raises:
        InputError: two sources of frequencies, or frequencies that cannot be read.
    """

    _method = "CIDEr"

    def __init__(self, test: Any = None, refs: Any = None, n: int = 4, sigma: float = 6.0, df: str | None = None):
        sources = [source for source in (test, refs, df) if source is not None]
        if len(sources) > 1:
            raise InputError("expected one source of document frequencies: references, or df")
        if df is not None:
            self._metric: CiderMetric = CiderMetric(n=n, tokenizer="whitespace")
        else:
            self._metric = CiderDMetric(n=n, sigma=sigma, tokenizer="whitespace")
        self._evaluation = _with_frequencies(self._metric, df or "corpus")
        if sources and df is None:
            if not isinstance(sources[0], Mapping):
                raise InputError(f"expected references, {{id: [tokenised text]}}, got {describe(sources[0])}")
            documents = _read_tokens(sources[0], {image_id: [""] for image_id in sources[0]})
            self._evaluation = self._evaluation.with_collected_states(documents)

    def _evaluate(self, gts: Any, res: Any) -> Scores:
        caption_set = _read_tokens(gts, res)
        return self._evaluation.with_collected_states(caption_set).run(caption_set)[self._metric]


class CorpusCiderD(Cider):
    """CIDEr-D with pyciderevalcap's arguments; scripts import it as `CiderD`.

    Args:
        n: longest n-gram.
        sigma: width of the length penalty, in words.
        df: `corpus` (the references of each call), or a file of document frequencies.
    """

    _method = "CIDEr-D"

    def __init__(self, n: int = 4, sigma: float = 6.0, df: str = "corpus") -> None:
        self._metric = CiderDMetric(n=n, sigma=sigma, tokenizer="whitespace")
        self._evaluation = _with_frequencies(self._metric, df)


CiderD = CorpusCiderD


class WMD(_MeanScorer):
    """The word mover's distance, as a similarity; the metric `wmd` of capmeter-research."""

    _method = "WMD"

    def __init__(self) -> None:
        self._metric = parse("wmd")


class Meteor(_Scorer):
    """METEOR 1.5."""

    _method = "METEOR"

    def __init__(self) -> None:
        self._metric = MeteorMetric(tokenizer="whitespace")
        self.lock, self.meteor_p = threading.Lock(), _EndedProcess()

    def compute_score(self, gts: Texts, res: Texts) -> tuple[float, list[float]]:
        """The corpus score, and the score of each caption in the order of `gts`."""
        meteor_scores = self._evaluate(gts, res)
        return meteor_scores.score, meteor_scores.items.array.tolist()

    def close(self) -> None:
        """Nothing: there is no Java process."""


class _EndedProcess:
    """Stands for the Java process that scripts end when they are done: it has ended."""

    def __init__(self) -> None:
        self.stdin, self.stdout, self.returncode = io.BytesIO(), io.BytesIO(), 0

    def wait(self, timeout: float | None = None) -> int:
        return self.returncode

    kill = terminate = poll = wait


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
    `{"caption": text}`). Captions of sounds have `getAudioIds()` and `audioToAnns`, and their scores are
    `audioToEval` and `evalAudios`, as in caption-evaluation-tools. To score only some images, set
    `params["image_id"]` (`params["audio_id"]`) before `evaluate()`.
    """

    def __init__(self, coco: Any, cocoRes: Any) -> None:  # noqa: N803
        self._kind = "audio" if hasattr(coco, "audioToAnns") else "image"
        self._captions_of = "audioToAnns" if self._kind == "audio" else "imgToAnns"
        for argument_name, value in (("coco", coco), ("cocoRes", cocoRes)):
            if not hasattr(value, self._captions_of):
                raise InputError(
                    f"{argument_name}: expected an object with {self._captions_of} such as pycocotools' COCO, got "
                    f"{describe(value)}"
                )
        self.coco, self.cocoRes = coco, cocoRes
        ids = coco.getAudioIds() if self._kind == "audio" else coco.getImgIds()
        self.params: dict[str, Any] = {f"{self._kind}_id": ids}
        self.evalImgs: list[dict[str, Any]] = []
        self.eval: dict[str, Any] = {}
        self.imgToEval: dict[Hashable, dict[str, Any]] = {}

    @property
    def audioToEval(self) -> dict[Hashable, dict[str, Any]]:  # noqa: N802
        """The scores of each sound."""
        return self.imgToEval

    @property
    def evalAudios(self) -> list[dict[str, Any]]:  # noqa: N802
        """The scores of the sounds, in their order."""
        return self.evalImgs

    def evaluate(self, verbose: bool = True) -> None:
        """Computes Bleu_1 … Bleu_4, METEOR, ROUGE_L, CIDEr, SPICE, and prints each; see `eval` and `evalImgs`."""
        gts, res = self._read()
        images = list(gts)
        caption_set = _make_captions(gts, res)
        bleu, meteor, rouge, cider = BleuMetric(), MeteorMetric(), RougeL(), CiderDMetric()
        other_metrics: list[tuple[str, Metric]] = [("METEOR", meteor), ("ROUGE_L", rouge), ("CIDEr", cider)]
        is_available, reason = meteor_status()
        if not is_available:
            warnings.warn(f"METEOR is skipped: {reason}", CapmeterWarning, stacklevel=2)
            del other_metrics[0]
        results = evaluate(caption_set, [bleu, *(metric for _, metric in other_metrics)])
        for k in range(1, 5):
            part = f"bleu-{k}"
            caption_scores = results[bleu].part_items[part].array.tolist()
            self._report(f"Bleu_{k}", results[bleu].parts[part], caption_scores, images, verbose)
        for method, metric in other_metrics:
            metric_scores: Scores = results[metric]
            values = metric_scores.items.array
            if metric is meteor:
                self._report(method, metric_scores.score, values.tolist(), images, verbose)
            else:
                self._report(method, np.float64(metric_scores.score), values, images, verbose)
        for is_available, reason in (meteor_status(), parser_status("caption")):
            if not is_available:
                warnings.warn(f"SPICE is skipped: {reason}", CapmeterWarning, stacklevel=2)
                break
        else:
            self._spice(gts, res, verbose)
        self.setEvalImgs()

    def _read(self) -> tuple[dict[Hashable, list[str]], dict[Hashable, list[str]]]:
        """The references and the captions of the images to score."""
        texts: list[dict[Hashable, list[str]]] = []
        for argument_name, value in (("coco", self.coco), ("cocoRes", self.cocoRes)):
            texts.append({})
            for image in self.params[f"{self._kind}_id"]:
                annotations = getattr(value, self._captions_of).get(image)  # not [image]: pycocotools has a defaultdict
                if not annotations:
                    getter = "getAudioIds" if self._kind == "audio" else "getImgIds"
                    raise InputError(
                        f"{argument_name} has no caption of {self._kind} {image!r}; set params['{self._kind}_id'] to "
                        f"those that both have, such as cocoRes.{getter}()"
                    )
                texts[-1][image] = _read_annotations(image, annotations)
        return texts[0], texts[1]

    def _spice(self, gts: dict[Hashable, list[str]], res: dict[Hashable, list[str]], verbose: bool) -> None:
        """SPICE reads tokens here, as in pycocoevalcap: lower case, without punctuation."""
        spice_scorer = Spice(input="tokens")
        corpus_score, caption_scores = spice_scorer.compute_score(gts, res)
        self._report(spice_scorer.method(), corpus_score, caption_scores, _ascending(gts), verbose)

    def _report(
        self, method: str, corpus_score: Any, caption_scores: Iterable[Any], ids: list[Hashable], verbose: bool
    ) -> None:
        self.setEval(corpus_score, method)
        self.setImgToEvalImgs(caption_scores, ids, method)
        if verbose:
            print(f"{method}: {corpus_score:0.3f}")  # as pycocoevalcap does

    def setEval(self, score: Any, method: str) -> None:  # noqa: N802
        """Stores a corpus score."""
        self.eval[method] = score

    def setImgToEvalImgs(self, scores: Iterable[Any], imgIds: Iterable[Hashable], method: str) -> None:  # noqa: N802, N803
        """Stores the score of each image.

        Args:
            scores: of the images.
            imgIds: the images, in the order of the scores.
            method: the metric's name.
        """
        for image_id, caption_score in zip(imgIds, scores, strict=False):
            self.imgToEval.setdefault(image_id, {f"{self._kind}_id": image_id})[method] = caption_score

    def setEvalImgs(self) -> None:  # noqa: N802
        """Collects the stored scores of each image."""
        self.evalImgs = list(self.imgToEval.values())


class COCOEvalCapSpice(COCOEvalCap):
    """SPICE alone, as in the coco-caption of self-critical.pytorch."""

    def evaluate(self, verbose: bool = True) -> None:
        """Computes SPICE, and prints it; see `eval` and `imgToEval`."""
        self._spice(*self._read(), verbose)
        self.setEvalImgs()


def _ascending(gts: Texts) -> list[Hashable]:
    """The ids in ascending order; in their order in `gts` if they cannot be compared."""
    try:
        return sorted(gts)  # type: ignore[type-var]
    except TypeError:
        return list(gts)


def _with_frequencies(metric: CiderMetric, df: str) -> Evaluation:
    """The metric with the document frequencies of a file, or, for `corpus`, with those of each call."""
    corpus_state = metric.corpus_state()
    assert corpus_state is not None  # idf=run
    if df == "corpus":
        return Evaluation((metric,))
    if not Path(df).is_file() or Path(df).suffix in (".p", ".pkl", ".pickle"):
        raise InputError(
            f"df={df!a}: expected `corpus` or a file of document frequencies or references; pickled frequencies are "
            "not read, since a pickle can run code: save those of the same references by "
            "`capmeter idf captions_train.json --output train.npz`, and give df='train.npz'"
        )
    return Evaluation((metric,), states={corpus_state: read_frequencies(df, metric.n, "ptb")})


def _read_annotations(image_id: Hashable, image_annotations: Any) -> list[str]:
    """The texts of `[{"caption": text}, …]` or `[text, …]`."""
    expected = f'image {image_id!r}: expected a list of {{"caption": text}} or of texts, got'
    if isinstance(image_annotations, str | Mapping) or not isinstance(image_annotations, Sequence):
        raise InputError(f"{expected} {describe(image_annotations)}")
    texts = []
    for annotation in image_annotations:
        text = annotation.get("caption") if isinstance(annotation, Mapping) else annotation
        if not isinstance(text, str):
            raise InputError(f"{expected} {describe(annotation)} among them")
        texts.append(text)
    return texts


def _read_tokens(gts: Any, res: Any) -> CaptionSet:
    """The captions; an `InputError` if most are not tokenised."""
    gts, res = _by_row(gts, res)
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


def _by_row(gts: Any, res: Any) -> tuple[Any, Any]:
    """References and captions by row, where `res` is a list of `{"image_id": …, "caption": [text]}`."""
    if not isinstance(res, list | tuple) or not isinstance(gts, Mapping):
        return gts, res
    references, captions = {}, {}
    for row_index, row in enumerate(res):
        where = f"res[{row_index}]"
        if not isinstance(row, Mapping) or not {"image_id", "caption"} <= row.keys():
            raise InputError(f'{where}: expected {{"image_id": …, "caption": [text]}}, got {describe(row)}')
        image_id, caption = row["image_id"], row["caption"]
        if not isinstance(image_id, Hashable) or image_id not in gts:
            raise InputError(f"{where}: gts has no references of image {describe(image_id)}")
        references[row_index] = gts[image_id]
        captions[row_index] = [caption] if isinstance(caption, str) else caption
    return references, captions


def _read_texts(gts: Any, res: Any) -> CaptionSet:
    for name, captions_by_image in (("gts", gts), ("res", res)):
        if not isinstance(captions_by_image, Mapping):
            raise InputError(f"{name}: expected a dict id → list of captions, got {type(captions_by_image).__name__}")
        for key, texts in captions_by_image.items():
            found = (
                [each for each in texts if not isinstance(each, str)] if isinstance(texts, list | tuple) else [texts]
            )
            if found:
                raise InputError(
                    f"{name}[{key!r}]: expected a list of tokenised captions, each a text, got {describe(found[0])}"
                )
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


add_modules(
    __name__,
    {
        "eval": ("COCOEvalCap",),
        "eval_spice": ("COCOEvalCapSpice",),
        "tokenizer.ptbtokenizer": ("PTBTokenizer",),
        "bleu.bleu": ("Bleu",),
        "cider.cider": ("Cider",),
        "ciderD.ciderD": ("CiderD",),
        "meteor.meteor": ("Meteor",),
        "rouge.rouge": ("Rouge",),
        "spice.spice": ("Spice",),
        "wmd.wmd": ("WMD",),
    },
)
