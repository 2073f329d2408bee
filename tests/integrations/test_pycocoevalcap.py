"""The pycocoevalcap face: same shapes, types and numbers as the standard code."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import math
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.command_line import capmeter as capmeter_command
from support.hostile_values import DEEP
from support.official_scores import official
from support.plain_meteor import small_release
from support.spice_parses import Recorded, official_set, recorded, use_parser
from support.thousand_captions import thousand
from support.written_parses import caption

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.integrations import pycocoevalcap
from capmeter.integrations.pycocoevalcap import (
    WMD,
    Bleu,
    Cider,
    CiderD,
    COCOEvalCap,
    Meteor,
    PTBTokenizer,
    Rouge,
    Spice,
)
from capmeter.metrics.scene_graph.spice import scene_graphs
from capmeter.metrics.scene_graph.spice_results import write_spice
from capmeter.text.scene_graphs.extraction import Scenes

GTS = {
    391895: ["a man rides a red bike down the road", "a man on a bike", "man riding a bicycle"],
    "dog": ["a dog runs on the grass", "the dog is running"],
    (1, 2): ["1\u00a01/2 cakes on a plate", "cakes"],
}
RES = {391895: ["a man rides a bike"], "dog": ["a dog a dog"], (1, 2): [""]}


class Coco:
    """The part of pycocotools' COCO that the evaluation needs."""

    def __init__(self, captions: dict[Any, list[str]]) -> None:
        self.imgToAnns: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for image, texts in captions.items():
            self.imgToAnns[image] = [{"image_id": image, "id": k, "caption": text} for k, text in enumerate(texts)]

    def getImgIds(self) -> list[Any]:
        return list(self.imgToAnns)


def standard(name: str) -> Any:
    module = pytest.importorskip(f"pycocoevalcap.{name.lower()}.{name.lower()}", reason="needs pycocoevalcap")
    return getattr(module, name)


@pytest.fixture
def small_meteor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR's tables with a few words, so that no package is needed."""
    monkeypatch.setenv("CAPMETER_METEOR", str(small_release(tmp_path / "release")))
    use_parser(monkeypatch, Recorded({}))  # nor a parser
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("ours", "n"), [*((Bleu, (n,)) for n in range(1, 5)), (Rouge, ()), (Cider, ())])
def test_scorers_have_the_shapes_types_and_numbers_of_the_standard_code(ours: Any, n: tuple[int, ...]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        official = standard(ours.__name__)(*n).compute_score(GTS, RES)
    actual = ours(*n).compute_score(GTS, RES)
    assert ours().method() == standard(ours.__name__)().method()
    for a, b in zip(actual, official, strict=True):
        assert [type(each) for each in (a, *(a if n else ()))] == [type(each) for each in (b, *(b if n else ()))]
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert type(np.asarray(actual[1], object).ravel()[0]) is float


@pytest.mark.meteor
@pytest.mark.slow
def test_meteor_has_the_shapes_types_and_numbers_of_the_standard_code(meteor_index: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs a Java runtime")
    scorer = standard("Meteor")()
    official = scorer.compute_score(GTS, RES)
    lines = [[each._stat(RES[key][0], GTS[key]) for key in GTS] for each in (scorer, Meteor())]
    assert lines[0] == lines[1]
    scorer.meteor_p.stdin.close()
    scorer.meteor_p.wait(timeout=60)
    actual = Meteor().compute_score(GTS, RES)
    assert actual == official
    assert [type(value) for value in (*actual, actual[1][0])] == [type(value) for value in (*official, official[1][0])]
    assert Meteor().method() == scorer.method()


def test_cider_parameters_are_used() -> None:
    actual = Cider(sigma=1.0).compute_score(GTS, RES)
    np.testing.assert_allclose(actual[1], standard("Cider")(sigma=1.0).compute_score(GTS, RES)[1], atol=1e-12)
    assert actual[0] != Cider().compute_score(GTS, RES)[0]


@pytest.mark.parametrize("name", ["karp1000_s0", "karp1000_s1"])
def test_real_captions(shared: Path, name: str) -> None:
    table = official(shared, name)
    gts = {k: list(caption.references) for k, caption in enumerate(table.captions)}
    res = {k: [caption.candidate] for k, caption in enumerate(table.captions)}
    for scorer, key, items in ((Rouge(), "rouge", "rouge_l"), (Cider(), "cider", "ciderD")):
        score, scores = scorer.compute_score(gts, res)
        assert score == pytest.approx(table.corpus[key], abs=1e-12)
        assert np.abs(scores - table.items[items]).max() < 1e-12
    corpus, scores = Bleu(4).compute_score(gts, res)  # type: ignore[assignment]
    np.testing.assert_allclose(corpus, table.corpus["bleu"], rtol=0, atol=1e-12)
    assert np.shape(scores) == (4, 1000)


def test_evaluation_of_coco_objects(capsys: pytest.CaptureFixture[str], small_meteor: None) -> None:
    references = {7: ["A dog runs on the grass.", "The dog is running."], 9: ["Two cats sleep.", "cats, asleep"]}
    evaluation = COCOEvalCap(Coco(references), Coco({9: ["Two cats!"], 7: ["A dog runs."]}))
    assert evaluation.params == {"image_id": [7, 9]}
    evaluation.evaluate()
    methods = ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]
    assert list(evaluation.eval) == methods
    assert capsys.readouterr().out.split() == [w for m in methods for w in (f"{m}:", f"{evaluation.eval[m]:0.3f}")]
    assert list(evaluation.imgToEval) == [7, 9] and evaluation.evalImgs[0] == evaluation.imgToEval[7]
    assert list(evaluation.imgToEval[9]) == ["image_id", *methods]
    gts = {7: ["a dog runs on the grass", "the dog is running"], 9: ["two cats sleep", "cats asleep"]}
    res = {7: ["a dog runs"], 9: ["two cats"]}
    assert [each["CIDEr"] for each in evaluation.evalImgs] == Cider().compute_score(gts, res)[1].tolist()
    assert evaluation.eval["Bleu_2"] == Bleu(4).compute_score(gts, res)[0][1]
    score, scores = Meteor().compute_score(gts, res)
    assert (evaluation.eval["METEOR"], [each["METEOR"] for each in evaluation.evalImgs]) == (score, scores)


def test_without_its_tables_meteor_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycocoevalcap, "meteor_status", lambda: (False, "no tables; install them with: pip"))
    evaluation = COCOEvalCap(Coco({7: ["a dog"]}), Coco({7: ["a dog"]}))
    with (
        pytest.warns(CapmeterWarning, match="METEOR is skipped: no tables; install them with: pip"),
        pytest.warns(CapmeterWarning, match="SPICE is skipped: no tables; install them with: pip"),
    ):
        evaluation.evaluate()
    assert {"METEOR", "SPICE"}.isdisjoint(evaluation.eval)


