"""Drop-in replacement for pycocoevalcap 1.2: change the package's name, keep the rest.

    from capmeter.integrations.pycocoevalcap.eval import COCOEvalCap    # was: from pycocoevalcap.eval import …
    from capmeter.integrations.pycocoevalcap.bleu.bleu import Bleu      # was: from pycocoevalcap.bleu.bleu import …

Same paths, arguments, shapes and numbers, no Java; every name can also be imported from here. Scripts call more than
pycocoevalcap has, and what they call is here as in the code that they come from:

* `Cider(references)`, M2 Transformer's: document frequencies of these references in place of those of the call;
  `PTBTokenizer.tokenize` on the class, of `{id: [text]}` or `[text]`; `str(scorer)`; `compute_scores(gts, gen)`.
* `CiderD(df=…)` and `Cider(df=…)`, pyciderevalcap's: CIDEr-D, and CIDEr as first published; `df` is `corpus` (the
  references of the call) or a file that `capmeter idf` saved; results are a list of `{"image_id": …, "caption":
  [text]}`, in which an image may stand several times.
* `COCOEvalCap` of captions of sounds, from caption-evaluation-tools: `getAudioIds`, `audioToAnns`, `audioToEval`.
* `BleuScorer` and `CiderScorer`, fed pair by pair, and the lines that scripts write to `Meteor.meteor_p`, under
  `Meteor.lock`: they are answered as by the Java process, which there is not.

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

import math
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.settings import Settings
from capmeter.evaluation.base import CapmeterWarning, Metric, RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.results import Scores
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.integrations.module_paths import add_modules
from capmeter.integrations.texts import Texts, make_captions, read_annotations, read_texts, read_tokens
from capmeter.metrics.ngram.bleu import Bleu as BleuMetric
from capmeter.metrics.ngram.cider import Cider as CiderMetric
from capmeter.metrics.ngram.cider import CiderD as CiderDMetric
from capmeter.metrics.ngram.document_frequencies import read_frequencies
from capmeter.metrics.ngram.meteor import Meteor as MeteorMetric
from capmeter.metrics.ngram.meteor_lines import MeteorLines
from capmeter.metrics.ngram.rouge import RougeL
from capmeter.metrics.scene_graph.spice import scene_graphs
from capmeter.metrics.scene_graph.spice_results import scores_by_kind
from capmeter.text.meteor.resources import meteor_status
from capmeter.text.parsing.parsers import check_parser, parser_status
from capmeter.text.scene_graphs.extraction import InputName, Scenes
from capmeter.text.scene_graphs.graph import match
from capmeter.text.tokenization import ptb


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
            image_id: [" ".join(ptb.tokenise(text)) for text in read_annotations(image_id, image_captions)]
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

    def compute_score(self, gts: Texts, res: Any, verbose: int = 1) -> tuple[Any, Any]:
        """The score of all captions, and that of each in the order of `gts`, or of `res` if that is a list.

        Args:
            gts, res: references and candidate (a list of one text) by image.
            verbose: accepted, as by pycocoevalcap; nothing is printed.
        """
        return self.score_captions(read_tokens(gts, res))

    def score_captions(self, captions: CaptionSet) -> tuple[Any, Any]:
        """The same of a set of captions."""
        scores = self._evaluate(captions)
        return np.float64(scores.score), scores.items.array

    def _evaluate(self, captions: CaptionSet) -> Scores:
        return evaluate(captions, [self._metric])[self._metric]


class Bleu(_Scorer):
    """BLEU-1 … BLEU-n: a list with the corpus score of each order, and one with those of all captions."""

    _method = "Bleu"

    def __init__(self, n: int = 4) -> None:
        self._metric = BleuMetric(n=n, tokenizer="whitespace")
        self._n = n

    def score_captions(self, captions: CaptionSet) -> tuple[list[float], list[list[float]]]:
        """The scores of each order."""
        scores, orders = self._evaluate(captions), [f"bleu-{k}" for k in range(1, self._n + 1)]
        return [scores.parts[name] for name in orders], [scores.part_items[name].array.tolist() for name in orders]


class Rouge(_Scorer):
    """ROUGE-L."""

    _method = "Rouge"

    def __init__(self) -> None:
        self._metric = RougeL(tokenizer="whitespace")
        self.beta = self._metric.beta

    def calc_score(self, candidate: Sequence[str], refs: Sequence[str]) -> float:
        """The score of one tokenised candidate, in a list, against its references."""
        return float(self.compute_score({0: list(refs)}, {0: list(candidate)})[0])


class Cider(_Scorer):
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
            documents = read_tokens(sources[0], {image_id: [""] for image_id in sources[0]})
            self._evaluation = self._evaluation.with_collected_states(documents)

    def _evaluate(self, captions: CaptionSet) -> Scores:
        return self._evaluation.with_collected_states(captions).run(captions)[self._metric]


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


class WMD(_Scorer):
    """The word mover's distance, as a similarity; the metric `wmd` of capmeter-research."""

    _method = "WMD"

    def __init__(self) -> None:
        self._metric = parse("wmd")