def test_evaluation_of_some_images(small_meteor: None) -> None:
    references = Coco({7: ["a dog runs"], 9: ["two cats sleep"], 11: ["a red ball"]})
    results = Coco({9: ["two cats"], 11: ["ball"]})
    evaluation = COCOEvalCap(references, results)
    with pytest.raises(InputError, match="cocoRes has no caption of image 7"):
        evaluation.evaluate()
    assert results.getImgIds() == [9, 11], "nothing was made up on the way"
    evaluation.params["image_id"] = [9, 11]
    results.imgToAnns.default_factory = None
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
    assert [each["image_id"] for each in evaluation.evalImgs] == [9, 11]


BAD = [
    ({1: ["a"]}, {2: ["a"]}, "only in gts: 1; only in res: 2"),
    ({1: ["a"]}, {1: ["a", "b"]}, "exactly one caption, got 2"),
    ({1: ["a"]}, {1: "a"}, r"res\[1\]: expected a list"),
    ({1: "a dog"}, {1: ["a"]}, r"gts\[1\]: expected a list"),
    ({1: [None]}, {1: ["a"]}, r"gts\[1\]\[0\]: .* missing"),
    ({1: ["a"]}, {1: [DEEP]}, r"res\[1\]\[0\]: .* a list of 1"),
    ({1: []}, {1: ["a"]}, "at least one reference"),
    (["a"], {1: ["a"]}, "expected a dict"),
    ({}, {}, "empty"),
]