class Meteor(_Scorer):
    """METEOR 1.5."""

    _method = "METEOR"

    def __init__(self) -> None:
        self._metric = MeteorMetric(tokenizer="whitespace")
        self.lock, self.meteor_p = threading.Lock(), MeteorLines(self._metric)

    def score_captions(self, captions: CaptionSet) -> tuple[float, list[float]]:
        """The corpus score, and the score of each caption."""
        scores = self._evaluate(captions)
        return scores.score, scores.items.array.tolist()

    def _stat(self, hypothesis_str: str, reference_list: Sequence[str]) -> str:
        """The program's statistics of one candidate with its best reference."""
        self.meteor_p.write(" ||| ".join(("SCORE", *reference_list, hypothesis_str)))
        return self.meteor_p.readline().decode().strip()

    def close(self) -> None:
        """Nothing: there is no Java process."""


class Spice(_Scorer):
    """SPICE, from the parses of `parser`: `caption`, which needs no Java, or `corenlp`, the official one.

    Texts are read as they are given, as by pycocoevalcap's class (`raw`), or turned into tokens first.
    """

    _method = "SPICE"

    def __init__(self, parser: str = "caption", input: InputName = "raw") -> None:
        check_parser(parser)
        self.parser, self.input = parser, input

    def compute_score(self, gts: Texts, res: Any, verbose: int = 1) -> tuple[Any, Any]:
        """The mean F, and for each caption, ids ascending, f, pr, re, tp, fp, fn, numImages by kind of tuple.

        Args:
            gts, res, verbose: as of the other scorers. Where the references have no tuple of a kind ("Color", "Size" …)
                its f, pr and re are NaN, as in pycocoevalcap.
        """
        caption_set = read_texts(gts, res)
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


_REFERENCE_LENGTHS: dict[str, Callable[[list[int]], Any]] = {"average": np.mean, "shortest": min}


class _PairScorer:
    """Tokenised candidates with their references: `scorer += (candidate, references)`.

    Args:
        test: the first candidate; None adds references alone, for `CiderScorer.compute_doc_freq`.
        refs: its references.
        n: longest n-gram.
    """

    def __init__(self, test: str | None = None, refs: Sequence[str] | None = None, n: int = 4) -> None:
        self.n = n
        self.ctest: list[str | None] = []
        self.crefs: list[Sequence[str]] = []
        self.cook_append(test, refs)

    def cook_append(self, test: str | None, refs: Sequence[str] | None) -> None:
        """Adds a candidate and its references; nothing without references."""
        if refs is not None:
            self.ctest.append(test)
            self.crefs.append(refs)

    def __iadd__(self, pair: tuple[str | None, Sequence[str]]) -> Any:
        self.cook_append(*pair)
        return self

    def _captions(self) -> CaptionSet:
        return read_tokens(dict(enumerate(self.crefs)), {k: [test] for k, test in enumerate(self.ctest)})


class BleuScorer(_PairScorer):
    """BLEU-1 … BLEU-n of pairs."""

    def compute_score(self, option: str | None = None, verbose: int = 0) -> tuple[list[float], list[list[float]]]:
        """The corpus score of each order, and for each order the score of each pair.

        Args:
            option: which length of its references a candidate is compared with: `closest`, `average` or `shortest`;
                None: `average` of one pair, `closest` of several.
            verbose: accepted, as by pycocoevalcap; nothing is printed.
        """
        option = option or ("closest" if len(self.crefs) > 1 else "average")
        metric = BleuMetric(n=self.n, tokenizer="whitespace")
        counts = metric.measure(self._captions(), RunContext()).values
        if option in _REFERENCE_LENGTHS:
            counts[:, -1] = [_REFERENCE_LENGTHS[option]([len(text.split()) for text in refs]) for refs in self.crefs]
        elif option != "closest":
            raise InputError(f"option: expected closest, average or shortest, got {describe(option)}")
        corpus, pairs = (metric.from_sums(sums, np.ones(())) for sums in (counts.sum(0), counts))
        orders = [f"bleu-{k}" for k in range(1, self.n + 1)]
        return [float(corpus[name]) for name in orders], [pairs[name].tolist() for name in orders]


class CiderScorer(_PairScorer):
    """CIDEr-D of pairs, with the document frequencies of their references.

    Args:
        test, refs, n: as in `BleuScorer`.
        sigma: width of the length penalty, in words.

    Attributes:
        document_frequency: the number of pairs whose references have each n-gram, a tuple of words, after
            `compute_doc_freq`.
        ref_len: the logarithm of the number of pairs, after `compute_score`.
    """

    def __init__(self, test: Any = None, refs: Any = None, n: int = 4, sigma: float = 6.0) -> None:
        super().__init__(test, refs, n)
        self.sigma = sigma
        self.document_frequency: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self.ref_len: float | None = None

    def compute_doc_freq(self) -> None:
        """Counts the pairs whose references have each n-gram."""
        self.document_frequency.clear()
        for references in self.crefs:
            lists, orders = [text.split() for text in references], range(1, self.n + 1)
            for gram in {tuple(w[k : k + order]) for w in lists for order in orders for k in range(len(w) - order + 1)}:
                self.document_frequency[gram] += 1

    def compute_score(self, option: Any = None, verbose: int = 0) -> tuple[Any, Any]:
        """The mean, and the score of each pair.

        Args:
            option, verbose: accepted, as by pycocoevalcap, which ignores them, too.
        """
        scores = Cider(n=self.n, sigma=self.sigma).score_captions(self._captions())
        self.ref_len = math.log(len(self.crefs))
        return scores


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
        tokens = make_captions(PTBTokenizer.tokenize(gts), PTBTokenizer.tokenize(res))
        (has_tables, reason), (has_parser, parser_reason) = meteor_status(), parser_status("caption")
        for name, is_available in (("METEOR", has_tables), ("SPICE", has_tables and has_parser)):
            if not is_available:
                warnings.warn(f"{name} is skipped: {reason or parser_reason}", CapmeterWarning, stacklevel=2)
        for scorer in (Bleu(), *([Meteor()] if has_tables else []), Rouge(), Cider()):
            name, (score, scores) = scorer.method(), scorer.score_captions(tokens)
            for k, of_order in enumerate(score if name == "Bleu" else [], 1):
                self._report(f"Bleu_{k}", of_order, scores[k - 1], list(gts), verbose)
            if name != "Bleu":
                self._report("ROUGE_L" if name == "Rouge" else name, score, scores, list(gts), verbose)
        if has_tables and has_parser:
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
                texts[-1][image] = read_annotations(image, annotations)
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


def compute_scores(gts: Texts, gen: Texts) -> tuple[dict[str, Any], dict[str, Any]]:
    """M2 Transformer's `evaluation.compute_scores`: BLEU-1 … 4, METEOR, ROUGE-L and CIDEr-D, by `str(scorer)`.

    Returns:
        The scores of all captions, and those of each.
    """
    results = {str(scorer): scorer.compute_score(gts, gen) for scorer in (Bleu(), Meteor(), Rouge(), Cider())}
    return {name: score for name, (score, _) in results.items()}, {name: each for name, (_, each) in results.items()}


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


__all__ = ["Bleu", "BleuScorer", "COCOEvalCap", "Cider", "CiderScorer", "Meteor", "PTBTokenizer", "Rouge", "Spice"]


add_modules(
    __name__,
    {
        "eval": ("COCOEvalCap", "PTBTokenizer", "Bleu", "Meteor", "Rouge", "Cider", "Spice"),  # which it imports
        "eval_spice": ("COCOEvalCapSpice",),
        "tokenizer.ptbtokenizer": ("PTBTokenizer",),
        "bleu.bleu": ("Bleu", "BleuScorer"),
        "bleu.bleu_scorer": ("BleuScorer",),
        "cider.cider": ("Cider", "CiderScorer"),
        "cider.cider_scorer": ("CiderScorer",),
        "ciderD.ciderD": ("CiderD",),
        "meteor.meteor": ("Meteor",),
        "rouge.rouge": ("Rouge",),
        "spice.spice": ("Spice",),
        "wmd.wmd": ("WMD",),
    },
)