@pytest.mark.parametrize(("gts", "res", "sentence"), BAD)
@pytest.mark.parametrize("scorer", [Bleu(4), Rouge(), Cider(), Meteor()])
def test_mistakes_get_a_sentence(scorer: Any, gts: Any, res: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        scorer.compute_score(gts, res)


def test_rouge_of_one_candidate() -> None:
    value = Rouge().calc_score(["a dog runs"], ["a dog runs on the grass", "a dog is running"])
    assert value == pytest.approx(0.6288659793814433)
    with pytest.raises(InputError, match="expected a list of exactly one caption"):
        Rouge().calc_score(["a", "b"], ["a"])


@pytest.mark.meteor
def test_spice_has_the_shapes_types_and_numbers_of_the_standard_code(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the standard code makes of the program's file, of captions with parses that are known."""
    official = pytest.importorskip("pycocoevalcap.spice.spice", reason="needs pycocoevalcap")
    captions, _ = official_set(shared, "coco_systems", 400)
    use_parser(monkeypatch, recorded(shared))
    gts = {int(caption.id): list(caption.references) for caption in reversed(list(captions))}
    res = {int(caption.id): [caption.candidate] for caption in captions}
    graphs = scene_graphs(captions, Scenes("caption"), synonyms=True)
    rows = [(caption.id, *pair) for caption, pair in zip(captions, graphs, strict=True)]
    write_spice(tmp_path / "written.json", rows)

    def program(command: list[str], cwd: str) -> None:
        file_text = json.loads((tmp_path / "written.json").read_text())
        result = [{**row, "image_id": int(row["image_id"])} for row in file_text]
        Path(command[command.index("-out") + 1]).write_text(json.dumps(result))

    monkeypatch.setattr(official, "get_stanford_models", lambda: None)
    monkeypatch.setattr(official, "__file__", str(tmp_path / "spice.py"))
    monkeypatch.setattr(official.subprocess, "check_call", program)
    score, scores = official.Spice().compute_score(gts, res)
    actual, each = Spice("corenlp").compute_score(gts, res)
    assert actual == score and type(actual) is type(score)
    assert repr(each) == repr(scores)  # NaN is not equal to itself
    assert Spice().method() == official.Spice().method()


@pytest.mark.meteor
def test_evaluation_gives_spice_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    dog = caption("a/DT/a/2/det dog/NN/dog/3/nsubj runs/VBZ/run/0/root")
    use_parser(monkeypatch, Recorded({"a dog runs": dog, "a dog": caption("a/DT/a/2/det dog/NN/dog/0/root")}))
    evaluation = COCOEvalCap(Coco({9: ["A dog runs!"], 7: ["A dog."]}), Coco({9: ["A dog."], 7: ["A Dog runs"]}))
    evaluation.evaluate()
    assert list(evaluation.eval)[-1] == "SPICE"
    assert evaluation.eval["SPICE"] == pytest.approx(2 / 3)
    values = {k: evaluation.imgToEval[k]["SPICE"]["All"] for k in (7, 9)}
    assert (values[9]["pr"], values[9]["re"], values[7]["re"]) == (1.0, 0.5, 1.0)
    assert np.isnan(evaluation.imgToEval[7]["SPICE"]["Color"]["f"])


@pytest.mark.meteor
@pytest.mark.slow
def test_a_thousand_captions_have_the_scores_of_score(meteor_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All eight numbers of `COCOEvalCap`, bit by bit."""
    candidates, references, ids = thousand()
    arguments = [dict(zip(ids, texts, strict=True)) for texts in (([text] for text in candidates), references)]
    evaluation = COCOEvalCap(Coco(arguments[1]), Coco(arguments[0]))
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.evaluate()
    names = {**{f"Bleu_{n}": f"bleu-{n}" for n in range(1, 5)}, "METEOR": "meteor", "ROUGE_L": "rouge-l"}
    names |= {"CIDEr": "cider-d"}
    results = capmeter.score(candidates=arguments[0], references=arguments[1], metrics=list(names.values()))
    spice = capmeter.score(candidates=arguments[0], references=arguments[1], metrics="spice")["spice"]
    assert list(evaluation.eval) == [*names, "SPICE"]
    for method, ours in names.items():
        assert evaluation.eval[method] == results[ours].score
        assert [each[method] for each in evaluation.evalImgs] == results[ours].items.array.tolist()
    assert [evaluation.imgToEval[id]["SPICE"]["All"]["f"] for id in ids] == spice.items.array.tolist()
    assert evaluation.eval["SPICE"] == pytest.approx(spice.score, abs=1e-15)  # numpy's mean of one axis, or of two


@pytest.mark.parametrize("side", ["gts", "res"])
def test_captions_that_are_not_tokenised_are_refused(side: str) -> None:
    """VLMEvalKit gives such strings to the standard scorers, which score them near 0 without a word."""
    sentences = {k: ["A dog runs on the grass.", "The dog is running."] for k in range(3)}
    tokens = {k: ["a dog runs on the grass", "the dog is running"] for k in range(3)}
    gts = sentences if side == "gts" else tokens
    res = {k: (sentences if side == "res" else tokens)[k][:1] for k in range(3)}
    for scorer in (Bleu(4), Rouge(), Cider()):
        with pytest.raises(InputError, match=rf"{side}: \d of \d captions are not tokenised .*PTBTokenizer"):
            scorer.compute_score(gts, res)
    assert Bleu(4).compute_score(tokens, {k: tokens[k][:1] for k in range(3)})[0][0] == pytest.approx(1)


TRAINING = {k: [f"a {a} {b} on the {c}", f"the {b} on a {c}"] for k, (a, b, c) in enumerate(
    itertools.product(("red", "small"), ("dog", "cat", "car"), ("grass", "road")))}  # fmt: skip
PAIR = {"x": ["a red dog on the grass", "a dog"], "y": ["two cats on a road"]}
PAIR_RES = {"x": ["a dog on the road"], "y": ["a cat on a road"]}


def plain_cider(gts: list[list[str]], res: list[str], documents: list[list[str]], clipped: bool) -> list[float]:
    """CIDEr(-D) from its formula, with the document frequencies of `documents`."""

    def grams(text: str, n: int) -> Counter[tuple[str, ...]]:
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    frequency = Counter(
        gram for texts in documents for gram in {g for t in texts for n in range(1, 5) for g in grams(t, n)}
    )

    def similarity(candidate: str, reference: str) -> float:
        total = 0.0
        for n in range(1, 5):
            vectors = [{g: k * (math.log(len(documents)) - math.log(max(1, frequency[g])))
                        for g, k in grams(text, n).items()} for text in (candidate, reference)]  # fmt: skip
            dot = sum((min(w, vectors[1].get(g, 0.0)) if clipped else w) * vectors[1].get(g, 0.0)
                      for g, w in vectors[0].items())  # fmt: skip
            norm = math.prod(math.sqrt(sum(w * w for w in vector.values())) for vector in vectors)
            total += dot / norm if norm else 0.0
        delta = len(candidate.split()) - len(reference.split())
        return total / 4 * (math.exp(-(delta**2) / 72) if clipped else 1.0)

    return [10 * sum(similarity(one, text) for text in texts) / len(texts) for one, texts in zip(res, gts, strict=True)]


def test_document_frequencies_may_come_from_other_references(tmp_path: Path) -> None:
    expected = plain_cider(list(PAIR.values()), [text for (text,) in PAIR_RES.values()], list(TRAINING.values()), True)
    for scorer in (Cider(TRAINING), Cider(refs=TRAINING)):
        score, scores = scorer.compute_score(PAIR, PAIR_RES)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)
        assert score == pytest.approx(np.mean(expected), abs=1e-12)
    assert abs(Cider().compute_score(PAIR, PAIR_RES)[0] - score) > 0.1
    path = tmp_path / "training.json"
    path.write_text(json.dumps(TRAINING))
    table = tmp_path / "training.npz"
    capmeter_command("idf", str(path), "--output", str(table))
    rows = [{"image_id": key, "caption": PAIR_RES[key]} for key in ("y", "x", "y")]
    for df in (str(path), str(table)):
        np.testing.assert_allclose(
            CiderD(df=df).compute_score(PAIR, rows)[1], [expected[k] for k in (1, 0, 1)], rtol=0, atol=1e-12
        )
    as_published = plain_cider(list(PAIR.values()), [t for (t,) in PAIR_RES.values()], list(TRAINING.values()), False)
    np.testing.assert_allclose(Cider(df=str(table)).compute_score(PAIR, PAIR_RES)[1], as_published, rtol=0, atol=1e-12)


def test_a_batch_of_samples_has_the_frequencies_of_its_rows() -> None:
    """As in self-critical training: an image stands once for each of its samples, and each counts as a document."""
    rows = [{"image_id": key, "caption": [text]} for key, text in (("x", "a dog"), ("y", "cats"), ("x", "a red dog"))]
    documents = [PAIR[key] for key in ("x", "y", "x")]
    expected = plain_cider(documents, ["a dog", "cats", "a red dog"], documents, True)
    np.testing.assert_allclose(CiderD(df="corpus").compute_score(PAIR, rows)[1], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Cider(TRAINING, TRAINING),
        lambda: Cider(4),
        lambda: CiderD(df="coco-train-idxs"),
        lambda: CiderD().compute_score(PAIR, [{"image_id": "z", "caption": ["a"]}]),
        lambda: CiderD().compute_score(PAIR, [{"caption": ["a"]}]),
        lambda: CiderD().compute_score(PAIR, ["a"]),
        lambda: COCOEvalCap({}, Coco({})),
        lambda: COCOEvalCap(DEEP, Coco({})),
        lambda: CiderD().compute_score(PAIR, [DEEP]),
        lambda: PTBTokenizer.tokenize({1: [DEEP]}),
        lambda: PTBTokenizer.tokenize("a dog"),
        lambda: PTBTokenizer.tokenize({1: "a dog"}),
        lambda: PTBTokenizer.tokenize({1: [{"text": "a"}]}),
        lambda: PTBTokenizer.tokenize({"a": [3]}),
        lambda: PTBTokenizer.tokenize([None]),
    ],
)
def test_arguments_without_effect_and_wrong_forms_are_errors(call: Any) -> None:
    with pytest.raises(InputError):
        call()


def test_the_tokenizer_takes_texts_and_works_on_the_class() -> None:
    expected = {"a": ["a dog 's ball", "red"], 7: []}
    assert PTBTokenizer.tokenize({"a": ["A dog's ball.", "Red!"], 7: []}) == expected
    assert PTBTokenizer(verbose=False).tokenize({"a": [{"caption": "A dog's ball."}, "Red!"], 7: ()}) == expected
    captions = {3: [{"caption": "A dog."}, {"caption": "Dogs (two)"}], "b": [{"caption": ""}]}
    assert PTBTokenizer().tokenize(captions) == {3: ["a dog", "dogs -lrb- two -rrb-"], "b": [""]}
    assert PTBTokenizer.tokenize(["A dog.", ["A cat.", "Cats"]]) == {0: ["a dog"], 1: ["a cat", "cats"]}


def test_every_module_path_is_that_of_the_standard_code() -> None:
    for path, name in (("eval", "Cider"), ("eval", "COCOEvalCap"), ("tokenizer.ptbtokenizer", "PTBTokenizer"),
                       ("bleu.bleu", "Bleu"), ("bleu.bleu_scorer", "BleuScorer"), ("cider.cider", "Cider"),
                       ("cider.cider_scorer", "CiderScorer"), ("meteor.meteor", "Meteor"), ("rouge.rouge", "Rouge"),
                       ("spice.spice", "Spice"), ("eval_spice", "COCOEvalCapSpice"), ("ciderD.ciderD", "CiderD"),
                       ("wmd.wmd", "WMD")):  # fmt: skip
        module = importlib.import_module(f"capmeter.integrations.pycocoevalcap.{path}")
        assert getattr(module, name) is getattr(pycocoevalcap, name)


SCRIPT = """
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.bleu.bleu_scorer import BleuScorer
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.cider.cider_scorer import CiderScorer
from pycocoevalcap.rouge.rouge import Rouge
gts = {391895: ["a man rides a red bike", "a man on a bike"], "dog": ["a dog runs on the grass", "the dog is running"]}
res = {391895: ["a man rides a bike"], "dog": ["a dog a dog"]}
for option in ("closest", "average", "shortest", None):
    scorers, first, alone = [BleuScorer(n=3), CiderScorer(n=4, sigma=6.0)], BleuScorer(), CiderScorer(refs=gts["dog"])
    for scorer in scorers:
        for key in gts:
            scorer += (res[key][0], gts[key])
    first.cook_append(res["dog"][0], [*gts["dog"], "dogs run"])
    (corpus, each), (mean, scores) = scorers[0].compute_score(option, 0), scorers[1].compute_score()
    alone.compute_doc_freq()
    print(option, sorted(alone.document_frequency.items())[3], len(alone.crefs), end=" ")
    print(*(f"{value:.10f}" for value in (*corpus, *each[0], *each[2], mean, *scores, *first.compute_score(option)[0])))
for scorer in (Bleu(4), Rouge(), Cider()):
    score, scores = scorer.compute_score(gts, res)
    print(*(f"{value:.10f}" for part in (score, *scores) for value in (part if isinstance(part, list) else [part])))
"""
ONLY_HERE = """
from pycocotools.coco import COCO
from pycocoevalcap.ciderD.ciderD import CiderD
from pycocoevalcap.eval import COCOEvalCap
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
from pycocoevalcap.wmd.wmd import WMD
tokens = PTBTokenizer.tokenize({k: [{"caption": text} for text in texts] for k, texts in gts.items()})
assert tokens == gts and len(WMD().compute_score(gts, res)[1]) == 2
rows = [{"image_id": k, "caption": texts} for k, texts in res.items()]
assert Cider(gts).compute_score(gts, res)[0] == CiderD(df="corpus").compute_score(gts, rows)[0] > 0
coco, results = COCO(), COCO()
coco.dataset = {"images": [{"id": 1}, {"id": 2}], "annotations": [
    {"id": k, "image_id": 1 + k // 2, "caption": text} for k, text in enumerate([*gts[391895], *gts["dog"]])]}
results.dataset = {"images": [{"id": 1}], "annotations": [{"id": 0, "image_id": 1, "caption": "A man rides a bike."}]}
coco.createIndex(), results.createIndex()
evaluation = COCOEvalCap(coco, results)
evaluation.params["image_id"] = results.getImgIds()
evaluation.evaluate()
assert list(evaluation.imgToEval) == [1] and evaluation.eval["CIDEr"] >= 0 and evaluation.evalImgs[0]["Bleu_1"] > 0.9
"""


@pytest.mark.neural
def test_scripts_run_with_the_name_of_the_package_replaced() -> None:
    for package in ("pycocoevalcap", "pycocotools", "capmeter_research"):
        pytest.importorskip(package)
    replaced = (SCRIPT + ONLY_HERE).replace("pycocoevalcap", "capmeter.integrations.pycocoevalcap")
    runs = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True) for text in (SCRIPT, replaced)]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    values = [[line for line in run.stdout.splitlines() if line.count(".") > 2] for run in runs]
    assert len(values[0]) == 7 and values[0] == values[1][:7]


def test_scorers_are_keys_and_java_is_ended(small_meteor: None) -> None:
    scorers = [Bleu(), Meteor(), Rouge(), Cider(), Spice()]
    assert [str(scorer) for scorer in scorers] == ["BLEU", "METEOR", "ROUGE", "CIDEr", "SPICE"]
    meteor = Meteor()
    corpus, scores = meteor.compute_score(PAIR, PAIR_RES)
    with meteor.lock:  # as scripts talk to the Java process
        lines = [meteor._stat(PAIR_RES[key][0], PAIR[key]) for key in PAIR]
        meteor.meteor_p.stdin.write("{}\n".format(" ||| ".join(["EVAL", *lines])).encode())
        meteor.meteor_p.stdin.flush()
        assert [float(meteor.meteor_p.stdout.readline().strip()) for _ in range(3)] == [*scores, corpus]
        meteor.meteor_p.stdin.close()
        meteor.meteor_p.kill()
        assert meteor.meteor_p.wait() == 0
    meteor.close()
    everything, each = pycocoevalcap.compute_scores(PAIR, PAIR_RES)
    assert list(everything) == ["BLEU", "METEOR", "ROUGE", "CIDEr"] and everything["METEOR"] == corpus
    assert each["METEOR"] == scores and everything["BLEU"] == Bleu().compute_score(PAIR, PAIR_RES)[0]


def test_captions_of_sounds(small_meteor: None, capsys: pytest.CaptureFixture[str]) -> None:
    def audio(captions: dict[str, list[str]]) -> Any:
        annotations = Coco(captions).imgToAnns
        return SimpleNamespace(audioToAnns=annotations, getAudioIds=lambda: list(annotations))

    sounds = COCOEvalCap(audio(PAIR), audio(PAIR_RES))
    sounds.evaluate(verbose=False)
    images = COCOEvalCap(Coco(PAIR), Coco(PAIR_RES))
    assert capsys.readouterr().out == "" and sounds.params == {"audio_id": ["x", "y"]}
    images.evaluate()
    assert sounds.eval == images.eval and sounds.evalAudios == list(sounds.audioToEval.values())
    assert sounds.audioToEval["y"]["CIDEr"] == images.imgToEval["y"]["CIDEr"]
    assert sounds.audioToEval["y"]["audio_id"] == "y"
    sounds.params["audio_id"] = ["z"]
    with pytest.raises(InputError, match="audio_id"):
        sounds.evaluate()


@pytest.mark.neural
def test_wmd_is_the_metric_of_research() -> None:
    pytest.importorskip("capmeter_research")
    score, scores = WMD().compute_score(PAIR, PAIR_RES)
    expected = capmeter.score(
        candidates=[t for (t,) in PAIR_RES.values()], references=list(PAIR.values()), metrics="wmd"
    )
    assert scores.tolist() == expected["wmd"].items.array.tolist() and score == expected["wmd"].score
